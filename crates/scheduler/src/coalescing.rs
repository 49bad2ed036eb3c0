//! Input coalescing of the generation scheduler: the gate pass waits a while for a fuller batch.
//!
//! vLLM-Omni blocks its scheduler's thread for that. Here the step says until when it would wait,
//! and goes on from there when it is called again.

use stagespan_model::{Clock, Instant};

use crate::config::{Coalescing, CoalescingPolicy};
use crate::request::RequestHandle;
use crate::state::State;

/// A step that has begun and waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// The time of its stamp and of its SCHEDULED events: read once, when it began.
    pub(crate) at: Option<Instant>,
    deadline: Instant,
    /// Nothing was runnable when it began to wait; the batch's own time begins with the first input.
    idle: bool,
}

/// What the gate pass of a step does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pass {
    /// It runs.
    Run {
        /// The time read when the step began.
        at: Option<Instant>,
        /// Nothing is to be scheduled: a plan is out, and with its results the batch gets fuller.
        defer: bool,
    },
    /// It waits for input.
    Wait {
        /// At most until then.
        until: Instant,
    },
}

impl State {
    /// Begins a generation step, or takes up the one that waits.
    pub(crate) fn begin_generation(&mut self, clock: &dyn Clock) -> Pass {
        let Some(coalescing) = self.config.coalescing.filter(|_| self.config.gated()) else {
            return Pass::Run { at: self.observed_now(clock), defer: false };
        };
        let now = clock.now();
        let deadline = |from: Instant| from.plus_ns(coalescing.max_wait_ns.get()).unwrap_or(from);
        let deferred = self.batch_deadline.take();
        let mut begun = self.begun.take().unwrap_or_else(|| Begun {
            at: self.config.observe.then_some(now),
            deadline: deferred.unwrap_or_else(|| deadline(now)),
            idle: false,
        });
        if self.runnable > 0 && begun.idle {
            begun.idle = false;
            begun.deadline = deadline(now);
        }
        let is_over = now.as_ns() >= begun.deadline.as_ns();
        if is_over || !self.waits_for_batch(coalescing) {
            return Pass::Run { at: begun.at, defer: false };
        }
        if self.in_flight > 0 {
            self.batch_deadline = Some(begun.deadline);
            return Pass::Run { at: begun.at, defer: true };
        }
        begun.idle = self.runnable == 0;
        self.begun = Some(begun);
        Pass::Wait { until: begun.deadline }
    }

    fn waits_for_batch(&self, coalescing: Coalescing) -> bool {
        let wanted = coalescing.min_batch as usize;
        if self.runnable > 0 {
            return self.runnable < wanted && self.requests.len() >= wanted;
        }
        // Admissions must be seen by the gate before it can wait for their input.
        let all_held = self.held_waiting + self.held_running == self.requests.len();
        coalescing.policy == CoalescingPolicy::IdleWait
            && self.config.receives_chunks()
            && self.in_flight == 0
            && all_held
            && !self.requests.is_empty()
    }

    /// Counts a request anew after a change of its input or of its plans in flight.
    pub(crate) fn recount(&mut self, handle: RequestHandle) {
        if self.config.coalescing.is_none() {
            return;
        }
        let Some(request) = self.requests.get_mut(handle) else { return };
        let runnable = request.in_flight_tokens == 0 && request.input.is_there();
        let in_flight = request.in_flight_tokens > 0;
        self.runnable += usize::from(runnable);
        self.runnable -= usize::from(std::mem::replace(&mut request.counted_runnable, runnable));
        self.in_flight += usize::from(in_flight);
        self.in_flight -= usize::from(std::mem::replace(&mut request.counted_in_flight, in_flight));
    }
}
