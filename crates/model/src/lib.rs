//! What a Stagespan number means, and nothing else.
//!
//! A stage of a multi-stage inference pipeline queues a request twice in one interval: first for
//! its **input** (`input_wait`), then, once the input is there, for **scheduling**
//! (`ready_queued`). This crate holds the types in which that is said:
//!
//! | module | holds |
//! |---|---|
//! | [`instant`] | an instant on one stage's monotonic clock, and what it refuses |
//! | [`clock_domain`] | which clock an instant was read on; two domains never mix |
//! | [`clock`] | the [`Clock`] that is passed in: the system's, or one moved by hand |
//! | [`anchor`] | the (monotonic, wall) pair that places a stage's instants in wall time |
//! | [`event`] | the engine-core events: QUEUED, SCHEDULED, PREEMPTED |
//! | [`end`] | how a request ended on a stage, and what the engine's wire says of it |
//! | [`split`] | the split of the queued time, or the reason why there is none |
//! | [`timeline`] | the state machine of one request on one stage |
//! | [`live`] | a bounded table for the requests in flight |
//! | [`ids`] | trace and span ids, and references to spans |
//! | [`name`] | request ids and stage names, made safe for logs and attributes |
//! | [`stage`] | who the stage is: identity, gate, resource |
//! | [`record`] | one finished request on one stage, and the sink that takes it |
//! | [`stats`] | the same figures under vLLM-Omni's names, in milliseconds |
//!
//! The crate reads no clock by itself, starts no thread and knows nothing of OpenTelemetry, of
//! sockets or of a scheduler; those live in the sibling crates.
//!
//! ```
//! use stagespan_model::{
//!     Clock, End, ManualClock, Position, Split, StageTimeline, TimelineEvent,
//! };
//!
//! let clock = ManualClock::new(5_000_000_000);
//! let mut timeline = StageTimeline::new(Position::Gated, clock.now());
//! clock.advance_ns(86_000_000_000); // the upstream stage builds its kernels
//! timeline.apply(TimelineEvent::InputReady { at: clock.now(), resolution_ns: Some(1_900_000) }).unwrap();
//! clock.advance_ns(4_000_000);
//! timeline.apply(TimelineEvent::Scheduled(clock.now())).unwrap();
//! clock.advance_ns(250_000_000);
//! let done = timeline.finish(clock.now(), End::Stop);
//!
//! assert_eq!(done.split(), Split::Measured { input_wait_ns: 86_000_000_000, ready_queued_ns: 4_000_000 });
//! assert_eq!(done.queued_ns(), Some(86_004_000_000));
//! ```

pub mod anchor;
pub mod clock;
pub mod clock_domain;
pub mod end;
pub mod event;
pub mod ids;
pub mod instant;
pub mod live;
pub mod name;
pub mod record;
pub mod split;
pub mod stage;
pub mod stats;
pub mod timeline;

pub use anchor::{ClockAnchor, ClockPair, PairCheck};
pub use clock::{Clock, ManualClock, SystemClock};
pub use clock_domain::{ClockDomain, DomainTag};
pub use end::{End, ErrorType, FinishReason};
pub use event::{EngineCoreEvent, EventKind};
pub use ids::{IdError, SpanId, SpanRef, TraceId};
pub use instant::{ForeignClock, Instant, InstantError};
pub use live::{Handle, LiveTable};
pub use name::{RequestId, StageName, StageNameError};
pub use record::{ClockSource, Detail, Placement, RecordSink, Refusal, StageContext, StageRecord, Upstream};
pub use split::{Absent, Split};
pub use stage::{Gate, Position, StageIdentity, StageResource};
pub use stats::StageRequestStats;
pub use timeline::{FinishedTimeline, Ignored, Phase, PhaseKind, StageTimeline, TimelineEvent};
