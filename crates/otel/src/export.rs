//! From the bounded queue to the receiver.
//!
//! Producers push into [`Pipe`]'s queue and go on. One worker thread takes entries out, turns
//! records into spans, groups them by resource and hands batches to a [`Transport`]; it owns
//! retries, deadlines and the account. Nothing here runs until the first entry comes.

mod batch;
mod http;
mod json_file;
mod pipe;
mod retry;
mod seen_ids;
mod stdout;
#[cfg(test)]
pub(crate) mod testing;
mod transport;
mod worker;

pub use pipe::FlushError;
pub(crate) use pipe::{Entry, Pipe};
pub(crate) use transport::Opening;
pub use transport::TransportError;
pub(crate) use worker::Seed;
