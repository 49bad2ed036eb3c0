//! `cargo xtask bench`: every benchmark, in one table or one JSON object.

use std::process::{Command, ExitCode};

use clap::Args;

use crate::command;
use crate::plan::Context;
use crate::report::Verdict;

/// How to print the result.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the benchmarks.
///
/// # Errors
/// If they can't be started. A limit that is not kept is an exit code.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut benches = benches(&Context::new()?);
    if arguments.json {
        benches.arg("--json");
    }
    command::run_for_its_output(&mut benches)
}

/// Runs the benchmarks for their limits.
///
/// # Errors
/// If one is not kept. Without valgrind nothing can be counted, which is a skip.
pub(crate) fn check(context: &Context) -> anyhow::Result<Verdict> {
    if !command::exists("valgrind", "--version") {
        return Ok(Verdict::Skipped { reason: "no valgrind; install the Debian package".to_owned() });
    }
    command::run(&mut benches(context))?;
    Ok(Verdict::passed())
}

fn benches(context: &Context) -> Command {
    let mut cargo = command::cargo(&context.root);
    command::without_tracing_variables(&mut cargo);
    cargo.args(["run", "--quiet", "--release", "--package", "stagespan-benches", "--"]);
    cargo
}
