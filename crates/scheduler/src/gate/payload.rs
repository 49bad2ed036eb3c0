//! The full-payload gate: a request is held until the connector has delivered all of its input.

use stagespan_model::Instant;

use crate::config::SchedulerKind;
use crate::request::{Payload, Place, QueueId, RequestHandle, Status};
use crate::state::State;

impl State {
    pub(super) fn payload_pass(&mut self, now: Option<Instant>) {
        let mut delivered = std::mem::take(&mut self.delivered);
        delivered.retain(|&handle| self.requests.contains_key(handle));
        for &handle in &delivered {
            self.take_payload(handle);
        }
        for id in QueueId::BOTH {
            self.hold_rechecks(id, now, |state, handle| {
                let request = &state.requests[handle];
                request.status == Status::Waiting && !request.input.received
            });
            for handle in self.released(id, &delivered) {
                self.release(id, handle);
            }
            self.sort_arrivals(id, |state, handle| {
                let request = &state.requests[handle];
                let passes = request.status != Status::Waiting || request.input.received;
                if !passes {
                    let order = state.queue(id).0.next_held_back();
                    state.hold(handle, Place::HeldWaiting(id), order, now);
                }
                passes
            });
        }
    }

    /// The payload is there; it may say how long the prompt really is.
    fn take_payload(&mut self, handle: RequestHandle) {
        let kind = self.config.kind;
        let request = &mut self.requests[handle];
        request.input.received = true;
        let Some(Payload { prompt_tokens: Some(prompt_tokens) }) = request.input.payload.take() else {
            return;
        };
        let begun = request.total_tokens != request.prompt_tokens;
        // A prompt that has been decoded from can't be exchanged under its tokens.
        if kind == SchedulerKind::Ar && (begun || prompt_tokens == 0) {
            return;
        }
        request.prompt_tokens = prompt_tokens;
        request.total_tokens = prompt_tokens;
        request.computed_tokens = 0;
    }
}
