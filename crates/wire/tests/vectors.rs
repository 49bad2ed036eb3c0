//! The bytes that real msgspec structs of vLLM-Omni 0.32 encode to.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use stagespan_wire::{
    BatchLayout, EngineCoreMessage, EngineCoreOutput, EngineCoreOutputs, EngineCoreRequest, OutputLayout,
    RequestKind,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2));
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

/// A batch of that one output: what is around it is 8 fields of its own.
fn alone(output: EngineCoreOutput) -> String {
    let batch = EngineCoreOutputs {
        outputs: vec![output],
        timestamp: 1.0,
        layout: BatchLayout::Vllm031,
        ..Default::default()
    };
    let all = hex(&batch.encode());
    let body = all.strip_prefix("980091").unwrap().strip_suffix("c0cb3ff0000000000000c0c0c0c0").unwrap();
    assert_eq!(EngineCoreOutputs::decode(&bytes(&all)).unwrap(), batch);
    body.to_owned()
}

#[test]
fn an_output_is_28_bytes_with_the_stamp_unset_29_and_set_37() {
    let plain = alone(output("r", &[], OutputLayout::Omni032));
    assert_eq!(plain, "dc0018a17290c0c0c0c0c0c0c0c0c0c0c000c0c0c0c0c0c0c2c0c0c2");
    assert_eq!(plain.len() / 2, 28);
    let unset = alone(output("r", &[], OutputLayout::InputReady));
    assert_eq!(unset, "dc0019a17290c0c0c0c0c0c0c0c0c0c0c000c0c0c0c0c0c0c2c0c0c2c0");
    assert_eq!(unset.len() / 2, 29);
    let set =
        alone(EngineCoreOutput { input_ready_ts: Some(1.0), ..output("r", &[], OutputLayout::InputReady) });
    assert_eq!(set, "dc0019a17290c0c0c0c0c0c0c0c0c0c0c000c0c0c0c0c0c0c2c0c0c2cb3ff0000000000000");
    assert_eq!(set.len() / 2, 37);
}

fn three(layout: OutputLayout, batch: BatchLayout) -> String {
    let outputs = (0..3).map(|i| output(&format!("r{i}"), &[i], layout)).collect();
    let batch = EngineCoreOutputs { outputs, timestamp: 1.0, layout: batch, ..Default::default() };
    let encoded = batch.encode();
    assert_eq!(EngineCoreOutputs::decode(&encoded).unwrap(), batch);
    hex(&encoded)
}

#[test]
fn a_batch_of_three_is_107_bytes_and_a_byte_more_for_each_output() {
    let old = "980093dc0018a272309100c0c0c0c0c0c0c0c0c0c0c000c0c0c0c0c0c0c2c0c0c2dc0018a272319101c0c0c0c0c0c0c0c0c0c0c000c0c0c0c0c0c0c2c0c0c2dc0018a272329102c0c0c0c0c0c0c0c0c0c0c000c0c0c0c0c0c0c2c0c0c2c0cb3ff0000000000000c0c0c0c0";
    assert_eq!(three(OutputLayout::Omni032, BatchLayout::Vllm031), old);
    let lengths = [
        (OutputLayout::Omni032, BatchLayout::Vllm031, 107),
        (OutputLayout::InputReady, BatchLayout::Vllm031, 110),
        (OutputLayout::Omni032, BatchLayout::Vllm032, 108),
        (OutputLayout::InputReady, BatchLayout::Vllm032, 111),
    ];
    for (layout, batch, length) in lengths {
        assert_eq!(three(layout, batch).len() / 2, length, "{layout:?} {batch:?}");
    }
}

#[test]
fn a_request_is_53_bytes() {
    let request = EngineCoreRequest {
        request_id: "r".into(),
        prompt_token_ids: Some(vec![1, 2]),
        arrival_time: 1.0,
        trace_headers: Some(vec![("traceparent".into(), "x".into())]),
        ..Default::default()
    };
    let expected = "dc0019a172920102c0c0c0cb3ff0000000000000c0c0c0c0c000000081ab7472616365706172656e74a178c2c0c0c0c2c0c0c0c0c0";
    let message = EngineCoreMessage::Add(Box::new(request));
    let (kind, body) = message.encode();
    assert_eq!((kind.byte(), hex(&body), body.len()), (0, expected.to_owned(), 53));
    assert_eq!(EngineCoreMessage::decode(RequestKind::Add, &body).unwrap(), message);
}
