//! What the layer is told to do, from the environment or by hand.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use stagespan_model::{Detail, StageResource};

mod finding;
mod reading;

pub use finding::{ConfigError, Finding, Setting, Source};
pub(crate) use reading::resource_attributes;
pub use reading::{Activation, OffReason, Reading};

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
}

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

/// An OTLP receiver.
#[derive(Clone)]
pub struct OtlpOutput {
    /// The address that spans are posted to, with its path.
    pub endpoint: String,
    /// The transport.
    pub protocol: Protocol,
    /// Headers of every export. Their values are secret.
    pub headers: Vec<(String, Secret)>,
    /// The longest that one attempt may take; `None` is no limit.
    pub timeout: Option<Duration>,
}

impl OtlpOutput {
    /// A receiver of OTLP/HTTP at `endpoint`, a full address such as
    /// `http://localhost:4318/v1/traces`.
    pub fn http(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            protocol: Protocol::HttpProtobuf,
            headers: Vec::new(),
            timeout: Some(Duration::from_secs(10)),
        }
    }
}

impl fmt::Debug for OtlpOutput {
    /// Without the address's user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpOutput")
            .field("endpoint", &self.printable_endpoint())
            .field("protocol", &self.protocol)
            .field("headers", &self.headers)
            .field("timeout", &self.timeout)
            .finish()
    }
}

impl OtlpOutput {
    /// The address without user and password.
    pub(crate) fn printable_endpoint(&self) -> String {
        reading::mask(&self.endpoint)
    }
}

/// How spans are sent to a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `http/protobuf`.
    HttpProtobuf,
}

impl Protocol {
    /// Its name in `OTEL_EXPORTER_OTLP_PROTOCOL`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HttpProtobuf => "http/protobuf",
        }
    }
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that sends it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

/// What stands in messages in a secret's place.
pub(crate) const MASK: &str = "•••";

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// Which requests are traced: `OTEL_TRACES_SAMPLER`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// The decision where no caller has decided.
    pub root: RootSampler,
    /// Whether a caller's decision is followed.
    pub parent_based: bool,
}

/// The decision where no caller has decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RootSampler {
    /// All are traced.
    AlwaysOn,
    /// None is.
    AlwaysOff,
    /// This share, in 0..=1, by trace id.
    TraceIdRatio(f64),
}

impl Default for Sampler {
    fn default() -> Self {
        Self { root: RootSampler::AlwaysOn, parent_based: true }
    }
}

impl fmt::Display for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parent_based {
            f.write_str("parentbased_")?;
        }
        match self.root {
            RootSampler::AlwaysOn => f.write_str("always_on"),
            RootSampler::AlwaysOff => f.write_str("always_off"),
            RootSampler::TraceIdRatio(ratio) => write!(f, "traceidratio {ratio}"),
        }
    }
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

/// How a caller's context is read at the door: `OTEL_PROPAGATORS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagator {
    /// W3C `traceparent` and `tracestate`.
    TraceContext,
    /// W3C `baggage`.
    Baggage,
}

impl Propagator {
    /// Its name in the variable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TraceContext => "tracecontext",
            Self::Baggage => "baggage",
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
