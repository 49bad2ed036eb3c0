//! A request: what was asked, how far it is, where it stands.

use std::collections::VecDeque;

use stagespan_model::{EngineCoreEvent, EventKind, Instant};

use crate::list::Links;
use crate::output::InputReady;

slotmap::new_key_type! {
    /// Names one request for as long as it lives, and nothing afterwards: a handle is never
    /// reused, so a late delivery or abort can't hit another request.
    pub struct RequestHandle;
}

/// A request as it comes in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRequest {
    /// Prompt length in tokens. A gated generation stage learns the real length from its input.
    pub prompt_tokens: u32,
    /// Output tokens after which it ends with `length` (AR only).
    pub max_tokens: u32,
    /// Sampled tokens that end it with `stop` (AR only).
    pub stop_token_ids: Vec<u32>,
    /// A streaming session: after a segment it waits for the next one instead of ending.
    pub resumable: bool,
    /// Its output grammar is still being compiled: it isn't schedulable until
    /// [`grammar_ready`](crate::Scheduler::grammar_ready).
    pub grammar_pending: bool,
}

/// The next input of a streaming session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamingUpdate {
    /// Tokens that it adds to the prompt. A stage that receives chunks takes its input from those
    /// and ignores this.
    pub prompt_tokens: u32,
    /// Output tokens of the next segment.
    pub max_tokens: u32,
}

/// One upstream chunk, as the connector delivers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Input tokens that it carries. A generation stage runs exactly these; an AR stage only
    /// learns that the chunk is there.
    pub tokens: u32,
    /// The upstream stage has finished: no chunk follows.
    pub finished: bool,
    /// The upstream stage has finished a streaming segment.
    pub segment_finished: bool,
}

/// A whole payload, as the connector delivers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// The prompt length that the payload fixes, if it does.
    pub prompt_tokens: Option<u32>,
}

/// vLLM's two waiting queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum QueueId {
    /// `kv_holding_waiting`: requests that hold KV blocks; always drained first.
    Holding,
    /// `waiting`.
    Fresh,
}

impl QueueId {
    pub(crate) const BOTH: [Self; 2] = [Self::Holding, Self::Fresh];
}

/// Where a request stands. Exactly one place at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Appended to a queue since the last gate pass.
    Arrived(QueueId),
    /// In a waiting queue, where scheduling finds it.
    Waiting(QueueId),
    /// Likewise, at a position of its own between others (it had to wait aside for a while).
    WaitingAside(QueueId),
    /// Keeps its position in a queue, but is blocked: scheduling passes over it.
    Blocked(QueueId),
    /// Held by the gate out of a waiting queue.
    HeldWaiting(QueueId),
    /// Held by the gate out of `waiting`, without a slot in the active-stream window.
    NoSlot,
    /// Held by the gate out of `running`, without a slot in the active-stream window (a grammar let
    /// it past the window).
    NoSlotRunning,
    /// Held by the gate out of `running`: it waits for its next chunk.
    HeldRunning,
    /// In `running`.
    Running,
    /// Its input ended without anything to run; it ends with this step.
    Leaving,
}

/// What scheduling may do with a request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Waiting,
    Preempted,
    /// Its grammar is being compiled, or is compiled and scheduling has not looked yet.
    Grammar,
    /// A streaming session between two segments.
    Paused,
}

/// What is known of a request's input.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// Chunks that the connector has delivered and the gate not yet asked for.
    pub(crate) inbox: VecDeque<Chunk>,
    /// The gate has asked the connector for a chunk.
    pub(crate) loading: bool,
    /// A chunk has come in since the last gate pass.
    pub(crate) loaded: bool,
    /// A chunk has passed the gate and has not been scheduled yet.
    pub(crate) ready: bool,
    /// The upstream stage has finished.
    pub(crate) exhausted: bool,
    /// The upstream stage has finished the present segment.
    pub(crate) segment_done: bool,
    /// A payload that the next gate pass will see.
    pub(crate) payload: Option<Payload>,
    /// The payload is there.
    pub(crate) received: bool,
    /// It holds a slot of the active-stream window.
    pub(crate) has_slot: bool,
}

impl Input {
    /// Whether there is input to run, or nothing left to wait for.
    pub(crate) const fn is_there(&self) -> bool {
        self.ready || self.loaded || self.received || self.payload.is_some() || self.is_done()
    }

