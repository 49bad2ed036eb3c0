//! Random workloads, with every invariant checked after every call.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU64;

use proptest::prelude::*;
use stagespan_model::{Clock, EventKind, Gate, ManualClock};

use crate::config::{Coalescing, CoalescingPolicy, PrefillAdmission, SchedulerConfig, SchedulerKind};
use crate::list::Requests;
use crate::output::{Sampled, StageOutput, Step, StepPlan};
use crate::request::{
    Chunk, NewRequest, Payload, Place, QueueId, Request, RequestHandle, Status, StreamingUpdate,
};
use crate::scheduler::Scheduler;
use crate::state::State;
use crate::wait_queue::WaitQueue;

const MS: u64 = 1_000_000;
const STOP_TOKEN: u32 = 2;

#[derive(Clone, Debug)]
enum Op {
    Add(NewRequest),
    Chunk(usize, Chunk),
    Payload(usize, Payload),
    Fail(usize),
    Abort(usize),
    Update(usize, StreamingUpdate),
    Close(usize),
    GrammarReady(usize),
    Advance(u64),
    /// A step, and the token that every request samples.
    Step(u32),
    /// A plan whose results come back only after another step.
    Overlap(u32),
    Shutdown,
}

fn new_request() -> impl Strategy<Value = NewRequest> {
    (0..40_u32, 1..8_u32, prop::bool::weighted(0.3), prop::bool::weighted(0.15)).prop_map(
        |(prompt_tokens, max_tokens, resumable, grammar_pending)| NewRequest {
            prompt_tokens,
            max_tokens,
            stop_token_ids: vec![STOP_TOKEN],
            resumable,
            grammar_pending,
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let index = 0..64_usize;
    let chunk = (0..30_u32, prop::bool::weighted(0.3), prop::bool::weighted(0.15))
        .prop_map(|(tokens, finished, segment_finished)| Chunk { tokens, finished, segment_finished });
    let payload = prop::option::weighted(0.2, 0..50_u32).prop_map(|prompt_tokens| Payload { prompt_tokens });
    let update = (0..20_u32, 1..5_u32)
        .prop_map(|(prompt_tokens, max_tokens)| StreamingUpdate { prompt_tokens, max_tokens });
    prop_oneof![
        6 => new_request().prop_map(Op::Add),
        8 => (index.clone(), chunk).prop_map(|(index, chunk)| Op::Chunk(index, chunk)),
        4 => (index.clone(), payload).prop_map(|(index, payload)| Op::Payload(index, payload)),
        1 => index.clone().prop_map(Op::Fail),
        2 => index.clone().prop_map(Op::Abort),
        2 => (index.clone(), update).prop_map(|(index, update)| Op::Update(index, update)),
        1 => index.clone().prop_map(Op::Close),
        2 => index.prop_map(Op::GrammarReady),
        2 => (0..40_u64).prop_map(Op::Advance),
        14 => (0..9_u32).prop_map(Op::Step),
        2 => (0..9_u32).prop_map(Op::Overlap),
        1 => prop::bool::weighted(0.05).prop_map(|really| if really { Op::Shutdown } else { Op::Advance(1) }),
    ]
}

fn config() -> impl Strategy<Value = SchedulerConfig> {
    let kind = prop_oneof![Just(SchedulerKind::Ar), Just(SchedulerKind::Generation)];
    let gate = prop_oneof![1 => Just(Gate::None), 3 => Just(Gate::AsyncChunk), 3 => Just(Gate::FullPayload)];
    let flags =
        (prop::bool::weighted(0.1), any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.9));
    let batching = prop_oneof![
        3 => Just((false, None)),
        2 => Just((true, None)),
        1 => Just((false, Some(CoalescingPolicy::Fixed))),
        1 => Just((false, Some(CoalescingPolicy::IdleWait))),
    ];
    (kind, gate, 0..3_u32, 0..3_u32, 1..5_u32, 4..60_u32, 4..20_u32, flags, batching).prop_map(
        |(kind, gate, stage_id, window, slots, budget, blocks, flags, (defer, coalesce))| {
            let mut config = SchedulerConfig::new(kind, stage_id, gate);
            let (sender_only, chunked_prefill, parked_keep_slots, observe) = flags;
            config.active_stream_window = window;
            config.max_num_seqs = slots;
            config.token_budget = budget;
            config.block_size = 8;
            config.kv_blocks = blocks;
            config.max_model_len = blocks * 8;
            config.sender_only = sender_only;
            config.chunked_prefill = chunked_prefill;
            config.parked_keep_slots = parked_keep_slots;
            config.observe = observe;
            config.input_wait_timeout_ns = NonZeroU64::new(100 * MS);
            config.prefill_admission = defer.then_some(PrefillAdmission {
                min_batch: 3,
                max_wait_ns: NonZeroU64::MIN.saturating_add(20 * MS),
                min_running: 1,
            });
            let max_wait_ns = NonZeroU64::MIN.saturating_add(5 * MS);
            config.coalescing = coalesce.filter(|_| slots >= 2).map(|policy| Coalescing {
                min_batch: 2,
                max_wait_ns,
                policy,
            });
            config
        },
    )
}

impl WaitQueue {
    fn handles(&self, requests: &Requests) -> Vec<RequestHandle> {
        let mut handles: Vec<_> = self.iter(requests).collect();
        handles.sort_by_key(|&handle| requests[handle].order);
        handles
    }
}

impl State {
    /// The scan that the stamp does without: every request of both waiting queues.
    pub(crate) fn scan_unstamped(&self) -> Vec<RequestHandle> {
        let queues = [&self.holding, &self.fresh];
        let mut found: Vec<_> = queues
            .into_iter()
            .flat_map(|queue| queue.handles(&self.requests))
            .filter(|&handle| {
                let request = &self.requests[handle];
                request.status == Status::Waiting && !request.stamped
            })
            .collect();
        found.sort();
        found
    }

    /// Everything that must hold between two calls.
    fn check(&self) {
        let mut places: HashMap<RequestHandle, Place> = HashMap::new();
        let mut see =
            |handle, place| assert_eq!(places.insert(handle, place), None, "{handle:?} stands twice");
        for (queue, id) in [(&self.holding, QueueId::Holding), (&self.fresh, QueueId::Fresh)] {
            queue.arrivals.iter(&self.requests).for_each(|handle| see(handle, Place::Arrived(id)));
            let active = queue.handles(&self.requests);
            let orders: Vec<_> = active.iter().map(|&handle| self.requests[handle].order).collect();
            assert!(orders.windows(2).all(|pair| pair[0] < pair[1]), "positions repeat: {orders:?}");
            for handle in active {
                let place = self.requests[handle].place;
                assert!(matches!(place, Place::Waiting(q) | Place::WaitingAside(q) if q == id), "{place:?}");
                see(handle, place);
            }
        }
        self.running.iter().for_each(|&handle| see(handle, Place::Running));
        self.no_slot_running.iter().for_each(|&handle| see(handle, Place::NoSlotRunning));
        self.no_slot.iter(&self.requests).for_each(|handle| see(handle, Place::NoSlot));
        let (mut held_waiting, mut held_running, mut paused, mut slots, mut blocks, mut overdue) =
            (0, 0, 0, 0, 0, 0);
        for (handle, request) in &self.requests {
            match request.place {
                Place::HeldWaiting(_) => held_waiting += 1,
                Place::HeldRunning => held_running += 1,
                Place::Blocked(_) => assert!(request.is_blocked(), "{request:?}"),
                Place::Leaving => panic!("left between two calls: {request:?}"),
                place => assert_eq!(places.get(&handle), Some(&place), "{request:?}"),
            }
            paused += usize::from(request.status == Status::Paused);
            slots += usize::from(request.input.has_slot);
            blocks += request.kv_blocks;
            overdue += usize::from(request.held_since.is_some());
            let held = matches!(request.place, Place::HeldWaiting(_) | Place::HeldRunning);
            assert_eq!(request.held_since.is_some(), held, "{request:?}");
            assert!(request.kv_blocks > 0 || request.computed_tokens == 0, "{request:?}");
        }
        assert_eq!((self.held_waiting, self.held_running), (held_waiting, held_running));
        assert_eq!((self.paused, self.slots_used), (paused, slots));
        assert_eq!(self.deadlines.len(), overdue);
        if self.config.coalescing.is_some() {
            let there = |request: &&Request| request.in_flight_tokens == 0 && request.input.is_there();
            assert_eq!(self.runnable, self.requests.values().filter(there).count());
            assert_eq!(
                self.in_flight,
                self.requests.values().filter(|request| request.in_flight_tokens > 0).count()
            );
        }
        assert_eq!(self.kv.free() + blocks, self.config.kv_blocks);
        if let Some(window) = self.config.window() {
            assert!(slots <= window);
        }
    }
}

/// A workload under way.
struct Run {
    scheduler: Scheduler,
    clock: ManualClock,
    handles: Vec<RequestHandle>,
    with_grammar: HashSet<RequestHandle>,
    outputs: HashMap<RequestHandle, Vec<StageOutput>>,
    open: Vec<StepPlan>,
}

impl Run {
    fn apply(&mut self, op: Op) {
        let pick = |index: usize| self.handles.get(index % self.handles.len().max(1)).copied();
        match op {
            Op::Add(new) => {
                let grammar = new.grammar_pending;
                let handle = self.scheduler.add_request(new, &self.clock);
                self.handles.push(handle);
                self.with_grammar.extend(grammar.then_some(handle));
            }
            Op::Chunk(index, chunk) => {
                pick(index).into_iter().for_each(|h| self.scheduler.deliver_chunk(h, chunk))
            }
            Op::Payload(index, payload) => {
                pick(index).into_iter().for_each(|h| self.scheduler.deliver_payload(h, payload));
            }
            Op::Fail(index) => pick(index).into_iter().for_each(|h| self.scheduler.fail_input(h, "lost")),
            Op::Abort(index) => pick(index).into_iter().for_each(|h| self.scheduler.abort(h)),
            Op::Update(index, update) => {
                pick(index).into_iter().for_each(|h| self.scheduler.update_session(h, update, &self.clock));
            }
            Op::Close(index) => pick(index).into_iter().for_each(|h| self.scheduler.close_session(h)),
            Op::GrammarReady(index) => pick(index).into_iter().for_each(|h| self.scheduler.grammar_ready(h)),
            Op::Advance(ms) => self.clock.advance_ns(ms * MS),
            Op::Step(token) => {
                self.step();
                self.update(token);
            }
            Op::Overlap(token) => {
                self.step();
                self.step();
                self.update(token);
            }
            Op::Shutdown => self.scheduler.shutdown(),
        }
        self.scheduler.state().check();
        for output in self.scheduler.take_outputs() {
            self.outputs.entry(output.handle).or_default().push(output);
        }
    }

    fn step(&mut self) {
        self.clock.advance_ns(MS);
        let plan = match self.scheduler.step(&self.clock) {
            Step::Run(plan) => plan,
            Step::Wait { until } => {
                assert!(until.as_ns() > self.clock.now().as_ns());
                self.scheduler.state().check();
                return;
            }
        };
        let config = self.scheduler.config();
        assert!(plan.tokens() <= config.token_budget);
        assert!(plan.scheduled.len() <= config.max_num_seqs as usize);
        assert!(plan.scheduled.iter().all(|scheduled| scheduled.tokens > 0));
        self.scheduler.state().check();
        self.open.push(plan);
    }

    fn update(&mut self, token: u32) {
        for plan in std::mem::take(&mut self.open) {
            let ar = self.scheduler.config().kind == SchedulerKind::Ar;
            let sampled: Vec<_> = plan
                .scheduled
                .iter()
                .map(|scheduled| Sampled {
                    handle: scheduled.handle,
                    token_ids: if ar && scheduled.completes_input { vec![token] } else { Vec::new() },
                    has_payload: token.is_multiple_of(2),
                })
                .collect();
            self.scheduler.update(plan, &sampled, &self.clock);
        }
    }

    /// Every request has ended exactly once, with every event in order and at most one stamp.
    fn check_ends(&self) {
        let observe = self.scheduler.config().observe;
        for handle in &self.handles {
            let outputs = &self.outputs[handle];
            let last = outputs.iter().position(StageOutput::is_last);
            assert_eq!(last, Some(outputs.len() - 1), "{outputs:?}");
            let events: Vec<_> = outputs.iter().flat_map(|output| output.events.clone()).collect();
            assert_eq!(events.first().map(|event| event.kind), observe.then_some(EventKind::Queued));
            assert!(events.windows(2).all(|pair| pair[0].at.as_ns() <= pair[1].at.as_ns()), "{events:?}");
            let stamps: Vec<_> = outputs.iter().filter_map(|output| output.input_ready).collect();
            assert!(stamps.len() <= 1);
            assert!(outputs.iter().all(|output| output.input_ready.is_none() || !output.events.is_empty()));
            let scheduled = events.iter().find(|event| event.kind == EventKind::Scheduled);
            // A grammar can let a request past its gate; it may be stamped after its first SCHEDULED.
            if let (Some(stamp), Some(scheduled)) = (stamps.first(), scheduled)
                && !self.with_grammar.contains(handle)
            {
                assert!(events[0].at.as_ns() <= stamp.at.as_ns() && stamp.at.as_ns() <= scheduled.at.as_ns());
            }
            let preempted = events.iter().filter(|event| event.kind == EventKind::Preempted).count();
            assert!(
                !observe || outputs.last().is_some_and(|output| output.preemptions as usize == preempted)
            );
        }
    }
}

proptest! {
    /// `State::stamp` itself compares what it stamps with `scan_unstamped` in test builds.
    #[test]
    fn any_workload_keeps_every_invariant(config in config(), ops in prop::collection::vec(op(), 1..120)) {
        let scheduler = Scheduler::new(config).expect("the generator makes valid configurations");
        let clock = ManualClock::new(MS);
        let mut run = Run {
            scheduler,
            clock,
            handles: Vec::new(),
            with_grammar: HashSet::new(),
            outputs: HashMap::new(),
            open: Vec::new(),
        };
        for op in ops {
            run.apply(op);
        }
        run.apply(Op::Shutdown);
        prop_assert!(run.scheduler.is_empty());
        prop_assert_eq!(run.scheduler.counts().kv_blocks_free, run.scheduler.config().kv_blocks);
        prop_assert!(run.clock.now().as_ns() >= MS);
        run.check_ends();
    }
}
