//! Outputs in; statistics and stage records out.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use stagespan_model::{
    ClockAnchor, End, ForeignClock, Handle, Instant, LiveTable, Refusal, StageContext, StageIdentity,
};
use stagespan_wire::{EngineCoreOutput, EngineCoreOutputs, StopReason};

use crate::anchors::RecentAnchors;
use crate::counts::{Counts, Reason};
use crate::ending::end_request;
use crate::live_request::{LiveRequest, StageView, final_reason};
use crate::submission::{Options, StageFinished, Submission};
use crate::times::Times;

/// Ended requests whose ids are remembered, to tell a late output from one of an unknown request.
const ENDED_REMEMBERED: usize = 1024;

/// What stands under an internal id.
#[derive(Clone, Copy, Debug)]
enum Known {
    Live(Handle),
    Ended,
}

/// Follows the requests of one stage engine through its outputs.
///
/// It belongs to one owner, reads no clock and does no I/O. A request is in it from
/// [`submitted`](Self::submitted) until its terminal output, and leaves exactly one
/// [`StageFinished`] and, with tracing on, one record or one refusal in the sink.
#[derive(Debug)]
pub struct OutputProcessor {
    stage: Arc<StageIdentity>,
    options: Options,
    anchors: RecentAnchors,
    live: LiveTable<LiveRequest>,
    by_internal_id: HashMap<Arc<str>, Known>,
    ended: VecDeque<Arc<str>>,
    counts: Counts,
}

impl OutputProcessor {
    /// A processor of `stage`'s outputs, with the anchor that the stage sent at connection.
    ///
    /// # Errors
    /// The anchor was not read on the stage's clock.
    pub fn new(
        stage: Arc<StageIdentity>,
        anchor: ClockAnchor,
        options: Options,
    ) -> Result<Self, ForeignClock> {
        if anchor.monotonic().domain() != stage.clock_domain.tag() {
            return Err(ForeignClock);
        }
        let live = LiveTable::new(options.live_max);
        Ok(Self {
            stage,
            options,
            anchors: RecentAnchors::new(anchor),
            live,
            by_internal_id: HashMap::new(),
            ended: VecDeque::new(),
            counts: Counts::default(),
        })
    }

    /// The stage.
    pub fn stage(&self) -> &Arc<StageIdentity> {
        &self.stage
    }

    /// What was ignored, by reason.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many requests are in flight here.
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Whether anything is kept at all.
    fn is_on(&self) -> bool {
        self.options.sink.is_some() || self.options.statistics
    }

    /// Takes the anchor that the stage has read anew. Requests queued before it keep theirs.
    pub fn anchor_renewed(&mut self, anchor: ClockAnchor) {
        if let Err(reason) = self.anchors.renewed(anchor) {
            self.counts.note(reason);
        }
    }

    /// A request is being submitted to the stage. Call it before the message goes out.
    pub fn submitted(&mut self, submission: Submission<'_>) {
        if !self.is_on() {
            return;
        }
        if let Some(Known::Live(_)) = self.by_internal_id.get(submission.internal_id) {
            self.counts.note(Reason::DuplicateRequest);
            return;
        }
        let request = LiveRequest::new(submission);
        let internal_id = Arc::clone(&request.internal_id);
        match self.live.insert(request) {
            Ok(handle) => {
                self.by_internal_id.insert(internal_id, Known::Live(handle));
            }
            Err(_) => {
                self.counts.note(Reason::TooManyLive);
                if let Some(sink) = &self.options.sink {
                    sink.refused(Refusal::TooManyLive);
                }
            }
        }
    }

    /// A streaming update of a request in flight, with its own number of input tokens; one that is
    /// not `resumable` closes the session.
    pub fn updated(&mut self, internal_id: &str, resumable: bool, tokens_input: u32) {
        if let Some(request) = self.known(internal_id) {
            request.updated(resumable, tokens_input);
        }
    }

    /// The context of a request in flight, for whoever assigned it to change when the stage refuses
    /// to join the request's trace. Every other change is the assigner's mistake.
    pub fn context_mut(&mut self, internal_id: &str) -> Option<&mut StageContext> {
        self.known(internal_id)?.context_mut()
    }