    /// Whether the gate has no further chunk to wait for.
    pub(crate) const fn is_done(&self) -> bool {
        self.exhausted || self.segment_done
    }
}

/// One request in flight.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) prompt_tokens: u32,
    pub(crate) max_tokens: u32,
    pub(crate) stop_token_ids: Vec<u32>,
    pub(crate) resumable: bool,
    /// Whether it came as a streaming session (a finished upstream takes `resumable` back).
    pub(crate) is_session: bool,

    /// Prompt plus all sampled tokens.
    pub(crate) total_tokens: u32,
    /// Sampled tokens of the present segment.
    pub(crate) output_tokens: u32,
    pub(crate) computed_tokens: u32,
    /// Tokens of plans that have not come back yet.
    pub(crate) in_flight_tokens: u32,
    /// Those of them that belong to a segment that has ended; their results are dropped.
    pub(crate) stale_tokens: u32,
    pub(crate) kv_blocks: u32,
    pub(crate) preemptions: u32,

    pub(crate) place: Place,
    pub(crate) status: Status,
    pub(crate) grammar_compiled: bool,
    /// Position within its queue, or within the gate's hold.
    pub(crate) order: i64,
    pub(crate) queue_links: Links,
    pub(crate) deadline_links: Links,
    /// When the gate began to wait for its input. Set only where a timeout applies.
    pub(crate) held_since: Option<Instant>,
    pub(crate) input: Input,
    /// How it is counted for input coalescing.
    pub(crate) counted_runnable: bool,
    pub(crate) counted_in_flight: bool,
    /// Streaming updates that came before their turn; `None` closes the session.
    pub(crate) updates: VecDeque<Option<StreamingUpdate>>,

    /// When it was added; `None` where neither observation nor deferral needs it.
    pub(crate) added_at: Option<Instant>,
    pub(crate) events: Vec<EngineCoreEvent>,
    pub(crate) input_ready: Option<InputReady>,
    /// The stamp was taken; once per request.
    pub(crate) stamped: bool,
}

impl Request {
    pub(crate) fn new(new: NewRequest, added_at: Option<Instant>) -> Self {
        Self {
            prompt_tokens: new.prompt_tokens,
            max_tokens: new.max_tokens,
            stop_token_ids: new.stop_token_ids,
            resumable: new.resumable,
            is_session: new.resumable,
            total_tokens: new.prompt_tokens,
            output_tokens: 0,
            computed_tokens: 0,
            in_flight_tokens: 0,
            stale_tokens: 0,
            kv_blocks: 0,
            preemptions: 0,
            place: Place::Arrived(QueueId::Fresh),
            status: if new.grammar_pending { Status::Grammar } else { Status::Waiting },
            grammar_compiled: false,
            order: 0,
            queue_links: Links::default(),
            deadline_links: Links::default(),
            held_since: None,
            input: Input::default(),
            counted_runnable: false,
            counted_in_flight: false,
            updates: VecDeque::new(),
            added_at,
            events: Vec::new(),
            input_ready: None,
            stamped: false,
        }
    }

    #[cfg(test)]
    pub(crate) fn for_test() -> Self {
        Self::new(NewRequest::default(), None)
    }

    /// Whether scheduling must pass over it.
    pub(crate) const fn is_blocked(&self) -> bool {
        match self.status {
            Status::Waiting | Status::Preempted => false,
            Status::Grammar => !self.grammar_compiled,
            Status::Paused => true,
        }
    }

    /// The waiting queue it belongs to: vLLM asks whether anything is computed, not whether
    /// blocks are held.
    pub(crate) const fn queue(&self) -> QueueId {
        if self.computed_tokens > 0 { QueueId::Holding } else { QueueId::Fresh }
    }

    /// Tokens that are not computed yet.
    pub(crate) const fn missing_tokens(&self) -> u32 {
        self.total_tokens.saturating_sub(self.computed_tokens)
    }

    /// Records an event, if `at` is known (that is, if anyone observes).
    pub(crate) fn record(&mut self, kind: EventKind, at: Option<Instant>) {
        if let Some(at) = at {
            self.events.push(EngineCoreEvent { kind, at });
        }
    }
}
