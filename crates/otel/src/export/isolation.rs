//! Which part of a refused batch is the bad one: found by halving, with bounded effort.

/// What to do with a part that a receiver calls bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Send its halves.
    Halve,
    /// It is a single span: that is a bad one.
    Reject,
    /// The effort is spent: the part is lost as a whole.
    GiveUp,
}

/// The search through one batch.
///
/// A batch of n spans with one bad one is sorted out in 2·log₂(n) attempts. Twice as many are
/// allowed, so that a few bad ones are found, while a receiver that refuses everything costs some
/// forty requests, once: after a search in which nothing was accepted, [`Search::next_may_halve`]
/// stops the next, until the receiver has taken something again.
#[derive(Debug)]
pub(super) struct Search {
    attempts_left: u32,
    has_refusals: bool,
    has_acceptance: bool,
    may_halve: bool,
}

impl Search {
    /// A search through `len` spans.
    pub(super) fn new(len: u64, may_halve: bool) -> Self {
        let attempts_left = 4 * (len.max(1).ilog2() + 1);
        Self { attempts_left, has_refusals: false, has_acceptance: false, may_halve }
    }

    /// A part was taken.
    pub(super) fn accepted(&mut self) {
        self.has_acceptance = true;
    }

    /// A part of `len` spans was called bad.
    pub(super) fn refused(&mut self, len: u64) -> Verdict {
        self.has_refusals = true;
        self.attempts_left = self.attempts_left.saturating_sub(2);
        match len {
            // Where a search is not allowed, the receiver refuses whatever it gets, this one too.
            _ if !self.may_halve => Verdict::GiveUp,
            1 => Verdict::Reject,
            _ if self.attempts_left < 2 => Verdict::GiveUp,
            _ => Verdict::Halve,
        }
    }

    /// Whether the next batch may be searched; `before` says whether this one could be.
    pub(super) fn next_may_halve(&self, before: bool) -> bool {
        self.has_acceptance || (before && !self.has_refusals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Searches 0..len for the spans that are bad. Gives attempts, rejected and lost spans.
    fn search(len: u64, may_halve: bool, is_bad: impl Fn(u64) -> bool) -> (u32, Vec<u64>, u64, bool) {
        let mut search = Search::new(len, may_halve);
        let (mut attempts, mut rejected, mut lost) = (0, Vec::new(), 0);
        let mut parts = vec![(0, len)];
        while let Some((start, end)) = parts.pop() {
            attempts += 1;
            if !(start..end).any(&is_bad) {
                search.accepted();
                continue;
            }
            let len = end - start;
            match search.refused(len) {
                Verdict::Halve => {
                    let middle = start + len / 2;
                    parts.extend([(middle, end), (start, middle)]);
                }
                Verdict::Reject => rejected.push(start),
                Verdict::GiveUp => lost += len,
            }
        }
        (attempts, rejected, lost, search.next_may_halve(may_halve))
    }

    #[test]
    fn known_cases() {
        assert_eq!(search(512, true, |_| false), (1, vec![], 0, true));
        assert_eq!(search(512, true, |n| n == 77), (19, vec![77], 0, true));
        assert_eq!(search(1, true, |_| true), (1, vec![0], 0, false));
        assert_eq!(search(512, false, |n| n == 77), (1, vec![], 512, false));
        assert_eq!(search(512, false, |_| false), (1, vec![], 0, true), "the receiver takes spans again");
        let (attempts, rejected, lost, may_halve) = search(512, true, |_| true);
        assert!(attempts <= 41 && !may_halve, "{attempts} {may_halve}");
        assert_eq!(rejected.len() as u64 + lost, 512);
    }

    proptest! {
        #[test]
        fn one_bad_span_never_costs_another(len in 1u64..5_000, at in 0u64..5_000) {
            let (attempts, rejected, lost, _) = search(len, true, |n| n == at % len);
            prop_assert_eq!((rejected, lost), (vec![at % len], 0));
            prop_assert!(attempts <= 2 * (len.ilog2() + 1) + 1);
        }

        #[test]
        fn effort_is_bounded_and_nothing_good_is_rejected(
            len in 1u64..2_000, bad in prop::collection::hash_set(0u64..2_000, 0..50),
        ) {
            let (attempts, rejected, lost, _) = search(len, true, |n| bad.contains(&n));
            prop_assert!(attempts <= 4 * (len.ilog2() + 1) + 1, "{attempts}");
            prop_assert!(rejected.iter().all(|n| bad.contains(n)));
            prop_assert!(rejected.len() as u64 + lost <= len);
        }
    }
}
