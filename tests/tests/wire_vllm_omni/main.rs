//! The wire and the output processor against the real classes of vLLM-Omni 0.32, live.
//!
//! Needs STAGESPAN_VLLM_OMNI_PYTHON: the Python of an environment with vLLM-Omni. The same is held
//! to captured batches, without Python, in the two crates' own tests.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

mod batch_driver;
mod stories;
mod strategies;

use batch_driver::BatchDriver;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use stagespan_model::{
    ClockAnchor, ClockDomain, Gate, Instant, Position, StageIdentity, StageName, StageRequestStats,
};
use stagespan_output_processor::{Options, OutputProcessor, StageFinished, Submission};
use stagespan_wire::message::encode_abort;
use stagespan_wire::{BatchLayout, EngineCoreOutput, EngineCoreOutputs, EngineCoreRequest, OutputLayout};

/// Messages of each kind that are sent over.
const MESSAGES: usize = 300;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn bytes(value: &Value) -> Vec<u8> {
    let hex = value.as_str().unwrap();
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn output(request_id: &str, tokens: &[u32], layout: OutputLayout) -> EngineCoreOutput {
    EngineCoreOutput {
        request_id: request_id.into(),
        new_token_ids: tokens.to_vec(),
        layout,
        ..Default::default()
    }
}

fn batch(outputs: Vec<EngineCoreOutput>, layout: BatchLayout) -> Vec<u8> {
    EngineCoreOutputs { outputs, timestamp: 1.0, layout, ..Default::default() }.encode()
}

/// A batch of one output is 17 bytes and the output.
fn alone(output: EngineCoreOutput) -> Vec<u8> {
    let batch = batch(vec![output], BatchLayout::Vllm031);
    batch[3..batch.len() - 14].to_vec()
}

#[test]
fn the_bytes_are_msgspecs_own() {
    let real = BatchDriver::get().ask(&json!({"op": "vectors"}));
    let three = |layout| (0..3).map(|i| output(&format!("r{i}"), &[i], layout)).collect::<Vec<_>>();
    let (plain, stamped) = (OutputLayout::Omni032, OutputLayout::InputReady);
    let set = EngineCoreOutput { input_ready_ts: Some(1.0), ..output("r", &[], stamped) };
    let request = EngineCoreRequest {
        request_id: "r".into(),
        prompt_token_ids: Some(vec![1, 2]),
        arrival_time: 1.0,
        trace_headers: Some(vec![("traceparent".into(), "x".into())]),
        ..Default::default()
    };
    let ours = [
        ("output", 28, alone(output("r", &[], plain))),
        ("output_unset", 29, alone(output("r", &[], stamped))),
        ("output_set", 37, alone(set)),
        ("batch_of_8_fields", 107, batch(three(plain), BatchLayout::Vllm031)),
        ("batch_of_8_fields_stamped", 110, batch(three(stamped), BatchLayout::Vllm031)),
        ("batch", 108, batch(three(plain), BatchLayout::Vllm032)),
        ("batch_stamped", 111, batch(three(stamped), BatchLayout::Vllm032)),
        ("request", 53, request.encode()),
        ("abort", 7, encode_abort(&["r1", "r2"])),
    ];
    assert_eq!(real.as_object().unwrap().len(), ours.len());
    for (name, length, message) in ours {
        assert_eq!(hex(&message), real[name].as_str().unwrap(), "{name}");
        assert_eq!(message.len(), length, "{name}");
    }
}

/// Sends what a strategy makes, always the same values, and compares what the driver decodes.
fn decoded_equal<T>(
    kind: &str,
    strategy: impl Strategy<Value = T>,
    encode: impl Fn(&T) -> Vec<u8>,
    describe: impl Fn(&T) -> Value,
) {
    let mut runner = TestRunner::deterministic();
    let mut driver = BatchDriver::get();
    for number in 0..MESSAGES {
        let message = strategy.new_tree(&mut runner).unwrap().current();
        let command = json!({"op": "decode", "kind": kind, "hex": hex(&encode(&message)), "stamped": true});
        assert_eq!(driver.ask(&command), describe(&message), "{kind} number {number}");
    }
}

#[test]
fn real_structs_decode_our_batches_to_equal_values() {
    decoded_equal("outputs", strategies::batch(), EngineCoreOutputs::encode, strategies::describe_batch);
}

#[test]
fn real_structs_decode_our_requests_to_equal_values() {
    decoded_equal("request", strategies::request(), EngineCoreRequest::encode, strategies::describe_request);
}

#[test]
fn real_structs_decode_our_aborts_to_equal_values() {
    let ids = prop::collection::vec(".*", 0..5);
    decoded_equal("abort", ids, |ids| encode_abort(ids), |ids| json!(ids));
}

#[test]
fn a_decoder_without_the_stamp_skips_it() {
    let stamped =
        EngineCoreOutput { input_ready_ts: Some(1.0), ..output("r", &[7], OutputLayout::InputReady) };
    let message = hex(&batch(vec![stamped], BatchLayout::Vllm032));
    let decode = |stamped| json!({"op": "decode", "kind": "outputs", "hex": message, "stamped": stamped});
    let mut driver = BatchDriver::get();
    assert_eq!(driver.ask(&decode(false))["outputs"][0]["input_ready_ts"], Value::Null);
    assert_eq!(driver.ask(&decode(true))["outputs"][0]["input_ready_ts"], strategies::bits(1.0));
}

/// Lets our processor live through what a stage was sent and answered.
fn live_through(story: &Value, batches: &str) -> Vec<StageFinished> {
    let clock_domain = ClockDomain::unknown();
    let instant = |ns| Instant::from_ns(ns, clock_domain.tag()).unwrap();
    let (position, stage_id) = match story["stage_id"].as_u64().unwrap() {
        0 => (Position::First, 0),
        _ => (Position::Gated, 1),
    };
    let stage = StageIdentity {
        stage_id,
        name: StageName::new("real").unwrap(),
        replica_id: 0,
        gate: Gate::FullPayload,
        position,
        clock_domain: clock_domain.clone(),
        resource: Default::default(),
    };
    let options = Options { statistics: true, ..Options::default() };
    let mut processor =
        OutputProcessor::new(stage.into(), ClockAnchor::new(instant(1), 1, 1), options).unwrap();
    let mut finished = Vec::new();
    for step in story["steps"].as_array().unwrap() {
        if let Some(message) = step.get(batches) {
            let message = bytes(message);
            let batch = EngineCoreOutputs::decode(&message).unwrap();
            assert_eq!(batch.encode(), message, "{batch:?}");
            processor.process(&batch, instant(900_000_000_000_000_000), |f| finished.push(f));
            continue;
        }
        if let Some(message) = step.get("request") {
            let message = bytes(message);
            assert_eq!(hex(&EngineCoreRequest::decode(&message).unwrap().encode()), hex(&message));
        }
        let resumable = step["resumable"].as_bool().unwrap();
        match (step["submit"].as_str(), step["update"].as_str()) {
            (Some(id), _) => processor.submitted(Submission { resumable, ..Submission::new(id) }),
            (None, Some(id)) => processor.updated(id, resumable, 1),
            (None, None) => panic!("{step} is no step"),
        }
    }
    finished
}

fn figures(stats: &StageRequestStats) -> Value {
    json!({
        "vllm_queued_ms": stats.vllm_queued_ms.map(strategies::bits),
        "vllm_prefill_ms": stats.vllm_prefill_ms.map(strategies::bits),
        "vllm_decode_ms": stats.vllm_decode_ms.map(strategies::bits),
        "vllm_num_preemptions": stats.vllm_num_preemptions,
    })
}

#[test]
fn statistics_of_batches_made_just_now_are_equal_to_the_bit() {
    let capture = BatchDriver::get().ask(&json!({"op": "capture"}));
    let mut compared = 0;
    for story in capture["stories"].as_array().unwrap() {
        for batches in ["batch", "stamped"] {
            let ours = live_through(story, batches);
            for (id, theirs) in story["stats"].as_object().into_iter().flatten() {
                let finished = ours.iter().find(|f| *f.internal_id == **id).unwrap();
                let stats = finished.stats.unwrap();
                assert_eq!(figures(&stats), *theirs, "{} {id} {batches}", story["name"]);
                compared += 1;
            }
        }
    }
    assert!(compared >= 20, "{compared} requests compared");
}

#[test]
fn statistics_of_any_story_are_equal_to_the_bit() {
    let mut runner = TestRunner::deterministic();
    let mut driver = BatchDriver::get();
    let (mut compared, mut figures_seen) = (0, 0);
    for number in 0..MESSAGES {
        let story = stories::story().new_tree(&mut runner).unwrap().current();
        let theirs = driver.ask(&json!({"op": "process", "steps": story["steps"]}));
        let ours = live_through(&story, "batch");
        for (id, theirs) in theirs.as_object().unwrap() {
            let finished = ours.iter().find(|f| *f.internal_id == **id).unwrap();
            let ours = figures(&finished.stats.unwrap());
            assert_eq!(ours, *theirs, "story {number}, {id}: {story}");
            compared += 1;
            figures_seen += theirs.as_object().unwrap().values().filter(|v| !v.is_null()).count();
        }
    }
    assert!(compared > MESSAGES && figures_seen > compared, "{compared} requests, {figures_seen} figures");
}
