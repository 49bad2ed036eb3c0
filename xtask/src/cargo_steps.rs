//! Steps that are one cargo command each.

use crate::command::{cargo, run, without_tracing_variables};
use crate::plan::Context;
use crate::report::Verdict;

/// `cargo fmt --check` for every crate.
pub(crate) fn fmt(context: &Context) -> anyhow::Result<Verdict> {
    run(cargo(&context.root).args(["fmt", "--all", "--check"]))?;
    Ok(Verdict::passed())
}

/// Clippy over every target and feature, the end-to-end tests included, with warnings as errors.
pub(crate) fn clippy(context: &Context) -> anyhow::Result<Verdict> {
    run(cargo(&context.root)
        .args(["clippy", "--workspace", "--all-targets", "--all-features"])
        .args(["--", "-D", "warnings"]))?;
    Ok(Verdict::passed())
}

/// The API documentation, with warnings as errors.
pub(crate) fn docs(context: &Context) -> anyhow::Result<Verdict> {
    run(cargo(&context.root)
        .args(["doc", "--workspace", "--no-deps", "--all-features"])
        .env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Verdict::passed())
}

/// Unit, integration and documentation tests of every crate, as a person without any back end runs them.
pub(crate) fn test(context: &Context) -> anyhow::Result<Verdict> {
    let mut cargo = cargo(&context.root);
    run(without_tracing_variables(&mut cargo).args(["test", "--workspace", "--no-fail-fast"]))?;
    Ok(Verdict::passed())
}
