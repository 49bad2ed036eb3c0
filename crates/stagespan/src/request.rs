//! One request on one stage.

use std::sync::Arc;
use std::time::Duration;

use stagespan_model::{
    ClockAnchor, ClockSource, End, Instant, RequestId, StageContext, StageRecord, StageTimeline,
    TimelineEvent,
};

use crate::stage::Shared;

/// One request on one stage, from QUEUED until it is finished.
///
/// Calls that don't fit (a second `input_ready`, a `preempted` before any `scheduled`) change
/// nothing and are counted in [`StageTracer::ignored`](crate::StageTracer::ignored). One that is
/// dropped without [`StageRequest::finish`], as a cancelled task drops it, ends as aborted.
#[derive(Debug)]
#[must_use = "a request that is dropped at once ends as aborted"]
pub struct StageRequest {
    /// Boxed, so that a request costs a pointer while tracing is off.
    open: Option<Box<Open>>,
}

/// The state of a request that is traced.
pub(crate) struct Open {
    pub(crate) stage: Arc<Shared>,
    pub(crate) request_id: RequestId,
    pub(crate) timeline: StageTimeline,
    pub(crate) anchor: ClockAnchor,
    pub(crate) context: Option<Box<StageContext>>,
    pub(crate) tokens_input: u32,
    pub(crate) clock_source: ClockSource,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open")
            .field("stage", &self.stage.identity.name)
            .field("request_id", &self.request_id)
            .field("timeline", &self.timeline)
            .finish_non_exhaustive()
    }
}

impl Open {
    fn apply(&mut self, event: TimelineEvent) {
        if self.timeline.apply(event).is_err() {
            self.stage.ignore();
        }
    }

    fn end(self, at: Instant, end: End) {
        let Self { stage, request_id, timeline, anchor, context, tokens_input, clock_source } = self;
        stage.sink.record(StageRecord {
            request_id,
            internal_id: None,
            stage: Arc::clone(&stage.identity),
            timeline: timeline.finish(at, end),
            anchor,
            context,
            clock_source,
            companion_role: None,
            tokens_input,
            detail: stage.detail,
        });
    }
}

impl StageRequest {
    pub(crate) const fn off() -> Self {
        Self { open: None }
    }

    pub(crate) fn new(open: Open) -> Self {
        Self { open: Some(Box::new(open)) }
    }

    /// Notes an event with its own instant, for an engine that keeps its events itself. The clock
    /// is then said to be the engine's (`stagespan.clock.source = events`).
    pub fn apply(&mut self, event: TimelineEvent) {
        if let Some(open) = &mut self.open {
            open.clock_source = ClockSource::Events;
            open.apply(event);
        }
    }

    fn note(&mut self, event: impl FnOnce(Instant) -> TimelineEvent) {
        if let Some(open) = &mut self.open {
            let now = open.stage.clock.now();
            open.apply(event(now));
        }
    }

    /// How many input tokens the request has on this stage.
    pub fn input_tokens(&mut self, count: u32) {
        if let Some(open) = &mut self.open {
            open.tokens_input = count;
        }
    }

    /// A scheduler step has seen the request's input for the first time: `input_wait` ends and
    /// `ready_queued` begins.
    pub fn input_ready(&mut self) {
        self.note(|at| TimelineEvent::InputReady { at, resolution_ns: None });
    }

    /// As [`StageRequest::input_ready`], saying how long ago the gate last saw the input missing:
    /// how fine the observation is.
    pub fn input_ready_within(&mut self, resolution: Duration) {
        let resolution_ns = u64::try_from(resolution.as_nanos()).ok();
        self.note(|at| TimelineEvent::InputReady { at, resolution_ns });
    }

    /// SCHEDULED: the request gets its first tokens of a run. The first one ends the queued time.
    pub fn scheduled(&mut self) {
        self.note(TimelineEvent::Scheduled);
    }

    /// PREEMPTED: the request loses its place.
    pub fn preempted(&mut self) {
        self.note(TimelineEvent::Preempted);
    }

    /// The request has put out `count` tokens. The first call ends prefill, the last one decode;
    /// calls in between only count.
    pub fn tokens(&mut self, count: u32) {
        self.note(|at| TimelineEvent::Tokens { at, count });
    }

    /// The request ends on this stage. Its spans are made and exported elsewhere: this is a push
    /// into a queue.
    pub fn finish(mut self, end: End) {
        self.end(end);
    }

    fn end(&mut self, end: End) {
        if let Some(open) = self.open.take() {
            let now = open.stage.clock.now();
            open.end(now, end);
        }
    }
}

impl Drop for StageRequest {
    fn drop(&mut self) {
        self.end(End::Aborted);
    }
}
