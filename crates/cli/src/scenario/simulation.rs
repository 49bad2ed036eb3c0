//! The pipeline in simulated time: the real schedulers, moved by hand.
//!
//! It goes about things as a stage process does: messages are taken in between steps, a step lasts
//! as long as the stage's costs say, and its output goes to the stage after in chunks. Each stage
//! reads a clock of its own, far from the others'.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use stagespan_model::{Clock, EventKind, Gate, ManualClock, StageTimeline, TimelineEvent};
use stagespan_pipeline::Pipeline;
use stagespan_pipeline::pipeline_file::{SchedulerKind, Stage};
use stagespan_scheduler::{
    Chunk, NewRequest, RequestHandle, Sampled, Scheduler, SchedulerConfig, StageOutput, Step, StepPlan,
};

use super::Scenario;
use super::sizing::STEP_OVERHEAD_NS;
use crate::arrivals::Arrival;
use crate::figures::{RequestFigures, ScenarioFigures, StageFacts, StageFigures, Times};

/// How long a message takes from process to process.
const MESSAGE_NS: u64 = 100_000;

/// What comes to a stage from outside.
enum Message {
    Add { request: usize, prompt_tokens: u32, max_tokens: u32 },
    Chunk { request: usize, chunk: Chunk },
}

enum Event {
    Message(usize, Message),
    StepDone(usize),
}

struct Live {
    request: usize,
    timeline: Option<StageTimeline>,
    unsent_tokens: u32,
    tokens: (u32, u32),
}

struct SimulatedStage {
    table: Stage,
    position: stagespan_model::Position,
    scheduler: Scheduler,
    clock: ManualClock,
    clock_start_ns: u64,
    handles: HashMap<usize, RequestHandle>,
    live: HashMap<RequestHandle, Live>,
    inbox: VecDeque<Message>,
    running: Option<StepPlan>,
    started: bool,
}

struct Simulation {
    stages: Vec<SimulatedStage>,
    agenda: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: HashMap<usize, Event>,
    scheduled: u64,
    done: Vec<RequestFigures>,
}

/// Runs a scenario to its end.
pub(super) fn simulate(scenario: &Scenario, arrivals: &[Arrival]) -> ScenarioFigures {
    let stages: Vec<SimulatedStage> =
        (0..).zip(&scenario.pipeline.stages).map(|(id, s)| stage(id, s)).collect();
    let facts = stages
        .iter()
        .map(|s| StageFacts {
            name: s.table.name.clone(),
            position: s.position,
            is_ar: s.table.scheduler == SchedulerKind::Ar,
        })
        .collect();
    let done = (0..arrivals.len()).map(|n| RequestFigures {
        id: format!("{:04}", n + 1),
        trace_id: None,
        error: None,
        stages: Vec::new(),
    });
    let mut simulation = Simulation {
        stages,
        agenda: BinaryHeap::new(),
        events: HashMap::new(),
        scheduled: 0,
        done: done.collect(),
    };
    simulation.submit(&scenario.pipeline, arrivals);
    simulation.run();
    ScenarioFigures {
        name: scenario.name.clone(),
        cause: scenario.cause.clone(),
        stages: facts,
        requests: simulation.done,
    }
}

fn stage(stage_id: u32, table: &Stage) -> SimulatedStage {
    let kind = match table.scheduler {
        SchedulerKind::Ar => stagespan_scheduler::SchedulerKind::Ar,
        SchedulerKind::Generation => stagespan_scheduler::SchedulerKind::Generation,
    };
    let config = SchedulerConfig {
        max_num_seqs: table.max_num_seqs.get(),
        token_budget: table.token_budget.get(),
        kv_blocks: table.kv_blocks.get(),
        block_size: table.block_size.get(),
        max_model_len: table.kv_blocks.get() * table.block_size.get(),
        input_wait_timeout_ns: None,
        ..SchedulerConfig::new(kind, stage_id, table.gate)
    };
    assert!(stage_id == 0 || table.gate == Gate::AsyncChunk, "only chunks are simulated");
    let clock_start_ns = 5_000_000_000 + u64::from(stage_id) * 77_000_000_000_000;
    SimulatedStage {
        position: config.position(),
        scheduler: Scheduler::new(config).unwrap(),
        table: table.clone(),
        clock: ManualClock::new(clock_start_ns),
        clock_start_ns,
        handles: HashMap::new(),
        live: HashMap::new(),
        inbox: VecDeque::new(),
        running: None,
        started: false,
    }
}

