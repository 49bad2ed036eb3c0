//! Steps that are cargo's own commands.

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

/// Each crate built by itself. A build of the whole workspace turns on the union of what all crates ask of a dependency,
/// which hides it when one of them forgets to ask.
pub(crate) fn alone(context: &Context) -> anyhow::Result<Verdict> {
    let packages = context.metadata.workspace_packages();
    for package in &packages {
        run(cargo(&context.root).args(["check", "--package", package.name.as_str()]))?;
    }
    Ok(Verdict::Passed { note: format!("{} crates", packages.len()) })
}

/// All tests with 10,000 cases for each property that sets no number of its own (256 otherwise).
pub(crate) fn properties(context: &Context) -> anyhow::Result<Verdict> {
    let mut cargo = cargo(&context.root);
    without_tracing_variables(&mut cargo).env("PROPTEST_CASES", "10000");
    run(cargo.args(["test", "--workspace", "--release", "--no-fail-fast"]))?;
    Ok(Verdict::passed())
}
