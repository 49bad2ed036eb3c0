//! What the three versions of vLLM-Omni really sent decodes, and encodes to the same bytes.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use std::collections::BTreeSet;

use serde_json::Value;
use stagespan_wire::{
    BatchLayout, EngineCoreOutput, EngineCoreOutputs, EngineCoreRequest, OutputLayout, RequestLayout,
    StopReason,
};

const VERSIONS: [(&str, &str, OutputLayout, OutputLayout, BatchLayout, RequestLayout); 3] = [
    (
        "0.30.0",
        include_str!("captured/vllm-omni-0.30.0.json"),
        OutputLayout::Omni030,
        OutputLayout::Vllm030,
        BatchLayout::Vllm031,
        RequestLayout::Omni030,
    ),
    (
        "0.31.0rc1",
        include_str!("captured/vllm-omni-0.31.0rc1.json"),
        OutputLayout::Omni031,
        OutputLayout::Vllm031,
        BatchLayout::Vllm031,
        RequestLayout::Omni031,
    ),
    (
        "0.32.0rc1",
        include_str!("captured/vllm-omni-0.32.0rc1.json"),
        OutputLayout::Omni032,
        OutputLayout::Vllm031,
        BatchLayout::Vllm032,
        RequestLayout::Omni031,
    ),
];

fn bytes(value: &Value) -> Vec<u8> {
    let hex = value.as_str().unwrap();
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

/// The steps of every story, with the story's name.
fn steps(file: &str) -> Vec<(String, Value)> {
    let file: Value = serde_json::from_str(file).unwrap();
    let stories = file["stories"].as_array().unwrap();
    stories
        .iter()
        .flat_map(|story| {
            let name = story["name"].as_str().unwrap();
            story["steps"].as_array().unwrap().iter().map(|step| (name.to_owned(), step.clone()))
        })
        .collect()
}

fn same_bytes(message: &[u8]) -> EngineCoreOutputs {
    let batch = EngineCoreOutputs::decode(message).unwrap();
    assert_eq!(batch.encode(), message, "{batch:?}");
    batch
}

#[test]
fn every_captured_message_survives_byte_for_byte() {
    for (version, file, omni, vllm, batch_layout, request_layout) in VERSIONS {
        let mut layouts = Vec::new();
        let (mut batches, mut requests) = (0, 0);
        for (story, step) in steps(file) {
            if let Some(message) = step.get("request") {
                let message = bytes(message);
                let request = EngineCoreRequest::decode(&message).unwrap();
                assert_eq!(request.layout, request_layout, "{version} {story}");
                assert_eq!(request.encode(), message, "{version} {story}");
                assert_eq!(request.external_req_id, Some(format!("x-{}", request.request_id)));
                assert!(request.sampling_params.unwrap().ignore_eos());
                requests += 1;
            } else {
                let batch = same_bytes(&bytes(&step["batch"]));
                assert_eq!(batch.layout, batch_layout, "{version} {story}");
                layouts.extend(batch.outputs.iter().map(|output| output.layout));
                batches += 1;
            }
        }
        assert!(batches > 40 && requests > 12, "{version}: {batches} batches, {requests} requests");
        // vLLM-Omni's own outputs, and among them vLLM's own for an abort.
        assert!(layouts.contains(&omni) && layouts.contains(&vllm), "{version}");
        assert!(layouts.iter().all(|layout| *layout == omni || *layout == vllm), "{version}: {layouts:?}");
    }
}

#[test]
fn the_stamp_rides_after_the_fields_of_0_32() {
    let (_, file, ..) = VERSIONS[2];
    let (mut stamps, mut events) = (0, 0);
    for (story, step) in steps(file) {
        let Some(message) = step.get("stamped") else { continue };
        let stamped = same_bytes(&bytes(message));
        let plain = same_bytes(&bytes(&step["batch"]));
        for (with, without) in stamped.outputs.iter().zip(&plain.outputs) {
            let expected = match without.layout {
                OutputLayout::Omni032 => OutputLayout::InputReady,
                other => other,
            };
            assert_eq!(with.layout, expected, "{story}");
            assert!(with.input_ready_ts.is_none() || with.events.is_some(), "{story}");
            stamps += usize::from(with.input_ready_ts.is_some());
            events += usize::from(with.events.is_some());
            let unstamped = EngineCoreOutput { input_ready_ts: None, layout: without.layout, ..with.clone() };
            assert_eq!(unstamped, *without, "{story}: nothing else moved");
        }
    }
    assert!(stamps > 5 && events > stamps, "{stamps} stamps, {events} outputs with events");
}

#[test]
fn every_field_that_vllm_fills_is_read() {
    for (version, file, ..) in VERSIONS {
        let (_, step) = steps(file).into_iter().find(|(story, _)| story == "carrying").unwrap();
        let batch = same_bytes(&bytes(&step["batch"]));
        assert_eq!((batch.engine_index, batch.timestamp), (3, 99.5));
        assert_eq!(batch.finished_requests, Some(vec!["c".to_owned()]));
        assert_eq!((batch.wave_complete, batch.start_wave), (Some(1), Some(2)));
        let [full, text] = &batch.outputs[..] else { panic!("{version}: two outputs") };
        assert_eq!(full.new_token_ids, [7, 200, 70_000]);
        assert_eq!(full.stop_reason, Some(StopReason::Token(7)));
        assert_eq!(full.num_nans_in_logits, 300);
        assert_eq!(full.is_segment_finished, Some(true));
        assert_eq!((full.new_prompt_len_snapshot, full.num_generation_tokens), (Some(5), Some(3)));
        let events: Vec<_> = full.events.iter().flatten().map(|e| (e.kind.code(), e.timestamp)).collect();
        assert_eq!(events, [(1, 1.5), (3, 2.5)]);
        let carried = full.carried.as_deref().unwrap();
        for value in [
            &carried.new_logprobs,
            &carried.pooling_output,
            &carried.kv_transfer_params,
            &carried.trace_headers,
            &carried.mm_cache_miss_hashes,
            &carried.multimodal_output,
        ] {
            assert!(!value.is_nil(), "{version}");
        }
        assert!(carried.prefill_stats.is_nil());
        assert_eq!(text.request_id, "é");
        assert_eq!(text.stop_reason, Some(StopReason::Text("\n\n".into())));
    }
}

#[test]
fn the_versions_tell_of_the_same_kinds_of_end() {
    let ends = |file| {
        let mut ends = BTreeSet::new();
        for (story, step) in steps(file) {
            let Some(message) = step.get("batch") else { continue };
            for output in same_bytes(&bytes(message)).outputs {
                if let Some(reason) = output.finish_reason {
                    ends.insert((story.clone(), reason.code(), output.is_segment_finished));
                }
            }
        }
        ends
    };
    let all = VERSIONS.map(|(_, file, ..)| ends(file));
    assert_eq!(all[0], all[1]);
    assert_eq!(all[1], all[2]);
    assert!(all[2].contains(&("streaming session".into(), 1, Some(true))), "{:?}", all[2]);
}
