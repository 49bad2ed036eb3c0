//! The `stagespan` command.
mod arrivals;
mod figures;
mod render;
mod replay;
mod scenario;
fn main() {}
