//! The anchor in force.

use std::sync::{Arc, Mutex, PoisonError};

use stagespan_model::{Clock, ClockAnchor};

use crate::fork::PerProcess;

/// Anchors are renewed after 10 s, so that a slewed wall clock is followed.
const RENEWAL_NS: u64 = 10_000_000_000;

/// Keeps the anchor in force, and renews it when it is 10 s old.
///
/// Ask once per request, when it begins: all of its instants are placed by that one anchor.
#[derive(Clone)]
pub struct AnchorSource {
    clock: Arc<dyn Clock>,
    current: Arc<PerProcess<Mutex<Option<ClockAnchor>>>>,
}

impl AnchorSource {
    /// Anchors of this clock. Nothing is read yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, current: Arc::new(PerProcess::new(Mutex::default(), Mutex::default)) }
    }

    /// The anchor in force, read afresh if it has come of age.
    pub fn current(&self) -> ClockAnchor {
        self.refresh().0
    }

    /// The anchor in force if it is a new one since the last call of either method: what a stage
    /// sends to its orchestrator when it connects, and then about every 10 s.
    pub fn renewed(&self) -> Option<ClockAnchor> {
        let (anchor, is_new) = self.refresh();
        is_new.then_some(anchor)
    }

    fn refresh(&self) -> (ClockAnchor, bool) {
        // The value is replaced as a whole, so a panic elsewhere can't have left it half-written.
        let mut current = self.current.get().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(anchor) = *current {
            // One clock, which never goes back: an age that can't be told is no age.
            let age_ns = self.clock.now().duration_since(anchor.monotonic()).ok().flatten().unwrap_or(0);
            if age_ns < RENEWAL_NS {
                return (anchor, false);
            }
        }
        let anchor = ClockAnchor::read(&*self.clock);
        *current = Some(anchor);
        (anchor, true)
    }
}

impl std::fmt::Debug for AnchorSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnchorSource").field("current", self.current.get()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stagespan_model::ManualClock;

    #[test]
    fn an_anchor_serves_ten_seconds() {
        let clock = Arc::new(ManualClock::new(1_000));
        let anchors = AnchorSource::new(Arc::<ManualClock>::clone(&clock));
        let first = anchors.renewed().unwrap();
        clock.advance_ns(RENEWAL_NS - 1);
        clock.step_wall_ns(3_000_000_000);
        assert_eq!(anchors.current(), first, "a wall step changes nothing while it is in force");
        assert_eq!(anchors.renewed(), None);
        clock.advance_ns(1);
        let second = anchors.renewed().unwrap();
        assert_eq!(second.monotonic(), clock.now());
        assert_eq!(second.wall_unix_ns(), clock.wall_unix_ns());
        assert_eq!(anchors.current(), second);
    }
}
