//! What is shown of a run: each request's figures on each stage, and their summary by stage.
//!
//! All times are lengths in nanoseconds, each measured on the clock of one stage; none is ever
//! set against a time of another stage.

use stagespan_model::{End, FinishedTimeline, Position, Split};

mod quantiles;
mod verdict;

pub(crate) use quantiles::Quantiles;
pub(crate) use verdict::Verdict;

/// One run of a pipeline.
#[derive(Clone, Debug)]
pub(crate) struct ScenarioFigures {
    /// Its name on the command line.
    pub(crate) name: String,
    /// In a few words, what makes it slow on purpose.
    pub(crate) cause: String,
    /// The stages, first to last.
    pub(crate) stages: Vec<StageFacts>,
    /// What became of each request, in the order of their arrival.
    pub(crate) requests: Vec<RequestFigures>,
}

/// What is known of a stage before it runs.
#[derive(Clone, Debug)]
pub(crate) struct StageFacts {
    /// Its name.
    pub(crate) name: String,
    /// Where it stands.
    pub(crate) position: Position,
    /// Whether its scheduler is the AR one: only there does a stamp's resolution bound the error.
    pub(crate) is_ar: bool,
}

/// What became of one request.
#[derive(Clone, Debug)]
pub(crate) struct RequestFigures {
    /// Its id.
    pub(crate) id: String,
    /// The trace of its `request` span, in hex, if it is traced.
    pub(crate) trace_id: Option<String>,
    /// `error.type`, if it failed.
    pub(crate) error: Option<&'static str>,
    /// Its figures on each stage that told of its end, first to last.
    pub(crate) stages: Vec<StageFigures>,
}

/// One request on one stage.
#[derive(Clone, Debug)]
pub(crate) struct StageFigures {
    /// The stage's number.
    pub(crate) stage_id: u32,
    /// How it ended.
    pub(crate) end: End,
    /// Its lengths; `None` if it was never validly queued.
    pub(crate) times: Option<Times>,
    /// Tokens in.
    pub(crate) tokens_in: u32,
    /// Tokens out.
    pub(crate) tokens_out: u32,
}

/// The lengths of one request on one stage, in nanoseconds of the stage's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// QUEUED to first SCHEDULED; `None` if it was never scheduled.
    pub(crate) queued_ns: Option<u64>,
    /// The split of that, or why there is none.
    pub(crate) split: Split,
    /// How long before the stamp the gate last saw the request unready.
    pub(crate) resolution_ns: Option<u64>,
    /// QUEUED to the end.
    pub(crate) total_ns: u64,
}

impl Times {
    /// The lengths of a finished timeline.
    pub(crate) fn of(timeline: &FinishedTimeline) -> Self {
        Self {
            queued_ns: timeline.queued_ns(),
            split: timeline.split(),
            resolution_ns: timeline.resolution_ns(),
            // Both instants are of one timeline and so of one clock, the end never the earlier.
            total_ns: timeline.ended().duration_since(timeline.queued()).ok().flatten().unwrap_or(0),
        }
    }
}

/// A stage over all requests of a run.
#[derive(Clone, Debug)]
pub(crate) struct StageSummary<'a> {
    /// The stage.
    pub(crate) stage: &'a StageFacts,
    /// QUEUED to first SCHEDULED, of the requests that were scheduled.
    pub(crate) queued: Option<Quantiles>,
    /// The wait for the input, of the requests whose queued time is split.
    pub(crate) input_wait: Option<Quantiles>,
    /// The ready requests' wait, of the same requests.
    pub(crate) ready_queued: Option<Quantiles>,
    /// Which wait dominates, and where to look.
    pub(crate) verdict: Verdict,
}

impl ScenarioFigures {
    /// The summary of each stage, first to last.
    pub(crate) fn summaries(&self) -> Vec<StageSummary<'_>> {
        (0..).zip(&self.stages).map(|(stage_id, stage)| self.summary(stage_id, stage)).collect()
    }

    fn summary<'a>(&'a self, stage_id: u32, stage: &'a StageFacts) -> StageSummary<'a> {
        let times: Vec<Times> =
            self.requests.iter().filter_map(|r| r.on_stage(stage_id)).filter_map(|s| s.times).collect();
        let upstream = stage_id.checked_sub(1).and_then(|id| self.stages.get(id as usize));
        StageSummary {
            stage,
            queued: Quantiles::of(times.iter().filter_map(|t| t.queued_ns)),
            input_wait: Quantiles::of(times.iter().filter_map(|t| t.split.input_wait_ns())),
            ready_queued: Quantiles::of(times.iter().filter_map(|t| t.split.ready_queued_ns())),
            verdict: Verdict::of(&times, upstream.map(|u| u.name.as_str())),
        }
    }

    /// The stage that the scenario is about: the first that waits for input behind a gate, else
    /// the last.
    pub(crate) fn focus(&self) -> Option<(u32, &StageFacts)> {
        let stages = || (0..).zip(&self.stages);
        stages().find(|(_, stage)| stage.position == Position::Gated).or_else(|| stages().last())
    }

    /// The request that queued longest on a stage; of equals the first.
    pub(crate) fn slowest_on(&self, stage_id: u32) -> Option<&RequestFigures> {
        let queued =
            |r: &RequestFigures| r.on_stage(stage_id).and_then(|s| s.times).and_then(|t| t.queued_ns);
        // `max_by_key` gives the last of equals, hence from the end.
        self.requests.iter().rev().filter(|r| queued(r).is_some()).max_by_key(|r| queued(r))
    }
}

impl RequestFigures {
    /// Its figures on a stage, if that told of its end.
    pub(crate) fn on_stage(&self, stage_id: u32) -> Option<&StageFigures> {
        self.stages.iter().find(|s| s.stage_id == stage_id)
    }
}

#[cfg(test)]
pub(crate) mod samples;