impl Simulation {
    fn at(&mut self, at_ns: u64, event: Event) {
        let id = self.scheduled as usize;
        self.events.insert(id, event);
        self.agenda.push(Reverse((at_ns, self.scheduled, id)));
        self.scheduled += 1;
    }

    /// Submits every request to all stages at once, as the orchestrator does with async_chunk.
    fn submit(&mut self, pipeline: &Pipeline, arrivals: &[Arrival]) {
        for (request, arrival) in arrivals.iter().enumerate() {
            let (mut prompt_tokens, mut max_tokens) = (arrival.prompt_tokens, arrival.output_tokens);
            for (stage_id, stage) in pipeline.stages.iter().enumerate() {
                if stage_id > 0 {
                    prompt_tokens = max_tokens.min(pipeline.stages[stage_id - 1].chunk_tokens.get());
                    if stage.scheduler == SchedulerKind::Ar {
                        max_tokens *= stage.tokens_per_input_token.get();
                    }
                }
                let add = Message::Add { request, prompt_tokens, max_tokens };
                self.at(arrival.at_ns + MESSAGE_NS, Event::Message(stage_id, add));
            }
        }
    }

    fn run(&mut self) {
        while let Some(Reverse((now_ns, _, id))) = self.agenda.pop() {
            let stage_id = match self.events.remove(&id).unwrap() {
                Event::Message(stage_id, message) => {
                    self.stages[stage_id].inbox.push_back(message);
                    stage_id
                }
                Event::StepDone(stage_id) => {
                    self.stages[stage_id].set_clock(now_ns);
                    let outputs = self.stages[stage_id].finish_step();
                    self.send(stage_id, now_ns, outputs);
                    stage_id
                }
            };
            if self.stages[stage_id].running.is_none() {
                self.step(stage_id, now_ns);
            }
        }
        assert!(self.stages.iter().all(|s| s.scheduler.is_empty()), "every request ended");
    }

    fn step(&mut self, stage_id: usize, now_ns: u64) {
        self.stages[stage_id].set_clock(now_ns);
        self.stages[stage_id].take_messages();
        while self.stages[stage_id].scheduler.has_work() {
            let stage = &mut self.stages[stage_id];
            let Step::Run(plan) = stage.scheduler.step(&stage.clock) else { panic!("nothing coalesces") };
            if !plan.is_empty() {
                let cost_ns = stage.cost_ns(&plan);
                stage.running = Some(plan);
                self.at(now_ns + cost_ns, Event::StepDone(stage_id));
                return;
            }
            // An empty pass may have let through what the next one schedules.
            stage.scheduler.update(plan, &[], &stage.clock);
            let outputs = stage.scheduler.take_outputs();
            self.send(stage_id, now_ns, outputs);
        }
    }

    fn send(&mut self, stage_id: usize, now_ns: u64, outputs: Vec<StageOutput>) {
        let last_stage = stage_id + 1 == self.stages.len();
        for output in outputs {
            let stage = &mut self.stages[stage_id];
            let at = stage.clock.now();
            let live = stage.live.get_mut(&output.handle).unwrap();
            live.note(stage.position, &output, at);
            live.unsent_tokens += output.new_token_ids.len() as u32;
            let finished = output.is_last();
            let (request, tokens) = (live.request, live.unsent_tokens);
            if !last_stage && (finished || tokens >= stage.table.chunk_tokens.get()) {
                live.unsent_tokens = 0;
                let chunk = Chunk { tokens, finished, segment_finished: false };
                self.at(now_ns + MESSAGE_NS, Event::Message(stage_id + 1, Message::Chunk { request, chunk }));
            }
            if finished {
                let stage = &mut self.stages[stage_id];
                let live = stage.live.remove(&output.handle).unwrap();
                let end = output.finished.unwrap().end;
                self.done[request].stages.push(live.figures(stage_id as u32, at, end));
            }
        }
    }
}

