//! A request in flight on the stage.

use std::sync::Arc;

use stagespan_model::{
    ClockAnchor, EventKind, FinishReason, Ignored, Instant, Position, RequestId, StageContext, StageTimeline,
    TimelineEvent,
};
use stagespan_wire::EngineCoreOutput;

use crate::anchors::RecentAnchors;
use crate::counts::{Counts, Reason};
use crate::phase_stats::PhaseStats;
use crate::segments::{Effect, Segments};
use crate::submission::Submission;
use crate::times::Times;

/// What is known of a request's beginning.
#[derive(Debug)]
pub(crate) enum Start {
    /// No QUEUED yet. A refused one spoils the queued interval, but not a valid one after it.
    Awaited { invalid_time: bool },
    /// From a valid QUEUED on, with the anchor then in force.
    Queued { timeline: StageTimeline, anchor: ClockAnchor },
    /// It was scheduled before any valid QUEUED: when it began can't be known any more.
    Unknown,
}

/// What a request needs to know of its stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StageView<'a> {
    pub(crate) position: Position,
    pub(crate) anchors: &'a RecentAnchors,
}

/// A request from its submission to its end.
#[derive(Debug)]
pub(crate) struct LiveRequest {
    pub(crate) internal_id: Arc<str>,
    pub(crate) request_id: RequestId,
    pub(crate) context: Option<Box<StageContext>>,
    pub(crate) request_anchor: Option<ClockAnchor>,
    pub(crate) companion_role: Option<Arc<str>>,
    pub(crate) tokens_input: u32,
    pub(crate) start: Start,
    pub(crate) stats: PhaseStats,
    /// The stamp, as long as the statistics describe the interval that it belongs to.
    pub(crate) stamp: Option<f64>,
    segments: Segments,
    /// The first SCHEDULED was refused, so a later one must not pass for it.
    scheduled_refused: bool,
    /// The stamp as it came: taken once, and kept through streaming updates.
    input_ready_ts: Option<f64>,
    resolution_ns: Option<u64>,
    /// Tokens of this segment, where the engine counts them itself.
    segment_tokens: u64,
}

impl LiveRequest {
    pub(crate) fn new(submission: Submission<'_>) -> Self {
        Self {
            internal_id: Arc::from(submission.internal_id),
            request_id: submission.request_id,
            context: submission.context,
            request_anchor: submission.request_anchor,
            companion_role: submission.companion_role,
            tokens_input: submission.tokens_input,
            start: Start::Awaited { invalid_time: false },
            stats: PhaseStats::default(),
            stamp: None,
            segments: Segments::new(submission.resumable),
            scheduled_refused: false,
            input_ready_ts: None,
            resolution_ns: None,
            segment_tokens: 0,
        }
    }

    pub(crate) fn observed(&mut self, resolution_ns: u64) {
        self.resolution_ns = Some(resolution_ns);
    }

    /// The assigned context.
    pub(crate) fn context_mut(&mut self) -> Option<&mut StageContext> {
        self.context.as_deref_mut()
    }

    pub(crate) fn updated(&mut self, resumable: bool, tokens_input: u32) {
        self.tokens_input = self.tokens_input.saturating_add(tokens_input);
        let effect = self.segments.updated(resumable);
        self.change_stats(effect);
    }

