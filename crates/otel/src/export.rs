//! From the bounded queue to the receiver.
//!
//! Producers push into [`Pipe`]'s queue and go on. One worker thread takes entries out, turns
//! records into spans, groups them by resource and hands batches to a [`transport::Transport`]; it owns
//! retries, deadlines and the account. Nothing here runs until the first entry comes.

mod batch;
mod groups;
mod grpc;
mod http;
mod isolation;
mod json_file;
mod outcome;
mod pipe;
mod probe;
mod receiver;
mod retry;
mod seen_ids;
mod stdout;
#[cfg(test)]
pub(crate) mod testing;
mod tls;
mod transport;
mod trouble;
mod worker;

pub use pipe::FlushError;
pub(crate) use pipe::{Entry, Pipe};
pub use probe::{ProbeCause, ProbeOutcome, probe};
pub(crate) use transport::Opening;
pub use transport::TransportError;
pub(crate) use worker::Plan;

/// The pipe of whichever process asks: a forked child has its own.
pub(crate) type SharedPipe = std::sync::Arc<crate::fork::PerProcess<std::sync::Arc<Pipe>>>;
