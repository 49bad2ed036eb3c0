//! The engine's loop: messages in, scheduler step, model, outputs out.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::time::{Duration, Instant as Wakeup};

use stagespan_model::{Clock, ClockAnchor, Gate, Instant};
use stagespan_scheduler::{
    Chunk, NewRequest, Payload, RequestHandle, Sampled, Scheduler, SchedulerConfig, Step, StepPlan,
};
use stagespan_wire::{EngineCoreMessage, EngineCoreRequest, RequestKind};

use super::early_input::{EarlyInput, Kept};
use super::outbox::Outbox;
use super::{Inbox, QUEUE_FRAMES, StageError, StageSpec};
use crate::cost_model::CostModel;
use crate::frame::Frame;
use crate::message::{ChunkMessage, Handover, Refused, Up};
use crate::pipeline_file::{Role, SchedulerKind};

/// How often the orchestrator gets a new anchor of this stage's clock.
const ANCHOR_EVERY: Duration = Duration::from_secs(10);
/// How often the gate passes over an idle stage that holds requests: the resolution of a stamp there.
/// (vLLM-Omni's own loop never rests while it has requests.)
const GATE_PASS_EVERY: Duration = Duration::from_millis(1);
/// How long the orchestrator has to say what becomes of requests whose upstream stage is gone,
/// before they end by `connector_failure`.
const UPSTREAM_GRACE: Duration = Duration::from_secs(2);

/// A request in flight.
pub(super) struct Live {
    /// The engine-core request's id.
    pub(super) request_id: String,
    /// Output tokens not yet handed to the stage after.
    pub(super) unsent_tokens: u32,
    /// Whether all of its input has arrived.
    input_complete: bool,
}

/// The one owner of a stage's scheduler.
pub(super) struct Engine {
    stage_kind: SchedulerKind,
    clock: Arc<dyn Clock>,
    scheduler: Scheduler,
    cost_model: CostModel,
    inbox: Receiver<Inbox>,
    /// What arrived while the model ran.
    arrived: VecDeque<Inbox>,
    outbox: Outbox,
    handles: HashMap<String, RequestHandle>,
    live: HashMap<RequestHandle, Live>,
    early: EarlyInput,
    next_anchor: Wakeup,
    next_gate_pass: Wakeup,
    upstream_lost: Option<Wakeup>,
    ending: bool,
}

impl Engine {
    pub(super) fn new(
        spec: StageSpec,
        clock: Arc<dyn Clock>,
        inbox: Receiver<Inbox>,
        up: SyncSender<Frame>,
        down: Option<SyncSender<Frame>>,
    ) -> Result<Self, StageError> {
        let scheduler = Scheduler::new(scheduler_config(&spec)).map_err(StageError::Scheduler)?;
        Ok(Self {
            stage_kind: spec.stage.scheduler,
            scheduler,
            cost_model: CostModel::new(&spec.stage),
            inbox,
            arrived: VecDeque::new(),
            outbox: Outbox::new(&spec, up, down),
            handles: HashMap::new(),
            live: HashMap::new(),
            early: EarlyInput::default(),
            next_anchor: Wakeup::now() + ANCHOR_EVERY,
            next_gate_pass: Wakeup::now(),
            upstream_lost: None,
            ending: false,
            clock,
        })
    }

    /// Runs until the orchestrator ends the connection.
    pub(super) fn run(mut self) -> Result<(), StageError> {
        loop {
            self.take_messages();
            self.renew_anchor();
            self.give_up_on_lost_input();
            if self.ending || self.outbox.is_closed() {
                break;
            }
            if !self.scheduler.has_work() && !self.gate_pass_due() {
                self.send_outputs();
                self.wait(self.idle_until());
                continue;
            }
            self.next_gate_pass = Wakeup::now() + GATE_PASS_EVERY;
            let clock = Arc::clone(&self.clock);
            match self.scheduler.step(&*clock) {
                // An empty plan, too, may let requests through that the next step schedules.
                Step::Run(plan) => self.run_step(plan),
                Step::Wait { until } => self.wait(self.wakeup_at(until)),
            }
        }
        self.scheduler.shutdown();
        self.send_outputs();
        self.outbox.bye();
        Ok(())
    }

