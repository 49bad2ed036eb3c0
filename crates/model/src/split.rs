//! The split of the queued time, or the reason why there is none.

use crate::stage::Position;

/// The two waits that make up the queued time, or why they can't be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Both waits, in nanoseconds. They add up to the queued time exactly; a zero is measured.
    Measured {
        /// QUEUED to the step that saw the input ready.
        input_wait_ns: u64,
        /// That step to the first SCHEDULED.
        ready_queued_ns: u64,
    },
    /// No split, and why. The queued time itself is untouched.
    Absent(Absent),
}

/// Why a split is absent: the first reason in this order that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Absent {
    /// Stage 0 waits for no other stage.
    FirstStage,
    /// A downstream stage without an input gate, or a sender-only async_chunk stage.
    Ungated,
    /// A time of the queued interval was refused: it was no time.
    InvalidTime,
    /// The gate never saw the input ready: stamping was off, or the request ended first.
    NotObserved,
    /// The request ended after its input was ready, before its first SCHEDULED.
    NotScheduled,
    /// The stamp lies outside QUEUED … first SCHEDULED.
    OutOfInterval,
}

impl Absent {
    /// Every reason, in the order in which they are tried.
    pub const ALL: [Self; 6] = [
        Self::FirstStage,
        Self::Ungated,
        Self::InvalidTime,
        Self::NotObserved,
        Self::NotScheduled,
        Self::OutOfInterval,
    ];

    /// The value of `stagespan.split`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FirstStage => "first_stage",
            Self::Ungated => "ungated",
            Self::InvalidTime => "invalid_time",
            Self::NotObserved => "not_observed",
            Self::NotScheduled => "not_scheduled",
            Self::OutOfInterval => "out_of_interval",
        }
    }
}

/// The readings of a queued interval, in nanoseconds of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedInterval {
    /// Where the stage stands in the pipeline.
    pub position: Position,
    /// QUEUED.
    pub queued_ns: u64,
    /// The stamp, if one was taken.
    pub input_ready_ns: Option<u64>,
    /// The first SCHEDULED, if there was one.
    pub first_scheduled_ns: Option<u64>,
    /// Whether a time of this interval was refused.
    pub invalid_time: bool,
}

impl Split {
    /// Splits a queued interval. Nothing is clamped: a stamp outside the interval splits nothing.
    pub fn of(interval: QueuedInterval) -> Self {
        match Self::waits(interval) {
            Ok((input_wait_ns, ready_queued_ns)) => Self::Measured { input_wait_ns, ready_queued_ns },
            Err(reason) => Self::Absent(reason),
        }
    }

    fn waits(interval: QueuedInterval) -> Result<(u64, u64), Absent> {
        match interval.position {
            Position::First => return Err(Absent::FirstStage),
            Position::Ungated => return Err(Absent::Ungated),
            Position::Gated => {}
        }
        if interval.invalid_time {
            return Err(Absent::InvalidTime);
        }
        let ready = interval.input_ready_ns.ok_or(Absent::NotObserved)?;
        let scheduled = interval.first_scheduled_ns.ok_or(Absent::NotScheduled)?;
        let input_wait_ns = ready.checked_sub(interval.queued_ns).ok_or(Absent::OutOfInterval)?;
        let ready_queued_ns = scheduled.checked_sub(ready).ok_or(Absent::OutOfInterval)?;
        Ok((input_wait_ns, ready_queued_ns))
    }

    /// `measured`, or the reason: the value of `stagespan.split`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Measured { .. } => "measured",
            Self::Absent(reason) => reason.as_str(),
        }
    }

    /// The wait for the input in nanoseconds.
    pub const fn input_wait_ns(self) -> Option<u64> {
        match self {
            Self::Measured { input_wait_ns, .. } => Some(input_wait_ns),
            Self::Absent(_) => None,
        }
    }

    /// The ready request's wait for scheduling in nanoseconds.
    pub const fn ready_queued_ns(self) -> Option<u64> {
        match self {
            Self::Measured { ready_queued_ns, .. } => Some(ready_queued_ns),
            Self::Absent(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
