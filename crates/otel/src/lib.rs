//! The OpenTelemetry layer of Stagespan: environment, context, spans, export and its account.
//!
//! A finished request on a stage is a small [`StageRecord`](stagespan_model::StageRecord). This
//! crate takes it from a scheduler's thread with one push into a bounded queue, and does the rest
//! elsewhere: one worker thread builds the spans, sends them by OTLP, and accounts for each.
//!
//! | module | holds |
//! |---|---|
//! | [`environment`] | the variables, as a value that can be passed in |
//! | [`config`] | what the layer is told to do, read from them or made by hand |
//! | [`layer`] | the layer itself: [`Layer::start`], flush, shutdown, account |
//! | [`request`] | the live `request` span, and the ids it assigns to its stages |
//! | [`stage_headers`] | the headers that carry a stage's context in the submit message |
//! | [`join`] | whether a stage may join the request's trace |
//! | [`anchor_source`] | the anchor in force, renewed every 10 s |
//! | [`in_flight`] | requests that are not finished, and a warning for those that wait long |
//! | [`resource`] | who a process is |
//! | [`attributes`] | the names of every attribute |
//! | [`account`] | what became of every span |
//!
//! No OpenTelemetry type is part of this interface: their crates break it with every release.
//!
//! # From a request to its spans
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use stagespan_model::{Clock, StageName, SystemClock};
//! use stagespan_otel::{Config, Door, Environment, Layer, RequestOpening, StageTarget};
//!
//! // Off unless asked for: no variable is set here.
//! let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
//! let layer = Layer::start_or_off(Config::from_environment(&Environment::default()), Arc::clone(&clock));
//! assert!(!layer.is_on());
//!
//! // At the door: the caller's headers in, the `request` span opened.
//! let headers = [("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")];
//! let mut request = layer.open_request(RequestOpening { request_id: "r1", headers, door: Door::Http });
//!
//! // At submission: each stage's ids are assigned, and travel as headers of the submit message.
//! let talker = StageName::new("talker")?;
//! let assigned = request.assign(StageTarget {
//!     name: &talker,
//!     clock: Some(clock.domain()),
//!     upstreams: &[],
//!     companion_role: None,
//! });
//! assert!(assigned.headers.is_empty(), "nothing is added while the layer is off");
//!
//! // … the stage runs; its record goes to `layer.sink()` …
//! request.end();
//! layer.shutdown(Duration::from_secs(5))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Users' own spans
//!
//! The `request` span lives in a subscriber of its own, so it is there whatever the program does
//! with `tracing`, and this crate never sets the process's subscriber. A program that wants its own
//! `tracing` spans exported as well adds [`Layer::subscriber_layer`] to its subscriber.

pub mod account;
pub mod anchor_source;
pub mod attributes;
pub mod config;
mod context;
mod door;
mod drop_log;
pub mod environment;
mod export;
mod fork;
mod id_source;
pub mod in_flight;
pub mod join;
pub mod layer;
mod processor;
mod report;
pub mod request;
pub mod resource;
mod span;
pub mod stage_headers;
mod subscriber;

pub use account::{Account, Counters, Dropped};
pub use anchor_source::AnchorSource;
pub use config::{
    Activation, Compression, Config, ConfigError, Finding, OffReason, OtlpOutput, Output, Protocol, Reading,
    Secret, Setting, Source, TraceShape,
};
pub use context::TraceparentError;
pub use environment::Environment;
pub use export::{FlushError, ProbeCause, ProbeOutcome, TransportError, probe};
pub use in_flight::{InFlight, RequestInFlight, StageFacts, StageWatch, Wait, Watched};
pub use join::{Join, JoinRefusal, check_join};
pub use layer::{Layer, StartError, TraceOutput};
pub use report::LogLevel;
pub use request::{Assigned, Door, RequestOpening, RequestSpan, StageTarget};
pub use stage_headers::{HeaderError, StageHeaders, is_reserved, strip_reserved};
