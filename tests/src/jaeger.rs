//! A real Jaeger, started from the very file that users get, on free loopback ports.

mod log;
mod query;

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tempfile::NamedTempFile;

use self::log::Announced;
use crate::{path_from_environment, workspace_root};

/// How long Jaeger may take to start. It takes a twentieth of a second; the rest is for a busy machine.
const START_WITHIN: Duration = Duration::from_secs(60);

/// Pause between two looks at something that is about to happen.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// What a test may want otherwise than the file says.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Up to where Jaeger may move a span whose clock it thinks is off. Zero, its default, moves nothing.
    pub max_clock_skew_adjust: Duration,
    /// Have the UI use `collector-config/jaeger-ui.json`.
    pub ui_config: bool,
}

/// A running Jaeger; killed when dropped.
#[derive(Debug)]
pub struct Jaeger {
    child: Child,
    log: NamedTempFile,
    otlp_grpc: SocketAddr,
    otlp_http: SocketAddr,
    query_http: SocketAddr,
    http: ureq::Agent,
}

impl Jaeger {
    /// Starts Jaeger as its file says, and waits until it takes spans.
    ///
    /// # Errors
    /// If `STAGESPAN_JAEGER` does not name its binary, or it does not start; with its log.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(&Options::default())
    }

    /// Starts Jaeger with some settings changed, and waits until it takes spans.
    ///
    /// Every port is 0, so no two tests can meet on one; which ports the system gave is read from Jaeger's log. The log
    /// is also where readiness is read from: the health port would be the one port that Jaeger never tells.
    ///
    /// # Errors
    /// If `STAGESPAN_JAEGER` does not name its binary, or it does not start; with its log.
    pub fn start_with(options: &Options) -> anyhow::Result<Self> {
        let program = path_from_environment("STAGESPAN_JAEGER")?;
        let log = NamedTempFile::new().context("cannot create a file for Jaeger's log")?;
        let mut command = Command::new(&program);
        command.current_dir(workspace_root()).env_clear();
        command.args(["--config", "collector-config/jaeger.yaml"]);
        for port in ["HEALTH", "QUERY_HTTP", "QUERY_GRPC", "OTLP_GRPC", "OTLP_HTTP"] {
            command.env(format!("JAEGER_{port}_PORT"), "0");
        }
        let skew_ms = options.max_clock_skew_adjust.as_millis();
        command.env("JAEGER_MAX_CLOCK_SKEW_ADJUST", format!("{skew_ms}ms"));
        if options.ui_config {
            command.env("JAEGER_UI_CONFIG", "collector-config/jaeger-ui.json");
        }
        command.stdin(Stdio::null());
        command.stdout(log.reopen().context("cannot reopen Jaeger's log")?);
        command.stderr(log.reopen().context("cannot reopen Jaeger's log")?);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let announced = match wait_until_ready(&mut child, &log) {
            Ok(announced) => announced,
            Err(error) => {
                // Ended already, or about to be: what counts is the error that says why it never got ready.
                let _ = child.kill();
                let _ = child.wait();
                return Err(error.context(format!("Jaeger's log:\n{}", read(&log))));
            }
        };
        let Announced { otlp_grpc, otlp_http, query_http } = announced;
        Ok(Self { child, log, otlp_grpc, otlp_http, query_http, http: query::agent() })
    }

    /// Where OTLP goes by HTTP, as `OTEL_EXPORTER_OTLP_ENDPOINT` wants it (without `/v1/traces`).
    #[must_use]
    pub fn otlp_http_endpoint(&self) -> String {
        format!("http://{}", self.otlp_http)
    }

    /// Where OTLP goes by gRPC, as `OTEL_EXPORTER_OTLP_ENDPOINT` wants it.
    #[must_use]
    pub fn otlp_grpc_endpoint(&self) -> String {
        format!("http://{}", self.otlp_grpc)
    }

    /// Where the UI and the query API are.
    #[must_use]
    pub fn query_url(&self) -> String {
        format!("http://{}", self.query_http)
    }

    /// What Jaeger has said so far.
    #[must_use]
    pub fn log(&self) -> String {
        read(&self.log)
    }

    /// Jaeger's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Jaeger {
    fn drop(&mut self) {
        // A test that killed it itself has left a process that cannot be killed again.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(log: &NamedTempFile) -> String {
    std::fs::read(log.path()).map_or_else(
        |error| format!("(the log cannot be read: {error})"),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}

fn wait_until_ready(child: &mut Child, log: &NamedTempFile) -> anyhow::Result<Announced> {
    let deadline = Instant::now() + START_WITHIN;
    loop {
        if let Some(announced) = log::announced(&read(log))? {
            return Ok(announced);
        }
        if let Some(status) = child.try_wait().context("Jaeger cannot be waited for")? {
            bail!("Jaeger ended while starting, with {status}");
        }
        if Instant::now() > deadline {
            bail!("Jaeger was not ready within {} s", START_WITHIN.as_secs());
        }
        thread::sleep(POLL_EVERY);
    }
}
