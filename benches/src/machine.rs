//! What every figure depends on. No host name, user or path: a report is made to be published.

use std::fmt;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::Serialize;

/// The machine and the tools.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    cpu: String,
    cores: usize,
    system: String,
    rustc: String,
    valgrind: String,
}

impl Machine {
    /// # Errors
    /// If valgrind or rustc is not there, or says something else than a version.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let cores = std::thread::available_parallelism().context("cannot count the processor cores")?.get();
        let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
        Ok(Self {
            cpu: cpu(),
            cores,
            system,
            rustc: version("rustc", "rustup")?,
            valgrind: version("valgrind", "the Debian package `valgrind`")?,
        })
    }
}

fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let name = field("model name").unwrap_or_else(|| "unknown processor".to_owned());
    // A hypervisor may give only the maker's name; then the numbers tell the generation.
    match (field("cpu family"), field("model\t")) {
        (Some(family), Some(model)) => format!("{name} (family {family}, model {model})"),
        _ => name,
    }
}

fn version(program: &str, from: &str) -> anyhow::Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| format!("{program} did not start; it comes with {from}"))?;
    ensure!(output.status.success(), "`{program} --version` ended with {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, cores, system, rustc, valgrind } = self;
        writeln!(f, "{cpu}, {cores} cores, {system}")?;
        writeln!(f, "{rustc}; {valgrind}")
    }
}
