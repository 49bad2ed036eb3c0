//! The `stagespan` program, run as a person runs it, and never longer than the test allows.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value as Json;
use tempfile::TempDir;

use crate::process::{Process, with_variable};
use crate::stagespan_binary;

/// Pause between two looks at something that is about to happen.
const POLL_EVERY: Duration = Duration::from_millis(5);

/// The variable by which every process of a run is known; its value is the run's directory.
const MARKER: &str = "E2E_RUN";

/// How long the kernel may take to remove a process that was killed.
const GONE_WITHIN: Duration = Duration::from_secs(2);

/// A command to be run in an empty directory of its own, without any tracing variable of this process.
#[derive(Debug)]
pub struct Run {
    command: Command,
    directory: TempDir,
}

/// One that runs. When dropped it is killed, with all its children.
#[derive(Debug)]
pub struct Running {
    child: Child,
    started: Instant,
    directory: TempDir,
}

/// One that has ended.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
    /// Its directory, with the files that it left.
    pub directory: TempDir,
}

impl Run {
    /// `stagespan <arguments>`.
    ///
    /// # Errors
    /// If there is no such program here, or no place for its directory.
    pub fn stagespan<S: AsRef<std::ffi::OsStr>>(
        arguments: impl IntoIterator<Item = S>,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(stagespan_binary()?);
        command.args(arguments);
        Self::of(command)
    }

    /// Another program, in the same way.
    ///
    /// # Errors
    /// If there is no place for its directory.
    pub fn of(mut command: Command) -> anyhow::Result<Self> {
        let directory = TempDir::new().context("no directory for the run")?;
        command.current_dir(directory.path()).env(MARKER, directory.path());
        // Where its sockets are, so that the test can look at them.
        let temporary = directory.path().join(TEMPORARY);
        std::fs::create_dir(&temporary).context("no directory for temporary files")?;
        command.env("TMPDIR", temporary);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("OTEL_") || text.starts_with("STAGESPAN_") {
                command.env_remove(&name);
            }
        }
        Ok(Self { command, directory })
    }

    /// With this variable in its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// With this file in its directory.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn file(self, name: &str, text: &str) -> anyhow::Result<Self> {
        std::fs::write(self.path().join(name), text).with_context(|| format!("cannot write {name}"))?;
        Ok(self)
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Starts it.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn start(mut self) -> anyhow::Result<Running> {
        // Files and not pipes: a process that it left behind would keep a pipe open, and this test waiting.
        let output =
            |name: &str| File::create(self.directory.path().join(name)).context("no file for output");
        self.command.stdin(Stdio::null()).stdout(output(STDOUT)?).stderr(output(STDERR)?);
        let started = Instant::now();
        let child = self.command.spawn().with_context(|| format!("{:?} does not start", self.command))?;
        Ok(Running { child, started, directory: self.directory })
    }

    /// Starts it and waits for its end.
    ///
    /// # Errors
    /// If it can't be started, or does not end in time.
    pub fn end(self, within: Duration) -> anyhow::Result<Ended> {
        self.start()?.end(within)
    }
}

const TEMPORARY: &str = ".tmp";
const STDOUT: &str = ".stdout";
const STDERR: &str = ".stderr";

