//! A scheduler with a hand-moved clock and a model that samples token 7 wherever it may.

#![allow(dead_code, reason = "each test file uses its own part of the rig")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use stagespan_model::{Clock, ClockDomain, End, EventKind, Gate, Instant, ManualClock};
use stagespan_scheduler::{
    Chunk, NewRequest, RequestHandle, Sampled, Scheduler, SchedulerConfig, SchedulerKind, StageOutput, Step,
    StepPlan,
};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const TOKEN: u32 = 7;

/// A clock that counts its readings and moves by `tick_ns` after each.
#[derive(Debug)]
pub(crate) struct TickingClock {
    inner: ManualClock,
    pub(crate) tick_ns: u64,
    pub(crate) readings: AtomicU64,
}

impl TickingClock {
    pub(crate) fn new(tick_ns: u64) -> Self {
        Self { inner: ManualClock::new(1_000 * MS), tick_ns, readings: AtomicU64::new(0) }
    }

    pub(crate) fn advance_ms(&self, ms: u64) {
        self.inner.advance_ns(ms * MS);
    }

    pub(crate) fn inner_ns(&self) -> u64 {
        self.inner.now().as_ns()
    }

    pub(crate) fn readings(&self) -> u64 {
        self.readings.swap(0, Ordering::SeqCst)
    }
}

impl Clock for TickingClock {
    fn domain(&self) -> &ClockDomain {
        self.inner.domain()
    }
    fn now(&self) -> Instant {
        self.readings.fetch_add(1, Ordering::SeqCst);
        let now = self.inner.now();
        self.inner.advance_ns(self.tick_ns);
        now
    }
    fn wall_unix_ns(&self) -> u64 {
        self.inner.wall_unix_ns()
    }
}

pub(crate) struct Rig {
    pub(crate) scheduler: Scheduler,
    pub(crate) clock: TickingClock,
    /// Everything sent so far.
    pub(crate) sent: Vec<StageOutput>,
}

/// What became of one request, put together from all its outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Story {
    pub(crate) events: Vec<(EventKind, u64)>,
    pub(crate) ready_ns: Option<u64>,
    pub(crate) resolution_ns: Option<u64>,
    pub(crate) tokens: usize,
    pub(crate) end: Option<End>,
    pub(crate) last_outputs: usize,
    pub(crate) segments: usize,
    pub(crate) preemptions: u32,
}

impl Story {
    pub(crate) fn first(&self, kind: EventKind) -> Option<u64> {
        self.events.iter().find(|(k, _)| *k == kind).map(|(_, at)| *at)
    }

    pub(crate) fn count(&self, kind: EventKind) -> usize {
        self.events.iter().filter(|(k, _)| *k == kind).count()
    }

    /// `(input_wait, ready_queued)` in nanoseconds.
    pub(crate) fn split(&self) -> Option<(u64, u64)> {
        let (queued, ready) = (self.first(EventKind::Queued)?, self.ready_ns?);
        let scheduled = self.first(EventKind::Scheduled)?;
        Some((ready.checked_sub(queued)?, scheduled.checked_sub(ready)?))
    }
}

impl Rig {
    pub(crate) fn new(kind: SchedulerKind, gate: Gate, change: impl FnOnce(&mut SchedulerConfig)) -> Self {
        let mut config = SchedulerConfig::new(kind, 1, gate);
        change(&mut config);
        Self {
            scheduler: Scheduler::new(config).unwrap_or_else(|error| panic!("{error}")),
            clock: TickingClock::new(1),
            sent: Vec::new(),
        }
    }

    pub(crate) fn ar(gate: Gate) -> Self {
        Self::new(SchedulerKind::Ar, gate, |_| {})
    }

    pub(crate) fn generation(gate: Gate) -> Self {
        Self::new(SchedulerKind::Generation, gate, |_| {})
    }

    pub(crate) fn add(&mut self, prompt_tokens: u32, max_tokens: u32) -> RequestHandle {
        self.add_new(NewRequest { prompt_tokens, max_tokens, ..NewRequest::default() })
    }

