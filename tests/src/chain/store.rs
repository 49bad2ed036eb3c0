//! Jaeger with Badger, at the end of the chain.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value as Json;

use super::server::{Server, get_with};
use crate::span::Span;
use crate::{otlp_json, path_from_environment};

/// More traces than any run here has.
const TRACES_MAX: &str = "20000";

/// Pause between two searches.
const POLL_EVERY: Duration = Duration::from_millis(250);

/// A Jaeger that stores.
#[derive(Debug)]
pub struct Store {
    /// Its process.
    pub server: Server,
    address: Ipv4Addr,
}

impl Store {
    /// Starts it from `jaeger-badger.yaml`, with its data in `directory`.
    ///
    /// # Errors
    /// If STAGESPAN_JAEGER names no program, or it does not start.
    pub fn start(address: Ipv4Addr, directory: &Path) -> anyhow::Result<Self> {
        Self::start_from("jaeger-badger.yaml", address, directory, &[])
    }

    /// The same from another file, with these variables beside its address and directory.
    ///
    /// # Errors
    /// As [`Store::start`].
    pub fn start_from(
        file: &str,
        address: Ipv4Addr,
        directory: &Path,
        variables: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let mut command = jaeger(file, address)?;
        command.env("JAEGER_BADGER_DIRECTORY", directory).envs(variables.iter().copied());
        // Where the files differ: two Jaegers of one machine have two health ports.
        command.env("JAEGER_HEALTH_PORT", "13133");
        Ok(Self { server: Server::start("Jaeger", command, ready(address))?, address })
    }

    /// Where it takes OTLP/gRPC.
    #[must_use]
    pub fn otlp_grpc(&self) -> String {
        format!("{}:4317", self.address)
    }

    /// Every span that it has of this service.
    ///
    /// # Errors
    /// If it does not answer, or not as expected.
    pub fn spans(&self, service: &str) -> anyhow::Result<Vec<Span>> {
        let url = format!("http://{}:16686/api/v3/traces", self.address);
        let parameters = [
            ("query.service_name", service),
            ("query.start_time_min", "1970-01-01T00:00:00Z"),
            ("query.start_time_max", "2200-01-01T00:00:00Z"),
            ("query.num_traces", TRACES_MAX),
            ("query.raw_traces", "true"),
        ];
        let (status, body) = get_with(&url, &parameters)?;
        match status {
            200 => {
                let mut answer: Json =
                    serde_json::from_str(&body).with_context(|| format!("{url}: {body}"))?;
                otlp_json::parse(&answer["result"].take())
            }
            // No trace at all.
            404 => Ok(Vec::new()),
            _ => bail!("{url} answered {status}: {body}"),
        }
    }

    /// Waits until it has this number of different spans of the service, and returns all it has.
    ///
    /// # Errors
    /// If there are more, or fewer when the time is up.
    pub fn wait_for(&self, service: &str, count: usize, within: Duration) -> anyhow::Result<Vec<Span>> {
        let deadline = Instant::now() + within;
        loop {
            let spans = self.spans(service)?;
            let found = different(&spans);
            if found == count {
                return Ok(spans);
            }
            ensure!(found < count, "{found} spans of {service}, more than the {count} that were sent");
            ensure!(
                Instant::now() < deadline,
                "{found} spans of {service}, fewer than the {count} that were sent"
            );
            thread::sleep(POLL_EVERY);
        }
    }

    /// Waits until what it has of the service has not changed for `quiet`, and returns it.
    ///
    /// # Errors
    /// If it still changes when the time is up.
    pub fn settled(&self, service: &str, quiet: Duration, within: Duration) -> anyhow::Result<Vec<Span>> {
        let deadline = Instant::now() + within;
        let mut spans = self.spans(service)?;
        let mut since = Instant::now();
        while since.elapsed() < quiet {
            ensure!(Instant::now() < deadline, "spans of {service} still come in after {within:?}");
            thread::sleep(POLL_EVERY);
            let now = self.spans(service)?;
            if now.len() != spans.len() {
                since = Instant::now();
            }
            spans = now;
        }
        Ok(spans)
    }
}

/// Jaeger's program with this file of ours, listening at this address, and no other environment.
///
/// # Errors
/// If STAGESPAN_JAEGER does not name it.
pub fn jaeger(file: &str, address: Ipv4Addr) -> anyhow::Result<Command> {
    let mut command = Command::new(path_from_environment("STAGESPAN_JAEGER")?);
    command.env_clear().arg("--config").arg(super::config(file));
    command.env("JAEGER_LISTEN_HOST", address.to_string());
    Ok(command)
}

/// What answers 200 once a Jaeger at this address is ready.
#[must_use]
pub fn ready(address: Ipv4Addr) -> String {
    format!("http://{address}:13133/status")
}

/// The number of spans, those that came twice counted once.
#[must_use]
pub fn different(spans: &[Span]) -> usize {
    let ids: std::collections::HashSet<(&str, &str)> =
        spans.iter().map(|span| (span.trace_id.as_str(), span.span_id.as_str())).collect();
    ids.len()
}
