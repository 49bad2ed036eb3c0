//! `cargo xtask`: the one command for this project's checks, the same on a laptop and in CI.
//!
//! | module | holds |
//! |---|---|
//! | `plan` | the steps of `test` and `deep` in their order, and what they share |
//! | `report` | what a step can end as, the summary, the exit code |
//! | `cargo_steps` | the steps that are cargo's own commands |
//! | `checks` | the steps written here: toolchain, layout of the source, crate arrows, configuration files |
//! | `demo` | the README's first command |
//! | `end_to_end` | which back ends are there, and the tests that need them |
//! | `fuzz`, `mutants` | time for the fuzz targets; changes of the code that a test must see |
//! | `bench` | the benchmarks and their limits |
//! | `rate` | how much two cores carry |
//! | `cache`, `jaeger`, `collector`, `kafka`, `vllm_omni`, `cargo_deny` | tools built once, outside the checkout |
//! | `conformance` | our schedulers held to vLLM-Omni's, with as many workloads as wanted |
//! | `command` | child processes whose output is passed through |
//!
//! A step that cannot run here is *skipped*, with the reason; `--all` takes a skip as a failure, so CI cannot pass by
//! leaving something out.

mod bench;
mod cache;
mod cargo_deny;
mod cargo_steps;
mod checks;
mod collector;
mod command;
mod conformance;
mod demo;
mod end_to_end;
mod fuzz;
mod jaeger;
mod kafka;
mod mutants;
mod plan;
mod rate;
mod report;
mod vllm_omni;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Checks and tools of this project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run every check, go on after a failed one, and sum up
    Test {
        /// Take a skipped step as a failed one (what CI does)
        #[arg(long)]
        all: bool,
        /// Run only these steps
        #[arg(long, value_name = "STEP", num_args = 1.., value_parser = plan::names(plan::TEST))]
        only: Vec<String>,
    },
    /// Run the checks that take too long for every change
    Deep {
        /// Run only these steps
        #[arg(long, value_name = "STEP", num_args = 1.., value_parser = plan::names(plan::DEEP))]
        only: Vec<String>,
    },
    /// List the steps of `test` and `deep`
    Steps,
    /// Build Jaeger into the cache if it is not there, and print the path of its binary
    Jaeger,
    /// Build the OpenTelemetry Collector into the cache if it is not there, and print the path of its binary
    Collector,
    /// Build a Python environment with vLLM-Omni into the cache if it is not there, and print its interpreter's path
    VllmOmni {
        /// Version of vLLM-Omni; that of vLLM goes with it
        #[arg(default_value = vllm_omni::versions()[0], value_parser = vllm_omni::versions())]
        version: String,
    },
    /// Put workloads through our schedulers and the real ones of vLLM-Omni, and say where they differ
    Conformance(conformance::Arguments),
    /// Run the benchmarks, and say which of their limits are not kept
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        None => Arguments::command().print_help().map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Some(Command::Test { all, only }) => plan::run(plan::TEST, all, &only),
        Some(Command::Deep { only }) => plan::run(plan::DEEP, false, &only),
        Some(Command::Steps) => {
            print!("test\n{}deep\n{}", plan::list(plan::TEST), plan::list(plan::DEEP));
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Jaeger) => jaeger::print_path(),
        Some(Command::Collector) => {
            plan::Context::new().and_then(|context| collector::print_path(&context.root))
        }
        Some(Command::VllmOmni { version }) => {
            plan::Context::new().and_then(|context| vllm_omni::print_path(&context.root, &version))
        }
        Some(Command::Conformance(arguments)) => conformance::run(&arguments),
        Some(Command::Bench(arguments)) => bench::run(&arguments),
    };
    result.unwrap_or_else(|error: anyhow::Error| {
        eprintln!("cargo xtask: {error:#}");
        ExitCode::FAILURE
    })
}
