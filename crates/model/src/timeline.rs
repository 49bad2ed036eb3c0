//! The state machine of one request on one stage.

use std::fmt;

use crate::clock_domain::DomainTag;
use crate::end::{End, ErrorType};
use crate::instant::Instant;
use crate::split::{QueuedInterval, Split};
use crate::stage::Position;

mod finished;

pub use finished::{FinishedTimeline, Phase, PhaseKind, Phases};

/// Something to note on a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimelineEvent {
    /// A later QUEUED: a streaming update. It changes neither wait.
    Queued(Instant),
    /// The scheduler step that saw the input ready. The first one counts.
    InputReady {
        /// The stamp.
        at: Instant,
        /// How long before that the gate last saw the request unready, in nanoseconds.
        resolution_ns: Option<u64>,
    },
    /// A SCHEDULED. The first one ends the queued time.
    Scheduled(Instant),
    /// A PREEMPTED.
    Preempted(Instant),
    /// An output with `count` new tokens.
    Tokens {
        /// The output batch's timestamp.
        at: Instant,
        /// How many.
        count: u32,
    },
    /// A time of the queued interval was refused as no time: there will be no split.
    InvalidTime,
}

/// Why an event was ignored. The caller counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ignored {
    /// It was read on another clock.
    ForeignClock,
    /// It lies before what it must follow.
    OutOfOrder,
    /// The stamp is taken once; this was another.
    Repeated,
}

impl Ignored {
    /// Its name in counters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ForeignClock => "foreign_clock",
            Self::OutOfOrder => "out_of_order",
            Self::Repeated => "repeated",
        }
    }
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ForeignClock => "the event was read on another clock than the request's QUEUED",
            Self::OutOfOrder => "the event lies before what it must follow",
            Self::Repeated => "the input was already stamped ready",
        })
    }
}

impl std::error::Error for Ignored {}

/// One request on one stage, from QUEUED until it ends.
///
/// It begins with a valid QUEUED, so a request without one has no timeline. Any event may come at
/// any time: what doesn't fit is refused with a reason and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageTimeline {
    domain: DomainTag,
    position: Position,
    invalid_time: bool,
    queued_ns: u64,
    /// The latest of QUEUED, SCHEDULED and PREEMPTED, which come in order.
    last_event_ns: u64,
    // 0 is no instant (instant.rs), so 0 is "none" below: half the size of an Option.
    input_ready_ns: u64,
    first_scheduled_ns: u64,
    first_token_ns: u64,
    last_token_ns: u64,
    resolution_ns: Option<u64>,
    preemptions: u32,
    tokens_output: u32,
}

fn nonzero(ns: u64) -> Option<u64> {
    (ns != 0).then_some(ns)
}

impl StageTimeline {
    /// A request that the stage's scheduler took in at `queued`.
    pub fn new(position: Position, queued: Instant) -> Self {
        Self {
            domain: queued.domain(),
            position,
            invalid_time: false,
            queued_ns: queued.as_ns(),
            last_event_ns: queued.as_ns(),
            input_ready_ns: 0,
            first_scheduled_ns: 0,
            first_token_ns: 0,
            last_token_ns: 0,
            resolution_ns: None,
            preemptions: 0,
            tokens_output: 0,
        }
    }

    /// Notes an event.
    ///
    /// # Errors
    /// Says why the event was ignored; the timeline is then unchanged.
    pub fn apply(&mut self, event: TimelineEvent) -> Result<(), Ignored> {
        match event {
            TimelineEvent::Queued(at) => {
                self.last_event_ns = self.in_order(at, self.last_event_ns)?;
            }
            TimelineEvent::InputReady { at, resolution_ns } => {
                // No order is asked for: whether the stamp fits the interval is the split's say.
                let at_ns = self.in_order(at, 0)?;
                if self.input_ready_ns != 0 {
                    return Err(Ignored::Repeated);
                }
                self.input_ready_ns = at_ns;
                self.resolution_ns = resolution_ns;
            }
            TimelineEvent::Scheduled(at) => {
                self.last_event_ns = self.in_order(at, self.last_event_ns)?;
                if self.first_scheduled_ns == 0 {
                    self.first_scheduled_ns = at.as_ns();
                }
            }
            TimelineEvent::Preempted(at) => {
                let at_ns = self.in_order(at, self.last_event_ns)?;
                if self.first_scheduled_ns == 0 {
                    return Err(Ignored::OutOfOrder);
                }
                self.last_event_ns = at_ns;
                self.preemptions = self.preemptions.saturating_add(1);
            }
            TimelineEvent::Tokens { at, count } => {
                if self.first_scheduled_ns == 0 {
                    return Err(Ignored::OutOfOrder);
                }
                let at_ns = self.in_order(at, self.first_scheduled_ns.max(self.last_token_ns))?;
                if self.first_token_ns == 0 {
                    self.first_token_ns = at_ns;
                }
                self.last_token_ns = at_ns;
                self.tokens_output = self.tokens_output.saturating_add(count);
            }
            TimelineEvent::InvalidTime => self.invalid_time = true,
        }
        Ok(())
    }

    /// `at` in nanoseconds, if it is on this clock and not before `earliest_ns`.
    fn in_order(&self, at: Instant, earliest_ns: u64) -> Result<u64, Ignored> {
        if at.domain() != self.domain {
            return Err(Ignored::ForeignClock);
        }
        if at.as_ns() < earliest_ns {
            return Err(Ignored::OutOfOrder);
        }
        Ok(at.as_ns())
    }

    /// Ends the request. The end is never before the last event or token; an `at` of another clock
    /// counts as the last of these.
    pub fn finish(self, at: Instant, end: End) -> FinishedTimeline {
        let latest_ns = self.last_event_ns.max(self.last_token_ns);
        let end_ns = self.in_order(at, latest_ns).unwrap_or(latest_ns);
        FinishedTimeline::new(self, end_ns, end)
    }

    /// Which wait the request is in, while it is neither scheduled nor ended; for a warning about
    /// one that waits long.
    pub fn waiting_for(&self) -> Option<PhaseKind> {
        match (self.position, self.first_scheduled_ns, self.input_ready_ns) {
            (Position::Gated, 0, 0) => Some(PhaseKind::InputWait),
            (Position::Gated, 0, _) => Some(PhaseKind::ReadyQueued),
            (_, 0, _) => Some(PhaseKind::Queued),
            _ => None,
        }
    }

    /// QUEUED.
    pub fn queued(&self) -> Instant {
        #[expect(clippy::expect_used, reason = "the number came out of an Instant of this domain")]
        Instant::from_ns(self.queued_ns, self.domain).expect("an instant's own number")
    }

    /// The first SCHEDULED, if there was one.
    pub fn is_scheduled(&self) -> bool {
        self.first_scheduled_ns != 0
    }
}

#[cfg(test)]
mod tests;
