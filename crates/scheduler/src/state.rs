//! Everything a scheduler knows, and the few moves that every part of it uses.

use stagespan_model::{Clock, End, EventKind, Instant};

use crate::coalescing::Begun;
use crate::config::SchedulerConfig;
use crate::ignored::Ignored;
use crate::kv::KvBlocks;
use crate::list::{ByDeadline, ByQueue, List, Requests};
use crate::output::{Finished, StageOutput, StepPlan, StopReason};
use crate::request::{Place, QueueId, RequestHandle, Status};
use crate::wait_queue::WaitQueue;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) config: SchedulerConfig,
    pub(crate) requests: Requests,
    pub(crate) kv: KvBlocks,

    /// vLLM's `kv_holding_waiting`.
    pub(crate) holding: WaitQueue,
    /// vLLM's `waiting`.
    pub(crate) fresh: WaitQueue,
    /// Requests that run and that no gate holds. The last one is preempted first.
    pub(crate) running: Vec<RequestHandle>,
    /// Streaming sessions between two segments: they keep a slot.
    pub(crate) paused: usize,

    /// Requests that a gate holds, by where it took them from.
    pub(crate) held_waiting: usize,
    pub(crate) held_running: usize,
    /// First free position before those held out of `running`.
    pub(crate) held_running_front: i64,
    /// Requests that wait for a slot of the active-stream window, first come first.
    pub(crate) no_slot: List<ByQueue>,
    /// Those of them that run.
    pub(crate) no_slot_running: Vec<RequestHandle>,
    pub(crate) slots_used: usize,
    /// Held requests under a timeout, the longest held first.
    pub(crate) deadlines: List<ByDeadline>,

    /// Requests whose input came in since the last gate pass.
    pub(crate) delivered: Vec<RequestHandle>,
    /// Requests whose connector failed since the last gate pass.
    pub(crate) failures: Vec<(RequestHandle, String)>,
    /// Held requests that no longer hold computed tokens, and so change queues after the pass.
    pub(crate) relocate: Vec<RequestHandle>,
    /// Requests that this gate pass let through, into a waiting queue or back into `running`.
    pub(crate) passed: Vec<RequestHandle>,
    /// When the last gate pass was stamped.
    pub(crate) last_pass_at: Option<Instant>,
    /// Requests whose input ended with nothing to run.
    pub(crate) leaving: Vec<RequestHandle>,

    /// Requests with input to run and no plan in flight; requests with a plan in flight.
    pub(crate) runnable: usize,
    pub(crate) in_flight: usize,
    /// The step that waits for a fuller batch.
    pub(crate) begun: Option<Begun>,
    /// Until when a batch is deferred while a plan is in flight.
    pub(crate) batch_deadline: Option<Instant>,

    pub(crate) outputs: Vec<StageOutput>,
    pub(crate) ignored: Ignored,
    /// Something happened since the last step that scheduled nothing.
    pub(crate) stirred: bool,
}

impl State {
    pub(crate) fn new(config: SchedulerConfig) -> Self {
        Self {
            requests: Requests::with_key(),
            kv: KvBlocks::new(config.kv_blocks, config.block_size, config.max_model_len),
            holding: WaitQueue::new(QueueId::Holding),
            fresh: WaitQueue::new(QueueId::Fresh),
            running: Vec::new(),
            paused: 0,
            held_waiting: 0,
            held_running: 0,
            held_running_front: -1,
            no_slot: List::default(),
            no_slot_running: Vec::new(),
            slots_used: 0,
            deadlines: List::default(),
            delivered: Vec::new(),
            failures: Vec::new(),
            relocate: Vec::new(),
            passed: Vec::new(),
            last_pass_at: None,
            leaving: Vec::new(),
            runnable: 0,
            in_flight: 0,
            begun: None,
            batch_deadline: None,
            outputs: Vec::new(),
            ignored: Ignored::default(),
            stirred: false,
            config,
        }
    }

    pub(crate) fn queue(&mut self, id: QueueId) -> (&mut WaitQueue, &mut Requests) {
        let queue = match id {
            QueueId::Holding => &mut self.holding,
            QueueId::Fresh => &mut self.fresh,
        };
        (queue, &mut self.requests)
    }

    /// Appends a request to the waiting queue it belongs to.
    pub(crate) fn enqueue(&mut self, handle: RequestHandle) {
        let (queue, requests) = self.queue(self.requests[handle].queue());
        queue.arrive(requests, handle);
    }

