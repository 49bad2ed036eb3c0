//! The stamp: once per request, in the first step that leaves it WAITING in a waiting queue after
//! the gates ran.
//!
//! A full scan of both queues would find it, at a cost that grows with the requests that wait. The
//! requests that *became* so in this pass are a small set that the pass knows: those it let
//! through. A request that passes while it is not WAITING (its grammar is being compiled) is seen
//! once more, when scheduling has woken it and left it in its queue.

use stagespan_model::Instant;

use crate::gate::elapsed_ns;
use crate::output::InputReady;
use crate::request::{Place, Status};
use crate::state::State;

impl State {
    /// Stamps with `at`, the time of this pass.
    pub(crate) fn stamp(&mut self, at: Instant) {
        #[cfg(test)]
        let (scan, mut stamped) = (self.scan_unstamped(), Vec::new());
        for &handle in &self.passed {
            let Some(request) = self.requests.get_mut(handle) else { continue };
            let waits = matches!(request.place, Place::Waiting(_) | Place::WaitingAside(_));
            if request.stamped || !waits || request.status != Status::Waiting {
                continue;
            }
            // It was unready in the last pass, unless it was not there yet.
            let unready_at = [self.last_pass_at, request.added_at];
            let resolution_ns =
                unready_at.into_iter().flatten().map(|unready_at| elapsed_ns(unready_at, at)).min();
            request.input_ready = Some(InputReady { at, resolution_ns });
            request.stamped = true;
            #[cfg(test)]
            stamped.push(handle);
        }
        #[cfg(test)]
        {
            stamped.sort();
            assert_eq!(stamped, scan, "the set that changed and the full scan of both queues differ");
        }
        self.last_pass_at = Some(at);
    }
}
