//! What goes wrong with stage processes.

use std::fmt;
use std::io;

use stagespan_model::{ErrorType, StageName};

/// Why the orchestrator can't start or go on. Every message names the stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrchestratorError {
    /// The run's directory or socket can't be had.
    Socket(String),
    /// A stage's process can't be started.
    CannotStart {
        /// The stage.
        stage: StageName,
        /// The command.
        command: String,
        /// Why.
        cause: String,
    },
    /// A stage's process ended, or said nothing of use, before it was ready.
    NotReady {
        /// The stage.
        stage: StageName,
        /// Why.
        cause: String,
    },
    /// A stage's process died in mid-run.
    StageLost {
        /// The stage.
        stage: StageName,
        /// Its process.
        pid: u32,
        /// How it died, as far as is known.
        cause: String,
    },
    /// The orchestrator is shut down.
    ShutDown,
}

impl OrchestratorError {
    /// What a request that is turned away for it failed by.
    pub fn error_type(&self) -> ErrorType {
        match self {
            Self::ShutDown => ErrorType::Shutdown,
            Self::Socket(_) | Self::CannotStart { .. } | Self::NotReady { .. } | Self::StageLost { .. } => {
                ErrorType::StageLost
            }
        }
    }
}

impl fmt::Display for OrchestratorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(cause) => f.write_str(cause),
            Self::CannotStart { stage, command, cause } => {
                write!(f, "can't start stage {stage} by {command:?}: {cause}")
            }
            Self::NotReady { stage, cause } => write!(f, "stage {stage} did not get ready: {cause}"),
            Self::StageLost { stage, pid, cause } => write!(f, "stage {stage} (pid {pid}) was lost: {cause}"),
            Self::ShutDown => f.write_str("the orchestrator is shut down"),
        }
    }
}

impl std::error::Error for OrchestratorError {}

impl From<io::Error> for OrchestratorError {
    fn from(error: io::Error) -> Self {
        Self::Socket(error.to_string())
    }
}
