//! What happens to a finished live span of this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use stagespan_model::{ClockAnchor, Instant};

use crate::export::{Entry, SharedPipe};
use crate::fork::{self, PerProcess};
use crate::span::unix_time;

/// When a `request` span really began and ended, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestTiming {
    /// The anchor that places both.
    pub(crate) anchor: ClockAnchor,
    pub(crate) start: Instant,
    /// Set just before the span ends.
    pub(crate) end: Option<Instant>,
    /// The flags of the request's trace, with the random bit that the SDK loses.
    pub(crate) flags: u8,
}

/// The `request` spans in flight.
///
/// tracing-opentelemetry stamps spans with wall time, so a step of the wall clock in mid-request
/// would change their length, and put them beside their stages. Hence the true times are kept here
/// until the span ends.
#[derive(Clone)]
pub(crate) struct RequestTimings(Arc<PerProcess<Mutex<HashMap<SpanId, RequestTiming>>>>);

impl RequestTimings {
    pub(crate) fn new() -> Self {
        Self(Arc::new(PerProcess::new(Mutex::default(), Mutex::default)))
    }

    fn table(&self) -> MutexGuard<'_, HashMap<SpanId, RequestTiming>> {
        // Insertions and removals are whole even if a panic unwinds through them.
        self.0.get().lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, span: SpanId, timing: RequestTiming) {
        self.table().insert(span, timing);
    }

    pub(crate) fn end(&self, span: SpanId, at: Instant) {
        if let Some(timing) = self.table().get_mut(&span) {
            timing.end = Some(at);
        }
    }

    pub(crate) fn remove(&self, span: SpanId) -> Option<RequestTiming> {
        self.table().remove(&span)
    }
}

/// The only processor of our tracer provider: rewrites the times of `request`, and hands every
/// finished span to the queue that the stages' records go through. One pipeline, one account.
pub(crate) struct IntoPipe {
    pub(crate) pipe: SharedPipe,
    pub(crate) timings: RequestTimings,
}

impl std::fmt::Debug for IntoPipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IntoPipe")
    }
}

impl SpanProcessor for IntoPipe {
    fn on_start(&self, _span: &mut Span, _cx: &Context) {}

    fn on_end(&self, mut span: SpanData) {
        // What a parent began before it forked, the parent ends; the child has only a copy.
        if !span.span_context.is_sampled() || !fork::is_ours(span.start_time) {
            return;
        }
        if let Some(timing) = self.timings.remove(span.span_context.span_id()) {
            retime(&mut span, &timing);
        }
        self.pipe.get().push(Entry::Live(Box::new(span)));
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        // The layer itself ends the pipe; the provider may be gone before users' last spans are.
        Ok(())
    }

    fn set_resource(&mut self, _resource: &Resource) {}
}

fn retime(span: &mut SpanData, timing: &RequestTiming) {
    let RequestTiming { anchor, start, end, flags } = *timing;
    // A span that ended without us (its dispatcher was dropped) has at least its start.
    let wall = |at| anchor.wall_ns(at).ok();
    if let (Some(start_ns), Some(end_ns)) = (wall(start), wall(end.unwrap_or(start))) {
        span.start_time = unix_time(start_ns);
        // As for a stage's child: what has no length is 1 ns long, lest Jaeger warns.
        span.end_time = unix_time(end_ns.max(start_ns + 1));
    }
    let context = &span.span_context;
    span.span_context = SpanContext::new(
        context.trace_id(),
        context.span_id(),
        TraceFlags::new(flags),
        context.is_remote(),
        context.trace_state().clone(),
    );
}
