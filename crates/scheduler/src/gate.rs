//! The input gates: one pass per step, before anything is scheduled.
//!
//! A pass costs what changed since the last one: new requests, delivered inputs, running requests
//! that used up their chunk. Held requests are not looked at.

mod chunk;
mod deadline;
mod payload;

pub(crate) use deadline::elapsed_ns;

use stagespan_model::{Clock, End, Gate, Instant};

use crate::output::StopReason;
use crate::request::{Place, QueueId, RequestHandle, Status};
use crate::state::State;

impl State {
    /// Lets through what has its input, holds what has not, and ends what waited too long.
    pub(crate) fn gate_pass(&mut self, clock: &dyn Clock) {
        self.passed.clear();
        // The gate's own time is for its timeouts alone; without them it reads no clock.
        let now = self.config.input_wait_timeout_ns.filter(|_| self.config.gated()).map(|_| clock.now());
        match (self.config.gated(), self.config.gate) {
            (true, Gate::AsyncChunk) => self.chunk_pass(now),
            (true, Gate::FullPayload) => self.payload_pass(now),
            (false, _) | (_, Gate::None) => self.open_pass(),
        }
        for (handle, reason) in std::mem::take(&mut self.failures) {
            if self.requests.contains_key(handle) {
                self.end(handle, End::ConnectorFailure, Some(StopReason::Text(reason)), Vec::new());
            }
        }
        self.end_overdue(now);
    }

    /// The pass of a stage without a gate.
    fn open_pass(&mut self) {
        for id in QueueId::BOTH {
            self.hold_rechecks(id, None, |_, _| false);
            self.sort_arrivals(id, |_, _| true);
        }
    }

    /// Goes through a queue's arrivals in order: blocked ones keep their position, `passes` decides
    /// on the others, and those it keeps back are its own to place.
    fn sort_arrivals(&mut self, id: QueueId, mut passes: impl FnMut(&mut Self, RequestHandle) -> bool) {
        loop {
            let (queue, requests) = self.queue(id);
            let Some(handle) = queue.arrivals.pop_front(requests) else { return };
            if requests[handle].is_blocked() {
                queue.block_back(requests, handle);
            } else if requests[handle].status == Status::Grammar || passes(self, handle) {
                // A request whose grammar is compiled is scheduling's to wake; vLLM-Omni's gates
                // leave it alone until then.
                self.let_through(id, handle);
            }
        }
    }

    fn let_through(&mut self, id: QueueId, handle: RequestHandle) {
        let (queue, requests) = self.queue(id);
        queue.push_back(requests, handle);
        self.passed.push(handle);
    }

    /// Looks again at active requests that have changed: holds those that `must_wait`, before the
    /// ones held already, and returns them.
    fn hold_rechecks(
        &mut self,
        id: QueueId,
        now: Option<Instant>,
        must_wait: impl Fn(&Self, RequestHandle) -> bool,
    ) -> Vec<RequestHandle> {
        let mut handles = std::mem::take(&mut self.queue(id).0.recheck);
        handles.retain(|&handle| {
            self.requests.get(handle).is_some_and(
                |request| matches!(request.place, Place::Waiting(q) | Place::WaitingAside(q) if q == id),
            )
        });
        handles.sort_unstable_by_key(|&handle| self.requests[handle].order);
        let (held, passed): (Vec<_>, Vec<_>) =
            handles.into_iter().partition(|&handle| must_wait(self, handle));
        self.passed.extend(passed);
        let (queue, requests) = self.queue(id);
        let positions = queue.next_held_front(held.len());
        for &handle in &held {
            queue.remove(requests, handle);
        }
        for (&handle, order) in held.iter().zip(positions) {
            self.hold(handle, Place::HeldWaiting(id), order, now);
        }
        held
    }

    /// Holds a request that has been taken out of its queue.
    fn hold(&mut self, handle: RequestHandle, place: Place, order: i64, now: Option<Instant>) {
        let request = &mut self.requests[handle];
        request.place = place;
        request.order = order;
        match place {
            Place::HeldRunning => self.held_running += 1,
            _ => self.held_waiting += 1,
        }
        self.start_deadline(handle, now);
    }

    /// Delivered handles that `id` holds, in the order in which it holds them.
    fn released(&self, id: QueueId, delivered: &[RequestHandle]) -> Vec<RequestHandle> {
        let mut handles: Vec<_> = delivered
            .iter()
            .copied()
            .filter(|&handle| self.requests[handle].place == Place::HeldWaiting(id))
            .collect();
        handles.sort_unstable_by_key(|&handle| self.requests[handle].order);
        handles
    }

    /// Puts a request that the gate held back into its queue.
    fn release(&mut self, id: QueueId, handle: RequestHandle) {
        self.detach(handle);
        self.requests[handle].status = Status::Waiting;
        self.let_through(id, handle);
    }
}
