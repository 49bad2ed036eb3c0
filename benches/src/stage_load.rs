//! Schedulers with many requests that wait, and the same changes in every step.

use std::collections::VecDeque;

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;
use serde::Serialize;
use stagespan_model::{Clock, Gate, Instant, ManualClock};
use stagespan_scheduler::{
    Chunk, NewRequest, Payload, RequestHandle, Sampled, Scheduler, SchedulerConfig, SchedulerKind, Step,
    StepPlan,
};

/// In every step as many requests come in, become ready, are first scheduled, and end.
pub(crate) const CHANGES: usize = 2;
/// Requests that run: vLLM's default for `max_num_seqs`. Together with [`CHANGES`] it says for how many steps each does.
pub(crate) const RUNNING: usize = 256;
const PROMPT_TOKENS: u32 = 16;
const OUTPUT_TOKENS: u32 = (RUNNING / CHANGES) as u32;
const STEP_NS: u64 = 5_000_000;

/// What the requests wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Load {
    /// Held at the full-payload gate. Any of them may get its payload next.
    HeldForPayload,
    /// Held at the async_chunk gate. Any of them may get its first chunk next.
    HeldForChunk,
    /// Ready: their input is there, and every slot is taken. First come, first served.
    ReadyWithoutSlot,
}

/// How the requests to stamp are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Stamp {
    /// As the scheduler does: among those that the gate pass let through.
    ReleasedSet,
    /// By going through everything that waits, besides, in the cheapest form there is: a few bytes of each, side by side.
    FullScan,
}

/// A request that waits, as a full scan sees it.
#[derive(Debug)]
struct Waiting {
    handle: RequestHandle,
    input_is_there: bool,
    stamped_at: Option<Instant>,
}

/// A scheduler and its surroundings.
pub(crate) struct StageLoad {
    load: Load,
    stamp: Stamp,
    scheduler: Scheduler,
    clock: ManualClock,
    /// In the order in which they leave, as far as that is decided.
    waiting: VecDeque<Waiting>,
    chance: Chance,
}

/// Chance that is the same in each run.
struct Chance(u64);

impl Chance {
    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

impl StageLoad {
    /// A stage where `waiting` requests wait, strewn over memory as they are after a while.
    ///
    /// # Errors
    /// If fewer than [`CHANGES`] requests are to wait, or after the first rounds others do.
    pub(crate) fn new(load: Load, stamp: Stamp, waiting: usize) -> anyhow::Result<Self> {
        ensure!(waiting >= CHANGES, "{waiting} requests cannot make {CHANGES} changes in a step");
        let gate = match load {
            Load::HeldForChunk => Gate::AsyncChunk,
            Load::HeldForPayload | Load::ReadyWithoutSlot => Gate::FullPayload,
        };
        let mut config = SchedulerConfig::new(SchedulerKind::Ar, 1, gate);
        // All of them are taken in every step; those that are held could run if they had their input.
        config.max_num_seqs = match load {
            Load::ReadyWithoutSlot => RUNNING as u32,
            Load::HeldForPayload | Load::HeldForChunk => 2 * RUNNING as u32,
        };
        // Enough for all that run.
        config.kv_blocks = 8 * RUNNING as u32 * (PROMPT_TOKENS + OUTPUT_TOKENS) / config.block_size;
        let mut stage = Self {
            load,
            stamp,
            scheduler: Scheduler::new(config)?,
            clock: ManualClock::new(1_000 * STEP_NS),
            waiting: VecDeque::with_capacity(waiting + CHANGES),
            chance: Chance(0x9e37_79b9_7f4a_7c15),
        };
        // A slot that was freed last is taken first: so the requests that stay come to lie in the order in which these go.
        for _ in 0..waiting {
            stage.arrive();
        }
        while !stage.waiting.is_empty() {
            let index = stage.chance.below(stage.waiting.len());
            if let Some(gone) = stage.waiting.swap_remove_back(index) {
                stage.scheduler.abort(gone.handle);
            }
        }
        drop(stage.scheduler.take_outputs());
        stage.begin(waiting)?;
        let counts = stage.scheduler.counts();
        let found = if load == Load::ReadyWithoutSlot { counts.ready } else { counts.held };
        ensure!(
            (found, counts.running) == (waiting, RUNNING - CHANGES),
            "{counts:?} where {waiting} should wait"
        );
        Ok(stage)
    }

    /// Until `waiting` requests wait, and as many run as will, which end a few in each step.
    fn begin(&mut self, waiting: usize) -> anyhow::Result<()> {
        if self.load != Load::ReadyWithoutSlot {
            (0..waiting).for_each(|_| self.arrive());
            // They are held from here on, and an async_chunk gate asks for their first chunk.
            let Step::Run(plan) = self.step() else { bail!("the scheduler waits") };
            ensure!(plan.is_empty(), "{plan:?} without any input");
        }
        self.rounds(OUTPUT_TOKENS)?;
        if self.load == Load::ReadyWithoutSlot {
            (0..waiting).for_each(|_| self.arrive());
        }
        // The first steps see all of these become ready, or the first of those that ran end.
        self.rounds(OUTPUT_TOKENS)
    }

