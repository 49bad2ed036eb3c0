//! What a step hands out: the plan for the model, and what is to be sent.

use stagespan_model::{End, EngineCoreEvent, Instant};

use crate::request::RequestHandle;

/// One request's share of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// The request.
    pub handle: RequestHandle,
    /// Tokens to compute in this step.
    pub tokens: u32,
    /// Tokens that were computed before it.
    pub computed_before: u32,
    /// Whether this step completes the input known so far, so that an AR model samples a token.
    pub completes_input: bool,
}

/// What the model is to run in one step. Give it back to
/// [`update`](crate::Scheduler::update) with what the model made of it.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "the tokens count as computed: run the plan and give it to `update`"]
pub struct StepPlan {
    /// In scheduling order; no request stands in it twice.
    pub scheduled: Vec<Scheduled>,
}

impl StepPlan {
    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.scheduled.is_empty()
    }

    /// Tokens of the whole step.
    pub fn tokens(&self) -> u32 {
        self.scheduled.iter().map(|scheduled| scheduled.tokens).sum()
    }
}

/// What became of a call to [`step`](crate::Scheduler::step).
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Run this (it may be empty) and call [`update`](crate::Scheduler::update).
    Run(StepPlan),
    /// Input coalescing waits for a fuller batch: deliver what arrives, and call
    /// [`step`](crate::Scheduler::step) again on each delivery and at the latest at `until`.
    Wait {
        /// When to go on without more input.
        until: Instant,
    },
}

/// What the model made of one request's share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The request.
    pub handle: RequestHandle,
    /// Tokens sampled: for AR one where the input is complete, none otherwise.
    pub token_ids: Vec<u32>,
    /// Whether there is anything else to send (audio of a generation stage).
    pub has_payload: bool,
}

/// vLLM's `stop_reason`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The stop token that ended the request.
    Token(u32),
    /// What went wrong.
    Text(String),
}

/// How a request, or a segment of it, ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How.
    pub end: End,
    /// The stop token, or what went wrong, for a reader.
    pub stop_reason: Option<StopReason>,
}

/// The stamp: the scheduler step that first saw the input ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputReady {
    /// The observation.
    pub at: Instant,
    /// How long before it the gate last saw the request unready (or the request was added), in
    /// nanoseconds.
    pub resolution_ns: Option<u64>,
}

/// One output to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageOutput {
    /// The request.
    pub handle: RequestHandle,
    /// Tokens sampled since its last output.
    pub new_token_ids: Vec<u32>,
    /// Set on the last output of a request, and of a segment of a streaming session.
    pub finished: Option<Finished>,
    /// `finished` ends a segment; the request lives on.
    pub segment_finished: bool,
    /// Events since its last output. Empty when nothing is observed.
    pub events: Vec<EngineCoreEvent>,
    /// The stamp, once, on the first output that carries events.
    pub input_ready: Option<InputReady>,
    /// Preemptions so far.
    pub preemptions: u32,
}

impl StageOutput {
    /// Whether the request is gone after this output.
    pub const fn is_last(&self) -> bool {
        self.finished.is_some() && !self.segment_finished
    }
}
