//! Whatever is encoded decodes to the same, and no bytes do harm.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use proptest::prelude::*;
use stagespan_model::{EventKind, FinishReason};
use stagespan_wire::{
    BatchLayout, CarriedOutputFields, CarriedRequestFields, EngineCoreMessage, EngineCoreOutput,
    EngineCoreOutputs, EngineCoreRequest, OutputLayout, RawValue, RequestKind, RequestLayout, SamplingParams,
    StopReason, UtilityCall, WireEvent,
};

/// Any MessagePack value, as its bytes.
fn raw_bytes() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        prop::sample::select(vec![vec![0xc0], vec![0xc2], vec![0xc3], vec![0xe0], vec![0x7f]]),
        (prop::sample::select(vec![0xcc_u8, 0xd0]), any::<[u8; 1]>())
            .prop_map(|(m, b)| [&[m][..], &b].concat()),
        (prop::sample::select(vec![0xcd_u8, 0xd1]), any::<[u8; 2]>())
            .prop_map(|(m, b)| [&[m][..], &b].concat()),
        (prop::sample::select(vec![0xce_u8, 0xd2, 0xca]), any::<[u8; 4]>())
            .prop_map(|(m, b)| [&[m][..], &b].concat()),
        (prop::sample::select(vec![0xcf_u8, 0xd3, 0xcb]), any::<[u8; 8]>())
            .prop_map(|(m, b)| [&[m][..], &b].concat()),
        // bin 8 and 16, str 8, ext 8 (with its type), fixext 4.
        prop::collection::vec(any::<u8>(), 0..9).prop_map(|b| [&[0xc4, b.len() as u8][..], &b].concat()),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(|b| [&[0xc5, 0, b.len() as u8][..], &b].concat()),
        "[a-z]{0,40}".prop_map(|s| [&[0xd9, s.len() as u8][..], s.as_bytes()].concat()),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(|b| [&[0xc7, b.len() as u8, 3][..], &b].concat()),
        any::<[u8; 5]>().prop_map(|b| [&[0xd6][..], &b].concat()),
    ];
    leaf.prop_recursive(6, 40, 5, |value| {
        let values = prop::collection::vec(value, 0..5);
        prop_oneof![
            values.clone().prop_map(|v| [vec![0x90 | v.len() as u8], v.concat()].concat()),
            values.clone().prop_map(|v| [vec![0xdd, 0, 0, 0, v.len() as u8], v.concat()].concat()),
            // A map of the values to themselves: keys may be anything.
            values.prop_map(|v| {
                let entries: Vec<u8> = v.iter().flat_map(|e| [&e[..], e].concat()).collect();
                [vec![0x80 | v.len() as u8], entries].concat()
            }),
        ]
    })
}

fn raw() -> impl Strategy<Value = RawValue> {
    raw_bytes().prop_map(|bytes| {
        let value = RawValue::from_bytes(&bytes).unwrap();
        assert_eq!(value.as_bytes(), bytes);
        value
    })
}

fn seconds() -> impl Strategy<Value = f64> {
    // NaN is a float that the wire carries; it only isn't equal to itself.
    any::<f64>().prop_filter("equal to itself", |f| !f.is_nan())
}

fn event() -> impl Strategy<Value = WireEvent> {
    let kind = prop::sample::select(vec![EventKind::Queued, EventKind::Scheduled, EventKind::Preempted]);
    (kind, seconds()).prop_map(|(kind, timestamp)| WireEvent { kind, timestamp })
}

fn carried_output() -> impl Strategy<Value = Option<Box<CarriedOutputFields>>> {
    // A field is nil or it isn't; all nil is None.
    let values = prop::collection::vec(raw(), 14);
    prop::option::of(values.prop_filter("some field is set", |v| v.iter().any(|v| !v.is_nil()))).prop_map(
        |v| {
            let mut v = v?.into_iter();
            let mut next = || v.next().unwrap();
            Some(Box::new(CarriedOutputFields {
                new_logprobs: next(),
                new_prompt_logprobs_tensors: next(),
                pooling_output: next(),
                kv_transfer_params: next(),
                ec_transfer_params: next(),
                trace_headers: next(),
                prefill_stats: next(),
                routed_experts: next(),
                mm_cache_miss_hashes: next(),
                new_sampling_mask: next(),
                spec_decode_metrics: next(),
                prompt_token_id_logprobs: next(),
                multimodal_output: next(),
                pooling_output_payload: next(),
            }))
        },
    )
}

fn output() -> impl Strategy<Value = EngineCoreOutput> {
    let stop_reason = prop_oneof![any::<i64>().prop_map(StopReason::Token), ".*".prop_map(StopReason::Text)];
    let finish_reason = (0u64..5).prop_map(|code| FinishReason::from_code(code).unwrap());
    let head = (".*", prop::collection::vec(any::<u32>(), 0..40), prop::option::of(finish_reason));
    let body = (
        prop::option::of(stop_reason),
        prop::option::of(prop::collection::vec(event(), 0..5)),
        any::<u64>(),
        any::<Option<bool>>(),
        any::<Option<u64>>(),
        any::<Option<u64>>(),
        any::<bool>(),
    );
    (head, body, prop::option::of(seconds()), carried_output()).prop_map(
        |(head, body, input_ready_ts, carried)| {
            let (request_id, new_token_ids, finish_reason) = head;
            let (stop_reason, events, nans, segment, snapshot, tokens, is_coalesced) = body;
            EngineCoreOutput {
                request_id,
                new_token_ids,
                finish_reason,
                stop_reason,
                events,
                num_nans_in_logits: nans,
                is_segment_finished: segment,
                new_prompt_len_snapshot: snapshot,
                num_generation_tokens: tokens,
                is_coalesced,
                input_ready_ts,
                carried,
                layout: OutputLayout::default(),
            }
        },
    )
}

