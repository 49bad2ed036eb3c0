//! Drives the real schedulers through scripts, in a Python process.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context as _;
use serde::Deserialize;
use tempfile::NamedTempFile;

use super::outcome::Outcome;
use super::script::Script;

/// The driver, and the Python process that runs it.
#[derive(Debug)]
pub struct Driver {
    child: Child,
    scripts: ChildStdin,
    results: BufReader<ChildStdout>,
    /// What the libraries print, to be shown if the driver fails.
    chatter: NamedTempFile,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Raised { error: String },
    Ran(Outcome),
}

/// Names the interpreter of an environment with vLLM-Omni.
const PYTHON: &str = "STAGESPAN_VLLM_OMNI_PYTHON";

impl Driver {
    /// Starts the driver with the interpreter that STAGESPAN_VLLM_OMNI_PYTHON names.
    ///
    /// # Errors
    /// If the variable names none, or it can't be started.
    pub fn from_environment() -> anyhow::Result<Self> {
        let python = std::env::var_os(PYTHON).filter(|value| !value.is_empty());
        Self::start(Path::new(
            &python.with_context(|| format!("{PYTHON} is not set; run `cargo xtask conformance`"))?,
        ))
    }

    /// Starts `tests/python/conformance_driver.py` with the given interpreter, in whose environment
    /// vLLM-Omni is installed. It takes half a minute to import everything.
    ///
    /// # Errors
    /// If the interpreter can't be started.
    pub fn start(python: &Path) -> anyhow::Result<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/conformance_driver.py");
        let chatter = NamedTempFile::new()?;
        let mut child = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(chatter.reopen()?)
            .spawn()
            .with_context(|| format!("can't start {} {script}", python.display()))?;
        let scripts = child.stdin.take().context("the driver has no stdin")?;
        let results = BufReader::new(child.stdout.take().context("the driver has no stdout")?);
        Ok(Self { child, scripts, results, chatter })
    }

    /// What the real scheduler makes of a script; inside, the Python traceback if it raised.
    ///
    /// # Errors
    /// If the driver is gone, or answers in another form than agreed.
    pub fn run(&mut self, script: &Script) -> anyhow::Result<Result<Outcome, String>> {
        let mut line = serde_json::to_string(script)?;
        line.push('\n');
        let answer = self.ask(&line).with_context(|| format!("the driver failed:\n{}", self.last_words()))?;
        Ok(match answer {
            Answer::Raised { error } => Err(error),
            Answer::Ran(outcome) => Ok(outcome),
        })
    }
}

impl Driver {
    fn ask(&mut self, line: &str) -> anyhow::Result<Answer> {
        self.scripts.write_all(line.as_bytes())?;
        self.scripts.flush()?;
        let mut answer = String::new();
        self.results.read_line(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    }

    /// The end of what it printed.
    fn last_words(&self) -> String {
        let printed = std::fs::read(self.chatter.path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&printed);
        let lines: Vec<_> = text.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It holds nothing that a kill could spoil.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
