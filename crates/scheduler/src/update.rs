//! What the model made of a plan.

use stagespan_model::{Clock, End};

use crate::config::SchedulerKind;
use crate::output::{Finished, Sampled, StepPlan, StopReason};
use crate::request::RequestHandle;
use crate::session::Stopped;
use crate::state::State;

impl State {
    pub(crate) fn update(&mut self, plan: &StepPlan, sampled: &[Sampled], clock: &dyn Clock) {
        for (index, scheduled) in plan.scheduled.iter().enumerate() {
            let handle = scheduled.handle;
            let Some(request) = self.requests.get_mut(handle) else { continue };
            request.in_flight_tokens = request.in_flight_tokens.saturating_sub(scheduled.tokens);
            self.recount(handle);
            let Some(request) = self.requests.get_mut(handle) else { continue };
            if request.stale_tokens > 0 {
                request.stale_tokens = request.stale_tokens.saturating_sub(scheduled.tokens);
                continue;
            }
            // Results come in plan order, as a rule.
            let result = sampled
                .get(index)
                .filter(|result| result.handle == handle)
                .or_else(|| sampled.iter().find(|result| result.handle == handle));
            let (token_ids, has_payload) =
                result.map_or((&[][..], false), |result| (&result.token_ids[..], result.has_payload));
            match self.config.kind {
                SchedulerKind::Ar => self.take_sampled(handle, token_ids, has_payload, clock),
                SchedulerKind::Generation => {
                    if self.generation_is_over(handle) {
                        self.finish_running(handle, End::Stop, None, token_ids.to_vec(), clock);
                    } else if has_payload || !token_ids.is_empty() {
                        self.emit(handle, token_ids.to_vec(), None, false);
                    }
                }
            }
        }
        self.stirred |= !plan.is_empty();
    }

    /// Appends an AR request's tokens one by one until one of them ends it.
    fn take_sampled(
        &mut self,
        handle: RequestHandle,
        token_ids: &[u32],
        has_payload: bool,
        clock: &dyn Clock,
    ) {
        let max_model_len = self.config.max_model_len;
        let request = &mut self.requests[handle];
        for (index, &token) in token_ids.iter().enumerate() {
            request.total_tokens += 1;
            request.output_tokens += 1;
            let end = if request.stop_token_ids.contains(&token) {
                Some((End::Stop, Some(StopReason::Token(token))))
            } else if request.total_tokens >= max_model_len || request.output_tokens >= request.max_tokens {
                Some((End::Length, None))
            } else {
                None
            };
            if let Some((end, reason)) = end {
                // What was sampled beyond the end is dropped.
                self.finish_running(handle, end, reason, token_ids[..=index].to_vec(), clock);
                return;
            }
        }
        if has_payload || !token_ids.is_empty() {
            self.emit(handle, token_ids.to_vec(), None, false);
        }
    }

    /// A request met a stop condition: it ends, or its segment does.
    pub(crate) fn finish_running(
        &mut self,
        handle: RequestHandle,
        end: End,
        reason: Option<StopReason>,
        token_ids: Vec<u32>,
        clock: &dyn Clock,
    ) {
        match self.stop(handle, clock) {
            Stopped::Ends => self.end(handle, end, reason, token_ids),
            Stopped::Overflows(reason) => self.end(handle, End::Rejected, Some(reason), token_ids),
            Stopped::Continues => {
                self.emit(handle, token_ids, Some(Finished { end, stop_reason: reason }), true);
            }
        }
    }
}