    /// How long before the stamp the stage's gate last saw the request unready, in nanoseconds.
    /// vLLM's wire has no field for it, so it is told apart, before the output with the stamp.
    pub fn observed(&mut self, internal_id: &str, resolution_ns: u64) {
        if let Some(request) = self.known(internal_id) {
            request.observed(resolution_ns);
        }
    }

    /// Takes a batch of the stage's outputs. `now` is the reader's clock: where reader and stage
    /// share it, nothing later than it is believed. Each request that ended is handed to
    /// `on_finished`.
    pub fn process(
        &mut self,
        batch: &EngineCoreOutputs,
        now: Instant,
        mut on_finished: impl FnMut(StageFinished),
    ) {
        if !self.is_on() {
            return;
        }
        let times = Times::new(self.stage.clock_domain.tag(), now, batch.timestamp);
        if times.batch.is_none() && !batch.outputs.is_empty() {
            self.counts.note(Reason::InvalidBatchTime);
        }
        for output in &batch.outputs {
            if let Some(handle) = self.handle(&output.request_id)
                && let Some(end) = self.output(handle, output, &times)
            {
                self.finish(handle, times.batch, end, &mut on_finished);
            }
        }
        for internal_id in batch.finished_requests.iter().flatten() {
            match self.by_internal_id.get(internal_id.as_str()) {
                // An engine finishes a request without an output only when it was taken back.
                Some(Known::Live(handle)) => {
                    self.finish(*handle, times.batch, End::Aborted, &mut on_finished);
                }
                // The usual case: its terminal output was in this batch.
                Some(Known::Ended) => {}
                None => self.counts.note(Reason::UnknownRequest),
            }
        }
    }

    /// The stage's process is gone: its requests in flight are dropped without records, since none
    /// is made up. Returns their internal ids.
    pub fn abandon(&mut self) -> Vec<Arc<str>> {
        let ids = self.live.iter().map(|(_, request)| Arc::clone(&request.internal_id)).collect();
        self.live = LiveTable::new(self.options.live_max);
        self.by_internal_id.clear();
        self.ended.clear();
        ids
    }

    /// The request in flight under that id; what isn't is counted.
    fn handle(&mut self, internal_id: &str) -> Option<Handle> {
        match self.by_internal_id.get(internal_id) {
            Some(Known::Live(handle)) => Some(*handle),
            Some(Known::Ended) => {
                self.counts.note(Reason::AfterEnd);
                None
            }
            None => {
                self.counts.note(Reason::UnknownRequest);
                None
            }
        }
    }

    fn known(&mut self, internal_id: &str) -> Option<&mut LiveRequest> {
        if !self.is_on() {
            return None;
        }
        let handle = self.handle(internal_id)?;
        self.live.get_mut(handle)
    }

    /// Notes one output; how the request ended, if this was its last.
    fn output(&mut self, handle: Handle, output: &EngineCoreOutput, times: &Times) -> Option<End> {
        let stage = StageView { position: self.stage.position, anchors: &self.anchors };
        self.live.get_mut(handle)?.output(output, times, stage, &mut self.counts);
        let stop_reason = match &output.stop_reason {
            Some(StopReason::Text(text)) => Some(text.as_str()),
            Some(StopReason::Token(_)) | None => None,
        };
        Some(End::from_wire(final_reason(output)?, stop_reason))
    }

    fn finish(
        &mut self,
        handle: Handle,
        at: Option<Instant>,
        end: End,
        on_finished: &mut impl FnMut(StageFinished),
    ) {
        let Some(request) = self.live.remove(handle) else { return };
        self.remember_ended(&request.internal_id);
        let (finished, record) = end_request(request, at, end, &self.stage, &self.options, &mut self.counts);
        if let Some(sink) = &self.options.sink {
            match record {
                Some(record) => sink.record(record),
                None => sink.refused(Refusal::NeverQueued),
            }
        }
        on_finished(finished);
    }

    fn remember_ended(&mut self, internal_id: &Arc<str>) {
        if self.ended.len() == ENDED_REMEMBERED
            && let Some(oldest) = self.ended.pop_front()
            && let Some(Known::Ended) = self.by_internal_id.get(&oldest)
        {
            self.by_internal_id.remove(&oldest);
        }
        self.by_internal_id.insert(Arc::clone(internal_id), Known::Ended);
        self.ended.push_back(Arc::clone(internal_id));
    }
}
