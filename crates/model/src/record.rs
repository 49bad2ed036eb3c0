//! One finished request on one stage, and the sink that takes it.

use std::sync::Arc;

use crate::anchor::ClockAnchor;
use crate::ids::SpanRef;
use crate::name::{RequestId, StageName};
use crate::stage::StageIdentity;
use crate::timeline::FinishedTimeline;

/// Where a stage's span belongs, decided by whoever assigned its ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// `own`: a trace of its own, joined by links.
    Own,
    /// `same`: in the request's trace, as a child of `request`, on the request's own clock.
    Same,
    /// `forced`: in the request's trace whatever its clock.
    Forced,
}

impl Placement {
    /// Its word in the `stagespan-span` header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Same => "same",
            Self::Forced => "forced",
        }
    }

    /// The placement with that word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Own, Self::Same, Self::Forced].into_iter().find(|p| p.as_str() == word)
    }
}

/// The span of an upstream stage, to be linked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// The upstream stage's name.
    pub stage: StageName,
    /// Its span.
    pub span: SpanRef,
}

/// The trace context of one request on one stage, as it was assigned at submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageContext {
    /// The ids of this stage's span.
    pub span: SpanRef,
    /// Where it belongs.
    pub placement: Placement,
    /// The `request` span.
    pub request: SpanRef,
    /// The `request` span's tracestate, as it came.
    pub tracestate: Option<Arc<str>>,
    /// The spans of the upstream stages.
    pub upstreams: Vec<Upstream>,
    /// `host.id` of the request's process: that of a stage on the same clock, too.
    pub request_host_id: Option<Arc<str>>,
    /// Whether the stage refused `same`: it then has a trace of its own, with fresh ids.
    pub joined_refused: bool,
}

/// Where a record's instants come from: `stagespan.clock.source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClockSource {
    /// The engine's own events.
    Events,
    /// Hooks that read the clock at the same places, where the engine records no events.
    Hook,
}

impl ClockSource {
    /// The attribute's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Hook => "hook",
        }
    }
}

/// Which child spans a record becomes: `STAGESPAN_SPANS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Detail {
    /// `waits`: the queued interval.
    #[default]
    Waits,
    /// `phases`: prefill and decode too.
    Phases,
}

/// Everything that is known of one finished request on one stage.
///
/// Producing one is cheap: the texts are shared or moved, and all naming, formatting and encoding
/// is left to the sink's own thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRecord {
    /// The request's id as the client knows it.
    pub request_id: RequestId,
    /// The engine's own id of it, where that differs.
    pub internal_id: Option<RequestId>,
    /// The stage.
    pub stage: Arc<StageIdentity>,
    /// What happened, on the stage's clock.
    pub timeline: FinishedTimeline,
    /// The one anchor that places all of the timeline's instants.
    pub anchor: ClockAnchor,
    /// The assigned context; `None` makes the stage's span a root of its own.
    pub context: Option<Box<StageContext>>,
    /// Where the instants come from.
    pub clock_source: ClockSource,
    /// The role of a companion request (`stagespan.companion.role`).
    pub companion_role: Option<Arc<str>>,
    /// Input tokens of the request on this stage (`stagespan.tokens.input`).
    pub tokens_input: u32,
    /// Which child spans it becomes.
    pub detail: Detail,
}

impl StageRecord {
    /// Into how many spans it turns: known before any is built, so that every drop is counted in
    /// spans.
    pub fn span_count(&self) -> u32 {
        1 + self.timeline.phases(self.detail).len() as u32
    }

    /// Whether its trace is sampled. Without a context there is nothing that said no.
    pub fn is_sampled(&self) -> bool {
        self.context.as_ref().is_none_or(|context| context.span.is_sampled())
    }
}

/// Takes finished records. Implementations never block, lock or do I/O: the callers are scheduler
/// and output threads.
pub trait RecordSink: Send + Sync {
    /// Takes a record; what can't be taken is dropped and counted by the sink.
    fn record(&self, record: StageRecord);

    /// Counts a request that no record could be made of.
    fn refused(&self, reason: Refusal);
}

/// Why a request has no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// More requests in flight than there are slots.
    TooManyLive,
    /// It ended without ever having had a valid QUEUED.
    NeverQueued,
}
