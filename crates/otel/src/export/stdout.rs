//! Spans on stdout, for people: `OTEL_TRACES_EXPORTER=console`.

use std::time::Duration;

use opentelemetry_sdk::trace::SpanExporter as _;

use super::batch::Batch;
use super::outcome::{Outcome, OutcomeKind};
use super::transport::Transport;

pub(super) struct Stdout;

impl Transport for Stdout {
    fn send(&mut self, batch: &mut Batch, _within: Option<Duration>) -> Outcome {
        let Some((resource, spans)) = batch.take_spans() else {
            return Outcome::lost(OutcomeKind::Failed, "stdout: the spans have been encoded for a receiver");
        };
        // The exporter prints a resource only once in its life, and ours change from batch to batch.
        let mut exporter = opentelemetry_stdout::SpanExporter::default();
        exporter.set_resource(&resource);
        match futures_executor::block_on(exporter.export(spans)) {
            Ok(()) => Outcome::delivered(batch.len(), 0, ""),
            Err(error) => Outcome::lost(OutcomeKind::Failed, format!("stdout: {error}")),
        }
    }
}
