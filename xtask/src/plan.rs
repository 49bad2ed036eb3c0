//! The steps of `cargo xtask test` and `deep`, in the order in which they run, and what they share.

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use cargo_metadata::{Metadata, MetadataCommand};

use crate::report::{Report, Verdict};
use crate::{
    bench, cache, cargo_deny, cargo_steps, checks, collector, demo, end_to_end, fuzz, jaeger, mutants, rate,
    vllm_omni,
};

/// One named check.
pub(crate) struct Step {
    name: &'static str,
    about: &'static str,
    run: fn(&Context) -> anyhow::Result<Verdict>,
}

/// Cheap and likely to fail first, so that a mistake shows early; what needs a back end last.
pub(crate) const TEST: &[Step] = &[
    Step { name: "fmt", about: "formatting", run: cargo_steps::fmt },
    Step {
        name: "layout",
        about: "no Rust file over 400 lines, no catch-all module",
        run: checks::layout::check,
    },
    Step {
        name: "arrows",
        about: "crates depend on each other as the table says",
        run: checks::arrows::check,
    },
    Step {
        name: "toolchain",
        about: "rust-version is the toolchain in use and CI's",
        run: checks::toolchain::check,
    },
    Step { name: "clippy", about: "lints, all targets and features", run: cargo_steps::clippy },
    Step { name: "docs", about: "API documentation without warnings", run: cargo_steps::docs },
    Step { name: "test", about: "unit, integration and documentation tests", run: cargo_steps::test },
    Step { name: "fuzz", about: "15 s for each fuzz target", run: fuzz::short },
    Step { name: "deny", about: "licences and sources of dependencies", run: cargo_deny::check },
    Step {
        name: "config",
        about: "files in collector-config agree, and their programs load them",
        run: checks::config_files::check,
    },
    Step { name: "demo", about: "the README's first command, optimized", run: demo::check },
    Step { name: "e2e", about: "real stage processes against real back ends", run: end_to_end::check },
];

/// What takes too long for every change.
pub(crate) const DEEP: &[Step] = &[
    Step { name: "alone", about: "each crate builds without the others' features", run: cargo_steps::alone },
    Step {
        name: "properties",
        about: "property tests with far more cases, optimized",
        run: cargo_steps::properties,
    },
    Step { name: "fuzz", about: "five minutes for each fuzz target, optimized", run: fuzz::long },
    Step { name: "mutants", about: "no change of timeline, split or stamp goes unseen", run: mutants::check },
    Step { name: "bench", about: "cost figures stay within their limits", run: bench::check },
    Step { name: "rate", about: "10,000 request-stages a second for a minute", run: rate::check },
];

/// What steps share.
pub(crate) struct Context {
    /// The workspace's root folder.
    pub(crate) root: PathBuf,
    /// What cargo knows of the workspace's own crates.
    pub(crate) metadata: Metadata,
    /// Where tools are kept.
    pub(crate) cache_root: PathBuf,
    jaeger: Found,
    collector: Found,
    vllm_omni: Found,
}

/// A tool that is looked for, and built if need be, at most once: where it is, or why there is none here, or why its build
/// failed.
type Found = OnceCell<Result<Result<PathBuf, String>, String>>;

impl Context {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let metadata = MetadataCommand::new()
            .no_deps()
            .exec()
            .context("cargo cannot read this workspace's Cargo.toml files")?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        let (jaeger, collector, vllm_omni) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Ok(Self { root, metadata, cache_root: cache::root()?, jaeger, collector, vllm_omni })
    }

    /// The Jaeger binary, or why there is none here.
    ///
    /// # Errors
    /// If it could be built and was not.
    pub(crate) fn jaeger(&self) -> anyhow::Result<Result<PathBuf, String>> {
        once(&self.jaeger, || jaeger::find_or_build(&self.cache_root))
    }

    /// The collector, or why there is none here.
    ///
    /// # Errors
    /// If it could be built and was not.
    pub(crate) fn collector(&self) -> anyhow::Result<Result<PathBuf, String>> {
        once(&self.collector, || collector::find_or_build(&self.root, &self.cache_root))
    }

    /// The interpreter of an environment with vLLM-Omni, or why there is none here.
    ///
    /// # Errors
    /// If it could be built and was not.
    pub(crate) fn vllm_omni(&self) -> anyhow::Result<Result<PathBuf, String>> {
        once(&self.vllm_omni, || vllm_omni::find_or_build(&self.root, &self.cache_root))
    }
}

/// A build that failed is not tried again: every asker gets its error.
fn once(
    cell: &Found,
    find: impl FnOnce() -> anyhow::Result<Result<PathBuf, String>>,
) -> anyhow::Result<Result<PathBuf, String>> {
    let found = cell.get_or_init(|| find().map_err(|error| format!("{error:#}")));
    found.clone().map_err(|message| anyhow!(message))
}

/// Names of steps, for the command line.
pub(crate) fn names(steps: &[Step]) -> Vec<&'static str> {
    steps.iter().map(|step| step.name).collect()
}

/// Steps, one line each.
pub(crate) fn list(steps: &[Step]) -> String {
    steps.iter().fold(String::new(), |mut text, step| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {:<10}  {}", step.name, step.about);
        text
    })
}

/// Runs these steps, or those of them named in `only`, and prints the summary. A failed step does not keep the next from
/// running.
///
/// # Errors
/// If nothing can be run at all.
pub(crate) fn run(steps: &[Step], all: bool, only: &[String]) -> anyhow::Result<ExitCode> {
    let context = Context::new()?;
    let mut report = Report::default();
    for step in steps.iter().filter(|step| only.is_empty() || only.iter().any(|name| name == step.name)) {
        println!("\n== {}: {}", step.name, step.about);
        let start = Instant::now();
        let result = (step.run)(&context);
        match &result {
            Ok(Verdict::Skipped { reason }) => println!("skipped: {reason}"),
            Err(error) => println!("FAILED: {error:#}"),
            Ok(_) => {}
        }
        report.add(step.name, start.elapsed(), &result);
    }
    println!("\n{}", report.render(all));
    Ok(if report.success(all) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
