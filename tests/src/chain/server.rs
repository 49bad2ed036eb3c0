//! A server program that a test starts, kills and starts again.

use std::fs::File;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use tempfile::NamedTempFile;

use crate::process::Process;

/// How long a server may take to get ready, or to end when it is asked to; the rest is for a busy machine.
const WITHIN: Duration = Duration::from_secs(90);

/// Pause between two looks at something that is about to happen.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// How long one HTTP exchange may take.
const EXCHANGE_WITHIN: Duration = Duration::from_secs(60);

/// Largest answer read.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A server; killed when dropped.
#[derive(Debug)]
pub struct Server {
    name: &'static str,
    command: Command,
    /// Answers 200 once the server is ready.
    ready_url: String,
    log: NamedTempFile,
    child: Option<Child>,
}

impl Server {
    /// Starts it, and waits until `ready_url` answers 200.
    ///
    /// # Errors
    /// If it does not start or get ready; with its log.
    pub fn start(name: &'static str, command: Command, ready_url: String) -> anyhow::Result<Self> {
        let log = NamedTempFile::new().with_context(|| format!("no file for the log of {name}"))?;
        let mut server = Self { name, command, ready_url, log, child: None };
        server.start_again()?;
        Ok(server)
    }

    /// Starts it with the command it had, and waits until it is ready.
    ///
    /// # Errors
    /// If it still runs, does not start, or does not get ready; with its log.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        ensure!(self.child.is_none(), "{} runs", self.name);
        let output =
            || File::options().append(true).open(self.log.path()).context("the log cannot be opened again");
        self.command.stdin(Stdio::null()).stdout(output()?).stderr(output()?);
        let child = self.command.spawn().with_context(|| format!("{} does not start", self.name))?;
        self.child = Some(child);
        self.wait_until_ready()
            .map_err(|error| error.context(format!("log of {}:\n{}", self.name, self.log())))
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + WITHIN;
        loop {
            if matches!(get(&self.ready_url), Ok((200, _))) {
                return Ok(());
            }
            let Some(child) = &mut self.child else { bail!("{} was not started", self.name) };
            if let Some(status) = child.try_wait().with_context(|| self.name)? {
                bail!("{} ended while starting, with {status}", self.name);
            }
            ensure!(Instant::now() < deadline, "{} was not ready within {} s", self.name, WITHIN.as_secs());
            thread::sleep(POLL_EVERY);
        }
    }

    /// Kills it (SIGKILL): it gets no chance to save anything.
    ///
    /// # Errors
    /// If it had ended before.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let mut child = self.running()?;
        child.kill().with_context(|| self.name)?;
        child.wait().with_context(|| self.name)?;
        Ok(())
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    ///
    /// # Errors
    /// If it had ended before, or does not end.
    pub fn terminate(&mut self) -> anyhow::Result<ExitStatus> {
        let mut child = self.running()?;
        Process::of(child.id()).with_context(|| format!("{} is gone", self.name))?.signal("TERM")?;
        let deadline = Instant::now() + WITHIN;
        loop {
            if let Some(status) = child.try_wait().with_context(|| self.name)? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                // So that it is killed when this is dropped.
                self.child = Some(child);
                bail!("{} did not end within {} s of SIGTERM:\n{}", self.name, WITHIN.as_secs(), self.log());
            }
            thread::sleep(POLL_EVERY);
        }
    }

    fn running(&mut self) -> anyhow::Result<Child> {
        let mut child = self.child.take().with_context(|| format!("{} does not run", self.name))?;
        if let Some(status) = child.try_wait().with_context(|| self.name)? {
            bail!("{} has ended by itself, with {status}:\n{}", self.name, self.log());
        }
        Ok(child)
    }

    /// Its process id.
    ///
    /// # Errors
    /// If it does not run.
    pub fn pid(&self) -> anyhow::Result<u32> {
        Ok(self.child.as_ref().with_context(|| format!("{} does not run", self.name))?.id())
    }

    /// What it has said so far, over all of its starts.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read(self.log.path()).map_or_else(
            |error| format!("(the log cannot be read: {error})"),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // One that has ended cannot be killed, and need not be.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Status and body of what this address answers; straight to it, whatever proxy the environment names.
///
/// # Errors
/// If it does not answer.
pub fn get(url: &str) -> anyhow::Result<(u16, String)> {
    get_with(url, &[])
}

/// The same with query parameters.
///
/// # Errors
/// If it does not answer.
pub fn get_with(url: &str, parameters: &[(&str, &str)]) -> anyhow::Result<(u16, String)> {
    let config = ureq::Agent::config_builder();
    let agent: ureq::Agent =
        config.proxy(None).http_status_as_error(false).timeout_global(Some(EXCHANGE_WITHIN)).build().into();
    let request = agent.get(url).query_pairs(parameters.iter().copied());
    let mut answer = request.call().with_context(|| format!("{url} did not answer"))?;
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
    Ok((answer.status().as_u16(), body.with_context(|| format!("the answer of {url} broke off"))?))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn one_that_ends_while_starting_is_an_error_with_its_log() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such file; exit 3"]);
        let error =
            Server::start("a server", command, "http://127.0.0.1:9/".to_owned()).expect_err("it ends");
        let text = format!("{error:#}");
        assert!(text.contains("no such file") && text.contains("exit status: 3"), "{text}");
    }
}