    /// Handles everything that has arrived, without waiting.
    fn take_messages(&mut self) {
        while let Some(message) = self.arrived.pop_front() {
            self.handle(message);
        }
        loop {
            match self.inbox.try_recv() {
                Ok(message) => self.handle(message),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.ending = true;
                    return;
                }
            }
        }
    }

    fn handle(&mut self, message: Inbox) {
        match message {
            Inbox::Request(frame) => self.handle_request(&frame),
            Inbox::Input(input) => self.handle_input(input),
            Inbox::OrchestratorEnded => self.ending = true,
            Inbox::UpstreamEnded => self.upstream_lost = Some(Wakeup::now() + UPSTREAM_GRACE),
        }
    }

    fn handle_request(&mut self, frame: &Frame) {
        let Some(kind) = RequestKind::from_byte(frame.kind) else {
            tracing::warn!(kind = frame.kind, "ignored a request of unknown kind");
            return;
        };
        match EngineCoreMessage::decode(kind, &frame.body) {
            Ok(EngineCoreMessage::Add(request)) => self.add(*request),
            Ok(EngineCoreMessage::Abort(ids)) => ids.iter().for_each(|id| self.abort(id)),
            Ok(EngineCoreMessage::Utility(_)) => tracing::warn!("ignored a utility call: a stage has none"),
            Err(error) => tracing::warn!(%error, "ignored a request that can't be decoded"),
        }
    }

    fn add(&mut self, request: EngineCoreRequest) {
        if self.handles.contains_key(&request.request_id) {
            tracing::warn!(request = %request.request_id, "ignored a second request under a live id");
            return;
        }
        if let Some(reason) = join_refusal(&request, &*self.clock) {
            let refused = Refused { request_id: request.request_id.clone(), reason };
            self.outbox.send(Up::Refused(refused));
        }
        let max_tokens = request.sampling_params.as_ref().and_then(|params| params.max_tokens());
        let new = NewRequest {
            prompt_tokens: request.prompt_token_ids.as_ref().map_or(0, |ids| ids.len() as u32),
            max_tokens: max_tokens.and_then(|n| u32::try_from(n).ok()).unwrap_or(u32::MAX),
            stop_token_ids: Vec::new(),
            resumable: request.resumable,
            grammar_pending: false,
        };
        let handle = self.scheduler.add_request(new, &*self.clock);
        self.handles.insert(request.request_id.clone(), handle);
        let early = self.early.take(&request.request_id);
        self.live
            .insert(handle, Live { request_id: request.request_id, unsent_tokens: 0, input_complete: false });
        for input in early {
            self.deliver(handle, input);
        }
    }

    fn abort(&mut self, request_id: &str) {
        match self.handles.get(request_id) {
            Some(handle) => self.scheduler.abort(*handle),
            // It ended before the abort arrived: its terminal output is on its way.
            None => tracing::debug!(request = request_id, "abort of a request that isn't live"),
        }
    }

    fn handle_input(&mut self, input: Handover) {
        let request_id = match &input {
            Handover::Hello { .. } => return,
            Handover::Chunk(chunk) | Handover::Payload(chunk) => chunk.request_id.clone(),
        };
        if let Some(handle) = self.handles.get(&request_id) {
            self.deliver(*handle, input);
        } else if self.early.keep(&request_id, input) == Kept::NoRoom {
            tracing::warn!(request = %request_id, "no room for input that came before its request: dropped");
        }
    }

    fn deliver(&mut self, handle: RequestHandle, input: Handover) {
        let finished = match input {
            Handover::Hello { .. } => return,
            Handover::Chunk(ChunkMessage { tokens, finished, .. }) => {
                self.scheduler.deliver_chunk(handle, Chunk { tokens, finished, segment_finished: false });
                finished
            }
            Handover::Payload(ChunkMessage { tokens, .. }) => {
                self.scheduler.deliver_payload(handle, Payload { prompt_tokens: Some(tokens) });
                true
            }
        };
        if let Some(live) = self.live.get_mut(&handle) {
            live.input_complete |= finished;
        }
    }

    /// Fails what waits for input that can't come any more. The orchestrator, which learns of a
    /// lost stage at the same time, gets a grace to abort it instead.
    fn give_up_on_lost_input(&mut self) {
        if self.upstream_lost.is_some_and(|at| Wakeup::now() >= at) {
            self.upstream_lost = None;
            for (handle, live) in self.live.iter().filter(|(_, live)| !live.input_complete) {
                tracing::warn!(request = %live.request_id, "its input can't come: the stage before is gone");
                self.scheduler.fail_input(*handle, "the stage before is gone".to_owned());
            }
        }
    }

    fn run_step(&mut self, plan: StepPlan) {
        if !plan.is_empty() {
            let cost = self.cost_model.step(&plan);
            self.run_model(cost);
        }
        let kind = self.stage_kind;
        let sampled: Vec<Sampled> = plan
            .scheduled
            .iter()
            .map(|s| {
                let samples = kind == SchedulerKind::Ar && s.completes_input;
                Sampled {
                    handle: s.handle,
                    // Any token that stops nothing: the content is no part of the model's stand-in.
                    token_ids: if samples { vec![7] } else { Vec::new() },
                    has_payload: kind == SchedulerKind::Generation,
                }
            })
            .collect();
        self.scheduler.update(plan, &sampled, &*self.clock);
        self.send_outputs();
    }

    /// Lets the model's time pass, taking in what arrives meanwhile.
    fn run_model(&mut self, cost: Duration) {
        let done = Wakeup::now() + cost;
        while !self.ending {
            let left = done.saturating_duration_since(Wakeup::now());
            if left.is_zero() {
                return;
            }
            if self.arrived.len() >= QUEUE_FRAMES {
                // No more is taken in: the senders wait, as the queues' bounds want it.
                std::thread::sleep(left);
                return;
            }
            match self.inbox.recv_timeout(left) {
                // The rest of the step is not worth finishing when the orchestrator is gone.
                Ok(Inbox::OrchestratorEnded) | Err(RecvTimeoutError::Disconnected) => self.ending = true,
                Ok(message) => self.arrived.push_back(message),
                Err(RecvTimeoutError::Timeout) => return,
            }
        }
    }

    fn send_outputs(&mut self) {
        let outputs = self.scheduler.take_outputs();
        if outputs.is_empty() {
            return;
        }
        let timestamp = self.clock.now();
        self.outbox.send_outputs(&outputs, &mut self.live, timestamp);
        for output in outputs.iter().filter(|output| output.is_last()) {
            if let Some(live) = self.live.remove(&output.handle) {
                self.handles.remove(&live.request_id);
                self.early.ended(live.request_id);
            }
        }
    }

    fn renew_anchor(&mut self) {
        if Wakeup::now() >= self.next_anchor {
            self.next_anchor = Wakeup::now() + ANCHOR_EVERY;
            self.outbox.send(Up::Anchor(ClockAnchor::read(&*self.clock).into()));
        }
    }

    /// Whether the gate holds requests.
    fn holds_requests(&self) -> bool {
        self.scheduler.counts().held > 0
    }

    fn gate_pass_due(&self) -> bool {
        self.holds_requests() && Wakeup::now() >= self.next_gate_pass
    }

    /// Until when there is nothing to do unless a message comes.
    fn idle_until(&self) -> Wakeup {
        let deadline = self.scheduler.next_deadline().map(|at| self.wakeup_at(at));
        let gate_pass = self.holds_requests().then_some(self.next_gate_pass);
        [deadline, gate_pass, self.upstream_lost].into_iter().flatten().fold(self.next_anchor, Wakeup::min)
    }

    /// An instant of the stage's clock as an instant to wait for.
    fn wakeup_at(&self, at: Instant) -> Wakeup {
        let ahead_ns = at.duration_since(self.clock.now()).ok().flatten().unwrap_or(0);
        Wakeup::now() + Duration::from_nanos(ahead_ns)
    }

    fn wait(&mut self, until: Wakeup) {
        match self.inbox.recv_timeout(until.saturating_duration_since(Wakeup::now())) {
            Ok(message) => self.arrived.push_back(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.ending = true,
        }
    }
}

