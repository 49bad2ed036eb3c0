//! Whatever comes in: one end for each request, and no figure that means nothing.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

mod stage;

use proptest::prelude::*;
use stage::Stage;
use stagespan_model::{EventKind, FinishReason, Position, Refusal, StageRequestStats};
use stagespan_output_processor::{Options, Reason, StageFinished, Submission};
use stagespan_wire::{EngineCoreOutput, EngineCoreOutputs, WireEvent};

/// What may happen to a processor.
#[derive(Clone, Debug)]
enum Step {
    Submit(String, bool),
    Update(String, bool),
    Observe(String),
    Batch(EngineCoreOutputs),
    Abandon,
}

fn id() -> impl Strategy<Value = String> {
    (0u8..4).prop_map(|n| format!("r{n}"))
}

/// Mostly times, few of them, so that equal ones and every order come up; else no times.
fn seconds() -> impl Strategy<Value = f64> {
    prop_oneof![
        12 => (1u8..9).prop_map(|n| f64::from(n) / 8.0),
        1 => prop::sample::select(vec![0.0, -1.0, f64::NAN, f64::INFINITY, 1.79e9, f64::MAX, 1e-12]),
    ]
}

fn event() -> impl Strategy<Value = WireEvent> {
    let kind = prop::sample::select(vec![EventKind::Queued, EventKind::Scheduled, EventKind::Preempted]);
    (kind, seconds()).prop_map(|(kind, timestamp)| WireEvent { kind, timestamp })
}

fn output() -> impl Strategy<Value = EngineCoreOutput> {
    let reason =
        prop::option::weighted(0.3, (0u64..5).prop_map(|code| FinishReason::from_code(code).unwrap()));
    (
        id(),
        0usize..3,
        reason,
        prop::option::of(prop::collection::vec(event(), 0..4)),
        prop::option::of(seconds()),
        prop::option::weighted(0.2, 0u64..9),
        prop::option::weighted(0.2, any::<bool>()),
    )
        .prop_map(|(request_id, tokens, finish_reason, events, input_ready_ts, total, segment)| {
            EngineCoreOutput {
                request_id,
                new_token_ids: vec![7; tokens],
                finish_reason,
                events,
                input_ready_ts,
                num_generation_tokens: total,
                is_segment_finished: segment,
                ..Default::default()
            }
        })
}

fn batch() -> impl Strategy<Value = EngineCoreOutputs> {
    let outputs = prop::collection::vec(output(), 0..5);
    let finished = prop::option::weighted(0.2, prop::collection::vec(id(), 0..3));
    (seconds(), outputs, finished).prop_map(|(timestamp, outputs, finished_requests)| EngineCoreOutputs {
        timestamp,
        outputs,
        finished_requests,
        ..Default::default()
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (id(), any::<bool>()).prop_map(|(id, resumable)| Step::Submit(id, resumable)),
        1 => (id(), any::<bool>()).prop_map(|(id, resumable)| Step::Update(id, resumable)),
        1 => id().prop_map(Step::Observe),
        8 => batch().prop_map(Step::Batch),
        1 => Just(Step::Abandon),
    ]
}

/// No figure is negative, made up or alone, and statistics and spans say the same.
fn check_figures(finished: &StageFinished) -> Result<(), TestCaseError> {
    let stats: StageRequestStats = finished.stats.unwrap();
    let (input, ready) = (stats.vllm_input_wait_ms, stats.vllm_ready_queued_ms);
    prop_assert_eq!(input.is_some(), ready.is_some(), "both or neither");
    for figure in [stats.vllm_queued_ms, input, ready, stats.vllm_prefill_ms, stats.vllm_decode_ms] {
        prop_assert!(figure.is_none_or(|ms| ms.is_finite() && ms >= 0.0), "{stats:?}");
    }
    let split = finished.timeline.as_ref().map(|t| t.split());
    if let (Some(input), Some(ready)) = (input, ready) {
        let queued = stats.vllm_queued_ms.unwrap();
        prop_assert!((input + ready - queued).abs() <= 1e-9 * queued.max(1.0), "{stats:?}");
        let split = split.unwrap();
        let split_ms = |ns: Option<u64>| ns.unwrap() as f64 / 1e6;
        prop_assert!((split_ms(split.input_wait_ns()) - input).abs() < 1e-6);
        prop_assert!((split_ms(split.ready_queued_ns()) - ready).abs() < 1e-6);
    }
    if let Some(timeline) = &finished.timeline {
        let split = timeline.split();
        if let (Some(input), Some(ready)) = (split.input_wait_ns(), split.ready_queued_ns()) {
            prop_assert_eq!(Some(input + ready), timeline.queued_ns());
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn one_end_for_each_request(
        position in prop::sample::select(vec![Position::First, Position::Ungated, Position::Gated]),
        steps in prop::collection::vec(step(), 0..24),
        live_max in 1usize..5,
    ) {
        let mut stage = Stage::new(position, |o| Options { live_max, ..o });
        let mut submitted = 0;
        let mut abandoned = 0;
        for step in steps {
            match step {
                Step::Submit(id, resumable) => {
                    stage.processor.submitted(Submission { resumable, ..Submission::new(&id) });
                    submitted += 1;
                }
                Step::Update(id, resumable) => stage.processor.updated(&id, resumable, 1),
                Step::Observe(id) => stage.processor.observed(&id, 1),
                Step::Batch(batch) => stage.process(batch),
                Step::Abandon => abandoned += stage.processor.abandon().len(),
            }
            prop_assert!(stage.processor.live() <= live_max);
        }
        let count = |reason| stage.processor.counts().get(reason) as usize;
        let refused_at_the_door = count(Reason::TooManyLive) + count(Reason::DuplicateRequest);
        let ended = stage.finished.len();
        prop_assert_eq!(submitted, ended + abandoned + stage.processor.live() + refused_at_the_door);

        let never = stage.refusals().iter().filter(|r| **r == Refusal::NeverQueued).count();
        prop_assert_eq!(stage.records().len() + never, ended, "a record or a refusal for each end");
        prop_assert_eq!(never, count(Reason::NeverQueued));
        for finished in &stage.finished {
            prop_assert_eq!(finished.timeline.is_some(), stage.records().iter().any(|r| {
                r.request_id == finished.request_id && Some(&r.timeline) == finished.timeline.as_ref()
            }));
            check_figures(finished)?;
        }
    }
}
