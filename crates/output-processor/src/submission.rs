//! What goes into an output processor beside the outputs, and what comes out.

use std::fmt;
use std::sync::Arc;

use stagespan_model::live::LIVE_SLOTS_DEFAULT;
use stagespan_model::{
    ClockAnchor, Detail, End, ErrorType, FinishedTimeline, RecordSink, RequestId, StageContext,
    StageIdentity, StageRequestStats,
};

/// What an output processor is to make of the outputs.
#[derive(Clone)]
pub struct Options {
    /// Tracing: where the stage records go. `None` is off.
    pub sink: Option<Arc<dyn RecordSink>>,
    /// Statistics: whether `StageRequestStats` are kept.
    pub statistics: bool,
    /// Which child spans a record becomes.
    pub detail: Detail,
    /// Requests in flight at most; one beyond is counted and otherwise left alone.
    pub live_max: usize,
}

impl Default for Options {
    /// Tracing and statistics off.
    fn default() -> Self {
        Self { sink: None, statistics: false, detail: Detail::default(), live_max: LIVE_SLOTS_DEFAULT }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("tracing", &self.sink.is_some())
            .field("statistics", &self.statistics)
            .field("detail", &self.detail)
            .field("live_max", &self.live_max)
            .finish()
    }
}

/// A request that was submitted to the stage.
#[derive(Clone, Debug)]
pub struct Submission<'a> {
    /// The engine's own id, under which the outputs come.
    pub internal_id: &'a str,
    /// The id as the client knows it.
    pub request_id: RequestId,
    /// The trace context that was assigned, as it stands in the submit message.
    pub context: Option<Box<StageContext>>,
    /// The request's anchor, which times a stage on the request's own clock.
    pub request_anchor: Option<ClockAnchor>,
    /// Input tokens on this stage.
    pub tokens_input: u32,
    /// The role of a companion request.
    pub companion_role: Option<Arc<str>>,
    /// Whether streaming updates may follow.
    pub resumable: bool,
}

impl<'a> Submission<'a> {
    /// A request known by one id, without context.
    pub fn new(internal_id: &'a str) -> Self {
        Self {
            internal_id,
            request_id: RequestId::from(internal_id),
            context: None,
            request_anchor: None,
            tokens_input: 0,
            companion_role: None,
            resumable: false,
        }
    }
}

/// A request that has ended on the stage.
#[derive(Clone, Debug)]
pub struct StageFinished {
    /// The stage.
    pub stage: Arc<StageIdentity>,
    /// The engine's own id.
    pub internal_id: Arc<str>,
    /// The id as the client knows it.
    pub request_id: RequestId,
    /// How it ended.
    pub end: End,
    /// Input tokens on this stage.
    pub tokens_input: u32,
    /// What happened, on the stage's clock; `None` without a valid QUEUED.
    pub timeline: Option<FinishedTimeline>,
    /// The statistics; `None` where they are off.
    pub stats: Option<StageRequestStats>,
}

impl StageFinished {
    /// The error, if the end is one.
    pub fn error_type(&self) -> Option<ErrorType> {
        match &self.timeline {
            Some(timeline) => timeline.error_type(),
            None => self.end.error_type(false),
        }
    }
}
