use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::clock::{ManualClock, SystemClock};
use crate::clock_domain::ClockDomain;

/// A clock whose every reading takes `step_ns`, the third bracket less.
struct Uneven {
    domain: ClockDomain,
    reads: AtomicU64,
    ns: AtomicU64,
}

impl Clock for Uneven {
    fn domain(&self) -> &ClockDomain {
        &self.domain
    }
    fn now(&self) -> Instant {
        let read = self.reads.fetch_add(1, Ordering::SeqCst);
        // Two monotonic readings a bracket: readings 4 and 5 are the third bracket.
        let step = if matches!(read, 4 | 5) { 20 } else { 1_000 };
        Instant::from_ns(self.ns.fetch_add(step, Ordering::SeqCst) + step, self.domain.tag()).unwrap()
    }
    fn wall_unix_ns(&self) -> u64 {
        7_000_000 + self.ns.load(Ordering::SeqCst)
    }
}

#[test]
fn the_tightest_bracket_is_kept() {
    let clock = Uneven { domain: ClockDomain::unknown(), reads: AtomicU64::new(0), ns: AtomicU64::new(1) };
    let anchor = ClockAnchor::read(&clock);
    assert_eq!(anchor.uncertainty_ns(), 10);
    // Wall was read at the bracket's start; the anchor stands in its middle, within the uncertainty.
    let exact = anchor.wall_unix_ns() - 7_000_000;
    assert!(anchor.monotonic().as_ns().abs_diff(exact) <= anchor.uncertainty_ns());
}

#[test]
fn an_instant_of_another_clock_has_no_wall_time_here() {
    let anchor = ClockAnchor::read(&ManualClock::new(50));
    let foreign = ManualClock::new(50).now();
    assert_eq!(anchor.wall_ns(foreign), Err(AnchorError::Foreign(ForeignClock)));
}

#[test]
fn the_wall_time_before_1970_is_refused() {
    let clock = ManualClock::new(1_000);
    let anchor = ClockAnchor::new(clock.now().plus_ns(10).unwrap(), 5, 0);
    assert_eq!(anchor.wall_ns(clock.now()), Err(AnchorError::OutOfRange));
}

#[test]
fn a_step_of_the_wall_clock_changes_no_duration() {
    let clock = ManualClock::new(1_000);
    let anchor = ClockAnchor::read(&clock);
    let start = clock.now();
    clock.advance_ns(70);
    clock.step_wall_ns(-3_600_000_000_000);
    let end = clock.now();
    assert_eq!(anchor.wall_ns(end).unwrap() - anchor.wall_ns(start).unwrap(), 70);
}

#[test]
fn pairs_back_or_refuse_a_claim() {
    let sent = ClockPair { monotonic_ns: 1_000_000_000, wall_unix_ns: 50_000_000_000 };
    let later = |monotonic: u64, wall: u64| {
        ClockPair { monotonic_ns: 1_000_000_000 + monotonic, wall_unix_ns: 50_000_000_000 + wall }.check(sent)
    };
    assert_eq!(later(0, 0), PairCheck::Agrees);
    assert_eq!(later(500, 500), PairCheck::Agrees);
    assert_eq!(later(20_000_000, 0), PairCheck::Agrees);
    assert_eq!(later(20_000_001, 0), PairCheck::OffsetsDiffer { apart_ns: 20_000_001 });
    assert_eq!(later(0, 20_000_001), PairCheck::OffsetsDiffer { apart_ns: 20_000_001 });
    let earlier = ClockPair { monotonic_ns: 999_999_999, ..sent };
    assert_eq!(earlier.check(sent), PairCheck::ReceivedBeforeSent);
    let real = SystemClock::new();
    let (first, second) = (ClockPair::read(&real).unwrap(), ClockPair::read(&real).unwrap());
    assert_eq!(second.check(first), PairCheck::Agrees);
}

proptest! {
    #[test]
    fn every_duration_equals_the_monotonic_one(a in 1u64..1 << 50, b in 0u64..1 << 50, at in 1u64..1 << 50) {
        let domain = ClockDomain::from_id("d").unwrap().tag();
        let instant = |ns| Instant::from_ns(ns, domain).unwrap();
        let anchor = ClockAnchor::new(instant(at), 1_767_225_600_000_000_000, 40);
        let (start, end) = (instant(a), instant(a + b));
        prop_assert_eq!(anchor.wall_ns(end).unwrap() - anchor.wall_ns(start).unwrap(), b);
    }
}
