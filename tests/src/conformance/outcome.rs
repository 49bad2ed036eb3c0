//! What became of a workload's requests, step by step.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stagespan_model::split::QueuedInterval;
use stagespan_model::{Position, Split};

/// One request's story. Instants are step numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Story {
    /// QUEUED, SCHEDULED and PREEMPTED, in order.
    pub events: Vec<(String, u64)>,
    /// The step that first saw its input ready.
    pub ready: Option<u64>,
    /// Segments that ended, with vLLM's finish reason.
    pub segments: Vec<(u64, String)>,
    /// The step in which it ended, with vLLM's status.
    pub end: Option<(u64, String)>,
    /// Finish reason and stop reason of its terminal output, if one was sent.
    pub output: Option<(String, serde_json::Value)>,
    /// Tokens sent.
    pub sampled: usize,
}

impl Story {
    fn first(&self, kind: &str) -> Option<u64> {
        self.events.iter().find(|(name, _)| name == kind).map(|(_, step)| *step)
    }

    /// Times it was preempted.
    pub fn preemptions(&self) -> usize {
        self.events.iter().filter(|(name, _)| name == "PREEMPTED").count()
    }

    /// The split that follows, in steps.
    pub fn split(&self, position: Position) -> Option<Split> {
        let interval = QueuedInterval {
            position,
            queued_ns: self.first("QUEUED")?,
            input_ready_ns: self.ready,
            first_scheduled_ns: self.first("SCHEDULED"),
            invalid_time: false,
        };
        Some(Split::of(interval))
    }
}

/// All stories of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// By request id.
    pub requests: BTreeMap<String, Story>,
    /// For each step, who was given how many tokens, in scheduling order.
    pub plans: Vec<Vec<(String, u32)>>,
    /// Requests that still lived after the last step.
    pub live: Vec<String>,
}
