//! One step of each scheduler: in which order gates, stamp and scheduling read the clock and run.

use stagespan_model::{Clock, End, Instant};

use crate::coalescing::Pass;
use crate::config::SchedulerKind;
use crate::output::{Step, StepPlan, StopReason};
use crate::request::RequestHandle;
use crate::state::State;

impl State {
    pub(crate) fn step(&mut self, clock: &dyn Clock) -> Step {
        let plan = match self.config.kind {
            SchedulerKind::Ar => self.step_ar(clock),
            SchedulerKind::Generation => match self.begin_generation(clock) {
                Pass::Run { at, defer } => self.step_generation(clock, at, defer),
                Pass::Wait { until } => return Step::Wait { until },
            },
        };
        self.end_leaving(clock);
        self.stirred = !plan.is_empty();
        Step::Run(plan)
    }

    /// Gates → stamp (a reading of the clock) → schedule (a later reading): two instants.
    fn step_ar(&mut self, clock: &dyn Clock) -> StepPlan {
        self.gate_pass(clock);
        if self.config.observe && self.config.gated() {
            self.stamp(clock.now());
        }
        self.reject_oversized();
        let admit_none = self.defers_admission(clock);
        self.schedule_core(clock, admit_none)
    }

    /// `at`, read before the gates, is the time of stamp and SCHEDULED alike.
    fn step_generation(&mut self, clock: &dyn Clock, at: Option<Instant>, defer: bool) -> StepPlan {
        self.gate_pass(clock);
        if let Some(at) = at.filter(|_| self.config.gated()) {
            self.stamp(at);
        }
        self.reject_oversized();
        self.schedule_generation(clock, at, defer)
    }

    /// Ends what the gate let through and no step could ever run. It was ready, so this comes
    /// after the stamp.
    fn reject_oversized(&mut self) {
        let budget = self.config.token_budget;
        let atomic = self.config.receives_chunks() && self.config.kind == SchedulerKind::Generation;
        for handle in std::mem::take(&mut self.passed) {
            let Some(request) = self.requests.get(handle) else { continue };
            let tokens = request.prompt_tokens;
            if atomic && tokens > budget {
                let reason =
                    format!("async chunk requires {tokens} tokens, but max_num_scheduled_tokens is {budget}");
                self.end(handle, End::Rejected, Some(StopReason::Text(reason)), Vec::new());
            } else if tokens > self.config.max_model_len {
                self.reject_prompt(handle);
            }
        }
    }

    pub(crate) fn reject_prompt(&mut self, handle: RequestHandle) {
        let tokens = self.requests[handle].prompt_tokens;
        let max = self.config.max_model_len;
        let reason = format!("the prompt has {tokens} tokens; this stage runs 1 to {max} (max_model_len)");
        self.end(handle, End::Rejected, Some(StopReason::Text(reason)), Vec::new());
    }

    fn end_leaving(&mut self, clock: &dyn Clock) {
        for handle in std::mem::take(&mut self.leaving) {
            if self.requests.contains_key(handle) {
                self.finish_running(handle, End::Stop, None, Vec::new(), clock);
            }
        }
    }
}
