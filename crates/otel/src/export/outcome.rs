//! What became of one attempt to send a batch.

use std::time::Duration;

/// What became of one attempt to send a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Spans that the receiver took.
    pub(crate) accepted: u64,
    /// Spans that the receiver refused one by one.
    pub(crate) rejected: u64,
    /// How long the receiver asks to be left alone.
    pub(crate) retry_after: Option<Duration>,
    /// What to do about it.
    pub(crate) kind: OutcomeKind,
    /// What happened, for the log. Never a header, never a body.
    pub(crate) message: String,
}

/// What to do after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutcomeKind {
    /// Nothing: accepted, but for the rejected ones.
    Delivered,
    /// Try again: the receiver can't have taken the batch, or says that it may be sent again.
    Retryable,
    /// The receiver calls the batch bad: a part of it may be good.
    Bad,
    /// Give up: the receiver would refuse it again, or may have taken it.
    Failed,
}

impl Outcome {
    /// All but `rejected` of a batch were taken. A receiver that claims to have rejected more than
    /// it got has rejected all.
    pub(crate) fn delivered(len: u64, rejected: u64, message: impl Into<String>) -> Self {
        let rejected = rejected.min(len);
        let accepted = len - rejected;
        Self { accepted, rejected, retry_after: None, kind: OutcomeKind::Delivered, message: message.into() }
    }

    /// None was taken, or nothing is known of it.
    pub(crate) fn lost(kind: OutcomeKind, message: impl Into<String>) -> Self {
        Self { accepted: 0, rejected: 0, retry_after: None, kind, message: message.into() }
    }

    /// None was taken: so says the answer.
    pub(crate) fn refused(
        kind: OutcomeKind,
        retry_after: Option<Duration>,
        message: impl Into<String>,
    ) -> Self {
        Self { retry_after, ..Self::lost(kind, message) }
    }
}
