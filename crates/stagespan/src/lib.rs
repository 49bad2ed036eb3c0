//! Trace how long each stage of an inference pipeline waited for its **input**, and how long for
//! **scheduling**.
//!
//! This is the crate for authors of an engine: it instruments your own scheduler with at most six
//! calls per request. Everything else (environment, trace context, clocks, spans, export, the
//! account of what was exported) is behind it. Tracing is off, and costs a branch, unless
//! `OTEL_EXPORTER_OTLP_ENDPOINT` (or another of OpenTelemetry's own variables) asks for it.
//!
//! | call | when |
//! |---|---|
//! | [`StageTracer::enqueue`] | your scheduler takes the request in (QUEUED) |
//! | [`StageRequest::input_ready`] | a scheduler step first sees its input there |
//! | [`StageRequest::scheduled`] | it gets its first tokens of a run (SCHEDULED) |
//! | [`StageRequest::preempted`] | it loses its place (PREEMPTED) |
//! | [`StageRequest::tokens`] | it has put tokens out: the first and the last count |
//! | [`StageRequest::finish`] | it ends, in whatever way |
//!
//! Each reads the clock once, where you call it. A request is one value that you own: keep it with
//! your scheduler's own state of the request, move it between threads and tasks as you like.
//!
//! # The whole of it
//!
//! ```
//! use stagespan::{Door, End, Gate, StageOptions, Tracing};
//!
//! // Once per process. A bad variable is reported on stderr, and never stops a server.
//! let tracing = Tracing::from_environment();
//!
//! // Once per stage that this process runs.
//! let thinker = tracing.stage(StageOptions::new(0, "thinker"))?;
//! let talker = tracing.stage(StageOptions::new(1, "talker").gate(Gate::AsyncChunk))?;
//!
//! // At your front end's door: the caller's headers, names in any case.
//! let caller = [("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")];
//! let mut request = tracing.request("req-7", caller, Door::Http);
//!
//! // At submission: the headers travel with the request, to a thread or to another process.
//! let for_thinker = thinker.assign(&mut request, &[]);
//! let for_talker = talker.assign(&mut request, &[thinker.name()]);
//!
//! // In the stages' schedulers.
//! let mut on_thinker = thinker.enqueue("req-7", &for_thinker);
//! let mut on_talker = talker.enqueue("req-7", &for_talker);
//! on_thinker.scheduled();
//! on_thinker.tokens(1);
//! on_talker.input_ready();
//! on_talker.scheduled();
//! on_talker.tokens(25);
//! on_talker.finish(End::Stop);
//! on_thinker.finish(End::Length);
//!
//! // At the door again, and before the process ends.
//! request.end();
//! tracing.shutdown(std::time::Duration::from_secs(5))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A stage in another process makes a [`Tracing`] of its own there and calls
//! [`StageTracer::enqueue`] with the headers as they arrived. Its clock is checked: unless it is
//! literally the clock of the front end, its span gets a trace of its own, joined by links. Which
//! clock the other process is on is known to whoever talks to it; see
//! [`RequestSpan::assign`](stagespan_otel::RequestSpan::assign) for a stage that isn't local.
//!
//! What the numbers mean, and what they must not be taken for, is the subject of the project's
//! page on semantics.

mod request;
mod stage;
mod tracing;

pub use stagespan_model::{
    Clock, ClockDomain, End, ErrorType, Gate, Instant, ManualClock, StageName, StageNameError, SystemClock,
    TimelineEvent,
};
pub use stagespan_otel::{
    Account, Assigned, Config, Door, Environment, FlushError, Layer, RequestSpan, StageTarget,
};

pub use crate::request::StageRequest;
pub use crate::stage::{StageOptions, StageTracer};
pub use crate::tracing::Tracing;