    pub(crate) fn add_session(&mut self, prompt_tokens: u32, max_tokens: u32) -> RequestHandle {
        self.add_new(NewRequest { prompt_tokens, max_tokens, resumable: true, ..NewRequest::default() })
    }

    pub(crate) fn add_new(&mut self, new: NewRequest) -> RequestHandle {
        self.scheduler.add_request(new, &self.clock)
    }

    pub(crate) fn chunk(&mut self, handle: RequestHandle, tokens: u32) {
        self.scheduler.deliver_chunk(handle, Chunk { tokens, ..Chunk::default() });
    }

    pub(crate) fn last_chunk(&mut self, handle: RequestHandle, tokens: u32) {
        self.scheduler.deliver_chunk(handle, Chunk { tokens, finished: true, ..Chunk::default() });
    }

    pub(crate) fn segment_end(&mut self, handle: RequestHandle, tokens: u32) {
        self.scheduler.deliver_chunk(handle, Chunk { tokens, segment_finished: true, ..Chunk::default() });
    }

    pub(crate) fn payload(&mut self, handle: RequestHandle) {
        self.scheduler.deliver_payload(handle, stagespan_scheduler::Payload::default());
    }

    pub(crate) fn plan(&mut self) -> StepPlan {
        match self.scheduler.step(&self.clock) {
            Step::Run(plan) => plan,
            Step::Wait { until } => panic!("waits until {until:?}"),
        }
    }

    /// A whole step, 1 ms long: the requests with the tokens they were given, in order.
    pub(crate) fn step(&mut self) -> Vec<(RequestHandle, u32)> {
        let plan = self.plan();
        let scheduled = plan.scheduled.iter().map(|s| (s.handle, s.tokens)).collect();
        self.clock.advance_ms(1);
        self.update(plan);
        scheduled
    }

    pub(crate) fn update(&mut self, plan: StepPlan) {
        let ar = self.scheduler.config().kind == SchedulerKind::Ar;
        let sampled: Vec<_> = plan
            .scheduled
            .iter()
            .map(|s| Sampled {
                handle: s.handle,
                token_ids: if ar && s.completes_input { vec![TOKEN] } else { Vec::new() },
                has_payload: !ar,
            })
            .collect();
        self.scheduler.update(plan, &sampled, &self.clock);
        self.sent.extend(self.scheduler.take_outputs());
    }

    pub(crate) fn flush(&mut self) {
        self.sent.extend(self.scheduler.take_outputs());
    }

    /// Steps until no request is live, at most `limit` times.
    pub(crate) fn run_out(&mut self, limit: usize) {
        for _ in 0..limit {
            if self.scheduler.is_empty() {
                return;
            }
            self.step();
        }
        panic!("still live after {limit} steps: {:?}", self.scheduler.counts());
    }

    pub(crate) fn story(&self, handle: RequestHandle) -> Story {
        self.stories().remove(&handle).unwrap_or_default()
    }

    pub(crate) fn stories(&self) -> HashMap<RequestHandle, Story> {
        let mut stories: HashMap<RequestHandle, Story> = HashMap::new();
        for output in &self.sent {
            let story = stories.entry(output.handle).or_default();
            assert_eq!(story.last_outputs, 0, "an output after the last one: {output:?}");
            story.events.extend(output.events.iter().map(|event| (event.kind, event.at.as_ns())));
            if let Some(ready) = output.input_ready {
                assert!(!output.events.is_empty(), "a stamp beside no events: {output:?}");
                assert_eq!(story.ready_ns, None, "a second stamp: {output:?}");
                story.ready_ns = Some(ready.at.as_ns());
                story.resolution_ns = ready.resolution_ns;
            }
            story.tokens += output.new_token_ids.len();
            story.preemptions = output.preemptions;
            if output.is_last() {
                story.end = output.finished.as_ref().map(|finished| finished.end);
                story.last_outputs += 1;
            } else if output.segment_finished {
                story.segments += 1;
            }
        }
        stories
    }
}