impl SimulatedStage {
    fn set_clock(&self, now_ns: u64) {
        let at_ns = self.clock.now().as_ns() - self.clock_start_ns;
        self.clock.advance_ns(now_ns - at_ns);
    }

    fn take_messages(&mut self) {
        while let Some(message) = self.inbox.pop_front() {
            match message {
                Message::Add { request, prompt_tokens, max_tokens } => {
                    let new = NewRequest { prompt_tokens, max_tokens, ..NewRequest::default() };
                    let handle = self.scheduler.add_request(new, &self.clock);
                    self.handles.insert(request, handle);
                    let tokens = (prompt_tokens, max_tokens);
                    self.live.insert(handle, Live { request, timeline: None, unsent_tokens: 0, tokens });
                }
                Message::Chunk { request, chunk } => {
                    self.scheduler.deliver_chunk(self.handles[&request], chunk);
                }
            }
        }
    }

    fn cost_ns(&mut self, plan: &StepPlan) -> u64 {
        let start_ms = if self.started { 0 } else { u64::from(self.table.start_cost_ms) };
        self.started = true;
        let tokens: u64 = plan
            .scheduled
            .iter()
            .map(|s| {
                let generation = self.table.scheduler == SchedulerKind::Generation;
                let decodes = generation || (s.completes_input && s.tokens == 1);
                let each =
                    if decodes { self.table.decode_ns_per_token } else { self.table.prefill_ns_per_token };
                u64::from(s.tokens) * u64::from(each)
            })
            .sum();
        start_ms * 1_000_000 + u64::from(self.table.step_us) * 1_000 + tokens + STEP_OVERHEAD_NS
    }

    fn finish_step(&mut self) -> Vec<StageOutput> {
        let plan = self.running.take().unwrap();
        let ar = self.table.scheduler == SchedulerKind::Ar;
        let sampled: Vec<Sampled> = plan
            .scheduled
            .iter()
            .map(|s| Sampled {
                handle: s.handle,
                token_ids: if ar && s.completes_input { vec![7] } else { Vec::new() },
                has_payload: !ar,
            })
            .collect();
        self.scheduler.update(plan, &sampled, &self.clock);
        self.scheduler.take_outputs()
    }
}

impl Live {
    fn note(
        &mut self,
        position: stagespan_model::Position,
        output: &StageOutput,
        at: stagespan_model::Instant,
    ) {
        for event in &output.events {
            match (&mut self.timeline, event.kind) {
                (None, EventKind::Queued) => self.timeline = Some(StageTimeline::new(position, event.at)),
                (Some(timeline), EventKind::Scheduled) => {
                    timeline.apply(TimelineEvent::Scheduled(event.at)).unwrap()
                }
                (Some(timeline), EventKind::Preempted) => {
                    timeline.apply(TimelineEvent::Preempted(event.at)).unwrap()
                }
                (timeline, kind) => panic!("{kind:?} on {timeline:?}"),
            }
        }
        let timeline = self.timeline.as_mut().unwrap();
        if let Some(ready) = output.input_ready {
            let event = TimelineEvent::InputReady { at: ready.at, resolution_ns: ready.resolution_ns };
            timeline.apply(event).unwrap();
        }
        if !output.new_token_ids.is_empty() {
            let count = output.new_token_ids.len() as u32;
            timeline.apply(TimelineEvent::Tokens { at, count }).unwrap();
        }
    }

    fn figures(self, stage_id: u32, at: stagespan_model::Instant, end: stagespan_model::End) -> StageFigures {
        let times = Times::of(&self.timeline.unwrap().finish(at, end));
        StageFigures {
            stage_id,
            end,
            times: Some(times),
            tokens_in: self.tokens.0,
            tokens_out: self.tokens.1,
        }
    }
}
