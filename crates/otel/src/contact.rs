//! Whether a receiver takes what it is sent, tried out with an export of no spans.

use std::thread;
use std::time::Duration;

use crate::config::OtlpOutput;
use crate::export::{Batch, Opening, Outcome, OutcomeKind, TransportError};

/// What a receiver said to an export of no spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Whether spans would arrive.
    pub state: ContactState,
    /// What happened, with a hint at what to do; empty if all is well. Holds no secret.
    pub message: String,
}

/// Whether spans would arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContactState {
    /// The receiver took the export.
    Accepted,
    /// The receiver, or something in its place, answered, and refused.
    Refused,
    /// There was no answer: no connection, no TLS, another protocol, or no time left.
    Unreachable,
}

impl OtlpOutput {
    /// Sends the receiver an export of no spans, once, and says what came of it. Blocks until then,
    /// `within` at the longest; may be called inside and outside any async runtime.
    ///
    /// # Errors
    /// An address, header or file that can't be used: nothing was sent.
    pub fn contact(&self, within: Duration) -> Result<Contact, TransportError> {
        let opening = Opening::of_receiver(self)?;
        // On a thread of its own: both clients refuse to run on one that belongs to a runtime.
        let outcome = thread::scope(|scope| {
            let contact = scope.spawn(|| {
                let mut transport = opening.open()?;
                Ok(transport.send(&mut Batch::empty(), Some(within)))
            });
            contact.join().unwrap_or_else(|_| {
                Ok(Outcome::lost(OutcomeKind::Failed, "the receiver's answer made the client panic"))
            })
        })?;
        let state = match (outcome.kind, outcome.has_answer) {
            (OutcomeKind::Delivered, _) => ContactState::Accepted,
            (_, true) => ContactState::Refused,
            (_, false) => ContactState::Unreachable,
        };
        Ok(Contact { state, message: outcome.message })
    }
}
