//! How costly talker must be for a queue to build up in front of its few slots.
//!
//! Rows differ: a conversation's answers have hundreds of tokens, those of code completion a dozen,
//! and they come in bursts or minutes apart. A fixed cost would give a queue with one and none with
//! the other. So the cost is found for the rows: the one at which the slowest request waits as long
//! as told, in the simplest model of the stage (first come first served, `slots` at a time).

use std::num::NonZeroU32;

use crate::arrivals::Arrival;

/// The longest step: a longer cost is spread over more tokens, so that a step stays short beside
/// what is measured.
const STEP_NS_MAX: u64 = 3_000_000;
/// The shortest step: the loop around it must stay small beside it.
const STEP_NS_MIN: u64 = 200_000;
/// What a step takes beside its cost: the scheduler's and the sockets' work, and the timer's slack.
pub(super) const STEP_OVERHEAD_NS: u64 = 100_000;
/// talker is never made so slow that serving the rows would take longer than this.
const SERVED_NS_MAX: u64 = 30_000_000_000;
/// What a token costs where no queue can build up, in nanoseconds.
const TOKEN_NS_DEFAULT: u64 = 1_000_000;

/// Requests under way for each slot.
const LENT: usize = 2;

/// talker's cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TalkerSize {
    /// Its output tokens for each token of thinker's.
    pub(super) tokens_per_input_token: NonZeroU32,
    /// What a step costs, in microseconds.
    pub(super) step_us: u32,
}

/// The cost at which the slowest of these arrivals waits about `wait_ns` for one of `slots`.
pub(super) fn talker_size(arrivals: &[Arrival], slots: NonZeroU32, wait_ns: u64) -> TalkerSize {
    let slots = slots.get() as usize;
    let token_ns = if arrivals.len() > slots * LENT {
        token_cost_ns(arrivals, slots, wait_ns)
    } else {
        TOKEN_NS_DEFAULT
    };
    let tokens = u32::try_from(token_ns.div_ceil(STEP_NS_MAX)).ok().and_then(NonZeroU32::new);
    let tokens_per_input_token = tokens.unwrap_or(NonZeroU32::MIN);
    let step_ns = token_ns / u64::from(tokens_per_input_token.get());
    let step_ns = step_ns.saturating_sub(STEP_OVERHEAD_NS).max(STEP_NS_MIN);
    // At most STEP_NS_MAX.
    TalkerSize { tokens_per_input_token, step_us: (step_ns / 1_000) as u32 }
}

/// The wait grows with the cost, so halving the range finds it.
fn token_cost_ns(arrivals: &[Arrival], slots: usize, wait_ns: u64) -> u64 {
    let fits = |token_ns: u64| {
        let queue = queue(arrivals, slots, token_ns);
        queue.longest_wait_ns <= wait_ns && queue.served_ns <= SERVED_NS_MAX
    };
    let (mut low, mut high) = (0, SERVED_NS_MAX);
    while high - low > 1_000 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// What became of a queue.
struct Queue {
    longest_wait_ns: u64,
    /// When the last request was served, after the first arrival.
    served_ns: u64,
}

/// Serves the arrivals in order, `slots` at a time, each for as long as its output tokens cost.
///
/// A request that has used up a chunk lends its slot for a step, until the next one is seen, and
/// the one that takes it then stays: twice as many are under way, each at half the pace.
fn queue(arrivals: &[Arrival], slots: usize, token_ns: u64) -> Queue {
    let mut free_at_ns = vec![0_u64; slots * LENT];
    let mut longest_wait_ns = 0;
    for arrival in arrivals {
        let Some(slot) = free_at_ns.iter_mut().min() else { break };
        let start_ns = arrival.at_ns.max(*slot);
        longest_wait_ns = longest_wait_ns.max(start_ns - arrival.at_ns);
        let tokens = u64::from(arrival.output_tokens) * LENT as u64;
        *slot = start_ns.saturating_add(token_ns.saturating_mul(tokens));
    }
    Queue { longest_wait_ns, served_ns: free_at_ns.into_iter().max().unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64, output_tokens: u32) -> Arrival {
        Arrival { at_ns: ms * MS, prompt_tokens: 1, output_tokens }
    }

    fn slots(n: u32) -> NonZeroU32 {
        NonZeroU32::new(n).unwrap()
    }

    #[test]
    fn a_known_queue() {
        let rows = [at(0, 10), at(0, 20), at(5, 10), at(5, 1)];
        let queue = queue(&rows, 1, MS);
        // Two at a time and half as fast: 0–20 and 0–40, then 20–40 (waited 15), then 40–42 (waited 35).
        assert_eq!((queue.longest_wait_ns, queue.served_ns), (35 * MS, 42 * MS));
    }

    #[test]
    fn no_queue_can_build_up_where_there_are_as_many_slots_as_requests() {
        let size = talker_size(&[at(0, 10); 4], slots(2), 6_000 * MS);
        assert_eq!((size.tokens_per_input_token.get(), size.step_us), (1, 900));
        assert_eq!(talker_size(&[], slots(1), MS), size);
    }

    #[test]
    fn a_high_cost_is_spread_over_more_tokens() {
        // Five rounds of four, each of 20 tokens' time; the last waits for four rounds, which are to take 6 s.
        let rows = [at(0, 10); 20];
        let size = talker_size(&rows, slots(2), 6_000 * MS);
        assert_eq!((size.tokens_per_input_token.get(), size.step_us), (25, 2_899));
    }

    #[test]
    fn more_work_than_fits_keeps_the_shortest_step() {
        let size = talker_size(&[at(0, 1_000); 10_000], slots(2), 6_000 * MS);
        assert_eq!((size.tokens_per_input_token.get(), size.step_us), (1, 200));
    }

    proptest! {
        #[test]
        fn the_slowest_waits_as_told(gaps in proptest::collection::vec((0_u64..100, 1_u32..500), 20..100)) {
            let mut ms = 0;
            let rows: Vec<Arrival> = gaps.into_iter().map(|(gap, tokens)| { ms += gap; at(ms, tokens) }).collect();
            let size = talker_size(&rows, slots(2), 6_000 * MS);
            let token_ns = u64::from(size.tokens_per_input_token.get()) * (u64::from(size.step_us) * 1_000 + STEP_OVERHEAD_NS);
            let queue = queue(&rows, 2, token_ns);
            prop_assert!(queue.longest_wait_ns <= 6_000 * MS);
            prop_assert!(queue.longest_wait_ns >= 5_800 * MS || queue.served_ns >= SERVED_NS_MAX * 9 / 10, "{}", queue.longest_wait_ns);
        }
    }
}
