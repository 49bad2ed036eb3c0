//! How much two cores carry: generator → layer → agent → Jaeger, optimized and with the machine to itself.

use crate::command;
use crate::plan::Context;
use crate::report::Verdict;

/// Runs the rate test, whose figures are printed.
///
/// # Errors
/// If 10,000 request-stages a second do not get through for a minute.
pub(crate) fn check(context: &Context) -> anyhow::Result<Verdict> {
    let (jaeger, collector) = match (context.jaeger()?, context.collector()?) {
        (Ok(jaeger), Ok(collector)) => (jaeger, collector),
        (Err(reason), _) | (_, Err(reason)) => return Ok(Verdict::Skipped { reason }),
    };
    let mut cargo = command::cargo(&context.root);
    command::without_tracing_variables(&mut cargo);
    cargo.env("STAGESPAN_JAEGER", jaeger).env("STAGESPAN_COLLECTOR", collector);
    cargo.args(["test", "--release", "--package", "stagespan-tests", "--test", "collector_rate"]);
    cargo.args(["--features", "collector,jaeger,rate", "--", "--nocapture", "--test-threads=1"]);
    command::run(&mut cargo)?;
    Ok(Verdict::passed())
}
