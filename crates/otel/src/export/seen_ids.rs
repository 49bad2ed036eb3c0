//! Which assigned span ids have been used.

use std::collections::{HashSet, VecDeque};

use stagespan_model::{SpanId, StageRecord};

use crate::id_source;

/// Ids that are remembered; a repetition comes within seconds or is a replay of something old.
const REMEMBERED: usize = 16_384;

/// The span ids that were used last. An orchestrator assigns each once; a back end that gets two
/// spans of one id keeps whichever it likes.
#[derive(Debug, Default)]
pub(super) struct SeenIds {
    ids: HashSet<SpanId>,
    order: VecDeque<SpanId>,
}

impl SeenIds {
    /// Gives the record a fresh span id if its own has been used. Says whether it had to.
    pub(super) fn make_distinct(&mut self, record: &mut StageRecord) -> bool {
        let Some(context) = &mut record.context else { return false };
        if self.insert(context.span.span_id) {
            return false;
        }
        context.span.span_id = id_source::span_id();
        true
    }

    fn insert(&mut self, id: SpanId) -> bool {
        if !self.ids.insert(id) {
            return false;
        }
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        self.order.push_back(id);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_remembered_for_a_while() {
        let mut seen = SeenIds::default();
        let id = |n: usize| SpanId::from_bytes((n as u64 + 1).to_be_bytes()).unwrap();
        assert!(seen.insert(id(0)));
        assert!(!seen.insert(id(0)));
        for n in 1..=REMEMBERED {
            assert!(seen.insert(id(n)));
        }
        assert!(seen.insert(id(0)), "forgotten by now");
        assert_eq!(seen.ids.len(), REMEMBERED);
        assert_eq!(seen.order.len(), REMEMBERED);
    }
}
