use proptest::prelude::*;

use super::*;
use crate::clock_domain::ClockDomain;

fn domain() -> DomainTag {
    ClockDomain::from_id("here").unwrap().tag()
}

#[test]
fn numbers_that_are_no_instants_are_refused() {
    let d = domain();
    let table = [
        (0.0, InstantError::Zero),
        (-0.0, InstantError::Zero),
        (1e-10, InstantError::Zero),
        (-1.0, InstantError::NotATime(-1.0)),
        (f64::INFINITY, InstantError::NotATime(f64::INFINITY)),
        (f64::NEG_INFINITY, InstantError::NotATime(f64::NEG_INFINITY)),
        (1_000_000_000.5, InstantError::TooLarge(INSTANT_MAX_NS + 500_000_000)),
        // vllm 47994: unix time handed over as a monotonic reading.
        (1_767_225_600.0, InstantError::TooLarge(1_767_225_600 * NS_PER_S)),
        (f64::MAX, InstantError::TooLarge(u64::MAX)),
    ];
    for (seconds, expected) in table {
        assert_eq!(Instant::from_seconds(seconds, d, None), Err(expected), "{seconds}");
    }
    assert!(matches!(Instant::from_seconds(f64::NAN, d, None), Err(InstantError::NotATime(_))));
    assert_eq!(Instant::from_ns(0, d), Err(InstantError::Zero));
    assert_eq!(Instant::from_ns(INSTANT_MAX_NS + 1, d), Err(InstantError::TooLarge(INSTANT_MAX_NS + 1)));
    assert_eq!(Instant::from_ns(INSTANT_MAX_NS, d).unwrap().as_ns(), INSTANT_MAX_NS);
}

#[test]
fn the_future_is_refused_on_the_same_clock_only() {
    let now = Instant::from_seconds(10.0, domain(), None).unwrap();
    let later = Instant::from_seconds(10.000_000_001, domain(), Some(now));
    assert_eq!(later, Err(InstantError::InTheFuture { at_ns: 10_000_000_001, now_ns: 10_000_000_000 }));
    assert!(Instant::from_seconds(10.0, domain(), Some(now)).is_ok());
    let elsewhere = ClockDomain::from_id("elsewhere").unwrap().tag();
    assert!(Instant::from_seconds(11.0, elsewhere, Some(now)).is_ok());
}

#[test]
fn instants_of_two_domains_never_mix() {
    let a = Instant::from_ns(5, ClockDomain::from_id("a").unwrap().tag()).unwrap();
    let b = Instant::from_ns(5, ClockDomain::from_id("b").unwrap().tag()).unwrap();
    assert_ne!(a, b);
    assert_eq!(a.duration_since(b), Err(ForeignClock));
    assert_eq!(a.is_before(b), Err(ForeignClock));
    assert_eq!(a.duration_since(a), Ok(Some(0)));
}

#[test]
fn a_negative_duration_is_none() {
    let at = |ns| Instant::from_ns(ns, domain()).unwrap();
    assert_eq!(at(5).duration_since(at(6)), Ok(None));
    assert_eq!(at(5).is_before(at(6)), Ok(true));
    assert_eq!(at(6).plus_ns(u64::MAX), None);
}

proptest! {
    #[test]
    fn seconds_round_trip_within_the_precision_of_a_float(ns in 1..4_000_000 * NS_PER_S) {
        // Below 2^53 ns (104 days) a float of seconds is finer than a nanosecond.
        let at = Instant::from_ns(ns, domain()).unwrap();
        prop_assert_eq!(Instant::from_seconds(at.as_seconds(), domain(), None), Ok(at));
    }

    #[test]
    fn no_float_panics(bits in any::<u64>()) {
        let _ = Instant::from_seconds(f64::from_bits(bits), domain(), None);
    }
}
