//! vLLM's own schedule: running requests first, then waiting ones, first come first served.

use stagespan_model::{Clock, EventKind, Instant};

use crate::output::{Scheduled, StepPlan};
use crate::request::{Place, QueueId, RequestHandle, Status};
use crate::state::State;

impl State {
    /// Plans one step. Reads the clock once if anyone observes: the time of its SCHEDULED and
    /// PREEMPTED events. With `admit_none` the waiting queues are left alone.
    pub(crate) fn schedule_core(&mut self, clock: &dyn Clock, admit_none: bool) -> StepPlan {
        let at = self.observed_now(clock);
        let mut plan = StepPlan::default();
        let mut budget = self.config.token_budget;
        let preempted = self.schedule_running(&mut plan, &mut budget, at);
        if preempted.is_empty() && !admit_none {
            self.schedule_waiting(&mut plan, &mut budget, at);
        }
        // Each goes before the one preempted before it. While admission is deferred vLLM-Omni
        // collects them in a queue of its own, whose order it turns round when it puts them back.
        let requeue: Vec<_> = if admit_none { preempted.into_iter().rev().collect() } else { preempted };
        requeue.into_iter().for_each(|handle| self.enqueue_front(handle));
        self.book(&plan);
        plan
    }

    /// Gives running requests their tokens; where KV blocks run out, the last running request
    /// loses its own. Returns the preempted ones, for the caller to queue.
    fn schedule_running(
        &mut self,
        plan: &mut StepPlan,
        budget: &mut u32,
        at: Option<Instant>,
    ) -> Vec<RequestHandle> {
        let mut preempted = Vec::new();
        let mut index = 0;
        while *budget > 0
            && let Some(&handle) = self.running.get(index)
        {
            let request = &self.requests[handle];
            let room = self.config.max_model_len.saturating_sub(request.computed_tokens + 1);
            let tokens = request.missing_tokens().min(*budget).min(room);
            if tokens == 0 {
                index += 1;
                continue;
            }
            let upto = request.computed_tokens + tokens;
            while !self.kv.allocate(&mut self.requests[handle], upto) {
                let Some(victim) = self.running.pop() else { return preempted };
                self.preempt(victim, at);
                preempted.push(victim);
                if victim == handle {
                    return preempted;
                }
            }
            self.plan_tokens(plan, handle, tokens);
            *budget -= tokens;
            index += 1;
        }
        preempted
    }

    fn preempt(&mut self, handle: RequestHandle, at: Option<Instant>) {
        let request = &mut self.requests[handle];
        self.kv.release(request);
        request.computed_tokens = 0;
        request.preemptions += 1;
        request.status = Status::Preempted;
        // In neither list until the caller queues it.
        request.place = Place::Blocked(QueueId::Fresh);
        request.record(EventKind::Preempted, at);
    }

    fn schedule_waiting(&mut self, plan: &mut StepPlan, budget: &mut u32, at: Option<Instant>) {
        while *budget > 0 {
            let Some(handle) = self.peek_waiting() else { return };
            let slots_taken = self.running.len() + self.paused + self.reserved_slots();
            if slots_taken >= self.config.max_num_seqs as usize {
                return;
            }
            let request = &mut self.requests[handle];
            let woken = request.status == Status::Grammar;
            if woken {
                request.status = Status::Waiting;
            }
            let missing = request.missing_tokens();
            let tokens = missing.min(*budget);
            let whole = tokens == missing || self.config.chunked_prefill;
            let upto = request.computed_tokens + tokens;
            // The whole sequence must fit, or a half-prefilled request could starve on its blocks.
            let total = request.total_tokens;
            let fits = self.kv.fits(&self.requests[handle], total);
            if tokens == 0 || !whole || !fits || !self.kv.allocate(&mut self.requests[handle], upto) {
                if woken {
                    // It is WAITING now, and no gate has seen it yet.
                    if let Place::Waiting(id) | Place::WaitingAside(id) = self.requests[handle].place {
                        self.queue(id).0.recheck.push(handle);
                    }
                }
                return;
            }
            self.admit(handle, at);
            self.plan_tokens(plan, handle, tokens);
            *budget -= tokens;
        }
    }

    /// Takes `tokens` of `handle` into the plan.
    pub(crate) fn plan_tokens(&self, plan: &mut StepPlan, handle: RequestHandle, tokens: u32) {
        let request = &self.requests[handle];
        let computed_before = request.computed_tokens;
        let completes_input = computed_before + tokens >= request.total_tokens;
        plan.scheduled.push(Scheduled { handle, tokens, computed_before, completes_input });
    }
}
