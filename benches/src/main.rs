//! Benchmarks: `cargo xtask bench` runs them and prints one table, or one JSON object with `--json`.
//!
//! | module | holds |
//! |---|---|
//! | `step_cost` | a scheduler's step against the number of requests that wait |
//! | `stage_load` | the schedulers of that benchmark, and what changes in each step |
//! | `callgrind` | counting instructions by running this program again under valgrind |
//! | `machine` | what every figure depends on |
//! | `figures` | the table, the JSON and the limits |
//!
//! Every comparison is made within one run. Times are medians, and since a machine is never quiet, instructions are
//! counted beside them.

mod callgrind;
mod figures;
mod machine;
mod stage_load;
mod step_cost;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::stage_load::{Load, Stamp};

/// Benchmarks of Stagespan.
#[derive(Parser)]
#[command(disable_help_subcommand = true)]
struct Arguments {
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Make steps for valgrind to count their instructions
    #[command(hide = true)]
    CountSteps {
        load: Load,
        stamp: Stamp,
        #[arg(help = "Requests that wait")]
        waiting: usize,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Some(Command::CountSteps { load, stamp, waiting }) => {
            step_cost::make_counted_steps(load, stamp, waiting).map(|()| ExitCode::SUCCESS)
        }
        None => run(arguments.json),
    };
    result.unwrap_or_else(|error| {
        eprintln!("stagespan-benches: {error:#}");
        ExitCode::FAILURE
    })
}

/// Measures everything, prints it, and fails if a limit is not kept.
fn run(json: bool) -> anyhow::Result<ExitCode> {
    let report = figures::Report { machine: machine::Machine::read()?, step_cost: step_cost::measure()? };
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    Ok(if report.keeps_limits() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
