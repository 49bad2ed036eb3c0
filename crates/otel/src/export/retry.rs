//! When to try again. Pure: what time it is, and chance, are passed in.

use std::time::Duration;

use super::outcome::{Outcome, OutcomeKind};

const FIRST_DELAY: Duration = Duration::from_millis(200);
const DELAY_MAX: Duration = Duration::from_secs(5);
/// Attempts where no deadline ends them.
const ATTEMPTS_MAX_UNLIMITED: u32 = 10;

/// What to do with a batch after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is delivered.
    Done,
    /// Send it again after this time.
    RetryIn(Duration),
    /// Look for what is bad in it.
    Split,
    /// Count it as lost.
    GiveUp,
}

/// Decides after attempt number `attempt` (from 1), with `left` until the batch's deadline.
///
/// The receiver's own wish counts as the least delay; otherwise the delay doubles from 200 ms to
/// 5 s, the upper half of it by `chance` in 0..1. A wish beyond the deadline is a refusal: sending
/// earlier would ignore it, and waiting longer would hold up what comes after.
pub(crate) fn next(outcome: &Outcome, attempt: u32, left: Option<Duration>, chance: f64) -> Next {
    match outcome.kind {
        OutcomeKind::Delivered => return Next::Done,
        OutcomeKind::Bad => return Next::Split,
        OutcomeKind::Failed => return Next::GiveUp,
        OutcomeKind::Retryable => {}
    }
    if left.is_none() && attempt >= ATTEMPTS_MAX_UNLIMITED {
        return Next::GiveUp;
    }
    let doubled = FIRST_DELAY.saturating_mul(1 << (attempt - 1).min(16)).min(DELAY_MAX);
    let backoff = doubled.mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0));
    let delay = outcome.retry_after.map_or(backoff, |wish| wish.max(backoff / 8));
    match left {
        Some(left) if delay >= left => Next::GiveUp,
        _ => Next::RetryIn(delay),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn retryable(retry_after_ms: Option<u64>) -> Outcome {
        let retry_after = retry_after_ms.map(Duration::from_millis);
        Outcome { retry_after, ..Outcome::lost(OutcomeKind::Retryable, "") }
    }

    #[test]
    fn known_cases() {
        let ms = Duration::from_millis;
        let in_ms = |n| Next::RetryIn(ms(n));
        let table = [
            (Outcome::delivered(3, 1, ""), 1, Some(ms(0)), Next::Done),
            (Outcome::lost(OutcomeKind::Bad, "400"), 1, None, Next::Split),
            (Outcome::lost(OutcomeKind::Failed, "401"), 1, None, Next::GiveUp),
            (retryable(None), 1, Some(ms(10_000)), in_ms(100)),
            (retryable(None), 2, Some(ms(10_000)), in_ms(200)),
            (retryable(None), 30, Some(ms(10_000)), in_ms(2_500)),
            (retryable(None), 1, Some(ms(100)), Next::GiveUp),
            (retryable(None), 1, Some(ms(101)), in_ms(100)),
            (retryable(Some(3_000)), 1, Some(ms(10_000)), in_ms(3_000)),
            (retryable(Some(30_000)), 1, Some(ms(10_000)), Next::GiveUp),
            // A wish of 0 must not become a busy loop.
            (retryable(Some(0)), 1, Some(ms(10_000)), Next::RetryIn(ms(100) / 8)),
            (retryable(None), 9, None, in_ms(2_500)),
            (retryable(None), 10, None, Next::GiveUp),
        ];
        for (outcome, attempt, left, expected) in table {
            assert_eq!(next(&outcome, attempt, left, 0.0), expected, "{outcome:?} {attempt} {left:?}");
        }
    }

    proptest! {
        #[test]
        fn a_delay_ends_before_the_deadline(
            attempt in 1u32..100, left in 0u64..100_000, wish in proptest::option::of(0u64..100_000), chance in 0.0f64..1.0,
        ) {
            let left = Duration::from_millis(left);
            if let Next::RetryIn(delay) = next(&retryable(wish), attempt, Some(left), chance) {
                prop_assert!(delay < left);
                prop_assert!(delay > Duration::ZERO);
                prop_assert!(delay >= Duration::from_millis(wish.unwrap_or(0)));
            }
        }
    }
}
