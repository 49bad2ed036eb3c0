//! Small programs that use Stagespan: `cargo run -p stagespan-examples --example own_scheduler`.
