//! The `stagespan` command.
fn main() {}
