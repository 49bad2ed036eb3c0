//! How a command ends.

use std::process::ExitCode;

/// Done.
const OK: u8 = 0;
/// It failed on the way: a stage was lost, the trace file could not be written.
const FAILURE: u8 = 1;
/// It was asked for something that can't be done; nothing was started. clap exits with it too.
const BAD_INPUT: u8 = 2;

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As asked.
    Done,
    /// As asked, and the receiver turned out not to take spans.
    Unreachable,
    /// As asked, and the environment turned out to hold a value that can't be used.
    Misconfigured,
    /// Taken back by a signal, after a clean end: 128 and the signal's number, as shells count.
    Signalled(Signal),
}

/// A signal that ends a run cleanly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// Why a command did not do what it was asked for; the text says what to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// What was asked for can't be done.
    BadInput(String),
    /// It went wrong on the way.
    Failed(String),
}

impl Failure {
    /// What can't be done, by its error.
    pub(crate) fn bad_input(error: impl ToString) -> Self {
        Self::BadInput(error.to_string())
    }

    /// What went wrong, by its error.
    pub(crate) fn failed(error: impl ToString) -> Self {
        Self::Failed(error.to_string())
    }

    /// What is wrong.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::BadInput(message) | Self::Failed(message) => message,
        }
    }
}

impl Signal {
    /// The exit code after a clean end.
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 128 + 2,
            Self::Terminate => 128 + 15,
        }
    }
}

/// The exit code of a command.
pub(crate) fn exit_code(result: &Result<End, Failure>) -> ExitCode {
    ExitCode::from(match result {
        Ok(End::Done) => OK,
        Ok(End::Signalled(signal)) => signal.exit_code(),
        Ok(End::Unreachable) | Err(Failure::Failed(_)) => FAILURE,
        Ok(End::Misconfigured) | Err(Failure::BadInput(_)) => BAD_INPUT,
    })
}
