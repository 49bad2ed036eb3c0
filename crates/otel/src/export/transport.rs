//! The seam between the worker and whatever takes the spans.

use std::path::PathBuf;
use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;

use crate::config::Output;

use super::http::HttpTransport;
use super::json_file::JsonFile;
use super::stdout::Stdout;

/// Spans of one resource, on their way.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Their resource.
    pub(crate) resource: Resource,
    /// The spans, until a transport has encoded them.
    pub(crate) spans: Vec<SpanData>,
    /// How many spans there are; stays when they have been encoded.
    pub(crate) len: u64,
    /// What the transport made of them, so that a retry sends the same bytes.
    pub(crate) encoded: Option<opentelemetry_http::Request<opentelemetry_http::Bytes>>,
}

impl Batch {
    pub(crate) fn new(resource: Resource, spans: Vec<SpanData>) -> Self {
        let len = spans.len() as u64;
        Self { resource, spans, len, encoded: None }
    }
}

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

    /// None was taken.
    pub(crate) fn lost(kind: OutcomeKind, message: impl Into<String>) -> Self {
        Self { accepted: 0, rejected: 0, retry_after: None, kind, message: message.into() }
    }
}

/// Takes batches somewhere. Lives on the worker's thread alone.
pub(crate) trait Transport {
    /// Makes one attempt, in no longer than `within` (`None`: no limit). The first attempt may
    /// take the spans out of the batch, if it leaves what later ones need in `encoded`.
    fn send(&mut self, batch: &mut Batch, within: Option<Duration>) -> Outcome;
}

/// What is needed to open a transport, checked beforehand.
pub(crate) enum Opening {
    Http(Box<super::http::HttpOpening>),
    Stdout,
    JsonFile(JsonFile),
    /// For tests: whatever they want to see sent.
    #[cfg(test)]
    Custom(Box<dyn FnOnce() -> Box<dyn Transport> + Send>),
}

/// Why the output can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The trace file can't be written.
    #[error("the trace file {path:?} can't be written: {error}; choose another place")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The receiver's address, or a header of ours to it, is refused.
    #[error("{0}")]
    Receiver(String),
}

impl Opening {
    /// Checks the output. Opens a file, but no connection.
    pub(crate) fn check(output: &Output) -> Result<Self, TransportError> {
        Ok(match output {
            Output::Otlp(otlp) => Self::Http(Box::new(super::http::HttpOpening::check(otlp)?)),
            Output::Console => Self::Stdout,
            Output::OtlpJsonFile(path) => Self::JsonFile(
                JsonFile::create(path).map_err(|error| TransportError::File { path: path.clone(), error })?,
            ),
        })
    }

    /// Opens the transport, on the thread that will use it.
    pub(crate) fn open(self) -> Result<Box<dyn Transport>, TransportError> {
        Ok(match self {
            Self::Http(opening) => Box::new(HttpTransport::open(*opening)?),
            Self::Stdout => Box::new(Stdout),
            Self::JsonFile(file) => Box::new(file),
            #[cfg(test)]
            Self::Custom(open) => open(),
        })
    }
}
