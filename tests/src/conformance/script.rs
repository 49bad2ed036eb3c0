//! A workload as both schedulers are given it.

use serde::{Deserialize, Serialize};
use stagespan_model::{Gate, Position};

/// Which scheduler a script drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The AR scheduler.
    Ar,
    /// The generation scheduler.
    Generation,
}

/// A scheduler's configuration; times in steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// AR or generation.
    pub kind: Kind,
    /// The stage's number.
    pub stage_id: u32,
    /// Its gate.
    pub gate: Gate,
    /// An async_chunk stage that only sends.
    pub sender_only: bool,
    /// Streams that may receive chunks at a time; 0 = no bound.
    pub active_stream_window: u32,
    /// Slots.
    pub max_num_seqs: u32,
    /// Tokens per step.
    pub token_budget: u32,
    /// KV blocks that requests can hold.
    pub kv_blocks: u32,
    /// Tokens per KV block.
    pub block_size: u32,
    /// Longest prompt plus output.
    pub max_model_len: u32,
    /// Whether a prompt may take several steps.
    pub chunked_prefill: bool,
    /// The gate's timeout is half a step more than this; 0 = none.
    pub input_wait_timeout_steps: u32,
    /// Prefill admission deferral: batch to wait for; 0 = no deferral.
    pub admission_min_batch: u32,
    /// Prefill admission deferral: how long.
    pub admission_max_wait_steps: u32,
    /// Prefill admission deferral: only while as many run.
    pub admission_min_running: u32,
}

impl Config {
    /// Where the stage stands.
    pub const fn position(&self) -> Position {
        Position::of(self.stage_id, self.gate, self.sender_only)
    }
}

/// Something that happens before a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Operation {
    /// A request comes in.
    Add {
        /// Its id.
        id: String,
        /// Prompt length.
        prompt_tokens: u32,
        /// Output limit.
        max_tokens: u32,
        /// Its model samples the stop token as its so-manieth token; 0 = never.
        stop_after: u32,
        /// A streaming session.
        resumable: bool,
    },
    /// The connector has a chunk.
    Chunk {
        /// For whom.
        id: String,
        /// How many tokens it carries (generation).
        tokens: u32,
        /// The last one.
        finished: bool,
        /// The last one of a segment.
        segment_finished: bool,
    },
    /// The connector has the whole payload.
    Payload {
        /// For whom.
        id: String,
        /// The prompt length it fixes, if it does.
        prompt_tokens: Option<u32>,
    },
    /// The connector fails.
    Fail {
        /// For whom.
        id: String,
    },
    /// The client takes the request back.
    Abort {
        /// Which.
        id: String,
    },
    /// The next segment of a session.
    Update {
        /// Which.
        id: String,
        /// Tokens added to the prompt.
        prompt_tokens: u32,
        /// Output limit of the segment.
        max_tokens: u32,
    },
    /// No further segment.
    Close {
        /// Which.
        id: String,
    },
}

/// A whole workload: what happens before each step. The first step is number 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// The seed that it was made from.
    pub seed: u64,
    /// The family it belongs to, for a reader.
    pub family: String,
    /// The scheduler.
    pub config: Config,
    /// Operations before each step.
    pub steps: Vec<Vec<Operation>>,
}
