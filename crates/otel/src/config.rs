//! What the layer is told to do, from the environment or by hand.

use std::path::PathBuf;
use std::time::Duration;

use stagespan_model::{Detail, StageResource};

use crate::report::LogLevel;

mod finding;
mod otlp;
mod propagator;
mod reading;
mod sampler;
mod secret;
mod span_limits;

pub use finding::{ConfigError, Finding, Setting, Source};
pub use otlp::{ClientFiles, Compression, OtlpOutput, Protocol, TlsFiles};
pub use propagator::Propagator;
pub(crate) use reading::resource_attributes;
pub use reading::{Activation, OffReason, Reading};
pub use sampler::{RootSampler, Sampler};
pub(crate) use secret::MASK;
pub use secret::Secret;
pub use span_limits::SpanLimits;

/// Everything the layer needs to know. [`Config::from_environment`] reads it from the variables;
/// by hand, start from [`Config::new`] and change fields.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the spans go.
    pub output: Output,
    /// `service.name`, one for the request and all of its stages.
    pub service_name: String,
    /// The resource of this process: that of `request` and of users' own spans. Stages bring
    /// their own.
    pub resource: StageResource,
    /// Which requests are traced.
    pub sampler: Sampler,
    /// Which traces the spans of one request form.
    pub shape: TraceShape,
    /// Which child spans a stage has.
    pub detail: Detail,
    /// How callers' contexts are read at the door.
    pub propagators: Vec<Propagator>,
    /// Queue, batch and delays.
    pub batch: BatchLimits,
    /// How much a span may hold.
    pub span_limits: SpanLimits,
    /// How much the layer says of itself: `OTEL_LOG_LEVEL`.
    pub log_level: LogLevel,
    /// A request that waits longer than this on a stage is warned of, once; `None` warns of none.
    pub long_wait: Option<Duration>,
}

/// The default of [`Config::long_wait`].
pub(crate) const LONG_WAIT: Duration = Duration::from_secs(30);

impl Config {
    /// The defaults, with this output.
    pub fn new(output: Output, service_name: impl Into<String>, resource: StageResource) -> Self {
        Self {
            output,
            service_name: service_name.into(),
            resource,
            sampler: Sampler::default(),
            shape: TraceShape::default(),
            detail: Detail::default(),
            propagators: vec![Propagator::TraceContext, Propagator::Baggage],
            batch: BatchLimits::default(),
            span_limits: SpanLimits::default(),
            log_level: LogLevel::default(),
            long_wait: Some(LONG_WAIT),
        }
    }
}

/// Where the spans go.
#[derive(Clone, Debug)]
pub enum Output {
    /// To a receiver, by OTLP.
    Otlp(OtlpOutput),
    /// To stdout, for people.
    Console,
    /// Into a file that is one OTLP JSON object at any time, which Jaeger's UI loads by upload.
    OtlpJsonFile(PathBuf),
}

/// Which traces the spans of one request form: `STAGESPAN_TRACE_SHAPE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceShape {
    /// One trace where the clock is one and the same, linked traces across clocks.
    #[default]
    Auto,
    /// Every stage has a trace of its own.
    Linked,
    /// One trace, whatever the clocks.
    Joined,
}

impl TraceShape {
    /// Its name in the variable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Linked => "linked",
            Self::Joined => "joined",
        }
    }
}

/// Queue, batch and delays: the `OTEL_BSP_*` variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// The longest a span waits in the queue for its batch to fill.
    pub schedule_delay: Duration,
    /// Entries in the queue: each is one finished stage request or one live span.
    pub queue_entries: usize,
    /// Spans in one export, at most (a stage request's spans are never torn apart, so a few more).
    pub export_batch_spans: usize,
    /// The longest that one batch may take with all of its retries; `None` is no limit.
    pub export_timeout: Option<Duration>,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            schedule_delay: Duration::from_secs(5),
            queue_entries: 2048,
            export_batch_spans: 512,
            export_timeout: Some(Duration::from_secs(30)),
        }
    }
}