    fn rounds(&mut self, count: u32) -> anyhow::Result<()> {
        for _ in 0..count {
            self.before_step();
            let step = self.step();
            self.after_step(step)?;
        }
        Ok(())
    }

    fn arrive(&mut self) {
        let new =
            NewRequest { prompt_tokens: PROMPT_TOKENS, max_tokens: OUTPUT_TOKENS, ..NewRequest::default() };
        let handle = self.scheduler.add_request(new, &self.clock);
        self.waiting.push_back(Waiting { handle, input_is_there: false, stamped_at: None });
        if self.load == Load::ReadyWithoutSlot {
            self.deliver(self.waiting.len() - 1);
        }
    }

    fn deliver(&mut self, index: usize) {
        let waiting = &mut self.waiting[index];
        waiting.input_is_there = true;
        match self.load {
            Load::HeldForChunk => {
                let only = Chunk { tokens: PROMPT_TOKENS, finished: true, segment_finished: false };
                self.scheduler.deliver_chunk(waiting.handle, only);
            }
            Load::HeldForPayload | Load::ReadyWithoutSlot => {
                self.scheduler.deliver_payload(waiting.handle, Payload::default());
            }
        }
    }

    /// What happens before a step: some inputs come, and some requests do.
    pub(crate) fn before_step(&mut self) {
        self.clock.advance_ns(STEP_NS);
        if self.load != Load::ReadyWithoutSlot {
            for front in 0..CHANGES {
                let index = front + self.chance.below(self.waiting.len() - front);
                self.waiting.swap(front, index);
                self.deliver(front);
            }
        }
        for _ in 0..CHANGES {
            self.arrive();
        }
    }

    /// The step, and nothing else: this is measured, and counted under this name.
    #[inline(never)]
    pub(crate) fn measured_step(&mut self) -> Step {
        self.step()
    }

    fn step(&mut self) -> Step {
        let step = self.scheduler.step(&self.clock);
        if self.stamp == Stamp::FullScan {
            let at = self.clock.now();
            for waiting in &mut self.waiting {
                if waiting.input_is_there && waiting.stamped_at.is_none() {
                    waiting.stamped_at = Some(at);
                }
            }
        }
        step
    }

    /// What happens after a step: the model samples, requests end, outputs are sent.
    ///
    /// # Errors
    /// If the step was not the one that was set up, or the full scan found another stamp.
    pub(crate) fn after_step(&mut self, step: Step) -> anyhow::Result<()> {
        let Step::Run(plan) = step else { bail!("the scheduler waits") };
        let first = plan.scheduled.iter().filter(|one| one.computed_before == 0).count();
        ensure!(first == CHANGES, "{first} requests were scheduled for the first time");
        let sampled = sample(&plan);
        self.scheduler.update(plan, &sampled, &self.clock);
        let outputs = self.scheduler.take_outputs();
        for gone in self.waiting.drain(..CHANGES) {
            let output = outputs.iter().find(|output| output.handle == gone.handle);
            let output = output.with_context(|| format!("{gone:?} did not run"))?;
            let ready = output.input_ready.with_context(|| format!("no stamp: {output:?}"))?;
            ensure!(
                self.stamp == Stamp::ReleasedSet || gone.stamped_at == Some(ready.at),
                "{gone:?}, {ready:?}"
            );
        }
        Ok(())
    }

    /// A whole round.
    ///
    /// # Errors
    /// As [`after_step`](Self::after_step).
    pub(crate) fn round(&mut self) -> anyhow::Result<()> {
        self.before_step();
        let step = self.measured_step();
        self.after_step(step)
    }
}

fn sample(plan: &StepPlan) -> Vec<Sampled> {
    let scheduled = plan.scheduled.iter();
    scheduled.map(|one| Sampled { handle: one.handle, token_ids: vec![7], has_payload: false }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_keeps_its_number_and_both_ways_stamp_the_same() {
        for load in Load::value_variants() {
            for stamp in Stamp::value_variants() {
                let mut stage = StageLoad::new(*load, *stamp, 100).expect("a stage with 100 requests");
                for _ in 0..40 {
                    stage.round().unwrap_or_else(|error| panic!("{load:?}, {stamp:?}: {error:#}"));
                }
                assert_eq!(
                    (stage.waiting.len(), stage.scheduler.counts().running),
                    (100, RUNNING - CHANGES),
                    "{load:?}"
                );
            }
        }
    }
}
