//! The async_chunk gate: a request is held until its next upstream chunk, first while it waits and
//! then, chunk by chunk, in mid-run.

use stagespan_model::Instant;

use crate::config::SchedulerKind;
use crate::request::{Place, QueueId, RequestHandle, Status};
use crate::state::State;

impl State {
    pub(super) fn chunk_pass(&mut self, now: Option<Instant>) {
        let mut delivered = std::mem::take(&mut self.delivered);
        delivered.retain(|&handle| self.requests.contains_key(handle));
        for &handle in &delivered {
            self.requests[handle].input.loaded = false;
            self.requests[handle].input.ready = true;
        }
        // What is emptied during this pass still goes back to its old queue at the end of it.
        let emptied = std::mem::take(&mut self.relocate);
        self.promote_streams(now);
        for id in QueueId::BOTH {
            let held = self.hold_rechecks(id, now, Self::must_wait_for_chunk);
            held.into_iter().for_each(|handle| self.load(handle));
            for handle in self.released(id, &delivered) {
                self.release(id, handle);
            }
            self.sort_arrivals(id, |state, handle| state.chunk_arrival(id, handle, now));
        }
        self.running_pass(&delivered, now);
        self.relocate_emptied(emptied);
        if self.config.window().is_none() {
            self.shed_overflow();
        }
    }

    fn must_wait_for_chunk(&self, handle: RequestHandle) -> bool {
        let request = &self.requests[handle];
        request.status != Status::Grammar && !request.input.ready && !request.input.is_done()
    }

    /// Decides on an arrival; holds it if it has to wait.
    fn chunk_arrival(&mut self, id: QueueId, handle: RequestHandle, now: Option<Instant>) -> bool {
        let takes_slot = self.take_stream_slot(handle);
        if takes_slot && !self.must_wait_for_chunk(handle) {
            return true;
        }
        let order = self.queue(id).0.next_held_back();
        if takes_slot {
            self.hold(handle, Place::HeldWaiting(id), order, now);
            self.load(handle);
        } else {
            let request = &mut self.requests[handle];
            request.place = Place::NoSlot;
            request.order = order;
            self.no_slot.push_back(&mut self.requests, handle);
        }
        false
    }

    /// Gives a slot of the active-stream window, if the request has or needs none, or one is free.
    fn take_stream_slot(&mut self, handle: RequestHandle) -> bool {
        let Some(window) = self.config.window() else { return true };
        let input = &mut self.requests[handle].input;
        if !input.has_slot && self.slots_used < window {
            input.has_slot = true;
            self.slots_used += 1;
        }
        input.has_slot
    }

    /// Gives free slots to those who wait for one: those that run first, then first come first.
    /// All of them stood in the queue before this pass's arrivals.
    fn promote_streams(&mut self, now: Option<Instant>) {
        self.promote_running();
        while let Some(handle) = self.no_slot.head() {
            if !self.take_stream_slot(handle) {
                return;
            }
            self.no_slot.remove(&mut self.requests, handle);
            let order = self.requests[handle].order;
            self.hold(handle, Place::HeldWaiting(QueueId::Fresh), order, now);
            self.load(handle);
        }
    }

    /// Running requests without a slot step aside until there is one.
    fn promote_running(&mut self) {
        if self.config.window().is_none() {
            return;
        }
        let mut running = std::mem::take(&mut self.running);
        running.append(&mut self.no_slot_running);
        for handle in running {
            let place = if self.take_stream_slot(handle) { Place::Running } else { Place::NoSlotRunning };
            self.requests[handle].place = place;
            match place {
                Place::Running => self.running.push(handle),
                _ => self.no_slot_running.push(handle),
            }
        }
    }

    /// Parks running requests that have used up their chunk, and lets those run again whose next
    /// one is there.
    fn running_pass(&mut self, delivered: &[RequestHandle], now: Option<Instant>) {
        let (parked, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(|&handle| self.must_wait_for_chunk(handle));
        self.running = kept;
        let mut resumed: Vec<_> = delivered
            .iter()
            .copied()
            .filter(|&handle| self.requests[handle].place == Place::HeldRunning)
            .collect();
        resumed.sort_unstable_by_key(|&handle| self.requests[handle].order);
        for handle in resumed {
            self.detach(handle);
            self.requests[handle].place = Place::Running;
            self.running.push(handle);
            self.passed.push(handle);
        }
        // They stand before those parked earlier: vLLM-Omni appends the parked ones to `running`
        // after each step, and parks from the front.
        for handle in parked.into_iter().rev() {
            let order = self.held_running_front;
            self.held_running_front -= 1;
            self.hold(handle, Place::HeldRunning, order, now);
            self.load(handle);
        }
    }

    /// More requests may come back than there are slots (others took them meanwhile). The last
    /// ones wait again; they keep their KV blocks, and it counts as no preemption.
    fn shed_overflow(&mut self) {
        while self.running.len() > self.config.max_num_seqs as usize {
            let Some(handle) = self.running.pop() else { return };
            self.requests[handle].status = Status::Preempted;
            self.enqueue_front(handle);
        }
    }

    /// Asks the connector for the next chunk; takes it at once if it is there, to be seen by the
    /// next pass.
    fn load(&mut self, handle: RequestHandle) {
        let input = &mut self.requests[handle].input;
        if !input.loaded {
            input.loading = true;
            self.take_chunks(handle);
        }
    }

    /// Hands delivered chunks to a request that waits for one.
    pub(crate) fn take_chunks(&mut self, handle: RequestHandle) {
        let generation = self.config.kind == SchedulerKind::Generation;
        let request = &mut self.requests[handle];
        while request.input.loading
            && let Some(chunk) = request.input.inbox.pop_front()
        {
            if chunk.finished {
                request.input.exhausted = true;
                request.resumable = false;
            }
            request.input.segment_done |= chunk.segment_finished;
            if generation {
                // A chunk replaces the prompt. A segment's end without tokens still runs once.
                let boundary = chunk.segment_finished && chunk.tokens == 0;
                request.prompt_tokens = if boundary { 1 } else { chunk.tokens };
                request.total_tokens = request.prompt_tokens;
                request.computed_tokens = 0;
                if chunk.tokens == 0 && !chunk.finished && !chunk.segment_finished {
                    self.relocate.push(handle);
                    continue;
                }
            }
            request.input.loading = false;
            request.input.loaded = true;
            self.delivered.push(handle);
        }
        self.recount(handle);
        self.stirred = true;
    }

    /// A held request that an empty chunk left with nothing computed goes back to the queue of
    /// those that hold no blocks, before the others held there.
    fn relocate_emptied(&mut self, mut handles: Vec<RequestHandle>) {
        handles.retain(|&handle| {
            self.requests.get(handle).is_some_and(|request| {
                request.place == Place::HeldWaiting(QueueId::Holding) && request.queue() == QueueId::Fresh
            })
        });
        handles.sort_unstable_by_key(|&handle| self.requests[handle].order);
        handles.dedup();
        for (&handle, order) in handles.iter().zip(self.fresh.next_held_front(handles.len())) {
            self.requests[handle].place = Place::HeldWaiting(QueueId::Fresh);
            self.requests[handle].order = order;
        }
    }
}