fn scheduler_config(spec: &StageSpec) -> SchedulerConfig {
    let stage = &spec.stage;
    let kind = match stage.scheduler {
        SchedulerKind::Ar => stagespan_scheduler::SchedulerKind::Ar,
        SchedulerKind::Generation => stagespan_scheduler::SchedulerKind::Generation,
    };
    SchedulerConfig {
        sender_only: stage.role == Role::Sender,
        active_stream_window: stage.active_stream_window,
        max_num_seqs: stage.max_num_seqs.get(),
        token_budget: stage.token_budget.get(),
        kv_blocks: stage.kv_blocks.get(),
        block_size: stage.block_size.get(),
        // The longest request that the KV blocks can hold.
        max_model_len: stage.kv_blocks.get().saturating_mul(stage.block_size.get()),
        input_wait_timeout_ns: NonZeroU64::new(spec.input_wait_timeout_ns),
        observe: spec.observe,
        ..SchedulerConfig::new(kind, spec.stage_id, if spec.stage_id == 0 { Gate::None } else { stage.gate })
    }
}

/// Why this stage can't join the request's trace, if it was asked to and can't.
fn join_refusal(request: &EngineCoreRequest, clock: &dyn Clock) -> Option<String> {
    let headers = request.trace_headers.iter().flatten().map(|(k, v)| (k.as_str(), v.as_str()));
    match stagespan_otel::StageHeaders::parse(headers) {
        Ok(None) => None,
        Ok(Some(headers)) => match stagespan_otel::check_join(&headers, clock) {
            stagespan_otel::Join::Refused(refusal) => Some(refusal.to_string()),
            stagespan_otel::Join::Accepted | stagespan_otel::Join::NotClaimed => None,
        },
        Err(error) => {
            tracing::warn!(request = %request.request_id, %error, "ignored bad context headers");
            None
        }
    }
}
