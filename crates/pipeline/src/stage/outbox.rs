//! What a stage sends: outputs to the orchestrator, chunks or payloads to the stage after.

use std::collections::HashMap;
use std::sync::mpsc::SyncSender;

use stagespan_model::{End, EngineCoreEvent, Instant};
use stagespan_scheduler::{RequestHandle, StageOutput, StopReason};
use stagespan_wire::{EngineCoreOutput, EngineCoreOutputs, WireEvent};

use super::StageSpec;
use super::engine::Live;
use crate::frame::Frame;
use crate::message::{ChunkMessage, Handover, Observed, Up};

/// The two ways out of a stage.
pub(super) struct Outbox {
    up: SyncSender<Frame>,
    down: Option<SyncSender<Frame>>,
    takes_chunks: bool,
    chunk_tokens: u32,
    closed: bool,
}

impl Outbox {
    pub(super) fn new(spec: &StageSpec, up: SyncSender<Frame>, down: Option<SyncSender<Frame>>) -> Self {
        Self {
            up,
            down,
            takes_chunks: spec.downstream.as_ref().is_some_and(|d| d.takes_chunks),
            chunk_tokens: spec.stage.chunk_tokens.get(),
            closed: false,
        }
    }

    /// Whether the orchestrator is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Sends to the orchestrator; waits while its queue is full.
    pub(super) fn send(&mut self, message: Up) {
        self.closed |= self.up.send(message.into()).is_err();
    }

    /// The last message.
    pub(super) fn bye(&mut self) {
        self.send(Up::Bye);
    }

    /// Sends a step's outputs: to the stage after first, so that its input waits for nothing here.
    pub(super) fn send_outputs(
        &mut self,
        outputs: &[StageOutput],
        live: &mut HashMap<RequestHandle, Live>,
        timestamp: Instant,
    ) {
        let mut batch =
            EngineCoreOutputs { timestamp: timestamp.as_seconds(), ..EngineCoreOutputs::default() };
        let mut resolutions_ns = Vec::new();
        for output in outputs {
            let Some(request) = live.get_mut(&output.handle) else {
                tracing::error!("an output of a request that isn't live");
                continue;
            };
            self.hand_over(output, request);
            if let Some(resolution_ns) = output.input_ready.and_then(|ready| ready.resolution_ns) {
                resolutions_ns.push((request.request_id.clone(), resolution_ns));
            }
            batch.outputs.push(to_wire(output, &request.request_id));
        }
        if !resolutions_ns.is_empty() {
            self.send(Up::Observed(Observed { resolutions_ns }));
        }
        self.send(Up::Outputs(batch.encode()));
    }

    /// Hands new output to the stage after, in chunks or, at the end, whole.
    fn hand_over(&mut self, output: &StageOutput, request: &mut Live) {
        let Some(down) = &self.down else { return };
        request.unsent_tokens += output.new_token_ids.len() as u32;
        let finished = match output.finished.as_ref().map(|f| f.end) {
            None => false,
            Some(End::Stop | End::Length) => true,
            // The orchestrator aborts the later stages of a request that failed here.
            Some(_) => return,
        };
        let enough = self.takes_chunks && request.unsent_tokens >= self.chunk_tokens;
        if !finished && !enough {
            return;
        }
        let message = ChunkMessage {
            request_id: request.request_id.clone(),
            tokens: std::mem::take(&mut request.unsent_tokens),
            finished,
        };
        let handover = if self.takes_chunks { Handover::Chunk(message) } else { Handover::Payload(message) };
        if down.send(handover.into()).is_err() {
            // The orchestrator learns of the lost stage by itself and says what to do.
            tracing::debug!(request = %request.request_id, "the stage after is gone");
            self.down = None;
        }
    }
}

fn to_wire(output: &StageOutput, request_id: &str) -> EngineCoreOutput {
    let (finish_reason, wire_word) = match output.finished.as_ref() {
        Some(finished) => {
            let (reason, word) = finished.end.to_wire();
            (Some(reason), word)
        }
        None => (None, None),
    };
    let stop_reason = match (wire_word, output.finished.as_ref().and_then(|f| f.stop_reason.as_ref())) {
        (Some(word), _) => Some(stagespan_wire::StopReason::Text(word.to_owned())),
        (None, Some(StopReason::Token(token))) => Some(stagespan_wire::StopReason::Token((*token).into())),
        (None, Some(StopReason::Text(text))) => Some(stagespan_wire::StopReason::Text(text.clone())),
        (None, None) => None,
    };
    EngineCoreOutput {
        request_id: request_id.to_owned(),
        new_token_ids: output.new_token_ids.clone(),
        finish_reason,
        stop_reason,
        // No list at all where there is none, as vLLM sends it.
        events: (!output.events.is_empty()).then(|| {
            let to_wire = |e: &EngineCoreEvent| WireEvent { kind: e.kind, timestamp: e.at.as_seconds() };
            output.events.iter().map(to_wire).collect()
        }),
        input_ready_ts: output.input_ready.map(|ready| ready.at.as_seconds()),
        ..EngineCoreOutput::default()
    }
}
