//! p50, p95 and the maximum.

use serde::Serialize;

/// Quantiles by nearest rank: each is a length that was really measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Quantiles {
    /// At least half of the lengths are no longer, in nanoseconds.
    pub(crate) p50_ns: u64,
    /// At least 95 of 100 are no longer, in nanoseconds.
    pub(crate) p95_ns: u64,
    /// The longest, in nanoseconds.
    pub(crate) max_ns: u64,
}

impl Quantiles {
    /// The quantiles of some lengths; `None` of none.
    pub(crate) fn of(lengths_ns: impl Iterator<Item = u64>) -> Option<Self> {
        let mut sorted: Vec<u64> = lengths_ns.collect();
        sorted.sort_unstable();
        let max_ns = *sorted.last()?;
        // Rank ceil(n · p / 100), counted from 1; it is at most n.
        let at = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100) - 1];
        Some(Self { p50_ns: at(50), p95_ns: at(95), max_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lengths: &[u64]) -> Option<(u64, u64, u64)> {
        Quantiles::of(lengths.iter().copied()).map(|q| (q.p50_ns, q.p95_ns, q.max_ns))
    }

    #[test]
    fn nearest_rank() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7]), Some((7, 7, 7)));
        assert_eq!(of(&[9, 1]), Some((1, 9, 9)));
        assert_eq!(of(&[3, 1, 2]), Some((2, 3, 3)));
        let hundred: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(of(&hundred), Some((50, 95, 100)));
        let twenty_one: Vec<u64> = (1..=21).collect();
        assert_eq!(of(&twenty_one), Some((11, 20, 21)));
    }
}
