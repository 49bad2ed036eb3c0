//! The stamp: once per request, in the first step that leaves it WAITING in a waiting queue after
//! the gates ran.
//!
//! A full scan of both queues would find it, at a cost that grows with the requests that wait. The
//! requests that *became* so in this pass are a small set that the pass knows: those it let
//! through. To them come the few that passed while they were not WAITING (their grammar was being
//! compiled); they are looked at until they are stamped or gone.

use stagespan_model::Instant;

use crate::gate::elapsed_ns;
use crate::output::InputReady;
use crate::request::{Place, RequestHandle, Status};
use crate::state::State;

impl State {
    /// Remembers a request that passed the gate and can't be stamped in this pass.
    pub(crate) fn note_unstampable(&mut self, handle: RequestHandle) {
        if self.config.observe && self.config.gated() && self.requests[handle].status == Status::Grammar {
            self.unstampable.push(handle);
        }
    }

    /// Stamps with `at`, the time of this pass.
    pub(crate) fn stamp(&mut self, at: Instant) {
        #[cfg(test)]
        let scan = self.scan_unstamped();
        #[cfg(test)]
        let mut stamped = Vec::new();
        let earlier = std::mem::take(&mut self.unstampable);
        for handle in earlier.into_iter().chain(self.passed.iter().copied()) {
            let Some(request) = self.requests.get_mut(handle) else { continue };
            if request.stamped {
                continue;
            }
            match (request.place, request.status) {
                (Place::Waiting(_) | Place::WaitingAside(_), Status::Waiting) => {
                    // It was unready in the last pass, unless it was not there yet.
                    let unready_at = match (self.last_pass_at, request.added_at) {
                        (Some(pass), Some(added)) if elapsed_ns(added, pass) > 0 => Some(pass),
                        (_, added) => added,
                    };
                    let resolution_ns = unready_at.map(|unready_at| elapsed_ns(unready_at, at));
                    request.input_ready = Some(InputReady { at, resolution_ns });
                    request.stamped = true;
                    #[cfg(test)]
                    stamped.push(handle);
                }
                (Place::Waiting(_) | Place::WaitingAside(_) | Place::Blocked(_), Status::Grammar) => {
                    self.unstampable.push(handle);
                }
                // It went on (a request that scheduling woke and admitted in one step), or the
                // gate holds it again and will let it through once more.
                _ => {}
            }
        }
        #[cfg(test)]
        {
            stamped.sort();
            assert_eq!(stamped, scan, "the set that changed and the full scan of both queues differ");
        }
        self.last_pass_at = Some(at);
    }
}
