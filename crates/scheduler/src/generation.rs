//! The generation scheduler's fast path: all of an input, or of a chunk, in one step.

use stagespan_model::{Clock, EventKind, Instant};

use crate::output::StepPlan;
use crate::request::{Place, RequestHandle};
use crate::state::State;

impl State {
    /// Plans one step. `at` is the time read before the gates; it is the time of every SCHEDULED
    /// of the fast path. With `defer` nothing is scheduled, so that a fuller batch can gather.
    pub(crate) fn schedule_generation(
        &mut self,
        clock: &dyn Clock,
        at: Option<Instant>,
        defer: bool,
    ) -> StepPlan {
        let mut plan = StepPlan::default();
        let mut budget = if defer { 0 } else { self.config.token_budget };
        self.generate_running(&mut plan, &mut budget, at);
        self.generate_waiting(&mut plan, &mut budget, at);
        if plan.is_empty() && !self.config.receives_chunks() {
            // Nothing went the fast way: vLLM's own schedule may still find something, with a
            // later time of its own.
            return self.schedule_core(clock, false);
        }
        self.book(&plan);
        plan
    }

    fn batch_is_full(&self, plan: &StepPlan) -> bool {
        plan.scheduled.len() >= self.config.max_num_seqs as usize
    }

    fn generate_running(&mut self, plan: &mut StepPlan, budget: &mut u32, at: Option<Instant>) {
        let must_be_whole = self.config.receives_chunks() || !self.config.chunked_prefill;
        let mut index = 0;
        while *budget > 0
            && !self.batch_is_full(plan)
            && let Some(&handle) = self.running.get(index)
        {
            index += 1;
            let request = &self.requests[handle];
            let required = request.prompt_tokens.saturating_sub(request.computed_tokens);
            if must_be_whole && required > *budget {
                return;
            }
            if required == 0 {
                if self.config.receives_chunks() && request.input.is_done() {
                    self.leaving.push(handle);
                }
                continue;
            }
            let tokens = required.min(*budget);
            let upto = request.computed_tokens + tokens;
            if !self.kv.allocate(&mut self.requests[handle], upto) {
                return;
            }
            self.requests[handle].record(EventKind::Scheduled, at);
            self.plan_tokens(plan, handle, tokens);
            *budget -= tokens;
        }
    }

    fn generate_waiting(&mut self, plan: &mut StepPlan, budget: &mut u32, at: Option<Instant>) {
        let chunks = self.config.receives_chunks();
        while *budget > 0
            && !self.batch_is_full(plan)
            && self.running.len() + self.reserved_slots() < self.config.max_num_seqs as usize
            && let Some(handle) = self.peek_waiting()
        {
            let request = &self.requests[handle];
            if chunks && request.prompt_tokens == 0 && request.input.is_done() {
                self.detach(handle);
                self.requests[handle].place = Place::Leaving;
                self.leaving.push(handle);
                continue;
            }
            let required = request.prompt_tokens.max(1);
            if chunks && required > *budget {
                return;
            }
            let tokens = required.min(*budget);
            let upto = request.computed_tokens + tokens;
            if !self.kv.allocate(&mut self.requests[handle], upto) {
                return;
            }
            self.admit(handle, at);
            self.plan_tokens(plan, handle, tokens);
            *budget -= tokens;
        }
    }

    /// Whether a generation request has nothing left to run or to wait for.
    pub(crate) fn generation_is_over(&self, handle: RequestHandle) -> bool {
        let request = &self.requests[handle];
        let input_over = !self.config.receives_chunks() || request.input.is_done();
        input_over && request.computed_tokens >= request.prompt_tokens
    }
}
