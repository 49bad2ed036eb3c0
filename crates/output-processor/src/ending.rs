//! What a request leaves behind when it ends.

use std::sync::Arc;

use stagespan_model::{
    ClockAnchor, ClockSource, End, FinishedTimeline, Instant, Placement, RequestId, StageIdentity,
    StageRecord,
};

use crate::counts::{Counts, Reason};
use crate::live_request::{LiveRequest, Start};
use crate::submission::{Options, StageFinished};

/// Ends a request at `at`, or at the last instant known of it. The record is there with tracing on
/// and a valid QUEUED.
pub(crate) fn end_request(
    request: LiveRequest,
    at: Option<Instant>,
    end: End,
    stage: &Arc<StageIdentity>,
    options: &Options,
    counts: &mut Counts,
) -> (StageFinished, Option<StageRecord>) {
    let LiveRequest {
        internal_id,
        request_id,
        context,
        request_anchor,
        companion_role,
        tokens_input,
        start,
        stats,
        stamp,
        ..
    } = request;
    let (timeline, stage_anchor) = match start {
        // An end before the last event is moved there by the timeline.
        Start::Queued { timeline, anchor } => {
            let at = at.unwrap_or(timeline.queued());
            (Some(timeline.finish(at, end)), Some(anchor))
        }
        Start::Awaited { .. } | Start::Unknown => {
            counts.note(Reason::NeverQueued);
            (None, None)
        }
    };
    let finished = StageFinished {
        stage: Arc::clone(stage),
        internal_id: Arc::clone(&internal_id),
        request_id: request_id.clone(),
        end,
        tokens_input,
        timeline: timeline.clone(),
        stats: options.statistics.then(|| {
            // The split decides, here as for the spans, whether the two waits mean anything.
            let split = timeline.as_ref().map(FinishedTimeline::split);
            stats.finish(stamp.filter(|_| split.is_some_and(|s| s.input_wait_ns().is_some())))
        }),
    };
    if options.sink.is_none() {
        return (finished, None);
    }
    let record = timeline.zip(stage_anchor).map(|(timeline, stage_anchor)| {
        let joins = context.as_ref().is_some_and(|c| c.placement == Placement::Same && !c.joined_refused);
        let anchor = anchor_of(stage, stage_anchor, request_anchor.filter(|_| joins), counts);
        StageRecord {
            internal_id: (*internal_id != *request_id.as_str()).then(|| RequestId::from(&*internal_id)),
            request_id,
            stage: Arc::clone(stage),
            timeline,
            anchor,
            context,
            clock_source: ClockSource::Events,
            companion_role,
            tokens_input,
            detail: options.detail,
        }
    });
    (finished, record)
}

/// A stage that joins the request's trace is timed by the request's anchor, if that was read on
/// the same clock; any other by its own.
fn anchor_of(
    stage: &StageIdentity,
    stage_anchor: ClockAnchor,
    request_anchor: Option<ClockAnchor>,
    counts: &mut Counts,
) -> ClockAnchor {
    match request_anchor {
        Some(anchor) if anchor.monotonic().domain() == stage.clock_domain.tag() => anchor,
        Some(_) => {
            counts.note(Reason::ForeignClock);
            stage_anchor
        }
        None => stage_anchor,
    }
}