fn batch() -> impl Strategy<Value = EngineCoreOutputs> {
    let ids = prop::option::of(prop::collection::vec(".{0,8}", 0..4));
    let raws = (raw(), raw(), raw());
    (prop::collection::vec(output(), 0..4), seconds(), ids, raws, any::<(u64, Option<u64>, Option<u64>)>())
        .prop_map(|(outputs, timestamp, finished_requests, raws, numbers)| EngineCoreOutputs {
            engine_index: numbers.0,
            outputs,
            scheduler_stats: raws.0,
            timestamp,
            utility_output: raws.1,
            finished_requests,
            wave_complete: numbers.1,
            start_wave: numbers.2,
            weight_version: raws.2,
            layout: BatchLayout::Vllm032,
        })
}

fn request() -> impl Strategy<Value = EngineCoreRequest> {
    let params =
        prop::option::of((any::<Option<u64>>(), prop::collection::vec(any::<u32>(), 0..4), any::<bool>()));
    let headers = prop::option::of(prop::collection::vec((".{0,8}", ".{0,8}"), 0..4));
    let texts = (any::<Option<String>>(), any::<Option<String>>());
    let numbers = (any::<u64>(), any::<u64>(), any::<i64>(), any::<bool>(), any::<bool>());
    let tokens = prop::option::of(prop::collection::vec(any::<u32>(), 0..40));
    let carried = prop::option::of(raw().prop_filter("set", |v| !v.is_nil()));
    (".*", tokens, params, seconds(), headers, texts, numbers, carried).prop_map(
        |(request_id, prompt_token_ids, params, arrival_time, trace_headers, texts, numbers, carried)| {
            let sampling_params = params.map(|(max_tokens, stop, ignore_eos)| {
                let mut params = SamplingParams::default();
                params.set_max_tokens(max_tokens);
                params.set_stop_token_ids(&stop);
                params.set_ignore_eos(ignore_eos);
                assert_eq!((params.max_tokens(), params.stop_token_ids()), (max_tokens, stop));
                assert_eq!(params.ignore_eos(), ignore_eos);
                params
            });
            EngineCoreRequest {
                request_id,
                prompt_token_ids,
                sampling_params,
                arrival_time,
                client_index: numbers.0,
                current_wave: numbers.1,
                priority: numbers.2,
                trace_headers,
                resumable: numbers.3,
                external_req_id: texts.0,
                abort_immediately: numbers.4,
                session_id: texts.1,
                carried: carried.map(|value| {
                    Box::new(CarriedRequestFields {
                        mm_features: value.clone(),
                        payload_sender_info: value,
                        ..Default::default()
                    })
                }),
                layout: RequestLayout::default(),
            }
        },
    )
}

fn message() -> impl Strategy<Value = EngineCoreMessage> {
    let call = (any::<u64>(), any::<i64>(), ".*", raw()).prop_map(|(client_index, call_id, method, args)| {
        EngineCoreMessage::Utility(UtilityCall { client_index, call_id, method, args })
    });
    prop_oneof![
        request().prop_map(|request| EngineCoreMessage::Add(Box::new(request))),
        prop::collection::vec(".*", 0..5).prop_map(EngineCoreMessage::Abort),
        call,
    ]
}

/// Valid bytes with a few of them changed, cut off or added.
fn damaged(valid: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (valid, changes, any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..3)).prop_map(
        |(mut bytes, changes, end, more)| {
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            bytes.truncate(end.index(bytes.len() + 1));
            bytes.extend(more);
            bytes
        },
    )
}

/// Decodes as everything, and holds an error to what it promises.
fn decode_all(bytes: &[u8]) -> Result<(), TestCaseError> {
    let check = |error: stagespan_wire::DecodeError| {
        prop_assert!(error.offset <= bytes.len(), "{error}");
        prop_assert!(error.to_string().contains(error.field), "{error}");
        Ok(())
    };
    match EngineCoreOutputs::decode(bytes) {
        Ok(batch) => {
            let again = EngineCoreOutputs::decode(&batch.encode()).unwrap();
            // By bytes, so that NaN counts as equal to itself.
            prop_assert_eq!(again.encode(), batch.encode());
        }
        Err(error) => check(error)?,
    }
    for kind in [RequestKind::Add, RequestKind::Abort, RequestKind::Utility] {
        match EngineCoreMessage::decode(kind, bytes) {
            Ok(message) => {
                let (_, encoded) = message.encode();
                let again = EngineCoreMessage::decode(kind, &encoded).unwrap();
                prop_assert_eq!(again.encode().1, encoded);
            }
            Err(error) => check(error)?,
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn batches_survive(batch in batch()) {
        prop_assert_eq!(EngineCoreOutputs::decode(&batch.encode()).unwrap(), batch);
    }

    #[test]
    fn messages_survive(message in message()) {
        let (kind, body) = message.encode();
        prop_assert_eq!(RequestKind::from_byte(kind.byte()), Some(kind));
        prop_assert_eq!(EngineCoreMessage::decode(kind, &body).unwrap(), message);
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        decode_all(&bytes)?;
    }

    #[test]
    fn damaged_batches_are_a_message_or_an_error(bytes in damaged(batch().prop_map(|b| b.encode()))) {
        decode_all(&bytes)?;
    }

    #[test]
    fn damaged_messages_are_a_message_or_an_error(bytes in damaged(message().prop_map(|m| m.encode().1))) {
        decode_all(&bytes)?;
    }
}
