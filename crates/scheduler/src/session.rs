//! Streaming sessions: a request that is given its input in segments.

use stagespan_model::{Clock, End, EventKind, Gate, Instant};

use crate::config::SchedulerKind;
use crate::output::StopReason;
use crate::request::{Place, RequestHandle, Status, StreamingUpdate};
use crate::state::State;

/// What became of a request that met a stop condition.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// It ends.
    Ends,
    /// It ends, because its next segment is too long.
    Overflows(StopReason),
    /// Only its segment ends.
    Continues,
}

impl State {
    pub(crate) fn update_session(
        &mut self,
        handle: RequestHandle,
        update: StreamingUpdate,
        clock: &dyn Clock,
    ) {
        let at = self.added_now(clock);
        let Some(request) = self.requests.get_mut(handle) else {
            self.ignored.unknown_request += 1;
            return;
        };
        if !request.is_session {
            self.ignored.not_a_session += 1;
        } else if request.status == Status::Paused {
            self.resume(handle, update, at);
        } else {
            request.updates.push_back(Some(update));
        }
        self.stirred = true;
    }

    pub(crate) fn close_session(&mut self, handle: RequestHandle) {
        let Some(request) = self.requests.get_mut(handle) else {
            self.ignored.unknown_request += 1;
            return;
        };
        if !request.is_session {
            self.ignored.not_a_session += 1;
        } else if request.status == Status::Paused {
            // A stage that sends chunks owes the next one the end of its stream; vLLM-Omni lets it
            // stop in good order. Elsewhere the end of a session arrives as an abort.
            let end = if self.config.gate == Gate::AsyncChunk { End::Stop } else { End::Aborted };
            self.end(handle, end, None, Vec::new());
        } else {
            request.updates.push_back(None);
        }
    }

    /// When a request is added (or given its next segment), if anything needs to know.
    pub(crate) fn added_now(&mut self, clock: &dyn Clock) -> Option<Instant> {
        let at = (self.config.observe || self.config.prefill_admission.is_some()).then(|| clock.now());
        // A step that waits takes the newcomer along; nothing is scheduled before it is QUEUED.
        if let Some(begun) = &mut self.begun {
            begun.at = at.filter(|_| self.config.observe);
        }
        at
    }

    /// A request has met a stop condition: decides whether it ends, and if not, makes it wait for
    /// its next segment.
    pub(crate) fn stop(&mut self, handle: RequestHandle, clock: &dyn Clock) -> Stopped {
        if !self.requests[handle].resumable {
            return Stopped::Ends;
        }
        let update = self.requests[handle].updates.pop_front();
        if let Some(None) = update {
            return Stopped::Ends;
        }
        self.detach(handle);
        let receives = self.config.receives_chunks();
        let request = &mut self.requests[handle];
        request.place = Place::Leaving;
        if receives {
            request.input.segment_done = false;
        }
        match update.flatten() {
            Some(update) => {
                let at = self.added_now(clock);
                if !self.extend(handle, update, at) {
                    return Stopped::Overflows(self.overflow_reason(handle, update));
                }
            }
            // Its next input comes from the connector, not from an update.
            None if receives && self.config.kind == SchedulerKind::Generation => {
                request.status = Status::Waiting;
            }
            None => {
                request.status = Status::Paused;
                self.paused += 1;
            }
        }
        let request = &mut self.requests[handle];
        request.output_tokens = 0;
        request.stale_tokens = request.in_flight_tokens;
        self.recount(handle);
        self.enqueue(handle);
        Stopped::Continues
    }

    /// The next segment of a paused session begins.
    fn resume(&mut self, handle: RequestHandle, update: StreamingUpdate, at: Option<Instant>) {
        if !self.extend(handle, update, at) {
            self.end(handle, End::Rejected, Some(self.overflow_reason(handle, update)), Vec::new());
            return;
        }
        self.paused -= 1;
        if self.config.receives_chunks() || self.config.kind == SchedulerKind::Generation {
            self.detach(handle);
            self.enqueue(handle);
        } else if let Place::Blocked(id) = self.requests[handle].place {
            // It keeps the place in the queue that it has had since it stopped.
            let (queue, requests) = self.queue(id);
            queue.unblock(requests, handle);
            queue.recheck.push(handle);
        }
    }

    /// Gives a session its next input and makes it WAITING; false if that would grow too long.
    fn extend(&mut self, handle: RequestHandle, update: StreamingUpdate, at: Option<Instant>) -> bool {
        let generation = self.config.kind == SchedulerKind::Generation;
        if !self.config.receives_chunks() {
            let grown = self.grown_tokens(handle, update);
            // One token is sampled on top of the prompt.
            if !generation && grown >= self.config.max_model_len {
                return false;
            }
            let request = &mut self.requests[handle];
            // The last sampled token has not been computed, and is given up.
            request.total_tokens = if generation { update.prompt_tokens } else { grown };
            request.prompt_tokens = request.total_tokens;
            request.max_tokens = update.max_tokens;
            if generation {
                request.computed_tokens = 0;
            }
        }
        let request = &mut self.requests[handle];
        request.status = Status::Waiting;
        request.added_at = at;
        let queued_at = at.filter(|_| self.config.observe);
        request.record(EventKind::Queued, queued_at);
        true
    }

    fn grown_tokens(&self, handle: RequestHandle, update: StreamingUpdate) -> u32 {
        let request = &self.requests[handle];
        request.computed_tokens.max(request.prompt_tokens).saturating_add(update.prompt_tokens)
    }

    /// Why an update was too long.
    pub(crate) fn overflow_reason(&self, handle: RequestHandle, update: StreamingUpdate) -> StopReason {
        StopReason::Text(format!(
            "context_length_exceeded: the session's prompt would grow to {} tokens; max_model_len is {}",
            self.grown_tokens(handle, update),
            self.config.max_model_len
        ))
    }
}
