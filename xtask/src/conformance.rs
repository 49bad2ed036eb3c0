//! `cargo xtask conformance`: our schedulers held to the real ones of vLLM-Omni, with as many workloads as wanted.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use crate::command;
use crate::plan::Context;

/// What to compare.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many workloads
    #[arg(long, value_name = "N", default_value_t = 200)]
    workloads: u64,
    /// Seed of the first; the others follow
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the program `conformance` of the tests' package.
///
/// # Errors
/// If vLLM-Omni can't be had here, or the two differ.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let context = Context::new()?;
    let python = match context.vllm_omni()? {
        Ok(python) => python,
        Err(reason) => bail!("no vLLM-Omni: {reason}"),
    };
    let mut cargo = command::cargo(&context.root);
    cargo.args(["run", "--quiet", "--release", "--package", "stagespan-tests", "--features", "vllm-omni"]);
    cargo.args(["--bin", "conformance", "--"]);
    cargo.args(["--workloads", &arguments.workloads.to_string(), "--seed", &arguments.seed.to_string()]);
    if arguments.json {
        cargo.arg("--json");
    }
    command::without_tracing_variables(&mut cargo).env("STAGESPAN_VLLM_OMNI_PYTHON", python);
    command::run_for_its_output(&mut cargo)
}
