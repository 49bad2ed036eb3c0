//! The anchors that a stage has sent.

use std::collections::VecDeque;

use stagespan_model::{ClockAnchor, ForeignClock, Instant};

use crate::counts::Reason;

/// Anchors that are kept. A stage sends one every 10 s, and a request's QUEUED may arrive only
/// with its first output: these reach back almost three hours.
const KEPT: usize = 1024;

/// A stage's recent anchors, oldest first.
#[derive(Debug)]
pub(crate) struct RecentAnchors {
    anchors: VecDeque<ClockAnchor>,
}

impl RecentAnchors {
    pub(crate) fn new(first: ClockAnchor) -> Self {
        Self { anchors: VecDeque::from([first]) }
    }

    pub(crate) fn renewed(&mut self, anchor: ClockAnchor) -> Result<(), Reason> {
        if let Some(latest) = self.anchors.back() {
            match anchor.monotonic().is_before(latest.monotonic()) {
                Ok(false) => {}
                Ok(true) => return Err(Reason::StaleAnchor),
                Err(ForeignClock) => return Err(Reason::ForeignClock),
            }
        }
        if self.anchors.len() == KEPT {
            self.anchors.pop_front();
        }
        self.anchors.push_back(anchor);
        Ok(())
    }

    /// The anchor that was the latest at `at`: a step of the wall clock after it changes nothing.
    /// Before the first that is kept, that one.
    pub(crate) fn in_force(&self, at: Instant) -> ClockAnchor {
        let later = self.anchors.partition_point(|a| a.monotonic().as_ns() <= at.as_ns());
        // Never empty: it begins with one, and one is dropped only to make room for another.
        self.anchors[later.saturating_sub(1)]
    }
}

#[cfg(test)]
mod tests {
    use stagespan_model::ClockDomain;

    use super::*;

    fn at(domain: &str, ns: u64) -> Instant {
        Instant::from_ns(ns, ClockDomain::from_id(domain).unwrap().tag()).unwrap()
    }

    fn anchor(ns: u64) -> ClockAnchor {
        ClockAnchor::new(at("stage", ns), 1_000 + ns, 3)
    }

    #[test]
    fn the_anchor_in_force_is_the_latest_before() {
        let mut anchors = RecentAnchors::new(anchor(100));
        anchors.renewed(anchor(200)).unwrap();
        anchors.renewed(anchor(300)).unwrap();
        for (ns, expected) in [(50, 100), (100, 100), (199, 100), (200, 200), (299, 200), (9_999, 300)] {
            assert_eq!(anchors.in_force(at("stage", ns)), anchor(expected), "{ns}");
        }
    }

    #[test]
    fn anchors_of_the_past_or_of_another_clock_are_refused() {
        let mut anchors = RecentAnchors::new(anchor(100));
        assert_eq!(anchors.renewed(anchor(99)), Err(Reason::StaleAnchor));
        let foreign = ClockAnchor::new(at("other", 500), 1, 1);
        assert_eq!(anchors.renewed(foreign), Err(Reason::ForeignClock));
        assert_eq!(anchors.in_force(at("stage", 1_000)), anchor(100));
    }

    #[test]
    fn only_the_latest_are_kept() {
        let mut anchors = RecentAnchors::new(anchor(1));
        for ns in 2..=2_000 {
            anchors.renewed(anchor(ns)).unwrap();
        }
        assert_eq!(anchors.anchors.len(), KEPT);
        assert_eq!(anchors.in_force(at("stage", 1)), anchor(2_000 - KEPT as u64 + 1));
    }
}
