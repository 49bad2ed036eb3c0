//! The clock that is passed in.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock_domain::ClockDomain;
use crate::instant::{INSTANT_MAX_NS, Instant};

/// Reads one monotonic clock, and the wall clock beside it.
///
/// Whoever needs the time is given a `Clock`; nothing in the workspace reads one behind its
/// caller's back, so every test can say what time it is.
pub trait Clock: Send + Sync {
    /// The domain of [`Clock::now`].
    fn domain(&self) -> &ClockDomain;
    /// The present instant on the monotonic clock.
    fn now(&self) -> Instant;
    /// Unix time in nanoseconds. Only anchors read it; no duration comes from it.
    fn wall_unix_ns(&self) -> u64;
}

/// The operating system's clocks: what Python's `time.monotonic()` reads, and unix time.
#[derive(Clone, Debug)]
pub struct SystemClock {
    domain: ClockDomain,
}

impl SystemClock {
    /// The clock of this process, in the domain read now.
    pub fn new() -> Self {
        Self { domain: ClockDomain::of_this_process() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(target_os = "macos")]
const MONOTONIC: libc::clockid_t = libc::CLOCK_UPTIME_RAW;
#[cfg(not(target_os = "macos"))]
const MONOTONIC: libc::clockid_t = libc::CLOCK_MONOTONIC;

fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid, writable timespec that outlives the call, and the call keeps no
    // pointer to it. libc is used, not a raw system call, so that the vDSO and libfaketime apply.
    let answer = unsafe { libc::clock_gettime(clock, &raw mut ts) };
    debug_assert_eq!(answer, 0, "the kernel lacks clock {clock}");
    u64::try_from(ts.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000)
        + u64::try_from(ts.tv_nsec).unwrap_or(0)
}

impl Clock for SystemClock {
    fn domain(&self) -> &ClockDomain {
        &self.domain
    }

    fn now(&self) -> Instant {
        instant(read_ns(MONOTONIC), &self.domain)
    }

    fn wall_unix_ns(&self) -> u64 {
        read_ns(libc::CLOCK_REALTIME)
    }
}

/// A reading as an instant. A clock can stand outside the range only in a namespace made so on
/// purpose; it is then pinned to the range's edge, where every wait is 0, rather than a panic.
fn instant(ns: u64, domain: &ClockDomain) -> Instant {
    #[expect(clippy::expect_used, reason = "the clamp keeps the reading in the accepted range")]
    Instant::from_ns(ns.clamp(1, INSTANT_MAX_NS), domain.tag()).expect("1..=INSTANT_MAX_NS is accepted")
}

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct ManualClock {
    domain: ClockDomain,
    monotonic_ns: AtomicU64,
    wall_unix_ns: AtomicU64,
}

/// Where a [`ManualClock`]'s wall clock begins: 2026-01-01T00:00:00Z.
const MANUAL_WALL_START_NS: u64 = 1_767_225_600_000_000_000;

impl ManualClock {
    /// A clock in a domain of its own, whose monotonic reading is `monotonic_ns`.
    pub fn new(monotonic_ns: u64) -> Self {
        Self::in_domain(ClockDomain::unknown(), monotonic_ns)
    }

    /// A clock in the given domain.
    pub fn in_domain(domain: ClockDomain, monotonic_ns: u64) -> Self {
        Self {
            domain,
            monotonic_ns: AtomicU64::new(monotonic_ns),
            wall_unix_ns: AtomicU64::new(MANUAL_WALL_START_NS),
        }
    }

    /// Lets `ns` pass, on both clocks.
    pub fn advance_ns(&self, ns: u64) {
        self.monotonic_ns.fetch_add(ns, Ordering::SeqCst);
        self.wall_unix_ns.fetch_add(ns, Ordering::SeqCst);
    }

    /// Steps the wall clock alone, as an operator or NTP would.
    pub fn step_wall_ns(&self, ns: i64) {
        self.wall_unix_ns.fetch_add(ns.cast_unsigned(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn domain(&self) -> &ClockDomain {
        &self.domain
    }

    fn now(&self) -> Instant {
        instant(self.monotonic_ns.load(Ordering::SeqCst), &self.domain)
    }

    fn wall_unix_ns(&self) -> u64 {
        self.wall_unix_ns.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_never_goes_back() {
        let clock = SystemClock::new();
        let mut last = clock.now();
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now.duration_since(last).unwrap().is_some());
            last = now;
        }
        assert!(clock.wall_unix_ns() > MANUAL_WALL_START_NS);
    }

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(7);
        let (start, wall) = (clock.now(), clock.wall_unix_ns());
        assert_eq!(clock.now(), start);
        clock.advance_ns(5);
        assert_eq!(clock.now().duration_since(start), Ok(Some(5)));
        assert_eq!(clock.wall_unix_ns(), wall + 5);
        clock.step_wall_ns(-3);
        assert_eq!(clock.wall_unix_ns(), wall + 2);
        assert_eq!(clock.now().duration_since(start), Ok(Some(5)));
    }
}
