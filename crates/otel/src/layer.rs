//! The layer as a whole: started once, cloned freely.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{Sampler as SdkSampler, SdkTracer, SdkTracerProvider, ShouldSample};
use stagespan_model::{Clock, Detail, RecordSink, Refusal, StageRecord};
use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::account::{Account, count};
use crate::anchor_source::AnchorSource;
use crate::config::{Activation, Config, Output, Propagator, Reading, RootSampler, Sampler, TraceShape};
use crate::export::{Entry, FlushError, Opening, Pipe, Plan, SharedPipe, TransportError};
use crate::fork::PerProcess;
use crate::id_source::OsIds;
use crate::in_flight::{InFlight, RequestInFlight, StageFacts, StageWatch};
use crate::processor::{IntoPipe, RequestTimings};
use crate::span::limits;
use crate::subscriber;

/// How long a layer that is dropped without shutdown still exports in the background.
const DROP_DEADLINE: Duration = Duration::from_secs(2);

/// The layer could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The output can't be used.
    #[error(transparent)]
    Output(#[from] TransportError),
    /// The program was built without any `tracing`.
    #[error(
        "this program was built with the feature `max_level_off` of the crate tracing: \
         there can be no request span; build it without"
    )]
    TracingCompiledOut,
}

/// Where the spans go, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceOutput {
    /// Nowhere: the layer is off.
    Off,
    /// To the receiver at this address (without user and password).
    Receiver(String),
    /// To stdout.
    Console,
    /// Into this file.
    File(PathBuf),
}

/// The OpenTelemetry layer of one process.
///
/// Clones share everything. While it is off, every method is a no-op that reads no clock and
/// starts no thread. While it is on, a thread is started with the first span, and not before.
///
/// A forked child goes on with a queue, a thread and an account of its own, under its own
/// `process.pid`; what its parent has in flight is exported by the parent alone. A trace file is
/// not shared: the child writes one beside it, named with its pid.
#[derive(Clone)]
pub struct Layer {
    pub(crate) inner: Option<Arc<Inner>>,
}

pub(crate) struct Inner {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) anchors: AnchorSource,
    pub(crate) shape: TraceShape,
    pub(crate) propagators: Vec<Propagator>,
    pub(crate) host_id: Arc<str>,
    pub(crate) pipe: SharedPipe,
    pub(crate) timings: RequestTimings,
    in_flight: InFlight,
    /// The `request` spans' own subscriber: they need no other, and disturb none.
    pub(crate) dispatch: Dispatch,
    tracer: SdkTracer,
    detail: Detail,
    output: TraceOutput,
}

impl Layer {
    /// A layer that does nothing.
    pub fn off() -> Self {
        Self { inner: None }
    }

    /// Starts the layer: checks the output, and opens a trace file. No connection is made and no
    /// thread is started before the first span.
    ///
    /// Every call makes a layer of its own, with its own queue and account.
    ///
    /// # Errors
    /// An output that can't be used.
    pub fn start(config: Config, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        if tracing::level_filters::STATIC_MAX_LEVEL == tracing::level_filters::LevelFilter::OFF {
            return Err(StartError::TracingCompiledOut);
        }
        let opening = Opening::check(&config.output)?;
        Ok(Self::with_opening(config, opening, clock))
    }