    /// Puts a request before all that wait.
    pub(crate) fn enqueue_front(&mut self, handle: RequestHandle) {
        let (queue, requests) = self.queue(self.requests[handle].queue());
        queue.push_front(requests, handle);
    }

    /// The next request to admit: those that hold KV blocks come first.
    pub(crate) fn peek_waiting(&self) -> Option<RequestHandle> {
        self.holding.peek(&self.requests).or_else(|| self.fresh.peek(&self.requests))
    }

    /// Takes a request out of wherever it stands; its place is the caller's to set.
    pub(crate) fn detach(&mut self, handle: RequestHandle) {
        match self.requests[handle].place {
            Place::Arrived(id) | Place::Waiting(id) | Place::WaitingAside(id) | Place::Blocked(id) => {
                let (queue, requests) = self.queue(id);
                queue.remove(requests, handle);
            }
            Place::HeldWaiting(_) => {
                self.held_waiting -= 1;
                self.forget_deadline(handle);
            }
            Place::HeldRunning => {
                self.held_running -= 1;
                self.forget_deadline(handle);
            }
            Place::NoSlot => self.no_slot.remove(&mut self.requests, handle),
            Place::NoSlotRunning => self.no_slot_running.retain(|&other| other != handle),
            Place::Running => self.running.retain(|&other| other != handle),
            Place::Leaving => {}
        }
    }

    pub(crate) fn forget_deadline(&mut self, handle: RequestHandle) {
        if self.requests[handle].held_since.take().is_some() {
            self.deadlines.remove(&mut self.requests, handle);
        }
    }

    /// The clock, read only if anyone observes.
    pub(crate) fn observed_now(&self, clock: &dyn Clock) -> Option<Instant> {
        self.config.observe.then(|| clock.now())
    }

    /// Running slots that gates and streaming sessions keep from others.
    pub(crate) const fn reserved_slots(&self) -> usize {
        if self.config.parked_keep_slots { self.held_running } else { 0 }
    }

    /// Moves a waiting request into `running` and takes it into the plan.
    pub(crate) fn admit(&mut self, handle: RequestHandle, at: Option<Instant>) {
        self.detach(handle);
        let request = &mut self.requests[handle];
        request.place = Place::Running;
        request.status = Status::Waiting;
        request.record(EventKind::Scheduled, at);
        self.running.push(handle);
    }

    /// Books a step: its tokens count as computed, and the chunks it runs are used up.
    pub(crate) fn book(&mut self, plan: &StepPlan) {
        for scheduled in &plan.scheduled {
            let request = &mut self.requests[scheduled.handle];
            request.computed_tokens += scheduled.tokens;
            request.in_flight_tokens += scheduled.tokens;
            request.input.ready = false;
            self.recount(scheduled.handle);
        }
    }

    /// Queues an output of a live request, with the events since its last one.
    pub(crate) fn emit(
        &mut self,
        handle: RequestHandle,
        new_token_ids: Vec<u32>,
        finished: Option<Finished>,
        segment_finished: bool,
    ) {
        let request = &mut self.requests[handle];
        let events = std::mem::take(&mut request.events);
        // The stamp travels only beside events: an output without any must stay as it was.
        let input_ready = if events.is_empty() { None } else { request.input_ready.take() };
        self.outputs.push(StageOutput {
            handle,
            new_token_ids,
            finished,
            segment_finished,
            events,
            input_ready,
            preemptions: request.preemptions,
        });
    }

    /// Ends a live request, whatever its place: frees all it holds and sends its last output.
    pub(crate) fn end(
        &mut self,
        handle: RequestHandle,
        end: End,
        reason: Option<StopReason>,
        tokens: Vec<u32>,
    ) {
        self.emit(handle, tokens, Some(Finished { end, stop_reason: reason }), false);
        self.detach(handle);
        let Some(mut request) = self.requests.remove(handle) else { return };
        self.runnable -= usize::from(request.counted_runnable);
        self.in_flight -= usize::from(request.counted_in_flight);
        self.kv.release(&mut request);
        if request.status == Status::Paused {
            self.paused -= 1;
        }
        if request.input.has_slot {
            self.slots_used -= 1;
        }
        self.stirred = true;
    }
}

#[cfg(test)]
mod tests;
