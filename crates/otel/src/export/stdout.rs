//! Spans on stdout, for people: `OTEL_TRACES_EXPORTER=console`.

use std::mem;
use std::time::Duration;

use opentelemetry_sdk::trace::SpanExporter as _;

use super::transport::{Batch, Outcome, OutcomeKind, Transport};

pub(super) struct Stdout;

impl Transport for Stdout {
    fn send(&mut self, batch: &mut Batch, _within: Option<Duration>) -> Outcome {
        // The exporter prints a resource only once in its life, and ours change from batch to batch.
        let mut exporter = opentelemetry_stdout::SpanExporter::default();
        exporter.set_resource(&batch.resource);
        match futures_executor::block_on(exporter.export(mem::take(&mut batch.spans))) {
            Ok(()) => Outcome::delivered(batch.len, 0, ""),
            Err(error) => Outcome::lost(OutcomeKind::Failed, format!("stdout: {error}")),
        }
    }
}
