//! The statistics of many requests, as one value to print or to serialize.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::Serialize;
use stagespan_model::StageRequestStats;

use crate::submission::StageFinished;

/// Requests of which an [`Aggregator`] keeps the rows, unless said otherwise.
pub const REQUESTS_KEPT_DEFAULT: usize = 10_000;

/// One request on one stage. Every key is always there; `null` is not measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageRow {
    /// The stage's number.
    pub stage_id: u32,
    /// Its name.
    pub stage_name: String,
    /// Which replica of it.
    pub replica_id: u32,
    /// How the request ended there (`stagespan.end`).
    pub end: &'static str,
    /// Whether the queued time is split, or why not (`stagespan.split`).
    pub split: Option<&'static str>,
    /// Input tokens.
    pub num_tokens_in: u32,
    /// Output tokens; `None` without a valid QUEUED.
    pub num_tokens_out: Option<u32>,
    /// vLLM-Omni's figures and the two waits.
    #[serde(flatten)]
    pub stats: StageRequestStats,
}

impl StageRow {
    fn new(finished: &StageFinished, stats: StageRequestStats) -> Self {
        Self {
            stage_id: finished.stage.stage_id,
            stage_name: finished.stage.name.to_string(),
            replica_id: finished.stage.replica_id,
            end: finished.end.as_str(),
            split: finished.timeline.as_ref().map(|t| t.split().as_str()),
            num_tokens_in: finished.tokens_input,
            num_tokens_out: finished.timeline.as_ref().map(|t| t.tokens_output()),
            stats,
        }
    }
}

/// The rows of one request, by stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestStages {
    /// The request's id as the client knows it.
    pub request_id: String,
    /// The engine's own id.
    pub internal_id: String,
    /// One row for each stage that has finished it, in the order of the stages.
    pub stages: Vec<StageRow>,
}

/// What holds for all requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OverallSummary {
    /// Requests seen.
    pub e2e_requests: u64,
    /// Input tokens of stage 0 and output tokens of all stages.
    pub e2e_total_tokens: u64,
    /// Requests whose rows are no longer kept.
    pub requests_omitted: u64,
}

/// The statistics of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// What holds for all requests.
    pub overall_summary: OverallSummary,
    /// The rows, by request in the order in which they first finished a stage.
    pub stage_table: Vec<RequestStages>,
}

/// Collects what the stages' output processors report.
///
/// Requests are told apart by their internal ids, so two with one client id stay two.
#[derive(Debug)]
pub struct Aggregator {
    overall: OverallSummary,
    requests_max: usize,
    requests: HashMap<Arc<str>, RequestStages>,
    order: VecDeque<Arc<str>>,
}

impl Default for Aggregator {
    fn default() -> Self {
        Self::new(REQUESTS_KEPT_DEFAULT)
    }
}

impl Aggregator {
    /// An empty collection that keeps the rows of the latest `requests_max` requests.
    pub fn new(requests_max: usize) -> Self {
        Self {
            overall: OverallSummary::default(),
            requests_max,
            requests: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Takes a request that has ended on a stage. Without statistics there is nothing to take.
    pub fn add(&mut self, finished: &StageFinished) {
        let Some(stats) = finished.stats else { return };
        let row = StageRow::new(finished, stats);
        let tokens_in = if row.stage_id == 0 { row.num_tokens_in } else { 0 };
        self.overall.e2e_total_tokens += u64::from(tokens_in) + u64::from(row.num_tokens_out.unwrap_or(0));
        if !self.requests.contains_key(&finished.internal_id) {
            self.begin(finished);
        }
        if let Some(request) = self.requests.get_mut(&finished.internal_id) {
            let place = request.stages.partition_point(|other| other.stage_id <= row.stage_id);
            request.stages.insert(place, row);
        }
    }

    fn begin(&mut self, finished: &StageFinished) {
        self.overall.e2e_requests += 1;
        if self.order.len() >= self.requests_max {
            self.overall.requests_omitted += 1;
            let Some(oldest) = self.order.pop_front() else { return };
            self.requests.remove(&oldest);
        }
        let request = RequestStages {
            request_id: finished.request_id.to_string(),
            internal_id: finished.internal_id.to_string(),
            stages: Vec::new(),
        };
        self.order.push_back(Arc::clone(&finished.internal_id));
        self.requests.insert(Arc::clone(&finished.internal_id), request);
    }

    /// The rows of one request, if it is kept.
    pub fn request(&self, internal_id: &str) -> Option<&RequestStages> {
        self.requests.get(internal_id)
    }

    /// Everything that is kept.
    pub fn summary(&self) -> Summary {
        Summary {
            overall_summary: self.overall,
            stage_table: self.order.iter().filter_map(|id| self.requests.get(id)).cloned().collect(),
        }
    }
}
