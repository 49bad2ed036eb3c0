//! What a step costs: the one part of the pipeline that stands in for a real thing, the model.
//!
//! It takes real time (the engine sleeps for it), and everything around it is the real path.

use std::time::Duration;

use stagespan_scheduler::StepPlan;

use crate::pipeline_file::{SchedulerKind, Stage};

/// The cost of a stage's model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CostModel {
    kind: SchedulerKind,
    step_ns: u64,
    prefill_ns_per_token: u64,
    decode_ns_per_token: u64,
    start_cost_ns: u64,
}

impl CostModel {
    /// The cost model of a stage.
    pub(crate) fn new(stage: &Stage) -> Self {
        Self {
            kind: stage.scheduler,
            step_ns: u64::from(stage.step_us) * 1_000,
            prefill_ns_per_token: stage.prefill_ns_per_token.into(),
            decode_ns_per_token: stage.decode_ns_per_token.into(),
            start_cost_ns: u64::from(stage.start_cost_ms) * 1_000_000,
        }
    }

    /// What this step costs. The first one pays the start cost, once.
    pub(crate) fn step(&mut self, plan: &StepPlan) -> Duration {
        let start_cost_ns = std::mem::take(&mut self.start_cost_ns);
        let tokens_ns: u64 = plan
            .scheduled
            .iter()
            .map(|s| {
                // A decoding request is scheduled for the one token it samples next.
                let decodes = self.kind == SchedulerKind::Generation || (s.completes_input && s.tokens == 1);
                let each = if decodes { self.decode_ns_per_token } else { self.prefill_ns_per_token };
                u64::from(s.tokens) * each
            })
            .sum();
        Duration::from_nanos(start_cost_ns + self.step_ns + tokens_ns)
    }
}
