//! Whether a stage may join the request's trace: only if its clock is literally the same.

use std::fmt;

use stagespan_model::{Clock, ClockPair, PairCheck, Placement};

use crate::stage_headers::StageHeaders;

/// What a stage says to the placement that its orchestrator decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// `own` or `forced`: nobody claims that the clocks are one.
    NotClaimed,
    /// `same`, and nothing speaks against it: the request's anchor serves this stage's instants.
    Accepted,
    /// `same`, but the clock is another, or may be.
    Refused(JoinRefusal),
}

/// Why a stage refuses to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinRefusal {
    /// The header says nothing of the clock.
    NoClaim,
    /// The claimed domain is not the stage's.
    OtherDomain,
    /// No pair of readings was certain enough, at submission or here: the claim can't be checked.
    Unproven,
    /// The pairs contradict each other.
    Pair(PairCheck),
}

impl fmt::Display for JoinRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClaim => f.write_str("the orchestrator says nothing of its clock"),
            Self::OtherDomain => f.write_str("the orchestrator's clock domain is another"),
            Self::Unproven => f.write_str("no pair of clock readings was certain to 5 ms"),
            Self::Pair(PairCheck::OffsetsDiffer { apart_ns }) => {
                write!(f, "wall and monotonic clock lie {} ms further apart than there", apart_ns / 1_000_000)
            }
            Self::Pair(PairCheck::ReceivedBeforeSent) => {
                f.write_str("the request was received before it was sent")
            }
            Self::Pair(PairCheck::Agrees) => f.write_str("the clocks agree"),
        }
    }
}

/// Checks a claim to be on the same clock, with a pair of readings taken now. Reads the clock only
/// where there is a claim in the same domain.
///
/// Call it when the submit message arrives: what lies between is part of the evidence.
pub fn check_join(headers: &StageHeaders, clock: &dyn Clock) -> Join {
    if headers.placement() != Placement::Same {
        return Join::NotClaimed;
    }
    let Some(domain) = headers.request_domain() else { return Join::Refused(JoinRefusal::NoClaim) };
    if domain != clock.domain() {
        return Join::Refused(JoinRefusal::OtherDomain);
    }
    let (Some(sent), Some(received)) = (headers.sent_pair(), ClockPair::read(clock)) else {
        return Join::Refused(JoinRefusal::Unproven);
    };
    match received.check(sent) {
        PairCheck::Agrees => Join::Accepted,
        contradiction => Join::Refused(JoinRefusal::Pair(contradiction)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stagespan_model::{ClockAnchor, ClockDomain, ManualClock};

    const T: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const S: &str = "00f067aa0ba902b7";

    fn headers(placement: &str, clock_claim: Option<&str>) -> StageHeaders {
        let traceparent = format!("00-{T}-{S}-01");
        let span = format!("{T}-a0f067aa0ba902b7-01;{placement}");
        let mut all = vec![("traceparent", &*traceparent), ("Stagespan-Span", &*span)];
        all.extend(clock_claim.map(|claim| ("stagespan-clock", claim)));
        StageHeaders::parse(all).unwrap().unwrap()
    }

    #[test]
    fn a_claim_is_accepted_only_on_evidence() {
        let domain = ClockDomain::from_id("boot-1").unwrap();
        let clock = ManualClock::in_domain(domain, 1_000_000_000_000);
        let wall = clock.wall_unix_ns();
        let claim = |domain: &str, pair: Option<(i64, i64)>| {
            let at = |n: u64, by: i64| n.checked_add_signed(by).unwrap();
            let pair = pair.map(|(mono, w)| format!(";p={},{}", at(1_000_000_000_000, mono), at(wall, w)));
            format!("d={domain};a=1000,{},5{};h=abc", wall - 999_999_999_000, pair.unwrap_or_default())
        };
        let ms = 1_000_000;
        let table = [
            // 3 ms on the way
            ("same", Some(claim("boot-1", Some((-3 * ms, -3 * ms)))), Join::Accepted),
            // the wall clock slewed by 19 ms meanwhile
            ("same", Some(claim("boot-1", Some((-3 * ms, 16 * ms)))), Join::Accepted),
            (
                "same",
                Some(claim("boot-1", Some((-3 * ms, 5_000 * ms)))),
                Join::Refused(JoinRefusal::Pair(PairCheck::OffsetsDiffer { apart_ns: 5_003_000_000 })),
            ),
            (
                "same",
                Some(claim("boot-1", Some((1, 1)))),
                Join::Refused(JoinRefusal::Pair(PairCheck::ReceivedBeforeSent)),
            ),
            ("same", Some(claim("boot-2", Some((0, 0)))), Join::Refused(JoinRefusal::OtherDomain)),
            ("same", Some(claim("boot-1", None)), Join::Refused(JoinRefusal::Unproven)),
            ("same", None, Join::Refused(JoinRefusal::NoClaim)),
            ("own", Some(claim("boot-1", None)), Join::NotClaimed),
            ("forced", None, Join::NotClaimed),
        ];
        for (placement, claim, expected) in table {
            let join = check_join(&headers(placement, claim.as_deref()), &clock);
            assert_eq!(join, expected, "{placement} {claim:?}");
        }
    }

    #[test]
    fn a_refusing_stage_takes_ids_of_its_own() {
        let given = headers("same", Some("d=x;a=1,2,3;p=1,2;h=machine"));
        assert_eq!(given.request_anchor().map(|a| a.wall_unix_ns()), Some(2));
        let refused = given.clone().into_context(&Join::Refused(JoinRefusal::OtherDomain));
        assert!(refused.joined_refused);
        assert_eq!(refused.placement, Placement::Own);
        assert_ne!(refused.span.trace_id, given.request().trace_id);
        assert_eq!(refused.span.flags, 3, "sampled as the request, and random");
        let joined = given.clone().into_context(&Join::Accepted);
        assert_eq!((joined.span, joined.joined_refused), (given.span, false));
        assert_eq!(joined.request_host_id.as_deref(), Some("machine"));
    }

    #[test]
    fn an_unreadable_pair_proves_nothing() {
        /// Every reading takes 100 ms, as on a machine that thrashes.
        struct Slow(ManualClock);
        impl Clock for Slow {
            fn domain(&self) -> &ClockDomain {
                self.0.domain()
            }
            fn now(&self) -> stagespan_model::Instant {
                self.0.advance_ns(100_000_000);
                self.0.now()
            }
            fn wall_unix_ns(&self) -> u64 {
                self.0.wall_unix_ns()
            }
        }
        let clock = Slow(ManualClock::in_domain(ClockDomain::from_id("b").unwrap(), 5));
        assert!(ClockAnchor::read(&clock).uncertainty_ns() > 5_000_000);
        let given = headers("same", Some("d=b;a=1,2,3;p=5,1767225600000000000"));
        assert_eq!(check_join(&given, &clock), Join::Refused(JoinRefusal::Unproven));
    }
}