    fn change_stats(&mut self, effect: Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::Complete => self.stats.complete(),
            Effect::Restart | Effect::Drop => {
                self.stats = PhaseStats::default();
                // The stamp was taken in the first segment; it splits no other.
                self.stamp = None;
                if effect == Effect::Drop {
                    self.stats.complete();
                }
            }
        }
    }

    /// Notes one output. Whether it ends the request is the caller's to see.
    pub(crate) fn output(
        &mut self,
        output: &EngineCoreOutput,
        times: &Times,
        stage: StageView<'_>,
        counts: &mut Counts,
    ) {
        for event in output.events.iter().flatten() {
            match times.instant(event.timestamp) {
                Ok(at) => {
                    self.stats.event(event.kind, event.timestamp);
                    self.event(event.kind, at, stage, counts);
                }
                Err(_) => self.refused_event(event.kind, counts),
            }
        }
        if let Some(stamp) = output.input_ready_ts {
            self.input_ready(stamp, times, counts);
        }
        self.tokens(output, times, counts);
        if output.finish_reason.is_some() && final_reason(output).is_none() {
            self.segment_tokens = 0;
            let effect = self.segments.segment_finished();
            self.change_stats(effect);
        }
    }

    fn event(&mut self, kind: EventKind, at: Instant, stage: StageView<'_>, counts: &mut Counts) {
        match (&mut self.start, kind) {
            (Start::Awaited { invalid_time }, EventKind::Queued) => {
                let mut timeline = StageTimeline::new(stage.position, at);
                if *invalid_time {
                    note(&mut timeline, TimelineEvent::InvalidTime, counts);
                }
                self.start = Start::Queued { timeline, anchor: stage.anchors.in_force(at) };
            }
            (Start::Awaited { .. }, _) => {
                counts.note(Reason::BeforeQueued);
                self.start = Start::Unknown;
            }
            (Start::Unknown, _) => counts.note(Reason::BeforeQueued),
            (Start::Queued { timeline, .. }, EventKind::Queued) => {
                note(timeline, TimelineEvent::Queued(at), counts);
            }
            (Start::Queued { timeline, .. }, EventKind::Scheduled) => {
                if !self.scheduled_refused {
                    note(timeline, TimelineEvent::Scheduled(at), counts);
                }
            }
            (Start::Queued { timeline, .. }, EventKind::Preempted) => {
                note(timeline, TimelineEvent::Preempted(at), counts);
            }
        }
    }

    fn refused_event(&mut self, kind: EventKind, counts: &mut Counts) {
        counts.note(match kind {
            EventKind::Queued => Reason::InvalidQueued,
            EventKind::Scheduled => Reason::InvalidScheduled,
            EventKind::Preempted => Reason::InvalidPreempted,
        });
        match (&mut self.start, kind) {
            (Start::Awaited { invalid_time }, EventKind::Queued) => *invalid_time = true,
            (Start::Awaited { .. }, _) => self.start = Start::Unknown,
            // Only the first interval is split: later QUEUED and SCHEDULED are outside it.
            (Start::Queued { timeline, .. }, EventKind::Scheduled) if !timeline.is_scheduled() => {
                self.scheduled_refused = true;
                note(timeline, TimelineEvent::InvalidTime, counts);
            }
            _ => {}
        }
    }

    fn input_ready(&mut self, stamp: f64, times: &Times, counts: &mut Counts) {
        // An engine may repeat the stamp on each output with events: the same one says nothing new.
        if self.input_ready_ts.is_some_and(|first| first.to_bits() == stamp.to_bits()) {
            return;
        }
        let at = match times.instant(stamp) {
            Ok(at) => at,
            Err(_) => {
                counts.note(Reason::InvalidInputReady);
                if let Start::Queued { timeline, .. } = &mut self.start {
                    note(timeline, TimelineEvent::InvalidTime, counts);
                }
                return;
            }
        };
        let Start::Queued { timeline, .. } = &mut self.start else {
            counts.note(Reason::BeforeQueued);
            return;
        };
        let resolution_ns = self.resolution_ns;
        if note(timeline, TimelineEvent::InputReady { at, resolution_ns }, counts) {
            self.input_ready_ts = Some(stamp);
            self.stamp = Some(stamp);
        }
    }

    fn tokens(&mut self, output: &EngineCoreOutput, times: &Times, counts: &mut Counts) {
        // The engine's own count tells of tokens that it doesn't send.
        let count = match output.num_generation_tokens {
            Some(total) => {
                let new = total.saturating_sub(self.segment_tokens);
                self.segment_tokens = total;
                new
            }
            None => output.new_token_ids.len() as u64,
        };
        let Some(at) = times.batch else { return };
        self.stats.output(times.batch_timestamp);
        if count == 0 {
            return;
        }
        match &mut self.start {
            Start::Queued { timeline, .. } => {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                note(timeline, TimelineEvent::Tokens { at, count }, counts);
            }
            Start::Awaited { .. } | Start::Unknown => counts.note(Reason::BeforeQueued),
        }
    }
}

/// The finish reason that ends the request. That of a streaming segment doesn't.
pub(crate) fn final_reason(output: &EngineCoreOutput) -> Option<FinishReason> {
    output.finish_reason.filter(|_| output.is_segment_finished != Some(true))
}

/// Applies an event, or counts why it was ignored.
fn note(timeline: &mut StageTimeline, event: TimelineEvent, counts: &mut Counts) -> bool {
    let ignored = match timeline.apply(event) {
        Ok(()) => return true,
        Err(ignored) => ignored,
    };
    counts.note(match ignored {
        Ignored::ForeignClock => Reason::ForeignClock,
        Ignored::OutOfOrder => Reason::OutOfOrder,
        Ignored::Repeated => Reason::RepeatedStamp,
    });
    false
}
