//! The scheduler of one stage: calls in, plans and outputs out.

use stagespan_model::{Clock, End, EventKind, Gate, Instant};

use crate::config::{ConfigError, SchedulerConfig, SchedulerKind};
use crate::ignored::Ignored;
use crate::output::{Sampled, StageOutput, Step, StepPlan, StopReason};
use crate::request::{Chunk, NewRequest, Payload, Place, Request, RequestHandle, Status, StreamingUpdate};
use crate::state::State;

/// A stage's scheduler: AR or generation, behind any gate.
///
/// It holds state and nothing else: no thread, no lock, no sleep, and no clock but the one passed
/// to a call. Every call returns at once.
#[derive(Debug)]
pub struct Scheduler {
    state: State,
}

/// How many live requests are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Held by the gate before their first step, or again in a waiting queue.
    pub held: usize,
    /// Held by the active-stream window.
    pub without_slot: usize,
    /// Schedulable, waiting for a slot, budget or KV space.
    pub ready: usize,
    /// Running.
    pub running: usize,
    /// Held by the gate in mid-run.
    pub parked: usize,
    /// Streaming sessions between two segments.
    pub paused: usize,
    /// KV blocks that nobody holds.
    pub kv_blocks_free: u32,
}

impl Scheduler {
    /// A scheduler without requests.
    ///
    /// # Errors
    /// A configuration that [`SchedulerConfig::validate`] refuses.
    pub fn new(config: SchedulerConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self { state: State::new(config) })
    }

    /// Its configuration.
    pub const fn config(&self) -> &SchedulerConfig {
        &self.state.config
    }

    /// Takes a request in: QUEUED.
    ///
    /// A request that could never run ends at once, with [`End::Rejected`]; like every end it
    /// sends a last output.
    pub fn add_request(&mut self, new: NewRequest, clock: &dyn Clock) -> RequestHandle {
        let state = &mut self.state;
        let at = state.added_now(clock);
        let mut request = Request::new(new, at);
        request.record(EventKind::Queued, at.filter(|_| state.config.observe));
        let prompt_tokens = request.prompt_tokens;
        let handle = state.requests.insert(request);
        state.enqueue(handle);
        state.stirred = true;
        let empty = prompt_tokens == 0 && state.config.kind == SchedulerKind::Ar;
        if empty || prompt_tokens > state.config.max_model_len {
            state.reject_prompt(handle);
        }
        handle
    }

    /// The connector has a chunk for a request.
    pub fn deliver_chunk(&mut self, handle: RequestHandle, chunk: Chunk) {
        let state = &mut self.state;
        let receives = state.config.receives_chunks();
        let Some(request) = state.requests.get_mut(handle) else {
            state.ignored.unknown_request += 1;
            return;
        };
        if !receives {
            state.ignored.unexpected_input += 1;
        } else if request.input.exhausted || request.input.inbox.back().is_some_and(|last| last.finished) {
            state.ignored.late_input += 1;
        } else {
            request.input.inbox.push_back(chunk);
            state.take_chunks(handle);
        }
    }

    /// The connector has a request's whole payload.
    pub fn deliver_payload(&mut self, handle: RequestHandle, payload: Payload) {
        let state = &mut self.state;
        let expected = state.config.gated() && state.config.gate == Gate::FullPayload;
        let Some(request) = state.requests.get_mut(handle) else {
            state.ignored.unknown_request += 1;
            return;
        };
        if !expected {
            state.ignored.unexpected_input += 1;
        } else if request.input.received || request.input.payload.is_some() {
            state.ignored.late_input += 1;
        } else {
            request.input.payload = Some(payload);
            state.delivered.push(handle);
            state.recount(handle);
            state.stirred = true;
        }
    }

    /// The connector failed for a request: it ends with [`End::ConnectorFailure`] in the next
    /// gate pass. `reason` is for a reader; it must hold no content.
    pub fn fail_input(&mut self, handle: RequestHandle, reason: impl Into<String>) {
        if self.knows(handle) {
            self.state.failures.push((handle, reason.into()));
            self.state.stirred = true;
        }
    }

    /// Takes a request back, wherever it stands.
    pub fn abort(&mut self, handle: RequestHandle) {
        if self.knows(handle) {
            self.state.end(handle, End::Aborted, None, Vec::new());
        }
    }

    /// The engine failed on a request.
    pub fn fail_request(&mut self, handle: RequestHandle, reason: impl Into<String>) {
        if self.knows(handle) {
            self.state.end(handle, End::EngineError, Some(StopReason::Text(reason.into())), Vec::new());
        }
    }

    /// The next segment of a streaming session; it waits its turn if the present one still runs.
    pub fn update_session(&mut self, handle: RequestHandle, update: StreamingUpdate, clock: &dyn Clock) {
        self.state.update_session(handle, update, clock);
    }

    /// No further segment comes; the session ends with the present one.
    pub fn close_session(&mut self, handle: RequestHandle) {
        self.state.close_session(handle);
    }

    /// The output grammar of a request is compiled.
    pub fn grammar_ready(&mut self, handle: RequestHandle) {
        if !self.knows(handle) {
            return;
        }
        let state = &mut self.state;
        let request = &mut state.requests[handle];
        if request.status != Status::Grammar || request.grammar_compiled {
            state.ignored.no_grammar += 1;
            return;
        }
        request.grammar_compiled = true;
        state.stirred = true;
        if let Place::Blocked(id) = request.place {
            let (queue, requests) = state.queue(id);
            queue.unblock(requests, handle);
        }
    }

    /// Ends every live request with [`End::Shutdown`].
    pub fn shutdown(&mut self) {
        let handles: Vec<_> = self.state.requests.keys().collect();
        for handle in handles {
            self.state.end(handle, End::Shutdown, None, Vec::new());
        }
    }

    /// One step: gates, stamp, schedule.
    pub fn step(&mut self, clock: &dyn Clock) -> Step {
        self.state.step(clock)
    }

    /// Takes in what the model made of a plan. Results for requests that ended meanwhile are
    /// dropped; a scheduled request without a result counts as one that sampled nothing.
    pub fn update(&mut self, plan: StepPlan, sampled: &[Sampled], clock: &dyn Clock) {
        self.state.update(&plan, sampled, clock);
    }

    /// Everything to be sent, in order.
    pub fn take_outputs(&mut self) -> Vec<StageOutput> {
        std::mem::take(&mut self.state.outputs)
    }

    /// Whether a step or [`take_outputs`](Self::take_outputs) would have something to do now.
    /// Otherwise the caller can sleep until it has something to deliver, or until
    /// [`next_deadline`](Self::next_deadline).
    pub fn has_work(&self) -> bool {
        self.state.stirred || !self.state.outputs.is_empty() || !self.state.delivered.is_empty()
    }

    /// When time alone gives the next step something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadlines = [self.state.next_deadline(), self.state.deferral_deadline()];
        deadlines.into_iter().flatten().min_by_key(|deadline| deadline.as_ns())
    }

    /// Whether `handle` names a live request.
    pub fn contains(&self, handle: RequestHandle) -> bool {
        self.state.requests.contains_key(handle)
    }

    /// Live requests.
    pub fn len(&self) -> usize {
        self.state.requests.len()
    }

    /// Whether no request is live.
    pub fn is_empty(&self) -> bool {
        self.state.requests.is_empty()
    }

    /// How many live requests are where.
    pub fn counts(&self) -> Counts {
        let state = &self.state;
        Counts {
            held: state.held_waiting,
            without_slot: state.no_slot.len() + state.no_slot_running.len(),
            ready: state.fresh.len() + state.holding.len(),
            running: state.running.len(),
            parked: state.held_running,
            paused: state.paused,
            kv_blocks_free: state.kv.free(),
        }
    }

    /// What was ignored.
    pub const fn ignored(&self) -> Ignored {
        self.state.ignored
    }

    #[cfg(test)]
    pub(crate) const fn state(&self) -> &State {
        &self.state
    }

    fn knows(&mut self, handle: RequestHandle) -> bool {
        let known = self.contains(handle);
        self.state.ignored.unknown_request += u64::from(!known);
        known
    }
}
