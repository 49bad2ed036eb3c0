//! A transport that keeps what it is sent, for tests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_sdk::trace::SpanData;

use super::batch::Batch;
use super::outcome::Outcome;
use super::transport::{Opening, Transport};

/// What was sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collected(Arc<Mutex<Vec<SpanData>>>);

impl Collected {
    pub(crate) fn spans(&self) -> Vec<SpanData> {
        self.0.lock().unwrap().clone()
    }
}

impl Transport for Collected {
    fn send(&mut self, batch: &mut Batch, _within: Option<Duration>) -> Outcome {
        self.0.lock().unwrap().extend(batch.take_spans().unwrap().1);
        Outcome::delivered(batch.len(), 0, "")
    }
}

/// Opens a transport into `collected`.
pub(crate) fn collecting(collected: &Collected) -> Opening {
    let transport = collected.clone();
    Opening::Custom(Box::new(move || Box::new(transport)))
}
