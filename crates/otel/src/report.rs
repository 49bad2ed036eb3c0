//! How problems reach whoever can mend them.

use std::fmt;
use std::io::Write as _;

/// How much the layer says of itself: `OTEL_LOG_LEVEL`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What keeps it from working.
    Error,
    /// What is lost, and what was not taken as it was asked for.
    Warn,
    /// The same: there is nothing to say at this level.
    #[default]
    Info,
    /// Each failed attempt as well.
    Debug,
    /// The same.
    Trace,
}

impl LogLevel {
    /// Says what keeps the layer from working, both as a `tracing` event and on stderr.
    pub(crate) fn error_at_start(self, message: &str) {
        if self >= Self::Error {
            tracing::error!(target: "stagespan", "{message}");
            stderr(message);
        }
    }

    /// Says a problem both ways: what is said before the program has set up its log would vanish.
    pub(crate) fn problem_at_start(self, message: &str) {
        if self >= Self::Warn {
            tracing::warn!(target: "stagespan", "{message}");
            stderr(message);
        }
    }

    /// Says a problem as a `tracing` event and, where nobody listens to those, on stderr.
    pub(crate) fn problem(self, message: &str) {
        if self >= Self::Warn {
            tracing::warn!(target: "stagespan", "{message}");
            stderr_unless_heard(message);
        }
    }

    /// Says a detail. As an event it is the subscriber's to filter; stderr has no filter but the level.
    pub(crate) fn detail(self, message: fmt::Arguments<'_>) {
        if self > Self::Off {
            tracing::debug!(target: "stagespan", "{message}");
        }
        if self >= Self::Debug {
            stderr_unless_heard(message);
        }
    }
}

fn stderr_unless_heard(message: impl fmt::Display) {
    if !tracing::dispatcher::has_been_set() {
        stderr(message);
    }
}

fn stderr(message: impl fmt::Display) {
    // A closed stderr is no reason to stop (`eprintln!` would panic).
    let _ = writeln!(std::io::stderr(), "stagespan: {message}");
}
