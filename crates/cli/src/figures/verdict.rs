//! Which wait dominates on a stage, and where to look.

use std::fmt;

use stagespan_model::{Absent, Split};

use super::Times;
use crate::render::{cut, duration};

/// Queueing that nobody need look at: shorter than this in every request, in nanoseconds …
const QUIET_NS: u64 = 10_000_000;
/// … or than one part in this many of the longest request's whole time on the stage.
const QUIET_PART: u64 = 100;
/// From this share of the queueing on, in percent, one wait dominates.
const DOMINANT_PERCENT: u128 = 65;

/// Which wait dominates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dominant {
    /// The wait for the input.
    InputWait,
    /// The ready requests' wait.
    ReadyQueued,
    /// Both count.
    Both,
    /// There is hardly any queueing.
    Neither,
    /// The queueing isn't split, for this reason (the most frequent one).
    Unsplit(Absent),
    /// No request was ever scheduled there.
    NotMeasured,
}

impl Dominant {
    /// Its word in JSON.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::InputWait => "input_wait",
            Self::ReadyQueued => "ready_queued",
            Self::Both => "both",
            Self::Neither => "neither",
            Self::Unsplit(_) => "unsplit",
            Self::NotMeasured => "not_measured",
        }
    }
}

/// What to make of a stage's waits, over all of its requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// Which wait dominates.
    pub(crate) dominant: Dominant,
    /// The share of `input_wait` in all split queueing, 0 to 1; `None` where nothing was split or
    /// nothing queued.
    pub(crate) input_share: Option<f64>,
    /// Requests that queued without a split, of all that told of their times.
    pub(crate) unsplit: (usize, usize),
    upstream: Option<String>,
    max_queued_ns: u64,
}

impl Verdict {
    /// The verdict on a stage, given its requests' times and the stage before.
    pub(super) fn of(times: &[Times], upstream: Option<&str>) -> Self {
        let sum = |part: fn(Split) -> Option<u64>| -> u128 {
            times.iter().filter_map(|t| part(t.split)).map(u128::from).sum()
        };
        let (input_ns, ready_ns) = (sum(Split::input_wait_ns), sum(Split::ready_queued_ns));
        let split_ns = input_ns + ready_ns;
        let max_queued_ns = times.iter().filter_map(|t| t.queued_ns).max();
        let max_total_ns = times.iter().map(|t| t.total_ns).max().unwrap_or(0);
        let reasons =
            || times.iter().filter_map(|t| if let Split::Absent(a) = t.split { Some(a) } else { None });
        let unsplit = (reasons().count(), times.len());
        let dominant = match max_queued_ns {
            None => Dominant::NotMeasured,
            Some(max) if max < QUIET_NS.max(max_total_ns / QUIET_PART) => Dominant::Neither,
            Some(_) if split_ns == 0 => match most_frequent(reasons()) {
                Some(reason) => Dominant::Unsplit(reason),
                None => Dominant::Neither,
            },
            Some(_) if input_ns * 100 >= split_ns * DOMINANT_PERCENT => Dominant::InputWait,
            Some(_) if ready_ns * 100 >= split_ns * DOMINANT_PERCENT => Dominant::ReadyQueued,
            Some(_) => Dominant::Both,
        };
        Self {
            dominant,
            input_share: (split_ns > 0).then(|| input_ns as f64 / split_ns as f64),
            unsplit,
            upstream: upstream.map(str::to_owned),
            max_queued_ns: max_queued_ns.unwrap_or(0),
        }
    }

    /// Whether some requests of a stage that can split have no split.
    pub(crate) fn partly_unsplit(&self) -> bool {
        self.unsplit.0 > 0 && self.unsplit.0 < self.unsplit.1
    }
}

