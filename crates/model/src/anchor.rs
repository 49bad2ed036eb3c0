//! The (monotonic, wall) pair that places a stage's instants in wall time.

use std::fmt;

use crate::clock::Clock;
use crate::instant::{ForeignClock, Instant};

/// Brackets read for one anchor; the tightest is kept.
const BRACKETS: usize = 8;
/// A pair less certain than this is read again (spec: 5 ms).
const PAIR_UNCERTAINTY_MAX_NS: u64 = 5_000_000;
/// How often an uncertain pair is read again.
const PAIR_TRIES: usize = 5;
/// Offsets further apart than this belong to two clocks (spec: 20 ms).
const PAIR_OFFSET_MAX_NS: u64 = 20_000_000;

/// A monotonic instant and the unix time read together with it.
///
/// OTLP wants wall time. One anchor serves all instants of a stage span, so every exported
/// duration equals the monotonic difference to the nanosecond, whatever the wall clock does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockAnchor {
    monotonic: Instant,
    wall_unix_ns: u64,
    uncertainty_ns: u64,
}

/// Why an instant could not be placed in wall time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnchorError {
    /// The instant was read on another clock than the anchor.
    Foreign(ForeignClock),
    /// The result lies before 1970 or after 2554: the anchor's wall reading is no unix time.
    OutOfRange,
}

impl fmt::Display for AnchorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(foreign) => foreign.fmt(f),
            Self::OutOfRange => {
                f.write_str("the instant's wall time is outside 1970–2554; is the anchor's wall clock set?")
            }
        }
    }
}

impl std::error::Error for AnchorError {}

impl ClockAnchor {
    /// An anchor from its parts, as a peer sent them.
    pub const fn new(monotonic: Instant, wall_unix_ns: u64, uncertainty_ns: u64) -> Self {
        Self { monotonic, wall_unix_ns, uncertainty_ns }
    }

    /// Reads monotonic, wall, monotonic several times and keeps the tightest bracket; its
    /// half-width is the uncertainty.
    pub fn read(clock: &dyn Clock) -> Self {
        let bracket = || {
            let before = clock.now();
            let wall_unix_ns = clock.wall_unix_ns();
            let after = clock.now();
            // A clock's own readings share a domain and never go back, so the width is known.
            let width = after.duration_since(before).ok().flatten().unwrap_or(0);
            let monotonic = before.plus_ns(width / 2).unwrap_or(before);
            Self { monotonic, wall_unix_ns, uncertainty_ns: width.div_ceil(2) }
        };
        let mut best = bracket();
        for _ in 1..BRACKETS {
            let next = bracket();
            if next.uncertainty_ns < best.uncertainty_ns {
                best = next;
            }
        }
        best
    }

    /// The unix time of `at` in nanoseconds, by this anchor.
    ///
    /// # Errors
    /// An instant of another clock, or a result that unix nanoseconds can't hold.
    pub fn wall_ns(&self, at: Instant) -> Result<u64, AnchorError> {
        let wall = match at.duration_since(self.monotonic).map_err(AnchorError::Foreign)? {
            Some(later) => self.wall_unix_ns.checked_add(later),
            None => self.wall_unix_ns.checked_sub(self.monotonic.as_ns() - at.as_ns()),
        };
        wall.ok_or(AnchorError::OutOfRange)
    }

    /// The anchor's monotonic instant.
    pub const fn monotonic(&self) -> Instant {
        self.monotonic
    }

    /// The anchor's unix time in nanoseconds.
    pub const fn wall_unix_ns(&self) -> u64 {
        self.wall_unix_ns
    }

    /// How far the two readings may lie apart, in nanoseconds.
    pub const fn uncertainty_ns(&self) -> u64 {
        self.uncertainty_ns
    }
}

/// A pair of raw readings that backs a claim to be on the same clock.
///
/// The one place where readings of two processes meet, and only to *refuse* a claim: snapshot
/// clones of a machine share a boot id, but not their clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPair {
    /// The monotonic reading in nanoseconds.
    pub monotonic_ns: u64,
    /// Unix time in nanoseconds.
    pub wall_unix_ns: u64,
}

/// What two pairs say of a claim to be on the same clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairCheck {
    /// Nothing speaks against the claim.
    Agrees,
    /// The offsets are more than 20 ms apart: another clock (or a wall clock just stepped).
    OffsetsDiffer {
        /// How far apart, in nanoseconds.
        apart_ns: u64,
    },
    /// The receipt reads earlier than the submission: another clock.
    ReceivedBeforeSent,
}

impl ClockPair {
    /// A pair read now; `None` when five tries gave none that is certain to 5 ms.
    pub fn read(clock: &dyn Clock) -> Option<Self> {
        (0..PAIR_TRIES)
            .map(|_| ClockAnchor::read(clock))
            .find(|anchor| anchor.uncertainty_ns <= PAIR_UNCERTAINTY_MAX_NS)
            .map(|anchor| Self { monotonic_ns: anchor.monotonic.as_ns(), wall_unix_ns: anchor.wall_unix_ns })
    }

    /// Holds the pair read at receipt (`self`) against the one `sent` at submission.
    pub fn check(self, sent: ClockPair) -> PairCheck {
        if self.monotonic_ns < sent.monotonic_ns {
            return PairCheck::ReceivedBeforeSent;
        }
        // i128 holds every difference of two u64.
        let offset = |p: ClockPair| i128::from(p.wall_unix_ns) - i128::from(p.monotonic_ns);
        let apart = (offset(self) - offset(sent)).unsigned_abs();
        if apart > u128::from(PAIR_OFFSET_MAX_NS) {
            return PairCheck::OffsetsDiffer { apart_ns: u64::try_from(apart).unwrap_or(u64::MAX) };
        }
        PairCheck::Agrees
    }
}

#[cfg(test)]
mod tests;
