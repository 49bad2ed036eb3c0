//! The `stagespan` command.
mod arrivals;
mod figures;
mod render;
mod replay;
fn main() {}