/// The reason that stands most often; of equals the first of the specified order.
fn most_frequent(reasons: impl Iterator<Item = Absent>) -> Option<Absent> {
    let reasons: Vec<Absent> = reasons.collect();
    let count = |reason: &Absent| reasons.iter().filter(|r| *r == reason).count();
    Absent::ALL.into_iter().rev().filter(|reason| count(reason) > 0).max_by_key(count)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let upstream = self.upstream.as_deref().map_or_else(|| "the stage before".to_owned(), cut);
        match self.dominant {
            Dominant::InputWait => {
                write!(f, "waits for its input: look upstream, at {upstream} and the connector")
            }
            Dominant::ReadyQueued => {
                f.write_str("has its input, waits to be scheduled: look at slots, token budget, KV space")
            }
            Dominant::Both => {
                write!(f, "waits for its input and for a turn: look at {upstream} and at itself")
            }
            Dominant::Neither => write!(f, "hardly queues: {} at most", duration(self.max_queued_ns)),
            Dominant::Unsplit(reason) => f.write_str(match reason {
                Absent::FirstStage => {
                    "no stage before it: look at its slots, token budget, KV space and slow steps"
                }
                Absent::Ungated => "not split: it has no input gate, which would tell its two waits apart",
                Absent::InvalidTime => "not split: its engine sent times that are none",
                Absent::NotObserved => "not split: its gate never saw the input ready",
                Absent::NotScheduled => "not split: its requests ended before they were scheduled",
                Absent::OutOfInterval => "not split: the stamp lies outside the queued interval",
            }),
            Dominant::NotMeasured => f.write_str("no request was scheduled here"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn split(input_wait_ns: u64, ready_queued_ns: u64) -> Times {
        let queued_ns = input_wait_ns + ready_queued_ns;
        Times {
            queued_ns: Some(queued_ns),
            split: Split::Measured { input_wait_ns, ready_queued_ns },
            resolution_ns: None,
            total_ns: queued_ns + MS,
        }
    }

    fn absent(reason: Absent, queued_ns: Option<u64>) -> Times {
        Times { queued_ns, split: Split::Absent(reason), resolution_ns: None, total_ns: 5_000 * MS }
    }

    #[test]
    fn which_wait_dominates() {
        let first = absent(Absent::FirstStage, Some(900 * MS));
        let ended = absent(Absent::NotObserved, None);
        let table = [
            (vec![split(900 * MS, MS), split(800 * MS, 0)], Dominant::InputWait),
            (vec![split(MS, 900 * MS)], Dominant::ReadyQueued),
            (vec![split(500 * MS, 400 * MS)], Dominant::Both),
            (vec![split(65 * MS, 35 * MS)], Dominant::InputWait),
            (vec![split(64 * MS, 36 * MS)], Dominant::Both),
            (vec![split(0, 0), split(9 * MS, 0)], Dominant::Neither),
            (vec![first, first], Dominant::Unsplit(Absent::FirstStage)),
            (vec![absent(Absent::FirstStage, Some(49 * MS))], Dominant::Neither),
            (vec![ended], Dominant::NotMeasured),
            (vec![], Dominant::NotMeasured),
            (vec![split(500 * MS, 0), ended], Dominant::InputWait),
        ];
        for (times, expected) in table {
            assert_eq!(Verdict::of(&times, Some("thinker")).dominant, expected, "{times:?}");
        }
    }

    #[test]
    fn one_outlier_is_not_hidden_by_many_quick_requests() {
        let mut times = vec![split(86_000 * MS, MS)];
        times.extend([split(MS, 0); 100]);
        let verdict = Verdict::of(&times, Some("thinker"));
        assert_eq!(verdict.dominant, Dominant::InputWait);
        assert_eq!(verdict.to_string(), "waits for its input: look upstream, at thinker and the connector");
    }

    #[test]
    fn shares_and_missing_splits() {
        let verdict =
            Verdict::of(&[split(300 * MS, 100 * MS), absent(Absent::NotObserved, Some(MS))], Some("thinker"));
        assert_eq!(verdict.input_share, Some(0.75));
        assert_eq!(verdict.unsplit, (1, 2));
        assert!(verdict.partly_unsplit());
        let first = Verdict::of(&[absent(Absent::FirstStage, Some(900 * MS))], None);
        assert_eq!(first.input_share, None);
        assert!(!first.partly_unsplit());
        assert!(first.to_string().starts_with("no stage before it"));
    }

    #[test]
    fn of_several_reasons_the_most_frequent_is_told() {
        let times = [
            absent(Absent::NotObserved, Some(900 * MS)),
            absent(Absent::InvalidTime, Some(900 * MS)),
            absent(Absent::NotObserved, Some(900 * MS)),
        ];
        assert_eq!(Verdict::of(&times, None).dominant, Dominant::Unsplit(Absent::NotObserved));
        assert_eq!(Verdict::of(&times[..2], None).dominant, Dominant::Unsplit(Absent::InvalidTime));
    }

    #[test]
    fn every_sentence_fits_its_line() {
        let reasons = Absent::ALL.map(Dominant::Unsplit);
        let others = [
            Dominant::InputWait,
            Dominant::ReadyQueued,
            Dominant::Both,
            Dominant::Neither,
            Dominant::NotMeasured,
        ];
        for dominant in reasons.into_iter().chain(others) {
            let mut verdict = Verdict::of(&[], Some("a_stage_of_20_letters"));
            verdict.dominant = dominant;
            assert!(verdict.to_string().chars().count() <= 78, "{verdict}");
        }
    }
}
