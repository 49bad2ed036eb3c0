//! Bytes that are no message: each error says which field, where, and what is wrong.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use stagespan_wire::{
    EngineCoreMessage, EngineCoreOutput, EngineCoreOutputs, EngineCoreRequest, FRAME_MAX_BYTES,
    MESSAGE_MAX_ENTRIES, Problem, RawValue, RequestKind, WireEvent,
};

/// A batch of one output whose fields after the tokens are these bytes.
fn output(fields: u8, rest: &[u8]) -> Vec<u8> {
    // [0, [[“r”, [7], …]]]
    [&[0x92, 0x00, 0x91, 0x90 | fields, 0xa1, b'r', 0x91, 0x07][..], rest].concat()
}

fn outputs_error(bytes: &[u8]) -> String {
    EngineCoreOutputs::decode(bytes).unwrap_err().to_string()
}

#[test]
fn errors_name_field_place_and_fault() {
    let nil = 0xc0;
    let table: [(Vec<u8>, &str); 15] = [
        (vec![], "field batch at byte 0: the message ends in the middle of it"),
        (vec![0xc0], "field batch at byte 0: expected an array, found MessagePack marker 0xc0"),
        (vec![0x91, 0xff], "field engine_index at byte 1: the integer is not a non-negative integer"),
        (vec![0x92, 0x00, 0x9f], "field outputs at byte 2: the message ends in the middle of it"),
        (vec![0x92, 0x00, 0x91, 0x90], "field outputs.request_id at byte 3: it is missing"),
        (vec![0x92, 0x00, 0x91, 0x91, 0xa0], "field outputs.new_token_ids at byte 3: it is missing"),
        (
            vec![0x92, 0x00, 0x91, 0x92, 0xa2, 0xc3, 0x28, 0x90],
            "field outputs.request_id at byte 4: the text is not UTF-8",
        ),
        (
            vec![0x92, 0x00, 0x91, 0x92, 0xa0, 0x91, 0xff],
            "field outputs.new_token_ids at byte 6: the integer is not an integer of 32 bits",
        ),
        (
            output(6, &[nil, nil, nil, 5]),
            "field outputs.finish_reason at byte 11: 5 is no known finish reason",
        ),
        (
            output(7, &[nil, nil, nil, nil, 0xca, 0, 0, 0, 0]),
            "field outputs.stop_reason at byte 12: expected an integer, found MessagePack marker 0xca",
        ),
        (
            output(8, &[nil, nil, nil, nil, nil, 0x91, 0x81, 0xa4, b't', b'y', b'p', b'e', 9]),
            "field outputs.events.type at byte 20: 9 is no known engine-core event type",
        ),
        (
            output(8, &[nil, nil, nil, nil, nil, 0x91, 0x81, 0xa4, b't', b'y', b'p', b'e', 1]),
            "field outputs.events.timestamp at byte 14: it is missing",
        ),
        (
            output(3, &[0xc1]),
            "field outputs.new_logprobs at byte 8: expected a value, found MessagePack marker 0xc1",
        ),
        (
            output(3, &[0xc6, 0xff, 0xff, 0xff, 0xff, 1]),
            "field outputs.new_logprobs at byte 8: the message ends in the middle of it",
        ),
        (vec![0x91, 0x00, 0x00], "field batch at byte 2: 1 bytes are left over after it"),
    ];
    for (bytes, expected) in table {
        assert_eq!(outputs_error(&bytes), expected, "{bytes:02x?}");
    }
}

#[test]
fn errors_of_requests_name_their_fields() {
    let error = |kind, bytes: &[u8]| EngineCoreMessage::decode(kind, bytes).unwrap_err().to_string();
    assert_eq!(error(RequestKind::Add, &[0x90]), "field request at byte 0: it is missing");
    let bad_params = [
        0x94, 0xa0, 0xc0, 0xc0, 0x81, 0xaa, b'm', b'a', b'x', b'_', b't', b'o', b'k', b'e', b'n', b's', 0xa0,
    ];
    assert_eq!(
        error(RequestKind::Add, &bad_params),
        "field sampling_params.max_tokens at byte 16: expected a non-negative integer, found MessagePack marker 0xa0"
    );
    assert_eq!(
        error(RequestKind::Abort, &[0x91, 0x07]),
        "field abort.request_ids at byte 1: expected a string, found MessagePack marker 0x07"
    );
    assert_eq!(error(RequestKind::Utility, &[0x93, 0, 0, 0xa0]), "field utility at byte 0: it is missing");
    assert_eq!(RequestKind::from_byte(2), None);
}

