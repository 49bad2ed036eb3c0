//! The whole chain from `collector-config/`: agent → load balancer → two samplers → Jaeger with Badger, each started from the
//! very file that users get, on its standard ports, at a loopback address of its own.

mod server;
mod store;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use tempfile::TempDir;

pub use self::server::{Server, get, get_with};
pub use self::store::{Store, different, jaeger, ready};
use crate::loopback::Loopback;
use crate::{path_from_environment, workspace_root};

/// Linked traces of one request are then kept or dropped together.
const USE_TRACESTATE: &str = "--feature-gates=processor.tailsamplingprocessor.usetracestate";

/// What a test wants otherwise than the files say.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How long a sampler waits for the rest of a trace.
    pub decision_wait: Duration,
    /// Percentage of traces kept that are neither slow nor failed.
    pub base_percent: u8,
}

impl Default for Options {
    fn default() -> Self {
        Self { decision_wait: Duration::from_secs(1), base_percent: 100 }
    }
}

/// A running chain. Its programs are killed when it is dropped.
#[derive(Debug)]
pub struct Chain {
    /// Takes what stages send.
    pub agent: Server,
    /// Spreads traces over the samplers.
    pub balancer: Server,
    /// Count everything, and keep some traces.
    pub samplers: [Server; 2],
    /// Keeps what is left.
    pub store: Store,
    loopback: Loopback,
    _directory: TempDir,
}

impl Chain {
    /// Starts every program, last first, and waits until all are ready.
    ///
    /// # Errors
    /// If STAGESPAN_COLLECTOR or STAGESPAN_JAEGER names no program, or one does not start.
    pub fn start(options: Options) -> anyhow::Result<Self> {
        let loopback = Loopback::claim()?;
        let directory = TempDir::new().context("no directory for the chain")?;
        let place = |name: &str| directory.path().join(name);
        let [agent, balancer, sampler_1, sampler_2, store] = [1, 2, 3, 4, 5].map(|host| loopback.host(host));
        let store = Store::start(store, &place("badger"))?;
        let sampler = |name, address: Ipv4Addr| {
            let mut command = collector(&["gateway-sampler.yaml"])?;
            command.arg(USE_TRACESTATE);
            command
                .env("SAMPLER_LISTEN_HOST", address.to_string())
                .env("SAMPLER_QUEUE_DIRECTORY", place(name));
            command.env("SAMPLER_NEXT", store.otlp_grpc());
            command.env("SAMPLER_DECISION_WAIT", format!("{}ms", options.decision_wait.as_millis()));
            command.env("SAMPLER_BASE_PERCENT", options.base_percent.to_string());
            command.env("SAMPLER_METRICS_INTERVAL", "2s");
            Server::start(name, command, health(address))
        };
        let samplers = [sampler("sampler-1", sampler_1)?, sampler("sampler-2", sampler_2)?];
        let balancer = {
            let mut command = collector(&["gateway-lb.yaml"])?;
            command.env("LB_LISTEN_HOST", balancer.to_string());
            command.env("LB_SAMPLER_1", format!("{sampler_1}:4317"));
            command.env("LB_SAMPLER_2", format!("{sampler_2}:4317"));
            Server::start("load balancer", command, health(balancer))?
        };
        let agent = {
            let mut command = collector(&["agent.yaml"])?;
            command.env("AGENT_LISTEN_HOST", agent.to_string()).env("AGENT_QUEUE_DIRECTORY", place("agent"));
            command.env("AGENT_NEXT", format!("{}:4317", loopback.host(2)));
            Server::start("agent", command, health(agent))?
        };
        Ok(Self { agent, balancer, samplers, store, loopback, _directory: directory })
    }

    /// Where stages send by OTLP/HTTP, as `OTEL_EXPORTER_OTLP_ENDPOINT` wants it.
    #[must_use]
    pub fn otlp_http_endpoint(&self) -> String {
        format!("http://{}:4318", self.loopback.host(1))
    }

    /// The addresses of the samplers' span metrics.
    #[must_use]
    pub fn span_metrics(&self) -> [String; 2] {
        [3, 4].map(|host| format!("{}:9464", self.loopback.host(host)))
    }

    /// The addresses of the collectors' own metrics: agent, load balancer, samplers.
    #[must_use]
    pub fn own_metrics(&self) -> [String; 4] {
        [1, 2, 3, 4].map(|host| format!("{}:8888", self.loopback.host(host)))
    }

    /// A free address for one more program.
    #[must_use]
    pub fn spare_host(&self) -> Ipv4Addr {
        self.loopback.host(6)
    }
}

/// The collector with these files of ours, without any environment.
///
/// # Errors
/// If STAGESPAN_COLLECTOR does not name it.
pub fn collector(files: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(path_from_environment("STAGESPAN_COLLECTOR")?);
    command.env_clear();
    for file in files {
        command.arg("--config").arg(config(file));
    }
    Ok(command)
}

/// A file of `collector-config/`.
#[must_use]
pub fn config(file: impl AsRef<Path>) -> PathBuf {
    workspace_root().join("collector-config").join(file)
}

fn health(address: Ipv4Addr) -> String {
    format!("http://{address}:13133/")
}
