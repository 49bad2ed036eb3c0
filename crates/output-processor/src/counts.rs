//! What was ignored, by reason.

/// Why something that came from a stage, or about it, was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// An id that is not in flight and has not ended lately.
    UnknownRequest,
    /// An output of a request that has ended.
    AfterEnd,
    /// A request submitted under an internal id that is in flight.
    DuplicateRequest,
    /// A request beyond the bound on live ones.
    TooManyLive,
    /// A request that ended without a valid QUEUED.
    NeverQueued,
    /// A QUEUED whose time is no time.
    InvalidQueued,
    /// A SCHEDULED whose time is no time.
    InvalidScheduled,
    /// A PREEMPTED whose time is no time.
    InvalidPreempted,
    /// An input-ready stamp that is no time.
    InvalidInputReady,
    /// A batch whose timestamp is no time.
    InvalidBatchTime,
    /// An event, stamp or token before the request's QUEUED.
    BeforeQueued,
    /// An event that lies before what it must follow.
    OutOfOrder,
    /// Another input-ready stamp than the first.
    RepeatedStamp,
    /// An instant or an anchor of another clock.
    ForeignClock,
    /// An anchor older than the one in force.
    StaleAnchor,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 15] = [
        Self::UnknownRequest,
        Self::AfterEnd,
        Self::DuplicateRequest,
        Self::TooManyLive,
        Self::NeverQueued,
        Self::InvalidQueued,
        Self::InvalidScheduled,
        Self::InvalidPreempted,
        Self::InvalidInputReady,
        Self::InvalidBatchTime,
        Self::BeforeQueued,
        Self::OutOfOrder,
        Self::RepeatedStamp,
        Self::ForeignClock,
        Self::StaleAnchor,
    ];

    /// Its name in logs and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnknownRequest => "unknown_request",
            Self::AfterEnd => "after_end",
            Self::DuplicateRequest => "duplicate_request",
            Self::TooManyLive => "too_many_live",
            Self::NeverQueued => "never_queued",
            Self::InvalidQueued => "invalid_queued",
            Self::InvalidScheduled => "invalid_scheduled",
            Self::InvalidPreempted => "invalid_preempted",
            Self::InvalidInputReady => "invalid_input_ready",
            Self::InvalidBatchTime => "invalid_batch_time",
            Self::BeforeQueued => "before_queued",
            Self::OutOfOrder => "out_of_order",
            Self::RepeatedStamp => "repeated_stamp",
            Self::ForeignClock => "foreign_clock",
            Self::StaleAnchor => "stale_anchor",
        }
    }
}

/// How often each reason came up. It only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    by_reason: [u64; Reason::ALL.len()],
}

impl Counts {
    /// How often `reason` came up.
    pub fn get(&self, reason: Reason) -> u64 {
        self.by_reason[reason as usize]
    }

    /// The reasons that came up, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().map(|reason| (reason, self.get(reason))).filter(|(_, n)| *n > 0)
    }

    pub(crate) fn note(&mut self, reason: Reason) {
        self.by_reason[reason as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_place_and_a_name_of_its_own() {
        let mut counts = Counts::default();
        for (i, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, i);
            (0..=i).for_each(|_| counts.note(reason));
        }
        let seen: Vec<_> = counts.iter().map(|(reason, n)| (reason, n as usize)).collect();
        assert_eq!(seen, Reason::ALL.into_iter().zip(1..).collect::<Vec<_>>());
        let names: std::collections::HashSet<_> = Reason::ALL.map(Reason::as_str).into();
        assert_eq!(names.len(), Reason::ALL.len());
    }
}
