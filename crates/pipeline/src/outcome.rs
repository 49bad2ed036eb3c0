//! What became of a request.

use stagespan_model::{End, ErrorType, FinishedTimeline, RequestId, StageName, StageRequestStats, TraceId};

/// What became of a request on all its stages.
#[derive(Clone, Debug)]
pub struct RequestOutcome {
    /// Its id as the client knows it.
    pub request_id: RequestId,
    /// The trace of its `request` span, when it is traced.
    pub trace_id: Option<TraceId>,
    /// What became of it on each stage that told of its end, first to last.
    pub stages: Vec<StageOutcome>,
    /// Why it failed, if it did.
    pub error: Option<ErrorType>,
}

/// What became of a request on one stage.
#[derive(Clone, Debug)]
pub struct StageOutcome {
    /// The stage's number.
    pub stage_id: u32,
    /// The stage's name.
    pub stage: StageName,
    /// How it ended.
    pub end: End,
    /// Its instants, phases and split; `None` without a valid QUEUED, or with events off.
    pub timeline: Option<FinishedTimeline>,
    /// vLLM-Omni's statistics, with the two waits.
    pub stats: StageRequestStats,
    /// Input tokens on this stage.
    pub tokens_input: u32,
    /// Output tokens of this stage.
    pub tokens_output: u32,
}
