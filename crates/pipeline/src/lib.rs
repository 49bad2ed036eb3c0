//! The running thing: an orchestrator, one process per stage, and connectors between them.
//!
//! | module | holds |
//! |---|---|
//! | [`pipeline_file`] | which stages there are, how they schedule, and what their model costs |
//! | [`orchestrator`] | starts the stages, is the door for requests, follows each to its end |
//! | [`stage`] | a stage's process |
//! | [`outcome`] | what became of a request |
//! | [`frame`], [`message`] | the protocol between the processes |
//! | [`transport`] | Unix and TCP sockets behind one address |
//!
//! Everything but the model is the real path: real processes, sockets, clocks and queues. The
//! model is a cost that takes real time (`cost_model`).

mod cost_model;
mod frame_io;

pub mod frame;
pub mod message;
pub mod orchestrator;
pub mod outcome;
pub mod pipeline_file;
pub mod stage;
pub mod transport;

pub use orchestrator::{
    NewRequest, Orchestrator, OrchestratorError, OrchestratorOptions, StageFacts, Ticket,
};
pub use outcome::{RequestOutcome, StageOutcome};
pub use pipeline_file::{Pipeline, PipelineFileError};
pub use stage::{StageError, StageSpec};
