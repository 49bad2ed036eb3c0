//! What the doctor found.

use stagespan_otel::{Finding, ProbeCause, ProbeOutcome, Setting};

/// What the doctor found.
#[derive(Debug)]
pub(super) struct Report {
    /// Why nothing is traced; `None` where something is to be.
    pub(super) off: Option<String>,
    /// Every value in force, with its source; secrets are masked.
    pub(super) settings: Vec<Setting>,
    /// Values that nothing can stand in for.
    pub(super) errors: Vec<Finding>,
    /// Values that something else stands in for.
    pub(super) warnings: Vec<Finding>,
    /// This process's clock.
    pub(super) clock_domain: String,
    /// What the receiver answered; `None` if none was contacted.
    pub(super) contact: Option<ProbeOutcome>,
}

/// What it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is traced, as asked.
    Off,
    /// Traced, and the receiver takes spans.
    Ok,
    /// The receiver does not take spans.
    Unreachable,
    /// A value can't be used.
    Misconfigured,
}

impl State {
    /// Its name, for programs.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Ok => "ok",
            Self::Unreachable => "unreachable",
            Self::Misconfigured => "misconfigured",
        }
    }
}

impl Report {
    /// The gravest of what was found.
    pub(super) fn state(&self) -> State {
        let cause = self.contact.as_ref().map(|contact| contact.cause);
        match cause {
            _ if !self.errors.is_empty() => State::Misconfigured,
            Some(ProbeCause::Unusable) => State::Misconfigured,
            _ if self.off.is_some() => State::Off,
            None | Some(ProbeCause::Ok | ProbeCause::NoReceiver) => State::Ok,
            Some(_) => State::Unreachable,
        }
    }
}
