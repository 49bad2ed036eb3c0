//! Time for the fuzz targets. `cargo test` runs them too, for a number of tries instead of a time.

use std::time::Duration;

use crate::command::{cargo, run, without_tracing_variables};
use crate::plan::Context;
use crate::report::Verdict;

/// Package and test of each target.
const TARGETS: [(&str, &str); 2] = [("stagespan-wire", "fuzz_wire"), ("stagespan-model", "fuzz_timeline")];

/// For every change, with the tests as they are built anyway.
const SHORT: Duration = Duration::from_secs(15);
/// For `deep`, optimized, but with every check of arithmetic that the tests have.
const LONG: Duration = Duration::from_secs(300);

/// 15 s for each target.
///
/// # Errors
/// If an input breaks a target. It is printed, with the seed that makes it.
pub(crate) fn short(context: &Context) -> anyhow::Result<Verdict> {
    targets(context, SHORT, &[])
}

/// Five minutes for each target.
///
/// # Errors
/// As [`short`].
pub(crate) fn long(context: &Context) -> anyhow::Result<Verdict> {
    targets(context, LONG, &["--profile", "fuzz"])
}

fn targets(context: &Context, time: Duration, profile: &[&str]) -> anyhow::Result<Verdict> {
    for (package, test) in TARGETS {
        let mut cargo = cargo(&context.root);
        without_tracing_variables(&mut cargo)
            .args(["test", "--package", package, "--test", test])
            .args(profile)
            // How many inputs were tried is said on standard error, which a passing test keeps to itself.
            .args(["--", "--nocapture"]);
        // The time ends the run, not a number of tries.
        cargo.env("BOLERO_RANDOM_ITERATIONS", usize::MAX.to_string());
        cargo.env("BOLERO_RANDOM_TEST_TIME_MS", time.as_millis().to_string());
        run(&mut cargo)?;
    }
    Ok(Verdict::Passed { note: format!("{} targets, {} s each", TARGETS.len(), time.as_secs()) })
}
