//! Who the stage is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::clock_domain::ClockDomain;
use crate::name::StageName;

/// The input gate of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// No input gate.
    #[default]
    None,
    /// Holds a request until its first upstream chunk.
    AsyncChunk,
    /// Holds a request until its whole payload is there.
    FullPayload,
}

impl Gate {
    /// The value of `stagespan.gate`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::AsyncChunk => "async_chunk",
            Self::FullPayload => "full_payload",
        }
    }
}

/// Where a stage stands: whether it waits for another stage's output, and behind a gate that can
/// tell when that was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// Stage 0.
    First,
    /// A downstream stage without a gate, or a sender-only async_chunk stage.
    Ungated,
    /// A downstream stage whose gate sees the input become ready.
    Gated,
}

impl Position {
    /// The position of stage `stage_id` with `gate`; a sender-only async_chunk stage receives
    /// nothing, so its gate holds nothing.
    pub const fn of(stage_id: u32, gate: Gate, sender_only: bool) -> Self {
        match (stage_id, gate) {
            (0, _) => Self::First,
            (_, Gate::None) => Self::Ungated,
            (_, Gate::AsyncChunk) if sender_only => Self::Ungated,
            (_, Gate::AsyncChunk | Gate::FullPayload) => Self::Gated,
        }
    }
}

/// The OpenTelemetry resource of the process that runs a stage's engine: the stage's own, not
/// that of the process that exports its spans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StageResource {
    /// `service.instance.id`: stage, replica, host and pid.
    pub service_instance_id: String,
    /// `service.version` of the engine.
    pub service_version: String,
    /// `host.id`, also exported as `ip` (Jaeger before 2.15 compares only that).
    pub host_id: String,
    /// `host.name`.
    pub host_name: String,
    /// `process.pid`.
    pub process_pid: u32,
    /// Further attributes that the environment gives, such as `k8s.pod.name`.
    pub extra: Vec<(String, String)>,
}

/// One stage engine: what is common to all of its records. Shared by pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageIdentity {
    /// The stage's number in the pipeline, from 0.
    pub stage_id: u32,
    /// Its name.
    pub name: StageName,
    /// Which replica of the stage.
    pub replica_id: u32,
    /// Its input gate.
    pub gate: Gate,
    /// Its position.
    pub position: Position,
    /// The clock that all of its instants are read on.
    pub clock_domain: ClockDomain,
    /// Its process's resource.
    pub resource: Arc<StageResource>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_stages_are_gated() {
        use Gate::*;
        let table = [
            ((0, None, false), Position::First),
            ((0, AsyncChunk, false), Position::First),
            ((1, None, false), Position::Ungated),
            ((1, AsyncChunk, false), Position::Gated),
            ((1, AsyncChunk, true), Position::Ungated),
            ((2, FullPayload, false), Position::Gated),
            // `role = sender` speaks of chunks; the payload gate holds such a stage all the same.
            ((2, FullPayload, true), Position::Gated),
        ];
        for ((stage_id, gate, sender_only), expected) in table {
            assert_eq!(
                Position::of(stage_id, gate, sender_only),
                expected,
                "{stage_id} {gate:?} {sender_only}"
            );
        }
    }
}
