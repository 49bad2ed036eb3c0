//! The engine-core events.

use crate::instant::Instant;

/// The kind of an engine-core event, with vLLM's numbers (`EngineCoreEventType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// The scheduler took the request in (or a streaming update of it).
    Queued = 1,
    /// The scheduler gave the request its first tokens of a run.
    Scheduled = 2,
    /// The scheduler took the request's KV blocks away.
    Preempted = 3,
}

impl EventKind {
    /// The kind with vLLM's number `code`.
    pub const fn from_code(code: u64) -> Option<Self> {
        match code {
            1 => Some(Self::Queued),
            2 => Some(Self::Scheduled),
            3 => Some(Self::Preempted),
            _ => None,
        }
    }

    /// vLLM's number.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// Something that happened to a request in a stage's scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineCoreEvent {
    /// What happened.
    pub kind: EventKind,
    /// When, on the stage's own clock.
    pub at: Instant,
}
