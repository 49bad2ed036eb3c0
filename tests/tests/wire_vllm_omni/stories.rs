//! Stories of a stage that no scheduler would tell: any outputs of any requests, in any order.

use proptest::prelude::*;
use serde_json::{Value, json};
use stagespan_model::{EventKind, FinishReason};
use stagespan_wire::{EngineCoreOutput, EngineCoreOutputs, WireEvent};

const REQUESTS: usize = 3;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Happening {
    Update { request: usize, resumable: bool },
    Batch { timestamp: f64, outputs: Vec<(usize, EngineCoreOutput)> },
}

/// Times of one clock, with fractions that don't come out even.
fn seconds() -> impl Strategy<Value = f64> {
    (1u32..40).prop_map(|n| 1_000.0 + f64::from(n) / 7.0)
}

fn output() -> impl Strategy<Value = (usize, EngineCoreOutput)> {
    let kind = prop::sample::select(vec![EventKind::Queued, EventKind::Scheduled, EventKind::Preempted]);
    let event = (kind, seconds()).prop_map(|(kind, timestamp)| WireEvent { kind, timestamp });
    let events = prop::option::weighted(0.7, prop::collection::vec(event, 0..4));
    let reason =
        prop::option::weighted(0.3, prop::sample::select(vec![FinishReason::Stop, FinishReason::Length]));
    (0..REQUESTS, events, reason, 0usize..3, prop::option::of(seconds())).prop_map(
        |(request, events, finish_reason, tokens, input_ready_ts)| {
            let output = EngineCoreOutput {
                new_token_ids: vec![7; tokens],
                events,
                finish_reason,
                input_ready_ts,
                ..Default::default()
            };
            (request, output)
        },
    )
}

fn happening() -> impl Strategy<Value = Happening> {
    let batch = (seconds(), prop::collection::vec(output(), 1..4));
    prop_oneof![
        1 => (0..REQUESTS, prop::bool::weighted(0.7))
            .prop_map(|(request, resumable)| Happening::Update { request, resumable }),
        4 => batch.prop_map(|(timestamp, outputs)| Happening::Batch { timestamp, outputs }),
    ]
}

/// A story in the driver's form. A session's finish reasons end its segments, and an abort ends in
/// the end whatever is left: what vLLM's front end has let go of before, it doesn't see.
pub(crate) fn story() -> impl Strategy<Value = Value> {
    let sessions = prop::collection::vec(any::<bool>(), REQUESTS);
    (sessions, prop::collection::vec(happening(), 1..16)).prop_map(|(sessions, happenings)| {
        let id = |request: usize| format!("r{request}");
        let batch = |timestamp, outputs| {
            let batch = EngineCoreOutputs { timestamp, outputs, ..Default::default() };
            json!({"batch": batch.encode().iter().map(|b| format!("{b:02x}")).collect::<String>()})
        };
        let mut steps: Vec<Value> = (0..REQUESTS)
            .map(|request| json!({"submit": id(request), "resumable": sessions[request]}))
            .collect();
        let mut closed = [false; REQUESTS];
        for happening in happenings {
            match happening {
                Happening::Update { request, resumable } => {
                    if sessions[request] && !closed[request] {
                        closed[request] = !resumable;
                        steps.push(json!({"update": id(request), "resumable": resumable}));
                    }
                }
                Happening::Batch { timestamp, outputs } => {
                    let outputs = outputs.into_iter().map(|(request, output)| EngineCoreOutput {
                        request_id: id(request),
                        is_segment_finished: Some(sessions[request] && output.finish_reason.is_some()),
                        ..output
                    });
                    steps.push(batch(timestamp, outputs.collect()));
                }
            }
        }
        let aborted = |request| EngineCoreOutput {
            request_id: id(request),
            finish_reason: Some(FinishReason::Abort),
            ..Default::default()
        };
        steps.push(batch(1_010.0, (0..REQUESTS).map(aborted).collect()));
        json!({"stage_id": 1, "steps": steps})
    })
}