    /// For a serving process, which tracing must never stop: says every finding on stderr and as a
    /// `tracing` event, and is off where the configuration or the output can't be used.
    pub fn start_or_off(reading: Reading, clock: Arc<dyn Clock>) -> Self {
        let log = reading.log_level;
        for warning in &reading.warnings {
            log.problem_at_start(&warning.to_string());
        }
        let error = match reading.activation {
            Ok(Activation::Off(_)) => return Self::off(),
            Ok(Activation::On(config)) => match Self::start(*config, clock) {
                Ok(layer) => return layer,
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        log.error_at_start(&format!("tracing is off: {error}"));
        Self::off()
    }

    pub(crate) fn with_opening(config: Config, opening: Opening, clock: Arc<dyn Clock>) -> Self {
        let Config {
            output,
            service_name,
            resource,
            sampler,
            shape,
            detail,
            propagators,
            batch,
            span_limits,
            log_level: log,
            long_wait,
        } = config;
        let (attempt_timeout, shown_output) = match &output {
            Output::Otlp(otlp) => (otlp.timeout, TraceOutput::Receiver(otlp.printable_endpoint())),
            Output::Console => (None, TraceOutput::Console),
            Output::OtlpJsonFile(path) => (None, TraceOutput::File(path.clone())),
        };
        let host_id = Arc::from(resource.host_id.as_str());
        let in_flight = InFlight::new(Arc::clone(&clock), long_wait, log);
        let plan = Plan {
            batch,
            span_limits,
            log,
            attempt_timeout,
            resource,
            service_name,
            in_flight: in_flight.clone(),
        };
        let pipe = Pipe::new(plan.clone(), opening);
        let in_child = move || Pipe::new(plan.in_child(), Opening::InChild(Box::new(output.clone())));
        let pipe = Arc::new(PerProcess::new(pipe, in_child));
        let timings = RequestTimings::new();
        let provider = SdkTracerProvider::builder()
            .with_sampler(sdk_sampler(sampler))
            .with_id_generator(OsIds)
            .with_span_limits(limits::for_sdk(&span_limits))
            .with_span_processor(IntoPipe { pipe: Arc::clone(&pipe), timings: timings.clone() })
            .build();
        let tracer = provider.tracer_with_scope(crate::span::scope());
        let dispatch =
            Dispatch::new(tracing_subscriber::registry().with(subscriber::trimmed(tracer.clone())));
        let anchors = AnchorSource::new(Arc::clone(&clock));
        Self {
            inner: Some(Arc::new(Inner {
                clock,
                anchors,
                shape,
                propagators,
                host_id,
                pipe,
                timings,
                in_flight,
                dispatch,
                tracer,
                detail,
                output: shown_output,
            })),
        }
    }

    /// Whether anything is traced.
    pub fn is_on(&self) -> bool {
        self.inner.is_some()
    }

    /// Where finished stage records go. Never blocks; takes no lock.
    pub fn sink(&self) -> Arc<dyn RecordSink> {
        Arc::new(Sink { pipe: self.inner.as_ref().map(|inner| Arc::clone(&inner.pipe)) })
    }

    /// The `tracing` layer for an embedder's own subscriber: its spans are exported beside ours,
    /// and become children of `request` inside [`RequestSpan::in_scope`](crate::RequestSpan::in_scope).
    /// Spans of the libraries that export are left out.
    ///
    /// It is never installed by us: a library that sets the process's subscriber takes the choice
    /// from the program. The `request` span works without it. Users' spans keep the wall clock's
    /// times, as tracing-opentelemetry gives them.
    pub fn subscriber_layer<S>(&self) -> impl tracing_subscriber::Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'span> tracing_subscriber::registry::LookupSpan<'span>,
    {
        self.inner.as_ref().map(|inner| subscriber::for_embedders(inner.tracer.clone()))
    }

    /// Which child spans the configuration asks for; what fills [`StageRecord::detail`].
    pub fn detail(&self) -> Detail {
        self.inner.as_ref().map_or_else(Detail::default, |inner| inner.detail)
    }

    /// Where the spans go.
    pub fn output(&self) -> TraceOutput {
        self.inner.as_ref().map_or(TraceOutput::Off, |inner| inner.output.clone())
    }

    /// A handle for the requests of one stage, through which the layer learns what they wait for
    /// while they are not finished. A request that waits longer than
    /// [`Config::long_wait`](crate::Config::long_wait) is warned of, once.
    pub fn watch(&self, stage: StageFacts) -> StageWatch {
        self.inner.as_ref().map_or_else(StageWatch::off, |inner| {
            inner.in_flight.stage(stage).looked_after_by(Arc::clone(&inner.pipe))
        })
    }

    /// The requests in flight on the stages that are watched, those queued first before the
    /// others, `most` of them.
    pub fn in_flight(&self, most: usize) -> Vec<RequestInFlight> {
        self.inner.as_ref().map(|inner| inner.in_flight.oldest(most)).unwrap_or_default()
    }

    /// What became of every span so far.
    pub fn stats(&self) -> Account {
        self.inner.as_ref().map(|inner| inner.pipe.get().ledger.account()).unwrap_or_default()
    }

    /// Waits until everything that was produced before the call is exported, `within` at the longest.
    ///
    /// # Errors
    /// What could not be exported in time, or at all. Never `Ok` while something is missing.
    pub fn flush(&self, within: Duration) -> Result<(), FlushError> {
        self.inner.as_ref().map_or(Ok(()), |inner| inner.pipe.get().flush(within))
    }

    /// Exports what there is, `within` at the longest, and ends the layer; what is produced later
    /// is counted as dropped. A second call is harmless.
    ///
    /// # Errors
    /// As [`Layer::flush`]; what was not out in time is dropped.
    pub fn shutdown(&self, within: Duration) -> Result<(), FlushError> {
        self.inner.as_ref().map_or(Ok(()), |inner| inner.pipe.get().shutdown(within))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Without blocking whoever drops it, which may be an async task: the worker finishes on
        // its own, if the process lives that long.
        self.pipe.get().close(Instant::now() + DROP_DEADLINE);
    }
}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layer").field("output", &self.output()).finish_non_exhaustive()
    }
}

fn sdk_sampler(sampler: Sampler) -> Box<dyn ShouldSample> {
    let root = match sampler.root {
        RootSampler::AlwaysOn => SdkSampler::AlwaysOn,
        RootSampler::AlwaysOff => SdkSampler::AlwaysOff,
        RootSampler::TraceIdRatio(ratio) => SdkSampler::TraceIdRatioBased(ratio),
    };
    if sampler.parent_based { Box::new(SdkSampler::parent_based(root)) } else { Box::new(root) }
}

/// The hot path's end: a push, or nothing.
struct Sink {
    pipe: Option<SharedPipe>,
}

impl RecordSink for Sink {
    fn record(&self, record: StageRecord) {
        let Some(pipe) = &self.pipe else { return };
        let pipe = pipe.get();
        if record.is_sampled() {
            pipe.push(Entry::Stage(record));
        } else {
            count(&pipe.ledger.counters.unsampled);
        }
    }

    fn refused(&self, reason: Refusal) {
        let Some(pipe) = &self.pipe else { return };
        let counters = &pipe.get().ledger.counters;
        count(match reason {
            Refusal::TooManyLive => &counters.too_many_live,
            Refusal::NeverQueued => &counters.never_queued,
        });
    }
}
