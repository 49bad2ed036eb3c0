//! Engine-core requests and outputs as MessagePack, byte-compatible with vLLM-Omni.
//!
//! vLLM's engine and its client exchange msgspec structs as MessagePack arrays: a field's meaning
//! is its place. This crate reads and writes them without Python, in both directions:
//!
//! | module | holds |
//! |---|---|
//! | [`message`] | orchestrator → stage: add, abort, utility, with their kind byte |
//! | [`request`], [`sampling_params`] | the request that an add message carries |
//! | [`outputs`] | stage → orchestrator: the batch of one step |
//! | [`output`], [`event`] | one request's part of it, and the engine-core events in that |
//! | [`layout`] | the field order of each version |
//! | [`raw`] | values that are passed on without being looked into |
//! | [`error`] | which field, where, and what is wrong with it |
//!
//! What Stagespan works with is typed. Everything else, such as prompts' embeddings, log
//! probabilities or payloads, is carried as the bytes it came in, so a message that is decoded and
//! encoded again is the same message.
//!
//! Timestamps stay float seconds here. An instant needs a clock domain, which the wire doesn't
//! tell: that conversion belongs to the output processor.
//!
//! Any bytes may come in: decoding never panics, never recurses, and never allocates by a length
//! that the bytes left over can't hold. There is no frame here and no socket; whoever carries the
//! messages limits a frame to [`FRAME_MAX_BYTES`].
//!
//! ```
//! use stagespan_wire::{EngineCoreOutput, EngineCoreOutputs, WireEvent};
//! use stagespan_model::EventKind;
//!
//! let batch = EngineCoreOutputs {
//!     timestamp: 12.5,
//!     outputs: vec![EngineCoreOutput {
//!         request_id: "r1".into(),
//!         new_token_ids: vec![7],
//!         events: Some(vec![WireEvent { kind: EventKind::Queued, timestamp: 12.25 }]),
//!         input_ready_ts: Some(12.375),
//!         ..Default::default()
//!     }],
//!     ..Default::default()
//! };
//! assert_eq!(EngineCoreOutputs::decode(&batch.encode()).unwrap(), batch);
//! ```

pub mod error;
pub mod event;
pub mod layout;
pub mod message;
pub mod output;
pub mod outputs;
pub mod raw;
mod reader;
pub mod request;
pub mod sampling_params;
mod writer;

pub use error::{DecodeError, Problem};
pub use event::WireEvent;
pub use layout::{BatchLayout, OutputLayout, RequestLayout};
pub use message::{EngineCoreMessage, RequestKind, UtilityCall};
pub use output::{CarriedOutputFields, EngineCoreOutput, StopReason};
pub use outputs::EngineCoreOutputs;
pub use raw::RawValue;
pub use request::{CarriedRequestFields, EngineCoreRequest};
pub use sampling_params::SamplingParams;

/// The longest message, in bytes: 64 MiB.
pub const FRAME_MAX_BYTES: usize = 64 << 20;

/// The most outputs, request ids, headers or parameters in one message. An engine runs a few
/// thousand requests at once; the bound keeps a hostile frame from being blown up in memory.
pub const MESSAGE_MAX_ENTRIES: usize = 1 << 18;
