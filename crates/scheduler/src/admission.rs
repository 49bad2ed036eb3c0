//! Prefill admission deferral: new requests are kept back for a moment, so that several share one
//! prefill step.

use stagespan_model::{Clock, Instant};

use crate::gate::elapsed_ns;
use crate::state::State;

impl State {
    /// Whether this step leaves the waiting queues alone.
    pub(crate) fn defers_admission(&self, clock: &dyn Clock) -> bool {
        let Some(admission) = self.config.prefill_admission else { return false };
        !self.running.is_empty()
            && self.running.len() >= admission.min_running as usize
            && self
                .oldest_waiting(admission.min_batch)
                .is_some_and(|oldest| elapsed_ns(oldest, clock.now()) < admission.max_wait_ns.get())
    }

    /// When the deferral of those who wait now is over.
    pub(crate) fn deferral_deadline(&self) -> Option<Instant> {
        let admission = self.config.prefill_admission?;
        self.oldest_waiting(admission.min_batch)?.plus_ns(admission.max_wait_ns.get())
    }

    /// When the oldest waiting request was added; `None` where none waits, or a whole batch. So
    /// it looks at fewer than `min_batch` requests, however many wait.
    fn oldest_waiting(&self, min_batch: u32) -> Option<Instant> {
        if self.fresh.len() >= min_batch as usize {
            return None;
        }
        let added = self.fresh.iter(&self.requests).filter_map(|handle| self.requests[handle].added_at);
        added.min_by_key(|at| at.as_ns())
    }
}