#[test]
fn a_nesting_of_a_million_arrays_is_passed_over() {
    let mut deep = vec![0x91; 1_000_000];
    deep.push(0x90);
    let value = RawValue::from_bytes(&deep).unwrap();
    let batch = EngineCoreOutputs { scheduler_stats: value, ..Default::default() };
    assert_eq!(EngineCoreOutputs::decode(&batch.encode()).unwrap(), batch);
    deep.pop();
    assert_eq!(RawValue::from_bytes(&deep).unwrap_err().problem, Problem::Truncated);
}

#[test]
fn announced_lengths_allocate_nothing() {
    // Four billion outputs, tokens, ids, bytes: each in a handful of bytes.
    for bytes in [
        vec![0xdd, 0xff, 0xff, 0xff, 0xff],
        vec![0x92, 0x00, 0xdd, 0xff, 0xff, 0xff, 0xff],
        vec![0x92, 0x00, 0x91, 0x92, 0xa0, 0xdd, 0xff, 0xff, 0xff, 0xff],
        vec![0x92, 0x00, 0x91, 0x92, 0xdb, 0xff, 0xff, 0xff, 0xff],
        vec![0x93, 0x00, 0x90, 0xdf, 0xff, 0xff, 0xff, 0xff],
    ] {
        assert_eq!(EngineCoreOutputs::decode(&bytes).unwrap_err().problem, Problem::Truncated);
    }
}

#[test]
fn a_message_has_bounds() {
    let too_long = vec![0xc0; FRAME_MAX_BYTES + 1];
    let problem = EngineCoreRequest::decode(&too_long).unwrap_err().problem;
    assert_eq!(problem, Problem::TooLong { bytes: FRAME_MAX_BYTES + 1, max: FRAME_MAX_BYTES });
    let count = MESSAGE_MAX_ENTRIES + 1;
    let mut ids = vec![0xdd];
    ids.extend((count as u32).to_be_bytes());
    ids.resize(ids.len() + count, 0xa0);
    let error = EngineCoreMessage::decode(RequestKind::Abort, &ids).unwrap_err();
    assert_eq!(error.problem, Problem::TooMany { count, max: MESSAGE_MAX_ENTRIES });
}

#[test]
fn unknown_fields_after_the_known_ones_are_skipped() {
    let batch = EngineCoreOutputs {
        outputs: vec![EngineCoreOutput {
            request_id: "r".into(),
            events: Some(vec![WireEvent { kind: stagespan_model::EventKind::Queued, timestamp: 2.0 }]),
            input_ready_ts: Some(2.5),
            ..Default::default()
        }],
        timestamp: 1.0,
        ..Default::default()
    };
    let mut bytes = batch.encode();
    assert_eq!(bytes[..5], [0x99, 0x00, 0x91, 0xdc, 0x00]);
    // Two more fields at the end of the batch, one more at the end of its output, one in the event.
    bytes[0] = 0x9b;
    bytes.extend([0x81, 0xa1, b'x', 0x93, 1, 2, 3, 0xc0]);
    bytes[5] += 1;
    let output_end =
        bytes.windows(9).position(|w| w[0] == 0xcb && w[1..] == 2.5_f64.to_be_bytes()).unwrap() + 9;
    bytes.splice(output_end..output_end, [0xc4, 2, 9, 9]);
    let event = bytes.windows(5).position(|w| w[1..] == *b"\xa4typ").unwrap();
    assert_eq!(bytes[event], 0x82);
    bytes[event] = 0x83;
    bytes.splice(event + 1..event + 1, [0xa3, b'n', b'e', b'w', 0xc0]);
    assert_eq!(EngineCoreOutputs::decode(&bytes).unwrap(), batch);
}

#[test]
fn a_time_may_be_written_as_an_integer() {
    // msgspec takes an int where the struct has a float.
    let batch = |time: &[u8]| EngineCoreOutputs::decode(&[&[0x94, 0x00, 0x90, 0xc0][..], time].concat());
    assert_eq!(batch(&[0x07]).unwrap().timestamp, 7.0);
    assert_eq!(batch(&[0xff]).unwrap().timestamp, -1.0);
    assert_eq!(batch(&[0xca, 0x3f, 0, 0, 0]).unwrap().timestamp, 0.5);
    assert!(batch(&[0xa0]).is_err());
}
