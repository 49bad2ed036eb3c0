//! The pipeline file: which stages there are, how they schedule, and what their model costs.
//!
//! ```toml
//! [pipeline]
//! connector = "unix"
//!
//! [[stage]]
//! name = "thinker"
//! scheduler = "ar"
//! max_num_seqs = 64
//!
//! [[stage]]
//! name = "talker"
//! scheduler = "ar"
//! gate = "async_chunk"
//! max_num_seqs = 2
//! ```

use std::collections::HashSet;
use std::fmt;
use std::num::NonZeroU32;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize};
use stagespan_model::{Gate, Position, StageName};

/// The most stages of one pipeline.
const STAGES_MAX: usize = 64;

/// A pipeline: its connector and its stages, first to last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// What is common to the stages.
    #[serde(default)]
    pub pipeline: Common,
    /// The stages; each feeds the next.
    #[serde(rename = "stage")]
    pub stages: Vec<Stage>,
}

/// The `[pipeline]` table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Common {
    /// What the processes talk over.
    #[serde(default)]
    pub connector: Connector,
}

/// What the processes of a pipeline talk over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Connector {
    /// Unix sockets in a directory that only the user may enter.
    #[default]
    Unix,
    /// TCP on the loopback interface, on ports the system picks.
    Tcp,
}

/// The kind of a stage's scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulerKind {
    /// Autoregressive: prefill, then a token a step.
    Ar,
    /// Generation: one step for each chunk (a vocoder, say).
    Generation,
}

/// What an async_chunk stage does with chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Receives from the stage before and sends to the stage after.
    #[default]
    Both,
    /// Sends only: its gate holds nothing.
    Sender,
}

/// One `[[stage]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Its name: `[a-z0-9_.-]`, at most 64 bytes, unique.
    #[serde(deserialize_with = "stage_name")]
    pub name: String,
    /// Its scheduler.
    pub scheduler: SchedulerKind,
    /// Its input gate.
    #[serde(default)]
    pub gate: Gate,
    /// Whether it receives chunks.
    #[serde(default)]
    pub role: Role,
    /// At most this many requests receive chunks at once; 0 is no window.
    #[serde(default)]
    pub active_stream_window: u32,
    /// The most requests that run at once.
    #[serde(default = "nonzero::<16>")]
    pub max_num_seqs: NonZeroU32,
    /// The most tokens scheduled in one step.
    #[serde(default = "nonzero::<8192>")]
    pub token_budget: NonZeroU32,
    /// KV blocks in all.
    #[serde(default = "nonzero::<100_000>")]
    pub kv_blocks: NonZeroU32,
    /// Tokens in a KV block.
    #[serde(default = "nonzero::<16>")]
    pub block_size: NonZeroU32,
    /// Output tokens in a chunk to the next stage.
    #[serde(default = "nonzero::<16>")]
    pub chunk_tokens: NonZeroU32,
    /// Output tokens for each token that the stage before puts out.
    #[serde(default = "nonzero::<1>")]
    pub tokens_per_input_token: NonZeroU32,
    /// What a step costs whatever is in it, in microseconds.
    #[serde(default = "step_us")]
    pub step_us: u32,
    /// What a prefilled token costs, in nanoseconds.
    #[serde(default)]
    pub prefill_ns_per_token: u32,
    /// What a decoded token (generation: an input token) costs, in nanoseconds.
    #[serde(default)]
    pub decode_ns_per_token: u32,
    /// What the first step costs once, in milliseconds: a cold start.
    #[serde(default)]
    pub start_cost_ms: u32,
    /// The command and arguments put before the stage's own.
    #[serde(default)]
    pub launch: Vec<String>,
}

const fn nonzero<const N: u32>() -> NonZeroU32 {
    match NonZeroU32::new(N) {
        Some(n) => n,
        None => NonZeroU32::MIN,
    }
}

const fn step_us() -> u32 {
    500
}

/// Checked while the file is read, so that the error has its line and column.
fn stage_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    StageName::new(&name).map_err(serde::de::Error::custom)?;
    Ok(name)
}

/// Why a pipeline file can't be used.
#[derive(Debug)]
pub enum PipelineFileError {
    /// The file can't be read.
    Unreadable {
        /// Its path.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It isn't a pipeline; the text says where, with line and column.
    Malformed {
        /// Its path.
        path: String,
        /// Where and why.
        reason: String,
    },
}

impl fmt::Display for PipelineFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, source } => write!(f, "can't read the pipeline file {path}: {source}"),
            Self::Malformed { path, reason } => write!(f, "pipeline file {path}: {}", reason.trim_end()),
        }
    }
}

impl std::error::Error for PipelineFileError {}

impl Pipeline {
    /// Reads and checks a pipeline file.
    ///
    /// # Errors
    /// An unreadable file, bad TOML, an unknown key, an impossible value; with line and column.
    pub fn read(path: &Path) -> Result<Self, PipelineFileError> {
        let shown = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, &shown),
            Err(source) => Err(PipelineFileError::Unreadable { path: shown, source }),
        }
    }

    /// Checks the text of a pipeline file; `path` is for the error.
    ///
    /// # Errors
    /// As [`Pipeline::read`], but for reading.
    pub fn parse(text: &str, path: &str) -> Result<Self, PipelineFileError> {
        let malformed = |reason: String| PipelineFileError::Malformed { path: path.to_owned(), reason };
        let pipeline: Self = toml::from_str(text).map_err(|error| malformed(error.to_string()))?;
        pipeline.check().map_err(malformed)?;
        Ok(pipeline)
    }

    /// What no single key can say.
    fn check(&self) -> Result<(), String> {
        if self.stages.is_empty() || self.stages.len() > STAGES_MAX {
            return Err(format!("{} stages: a pipeline has 1 to {STAGES_MAX}", self.stages.len()));
        }
        let mut names = HashSet::new();
        for (id, stage) in self.stages.iter().enumerate() {
            let name = &stage.name;
            if !names.insert(name) {
                return Err(format!("two stages are named {name:?}; give each its own name"));
            }
            if id == 0 && stage.gate != Gate::None {
                return Err(format!(
                    "stage {name:?} is the first and has no input to wait for: drop its gate"
                ));
            }
            if stage.active_stream_window > 0 && stage.gate != Gate::AsyncChunk {
                return Err(format!("stage {name:?}: active_stream_window needs gate = \"async_chunk\""));
            }
            if stage.role == Role::Sender && stage.gate != Gate::AsyncChunk {
                return Err(format!("stage {name:?}: role = \"sender\" needs gate = \"async_chunk\""));
            }
            if stage.launch.first().is_some_and(String::is_empty) {
                return Err(format!("stage {name:?}: launch begins with an empty command"));
            }
        }
        Ok(())
    }
}

impl Stage {
    /// The stage's position in the pipeline, given its number.
    pub fn position(&self, stage_id: u32) -> Position {
        Position::of(stage_id, self.gate, self.role == Role::Sender)
    }
}

#[cfg(test)]
mod tests;
