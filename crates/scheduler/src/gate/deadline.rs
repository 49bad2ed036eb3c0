//! How long a request may wait at the gate.
//!
//! Time only moves forward, so requests stand in the order in which their wait began and only the
//! first few need a look.

use stagespan_model::{End, Instant};

use crate::output::StopReason;
use crate::request::RequestHandle;
use crate::state::State;

/// Nanoseconds from `since` to `now`; an instant of another clock or a later one counts as none.
pub(crate) fn elapsed_ns(since: Instant, now: Instant) -> u64 {
    now.duration_since(since).ok().flatten().unwrap_or(0)
}

impl State {
    /// The wait of `handle` begins, unless it has begun before.
    pub(super) fn start_deadline(&mut self, handle: RequestHandle, now: Option<Instant>) {
        let request = &mut self.requests[handle];
        if request.held_since.is_none() && now.is_some() {
            request.held_since = now;
            self.deadlines.push_back(&mut self.requests, handle);
        }
    }

    /// Ends the requests whose input is overdue.
    pub(super) fn end_overdue(&mut self, now: Option<Instant>) {
        let (Some(now), Some(timeout_ns)) = (now, self.config.input_wait_timeout_ns) else { return };
        while let Some(handle) = self.deadlines.head() {
            let overdue = self.requests[handle]
                .held_since
                .is_none_or(|since| elapsed_ns(since, now) > timeout_ns.get());
            if !overdue {
                return;
            }
            let seconds = timeout_ns.get() as f64 / 1e9;
            let reason = format!("Timed out waiting for connector input after {seconds}s");
            self.end(handle, End::Timeout, Some(StopReason::Text(reason)), Vec::new());
        }
    }

    /// When the first held request is overdue.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let since = self.requests[self.deadlines.head()?].held_since?;
        // Overdue means strictly later than the timeout.
        since.plus_ns(self.config.input_wait_timeout_ns?.get().saturating_add(1))
    }
}
