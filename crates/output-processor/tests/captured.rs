//! The batches that real vLLM-Omni stages sent, against what its own output processor made of them.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

mod stage;

use std::collections::BTreeMap;

use serde_json::Value;
use stage::{Stage, waits_ms};
use stagespan_model::{Absent, End, Position, RequestId, Split, StageRequestStats};
use stagespan_output_processor::{StageFinished, Submission};
use stagespan_wire::{EngineCoreOutputs, EngineCoreRequest};

const VERSIONS: [&str; 3] = ["0.30.0", "0.31.0rc1", "0.32.0rc1"];

fn stories(version: &str) -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/tests/captured");
    let text = std::fs::read_to_string(format!("{folder}/vllm-omni-{version}.json")).unwrap();
    let mut file: Value = serde_json::from_str(&text).unwrap();
    let Value::Array(stories) = file["stories"].take() else { panic!("no stories in {version}") };
    stories.into_iter().filter(|story| story["name"] != "carrying").collect()
}

fn bytes(value: &Value) -> Vec<u8> {
    let hex = value.as_str().unwrap();
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

/// Lets our processor live through a story; `batches` says which of the two encodings it gets.
fn live_through(story: &Value, batches: &str) -> Stage {
    let position = if story["stage_id"] == 0 { Position::First } else { Position::Gated };
    let mut stage = Stage::new(position, |options| options);
    for step in story["steps"].as_array().unwrap() {
        if let Some(batch) = step.get(batches) {
            stage.process(EngineCoreOutputs::decode(&bytes(batch)).unwrap());
            continue;
        }
        let request = EngineCoreRequest::decode(&bytes(&step["request"])).unwrap();
        let tokens_input = request.prompt_token_ids.unwrap().len() as u32;
        if step.get("update").is_some() {
            stage.processor.updated(&request.request_id, request.resumable, tokens_input);
        } else {
            stage.processor.submitted(Submission {
                request_id: RequestId::from(request.external_req_id.unwrap().as_str()),
                tokens_input,
                resumable: request.resumable,
                ..Submission::new(&request.request_id)
            });
        }
    }
    stage
}

fn by_id(stage: &Stage) -> BTreeMap<&str, &StageFinished> {
    stage.finished.iter().map(|finished| (&*finished.internal_id, finished)).collect()
}

/// Only beside 0.32's fields does the stamp have a place of its own.
fn encodings(version: &str) -> &'static [&'static str] {
    if version == "0.32.0rc1" { &["batch", "stamped"] } else { &["batch"] }
}

/// The figures that vLLM-Omni has too, floats by their bits.
fn figures(stats: &StageRequestStats) -> Value {
    let bits = |ms: Option<f64>| ms.map(|ms| format!("{:016x}", ms.to_bits()));
    serde_json::json!({
        "vllm_queued_ms": bits(stats.vllm_queued_ms),
        "vllm_prefill_ms": bits(stats.vllm_prefill_ms),
        "vllm_decode_ms": bits(stats.vllm_decode_ms),
        "vllm_num_preemptions": stats.vllm_num_preemptions,
    })
}

#[test]
fn the_statistics_are_vllm_omnis_to_the_bit() {
    let mut compared = 0;
    for story in stories("0.32.0rc1") {
        for batches in encodings("0.32.0rc1") {
            let stage = live_through(&story, batches);
            let ours = by_id(&stage);
            for (id, theirs) in story["stats"].as_object().unwrap() {
                let stats = ours[id.as_str()].stats.unwrap();
                assert_eq!(figures(&stats), *theirs, "{} {id} {batches}", story["name"]);
                compared += 1;
            }
        }
    }
    assert!(compared >= 20, "{compared}");
}

#[test]
fn every_request_of_every_version_ends_once() {
    for version in VERSIONS {
        for story in stories(version) {
            let submitted =
                story["steps"].as_array().unwrap().iter().filter(|s| s.get("submit").is_some()).count();
            for batches in encodings(version) {
                let stage = live_through(&story, batches);
                let name = format!("{version} {} {batches}", story["name"]);
                assert_eq!(stage.finished.len(), submitted, "{name}");
                assert_eq!(by_id(&stage).len(), submitted, "{name}");
                assert_eq!(stage.processor.live(), 0, "{name}");
                assert_eq!(stage.records().len() + stage.refusals().len(), submitted, "{name}");
                for finished in &stage.finished {
                    // Their ends while held come without any event: only an engine can tell of these.
                    let held = matches!(&*finished.internal_id, "aborted" | "late");
                    assert_eq!(finished.timeline.is_none(), held, "{name} {}", finished.internal_id);
                }
            }
        }
    }
}

#[test]
fn ends_are_named_after_what_the_wire_tells() {
    let ends = [
        ("first stage", "a", End::Length),
        ("first stage", "b", End::Stop),
        ("full payload, a slot too few", "aborted", End::Aborted),
        ("input timeout", "late", End::Timeout),
        ("generation", "g1", End::Stop),
        ("generation", "aborted", End::Aborted),
        ("streaming session", "s", End::Length),
        ("session closed while idle", "i", End::Aborted),
    ];
    for version in VERSIONS {
        let stories = stories(version);
        for (name, id, end) in ends {
            let story = stories.iter().find(|story| story["name"] == name).unwrap();
            let stage = live_through(story, "batch");
            assert_eq!(by_id(&stage)[id].end, end, "{version} {name} {id}");
        }
    }
}

#[test]
fn the_two_waits_stand_beside_vllm_omnis_figures() {
    let (mut measured, mut absent) = (0, Vec::new());
    for story in stories("0.32.0rc1") {
        let stage = live_through(&story, "stamped");
        for finished in &stage.finished {
            let stats = finished.stats.unwrap();
            match finished.timeline.as_ref().map(|timeline| timeline.split()) {
                Some(Split::Measured { input_wait_ns, ready_queued_ns }) => {
                    let (Some(input), Some(ready)) = waits_ms(&stats) else { panic!("{finished:?}") };
                    assert!((input - input_wait_ns as f64 / 1e6).abs() < 1e-6);
                    assert!((ready - ready_queued_ns as f64 / 1e6).abs() < 1e-6);
                    assert!((input + ready - stats.vllm_queued_ms.unwrap()).abs() < 1e-6);
                    assert!(
                        input_wait_ns > 0 && ready_queued_ns > 0,
                        "AR and generation step after the gate"
                    );
                    measured += 1;
                }
                Some(Split::Absent(reason)) => {
                    assert_eq!(waits_ms(&stats), (None, None));
                    absent.push(reason);
                }
                None => assert_eq!(waits_ms(&stats), (None, None)),
            }
        }
    }
    assert_eq!(measured, 6);
    assert!(absent.iter().all(|reason| *reason == Absent::FirstStage), "{absent:?}");
}

#[test]
fn without_the_stamp_a_gated_stage_says_so() {
    for version in VERSIONS {
        for story in stories(version).iter().filter(|story| story["stage_id"] == 1) {
            let stage = live_through(story, "batch");
            for timeline in stage.finished.iter().filter_map(|f| f.timeline.as_ref()) {
                assert_eq!(timeline.split(), Split::Absent(Absent::NotObserved));
                assert!(timeline.queued_ns().is_some());
            }
        }
    }
}
