//! Engine-core outputs in, statistics and stage records out.
//!
//! In the orchestrator's process, one [`OutputProcessor`] follows each stage engine through the
//! batches that it sends. It knows what was submitted, so it can say of each request on the stage
//! what happened to it, once, when it ends:
//!
//! ```text
//! submitted ──▶ ┌─────────────────┐ ──▶ StageFinished   statistics, for whoever asked
//! batches   ──▶ │ OutputProcessor │
//! anchors   ──▶ └─────────────────┘ ──▶ StageRecord     into the RecordSink, when tracing is on
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`processor`] | the processor: requests by internal id, one end each |
//! | [`submission`] | what goes in beside the outputs, and [`StageFinished`] |
//! | [`summary`], [`table`] | the statistics of many requests, and of one as text |
//! | [`counts`] | what was ignored, by reason |
//!
//! Times come in as float seconds and become instants here, on the stage's clock alone: what is no
//! time is refused, counted, and never used. The statistics keep vLLM's own rules and arithmetic
//! beside that, so that the figures that vLLM-Omni has are the same to the bit.
//!
//! Nothing here blocks, reads a clock or does I/O.
//!
//! ```
//! use std::sync::Arc;
//!
//! use stagespan_model::*;
//! use stagespan_output_processor::{Options, OutputProcessor, Submission};
//! use stagespan_wire::{EngineCoreOutput, EngineCoreOutputs, WireEvent};
//!
//! let clock = ManualClock::new(100_000_000_000);
//! let talker = Arc::new(StageIdentity {
//!     stage_id: 1,
//!     name: StageName::new("talker")?,
//!     replica_id: 0,
//!     gate: Gate::AsyncChunk,
//!     position: Position::Gated,
//!     clock_domain: clock.domain().clone(),
//!     resource: Arc::default(),
//! });
//! let options = Options { statistics: true, ..Options::default() };
//! let mut processor = OutputProcessor::new(talker, ClockAnchor::read(&clock), options)?;
//!
//! processor.submitted(Submission::new("r1"));
//! let event = |kind, timestamp| WireEvent { kind, timestamp };
//! let batch = EngineCoreOutputs {
//!     timestamp: 99.5,
//!     outputs: vec![EngineCoreOutput {
//!         request_id: "r1".into(),
//!         new_token_ids: vec![7],
//!         finish_reason: Some(FinishReason::Stop),
//!         events: Some(vec![event(EventKind::Queued, 10.0), event(EventKind::Scheduled, 96.5)]),
//!         input_ready_ts: Some(96.0),
//!         ..Default::default()
//!     }],
//!     ..Default::default()
//! };
//! let mut ended = Vec::new();
//! processor.process(&batch, clock.now(), |finished| ended.push(finished));
//!
//! let stats = ended[0].stats.unwrap();
//! assert_eq!(stats.vllm_input_wait_ms, Some(86_000.0));
//! assert_eq!(stats.vllm_ready_queued_ms, Some(500.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod anchors;
pub mod counts;
mod ending;
mod live_request;
mod phase_stats;
pub mod processor;
mod segments;
pub mod submission;
pub mod summary;
pub mod table;
mod times;

pub use counts::{Counts, Reason};
pub use processor::OutputProcessor;
pub use submission::{Options, StageFinished, Submission};
pub use summary::{Aggregator, RequestStages, StageRow, Summary};
