//! An instant on one stage's monotonic clock.

use std::fmt;
use std::num::NonZeroU64;

use crate::clock_domain::DomainTag;

/// Nanoseconds in a second.
pub const NS_PER_S: u64 = 1_000_000_000;

/// The largest reading taken for a monotonic instant: 10⁹ s.
///
/// Unix time lies above it (since 2001), an uptime of 31 years below: a wall-clock reading that
/// strays into a monotonic field is refused instead of becoming a wait of decades.
pub const INSTANT_MAX_NS: u64 = 1_000_000_000 * NS_PER_S;

/// An instant in nanoseconds on the monotonic clock of one clock domain.
///
/// It is the reading of `CLOCK_MONOTONIC` (macOS: `CLOCK_UPTIME_RAW`), the clock of Python's
/// `time.monotonic()`. Zero is not an instant. The value carries the tag of its domain, so that an
/// instant of another stage's clock can't slip into a difference: there is no `Sub` and no `Ord`,
/// only [`Instant::duration_since`] and [`Instant::is_before`], which refuse a foreign instant.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Instant {
    ns: NonZeroU64,
    domain: DomainTag,
}

/// Why a number is not an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InstantError {
    /// Zero (or what rounds to it) means "never set" in the engine's structures.
    Zero,
    /// NaN, an infinity or a negative number of seconds.
    NotATime(f64),
    /// Above 10⁹ s: most likely unix time in a monotonic field. In nanoseconds.
    TooLarge(u64),
    /// Later than the reader's own clock of the same domain. Both in nanoseconds.
    InTheFuture {
        /// The refused reading.
        at_ns: u64,
        /// The reader's clock.
        now_ns: u64,
    },
}

impl fmt::Display for InstantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("0 is not a monotonic instant: it means that the field was never set"),
            Self::NotATime(s) => write!(f, "{s} s is not a monotonic instant"),
            Self::TooLarge(ns) => {
                write!(f, "{} s is too large for a monotonic instant; is it unix time?", ns / NS_PER_S)
            }
            Self::InTheFuture { at_ns, now_ns } => {
                write!(f, "instant {at_ns} ns is later than the reader's own clock, {now_ns} ns")
            }
        }
    }
}

impl std::error::Error for InstantError {}

/// The attempt to compare or subtract instants of two clock domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignClock;

impl fmt::Display for ForeignClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the instants were read on two different clocks; their difference means nothing")
    }
}

impl std::error::Error for ForeignClock {}

impl Instant {
    /// An instant from a reading in nanoseconds.
    ///
    /// # Errors
    /// Zero, and anything above [`INSTANT_MAX_NS`], is refused.
    pub const fn from_ns(ns: u64, domain: DomainTag) -> Result<Self, InstantError> {
        if ns > INSTANT_MAX_NS {
            return Err(InstantError::TooLarge(ns));
        }
        match NonZeroU64::new(ns) {
            Some(ns) => Ok(Self { ns, domain }),
            None => Err(InstantError::Zero),
        }
    }

    /// An instant from Python's float seconds, rounded to the nearest nanosecond.
    ///
    /// `now` is the reader's clock, given only when the reader is in the same domain: a stage
    /// can't have seen anything later than that.
    ///
    /// # Errors
    /// NaN, infinities, negatives, zero, above 10⁹ s, and later than `now`.
    pub fn from_seconds(seconds: f64, domain: DomainTag, now: Option<Instant>) -> Result<Self, InstantError> {
        if !seconds.is_finite() || seconds < 0.0 {
            return Err(InstantError::NotATime(seconds));
        }
        // Split before scaling: `seconds * 1e9` alone would round twice.
        let whole = seconds.trunc();
        if whole > (INSTANT_MAX_NS / NS_PER_S) as f64 {
            // `as` saturates, so a huge float becomes a huge integer for the message.
            return Err(InstantError::TooLarge((seconds as u64).saturating_mul(NS_PER_S)));
        }
        let ns = whole as u64 * NS_PER_S + ((seconds - whole) * NS_PER_S as f64).round() as u64;
        let at = Self::from_ns(ns, domain)?;
        match now {
            Some(now) if now.domain == domain && at.ns > now.ns => {
                Err(InstantError::InTheFuture { at_ns: at.as_ns(), now_ns: now.as_ns() })
            }
            _ => Ok(at),
        }
    }

    /// The reading in nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.ns.get()
    }

    /// The reading in float seconds, as the engine's wire carries it.
    pub fn as_seconds(self) -> f64 {
        self.as_ns() as f64 / NS_PER_S as f64
    }

    /// The domain in which it was read.
    pub const fn domain(self) -> DomainTag {
        self.domain
    }

    /// The time since `earlier` in nanoseconds; `None` if `earlier` is the later one.
    ///
    /// # Errors
    /// [`ForeignClock`] where the two were read in different domains.
    pub fn duration_since(self, earlier: Instant) -> Result<Option<u64>, ForeignClock> {
        if self.domain == earlier.domain {
            Ok(self.as_ns().checked_sub(earlier.as_ns()))
        } else {
            Err(ForeignClock)
        }
    }

    /// Whether it lies before `other` on their common clock.
    ///
    /// # Errors
    /// [`ForeignClock`] where the two were read in different domains.
    pub fn is_before(self, other: Instant) -> Result<bool, ForeignClock> {
        if self.domain == other.domain { Ok(self.ns < other.ns) } else { Err(ForeignClock) }
    }

    /// The instant `ns` later on the same clock, or `None` past [`INSTANT_MAX_NS`].
    pub fn plus_ns(self, ns: u64) -> Option<Self> {
        Self::from_ns(self.as_ns().checked_add(ns)?, self.domain).ok()
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ns@{:?}", self.ns, self.domain)
    }
}

#[cfg(test)]
mod tests;
