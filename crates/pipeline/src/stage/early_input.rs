//! Input that arrives before its request does.
//!
//! Requests come from the orchestrator and input from the stage before, on two sockets: nothing
//! orders them. Input of a request that isn't known yet waits here; input of one that has already
//! ended is dropped.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::message::Handover;

/// The most early messages kept, and the most ended requests remembered.
const REMEMBERED_MAX: usize = 65_536;

/// Early input by engine-core request, and which requests have ended.
#[derive(Debug, Default)]
pub(super) struct EarlyInput {
    waiting: HashMap<String, Vec<Handover>>,
    waiting_messages: usize,
    ended: HashSet<String>,
    ended_order: VecDeque<String>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// It waits for its request.
    Waiting,
    /// Its request has ended.
    Ended,
    /// There is no room for it.
    NoRoom,
}

impl EarlyInput {
    /// Keeps a message for a request that isn't live.
    pub(super) fn keep(&mut self, request_id: &str, message: Handover) -> Kept {
        if self.ended.contains(request_id) {
            return Kept::Ended;
        }
        if self.waiting_messages >= REMEMBERED_MAX {
            return Kept::NoRoom;
        }
        self.waiting_messages += 1;
        self.waiting.entry(request_id.to_owned()).or_default().push(message);
        Kept::Waiting
    }

    /// The messages that waited for this request, in order.
    pub(super) fn take(&mut self, request_id: &str) -> Vec<Handover> {
        let messages = self.waiting.remove(request_id).unwrap_or_default();
        self.waiting_messages -= messages.len();
        messages
    }

    /// Remembers that a request has ended.
    pub(super) fn ended(&mut self, request_id: String) {
        if self.ended_order.len() >= REMEMBERED_MAX
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
        if self.ended.insert(request_id.clone()) {
            self.ended_order.push_back(request_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ChunkMessage;

    fn chunk(request_id: &str, tokens: u32) -> Handover {
        Handover::Chunk(ChunkMessage { request_id: request_id.to_owned(), tokens, finished: false })
    }

    #[test]
    fn early_input_waits_in_order_and_late_input_is_dropped() {
        let mut early = EarlyInput::default();
        assert_eq!(early.keep("a", chunk("a", 1)), Kept::Waiting);
        assert_eq!(early.keep("a", chunk("a", 2)), Kept::Waiting);
        assert_eq!(early.take("a"), [chunk("a", 1), chunk("a", 2)]);
        assert_eq!(early.take("a"), []);
        early.ended("a".to_owned());
        assert_eq!(early.keep("a", chunk("a", 3)), Kept::Ended);
    }

    #[test]
    fn memory_is_bounded() {
        let mut early = EarlyInput::default();
        for n in 0..REMEMBERED_MAX {
            assert_eq!(early.keep("a", chunk("a", n as u32)), Kept::Waiting);
            early.ended(n.to_string());
        }
        assert_eq!(early.keep("a", chunk("a", 0)), Kept::NoRoom);
        early.ended("one more".to_owned());
        assert_eq!(early.ended.len(), REMEMBERED_MAX);
        assert_eq!(
            early.keep("0", chunk("0", 0)),
            Kept::NoRoom,
            "the oldest is forgotten, yet there is no room"
        );
    }
}