impl Running {
    /// The process.
    ///
    /// # Errors
    /// If it has ended.
    pub fn process(&self) -> anyhow::Result<Process> {
        Process::of(self.child.id()).context("the process is gone")
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// What it has written to standard error so far.
    ///
    /// # Errors
    /// If that can't be read.
    pub fn stderr(&self) -> anyhow::Result<String> {
        read(&self.directory, STDERR)
    }

    /// Every process of the run but the program itself.
    #[must_use]
    pub fn children(&self) -> Vec<Process> {
        let mut all = marked(&self.directory);
        all.retain(|process| process.pid != self.child.id());
        all
    }

    /// What it keeps in its directory for temporary files: the directory of its sockets.
    #[must_use]
    pub fn temporary_files(&self) -> Vec<PathBuf> {
        temporary_files(&self.directory)
    }

    /// Waits until `look` finds something, and fails when the program ends before, or the time is up.
    ///
    /// # Errors
    /// What `look` returns; a program that ended, or time that is up, with what it wrote.
    pub fn wait_for<T>(
        &mut self,
        what: &str,
        within: Duration,
        mut look: impl FnMut(&Self) -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            if let Some(status) = self.child.try_wait().context("cannot wait")? {
                bail!("ended with {status} while waiting for {what}:\n{}", self.stderr()?);
            }
            if Instant::now() > deadline {
                bail!("no {what} within {within:?}:\n{}", self.stderr()?);
            }
            thread::sleep(POLL_EVERY);
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If it does not end in time, with what it wrote.
    pub fn end(mut self, within: Duration) -> anyhow::Result<Ended> {
        let deadline = Instant::now() + within;
        let status = loop {
            if let Some(status) = self.child.try_wait().context("cannot wait")? {
                break status;
            }
            if Instant::now() > deadline {
                bail!("still running after {within:?}; it wrote:\n{}", self.stderr()?);
            }
            thread::sleep(POLL_EVERY);
        };
        let took = self.started.elapsed();
        // The child is gone, so that nothing is left to be killed; its directory is handed on.
        let directory = std::mem::replace(&mut self.directory, TempDir::new().context("no directory")?);
        let (stdout, stderr) = (read(&directory, STDOUT)?, read(&directory, STDERR)?);
        Ok(Ended { status, stdout, stderr, took, directory })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already ended, or not wanted any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for process in marked(&self.directory) {
            let _ = process.signal("KILL");
        }
    }
}

impl Ended {
    /// Nothing of the run is left: no process, and no temporary file.
    ///
    /// # Errors
    /// What is left.
    pub fn check_nothing_left(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + GONE_WITHIN;
        loop {
            let left = marked(&self.directory);
            if left.is_empty() {
                break;
            }
            ensure!(Instant::now() < deadline, "left running: {left:?}");
            thread::sleep(POLL_EVERY);
        }
        let files = temporary_files(&self.directory);
        ensure!(files.is_empty(), "left in the directory for temporary files: {files:?}");
        Ok(())
    }

    /// Standard output as the one JSON object that `--json` prints.
    ///
    /// # Errors
    /// If it is something else, or the program failed.
    pub fn json(&self) -> anyhow::Result<Json> {
        if !self.status.success() {
            bail!("ended with {}:\n{}", self.status, self.stderr);
        }
        serde_json::from_str(&self.stdout).with_context(|| format!("this is not JSON: {}", self.stdout))
    }
}

fn marked(directory: &TempDir) -> Vec<Process> {
    with_variable(MARKER, &directory.path().display().to_string())
}

fn temporary_files(directory: &TempDir) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory.path().join(TEMPORARY)).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn read(directory: &TempDir, name: &str) -> anyhow::Result<String> {
    let bytes = std::fs::read(directory.path().join(name)).with_context(|| format!("cannot read {name}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    fn shell(script: &str) -> Run {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Run::of(command).expect("a directory")
    }

    #[test]
    fn output_code_and_files_are_kept() {
        let run =
            shell("cat given; echo oops >&2; echo made > made; exit 3").file("given", "{}").expect("a file");
        let ended = run.end(Duration::from_secs(60)).expect("it ends");
        assert_eq!(
            (ended.status.code(), ended.stdout.as_str(), ended.stderr.as_str()),
            (Some(3), "{}", "oops\n")
        );
        assert!(ended.directory.path().join("made").exists());
        assert!(ended.json().expect_err("exit code 3").to_string().contains("oops"));
    }

    #[test]
    fn what_is_left_behind_is_found() {
        let ended = shell("sleep 600 & echo $! > pid").end(Duration::from_secs(60)).expect("it ends");
        assert!(ended.check_nothing_left().expect_err("a sleeper").to_string().contains("left running"));
        for process in marked(&ended.directory) {
            process.signal("KILL").expect("it is there");
        }
        ended.check_nothing_left().expect("nothing is left now");
        let ended = shell("touch $TMPDIR/x").end(Duration::from_secs(60)).expect("it ends");
        assert!(ended.check_nothing_left().expect_err("a file").to_string().contains(".tmp/x"));
    }

    #[test]
    fn one_that_hangs_fails_the_test_and_is_gone() {
        let running = shell("exec sleep 600").start().expect("it starts");
        let process = running.process().expect("it runs");
        let error = running.end(Duration::ZERO).expect_err("it does not end");
        assert!(error.to_string().contains("still running"), "{error}");
        assert!(process.is_gone());
    }

    #[test]
    fn waiting_ends_with_what_is_waited_for_or_with_the_program() {
        let mut running = shell("echo ready >&2; exec sleep 600").start().expect("it starts");
        let look = |running: &Running| Ok(running.stderr()?.contains("ready").then_some(7));
        assert_eq!(running.wait_for("ready", Duration::from_secs(60), look).expect("it says so"), 7);
        let mut ended = shell("exit 5").start().expect("it starts");
        let error =
            ended.wait_for("Godot", Duration::from_secs(60), |_| Ok(None::<()>)).expect_err("it ended");
        assert!(error.to_string().contains("exit status: 5"), "{error}");
    }
}
