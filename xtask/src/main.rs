//! One command for all checks.
fn main() {}
