//! End-to-end tests of Stagespan against the back ends that people really use, and what those tests share.
//!
//! | module | holds |
//! |---|---|
//! | [`jaeger`] | starts a real Jaeger on free ports, asks it for traces, stops it |
//! | [`span`] | a span as a back end holds it, in exact nanoseconds |
//! | [`otlp_json`] | spans from and to OTLP's JSON form |
//! | [`caller`] | the program that calls: a span and headers of its own |
//! | [`request_trace`] | the spans of one request put together again, from one trace or several |
//! | [`rules`] | what must hold of every span of ours |
//! | [`viewer`] | what Jaeger would show of them |
//! | [`pipeline_run`] | real stage processes, driven from the test's own process |
//! | [`command_run`] | the `stagespan` program, run as a person runs it |
//! | [`dashboard`] | the queries of the Grafana dashboard |
//! | [`demo_run`] | pipelines and arrivals for runs of `stagespan demo` |
//! | [`chain`] | agent, load balancer, samplers and store from `collector-config/`, to be killed |
//! | [`generator`] | requests made without a pipeline, whose every figure is known |
//! | [`kafka`] | a Kafka broker of one node |
//! | [`loopback`] | addresses at which a test's programs have their standard ports to themselves |
//! | [`process`] | processes as `/proc` shows them |
//! | [`prometheus`] | a real Prometheus that scrapes the chain |
//! | [`rows`] | trace files for the demo |
//! | [`conformance`] | our schedulers held to the real ones of vLLM-Omni, step by step |
//!
//! A test that needs a back end is a `[[test]]` target in `Cargo.toml` with `required-features`. `cargo xtask test` turns
//! on the features whose tools it finds and passes what they need in the environment:
//!
//! | variable | value |
//! |---|---|
//! | `STAGESPAN_JAEGER` | path of the Jaeger binary |
//! | `STAGESPAN_COLLECTOR` | path of the collector that `collector-config/builder.yaml` describes |
//! | `STAGESPAN_KAFKA` | folder of the jars of Kafka and its tools |
//! | `STAGESPAN_BIN` | path of the `stagespan` program of this checkout |
//!
//! ```no_run
//! use std::time::Duration;
//! use stagespan_tests::jaeger::Jaeger;
//!
//! # fn main() -> anyhow::Result<()> {
//! let jaeger = Jaeger::start()?;
//! // ... export to jaeger.otlp_http_endpoint() ...
//! let spans = jaeger.wait_for_spans("0af7651916cd43dd8448eb211c80319c", 4, Duration::from_secs(10))?;
//! assert!(spans.iter().all(|span| span.warnings.is_empty()));
//! # Ok(())
//! # }
//! ```

pub mod caller;
pub mod chain;
pub mod command_run;
pub mod conformance;
pub mod dashboard;
pub mod demo_run;
pub mod generator;
pub mod jaeger;
pub mod kafka;
pub mod loopback;
pub mod otlp_json;
pub mod pipeline_run;
pub mod process;
pub mod prometheus;
pub mod request_trace;
pub mod rows;
pub mod rules;
pub mod span;
pub mod viewer;

use std::path::PathBuf;

use anyhow::Context as _;

/// The folder of this checkout.
#[must_use]
pub fn workspace_root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The `stagespan` program under test.
///
/// # Errors
/// If `STAGESPAN_BIN` does not say where it is.
pub fn stagespan_binary() -> anyhow::Result<PathBuf> {
    path_from_environment("STAGESPAN_BIN")
}

fn path_from_environment(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os(name).filter(|value| !value.is_empty());
    path.map(PathBuf::from).with_context(|| format!("{name} is not set; run `cargo xtask test --only e2e`"))
}
