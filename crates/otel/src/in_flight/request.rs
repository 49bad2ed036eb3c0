//! A request in flight, and what is said of it.

use std::fmt;
use std::time::Duration;

use stagespan_model::{Gate, Position, StageName};

use super::StageFacts;

/// What a request on a stage waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Its input, behind the stage's gate.
    Input,
    /// A slot among the streams that receive chunks (`active_stream_window`): part of its input
    /// wait.
    StreamSlot,
    /// To be scheduled; its input is ready.
    Ready,
    /// To be scheduled, on a stage without a gate that would tell whether its input is there.
    Scheduling,
    /// Nothing: it has been scheduled.
    Over,
}

impl Wait {
    /// Whether it is one.
    pub const fn is_wait(self) -> bool {
        !matches!(self, Self::Over)
    }
}

/// A request in flight on a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInFlight {
    /// Its id, cut at 128 bytes, control characters escaped.
    pub request_id: String,
    /// The stage.
    pub stage: StageFacts,
    /// What it waits for.
    pub wait: Wait,
    /// The time since it was queued.
    pub queued_for: Duration,
    /// The time that it has been in this wait; for [`Wait::Over`] since it was scheduled.
    pub waits_for: Duration,
}

const LOOK_AT: &str = "look at this stage's slots, token budget and KV space";

impl fmt::Display for RequestInFlight {
    /// Which wait it is, how long, and what is missing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request_id, stage, wait, queued_for, waits_for } = self;
        let StageFacts { name, gate, position, upstreams } = stage;
        let queued_s = queued_for.as_secs();
        write!(f, "request {request_id} on stage {name} ")?;
        match wait {
            Wait::Input => {
                let missing = if *gate == Gate::FullPayload { "payload" } else { "chunk" };
                write!(f, "has waited {queued_s} s for its input ({} gate; no {missing}", gate.as_str())?;
                from(f, upstreams)?;
                f.write_str(" yet)")
            }
            Wait::StreamSlot => write!(
                f,
                "has waited {queued_s} s for its input ({} gate; no free place in its active_stream_window yet)",
                gate.as_str()
            ),
            Wait::Ready => {
                let ready_s = waits_for.as_secs();
                write!(
                    f,
                    "has waited {queued_s} s, the last {ready_s} s of it with its input ready, \
                     to be scheduled ({LOOK_AT})"
                )
            }
            Wait::Scheduling if *position == Position::First => {
                write!(f, "has waited {queued_s} s to be scheduled ({LOOK_AT})")
            }
            Wait::Scheduling => write!(
                f,
                "has waited {queued_s} s to be scheduled (no gate tells whether its input is there; {LOOK_AT})"
            ),
            Wait::Over => write!(f, "was scheduled {} s ago", waits_for.as_secs()),
        }
    }
}

fn from(f: &mut fmt::Formatter<'_>, upstreams: &[StageName]) -> fmt::Result {
    for (position, upstream) in upstreams.iter().enumerate() {
        let word = if position == 0 { " from" } else { " or" };
        write!(f, "{word} {upstream}")?;
    }
    Ok(())
}
