//! Our schedulers held to the real ones of vLLM-Omni, on as many random workloads as wanted.
//!
//! Exit code 0: no difference; 1: they part somewhere, or the comparison failed.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use stagespan_tests::conformance::{Driver, Recording, Report};

/// Compare our schedulers with the real ones of vLLM-Omni
#[derive(Debug, Parser)]
struct Arguments {
    /// How many workloads
    #[arg(long, value_name = "N", default_value_t = 200)]
    workloads: u64,
    /// Seed of the first; the others follow
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    /// Write what the real scheduler does into this folder instead of comparing
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let Arguments { workloads, seed, json, record } = Arguments::parse();
    let mut driver = Driver::from_environment()?;
    if let Some(folder) = record {
        for seed in seed..seed.saturating_add(workloads) {
            Recording::of_seed(&mut driver, seed)?.save(&folder)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let report = Report::run(&mut driver, seed, workloads)?;
    if json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print(&report);
    }
    Ok(if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(report: &Report) {
    for failure in &report.failures {
        println!("seed {} ({}):", failure.seed, failure.family);
        for difference in &failure.differences {
            let whose = if difference.request.is_empty() { "workload" } else { &difference.request };
            println!("  {whose}: {}: ours {}, theirs {}", difference.what, difference.ours, difference.real);
        }
        if let Some(traceback) = &failure.raised {
            println!("  the real scheduler raised:\n{traceback}");
        }
    }
    for (family, tally) in &report.families {
        println!(
            "{family:>22}: {} workloads, {} requests, {} differ",
            tally.workloads, tally.requests, tally.failures
        );
    }
    println!("{} workloads from seed {}: {} differ", report.workloads, report.seed, report.failures.len());
}
