//! Messages of every shape, and what the driver must say of them.

use proptest::prelude::*;
use serde_json::{Value, json};
use stagespan_model::{EventKind, FinishReason};
use stagespan_wire::{
    CarriedOutputFields, EngineCoreOutput, EngineCoreOutputs, EngineCoreRequest, RawValue, SamplingParams,
    StopReason, WireEvent,
};

pub(crate) fn bits(number: f64) -> String {
    format!("{:016x}", number.to_bits())
}

/// Any float but NaN, whose bits an engine may change, and zero, which vLLM takes for "now".
fn seconds() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("kept as it is", |f| !f.is_nan() && *f != 0.0)
}

fn event() -> impl Strategy<Value = WireEvent> {
    let kind = prop::sample::select(vec![EventKind::Queued, EventKind::Scheduled, EventKind::Preempted]);
    (kind, seconds()).prop_map(|(kind, timestamp)| WireEvent { kind, timestamp })
}

/// `{"k": [1, null]}` and `["h"]`: carried fields of the types that vLLM has there.
fn carried() -> Option<Box<CarriedOutputFields>> {
    let raw = |bytes: &[u8]| RawValue::from_bytes(bytes).unwrap();
    Some(Box::new(CarriedOutputFields {
        kv_transfer_params: raw(&[0x81, 0xa1, b'k', 0x92, 0x01, 0xc0]),
        mm_cache_miss_hashes: raw(&[0x91, 0xa1, b'h']),
        ..Default::default()
    }))
}

fn output() -> impl Strategy<Value = EngineCoreOutput> {
    let stop_reason = prop_oneof![any::<i64>().prop_map(StopReason::Token), ".*".prop_map(StopReason::Text)];
    let finish_reason = (0u64..5).prop_map(|code| FinishReason::from_code(code).unwrap());
    (
        (".*", prop::collection::vec(any::<u32>(), 0..20), any::<bool>()),
        prop::option::of(finish_reason),
        prop::option::of(stop_reason),
        prop::option::of(prop::collection::vec(event(), 0..4)),
        (any::<u64>(), any::<Option<bool>>(), any::<Option<u64>>(), any::<Option<u64>>(), any::<bool>()),
        prop::option::of(seconds()),
    )
        .prop_map(|(head, finish_reason, stop_reason, events, numbers, input_ready_ts)| {
            EngineCoreOutput {
                request_id: head.0,
                new_token_ids: head.1,
                finish_reason,
                stop_reason,
                events,
                num_nans_in_logits: numbers.0,
                is_segment_finished: numbers.1,
                new_prompt_len_snapshot: numbers.2,
                num_generation_tokens: numbers.3,
                is_coalesced: numbers.4,
                input_ready_ts,
                carried: if head.2 { carried() } else { None },
                ..Default::default()
            }
        })
}

pub(crate) fn batch() -> impl Strategy<Value = EngineCoreOutputs> {
    let ids = prop::option::of(prop::collection::btree_set(".{0,8}", 0..4));
    let waves = any::<(u64, Option<u64>, Option<u64>)>();
    (prop::collection::vec(output(), 0..4), seconds(), ids, waves).prop_map(
        |(outputs, timestamp, finished, (engine_index, wave_complete, start_wave))| EngineCoreOutputs {
            engine_index,
            outputs,
            timestamp,
            finished_requests: finished.map(|ids| ids.into_iter().collect()),
            wave_complete,
            start_wave,
            ..Default::default()
        },
    )
}

pub(crate) fn describe_batch(batch: &EngineCoreOutputs) -> Value {
    let outputs: Vec<Value> = batch
        .outputs
        .iter()
        .map(|output| {
            json!({
                "request_id": output.request_id,
                "new_token_ids": output.new_token_ids,
                "finish_reason": output.finish_reason.map(FinishReason::code),
                "stop_reason": match &output.stop_reason {
                    None => Value::Null,
                    Some(StopReason::Token(token)) => json!(token),
                    Some(StopReason::Text(text)) => json!(text),
                },
                "events": output.events.as_ref().map(|events| {
                    events.iter().map(|e| json!([e.kind.code(), bits(e.timestamp)])).collect::<Vec<_>>()
                }),
                "num_nans_in_logits": output.num_nans_in_logits,
                "is_segment_finished": output.is_segment_finished,
                "new_prompt_len_snapshot": output.new_prompt_len_snapshot,
                "num_generation_tokens": output.num_generation_tokens,
                "is_coalesced": output.is_coalesced,
                "input_ready_ts": output.input_ready_ts.map(bits),
                "kv_transfer_params": output.carried.as_ref().map(|_| json!({"k": [1, null]})),
                "mm_cache_miss_hashes": output.carried.as_ref().map(|_| json!(["h"])),
            })
        })
        .collect();
    json!({
        "engine_index": batch.engine_index,
        "timestamp": bits(batch.timestamp),
        "finished_requests": batch.finished_requests,
        "wave_complete": batch.wave_complete,
        "start_wave": batch.start_wave,
        "outputs": outputs,
    })
}

pub(crate) fn request() -> impl Strategy<Value = EngineCoreRequest> {
    // vLLM's own checks: at least one token, and stop tokens that it accepts.
    let params = (1u64..1 << 40, prop::collection::vec(any::<u32>(), 0..4), any::<bool>());
    let headers = prop::option::of(prop::collection::btree_map(".{0,8}", ".{0,8}", 0..4));
    let texts = (any::<Option<String>>(), any::<Option<String>>());
    let numbers = (any::<u64>(), any::<u64>(), any::<i64>(), any::<bool>(), any::<bool>());
    let tokens = prop::option::of(prop::collection::vec(any::<u32>(), 0..40));
    (".*", tokens, prop::option::of(params), seconds(), headers, texts, numbers).prop_map(
        |(request_id, prompt_token_ids, params, arrival_time, headers, texts, numbers)| EngineCoreRequest {
            request_id,
            prompt_token_ids,
            sampling_params: params.map(|(max_tokens, stop, ignore_eos)| {
                let mut params = SamplingParams::default();
                params.set_max_tokens(Some(max_tokens));
                params.set_stop_token_ids(&stop);
                params.set_ignore_eos(ignore_eos);
                params
            }),
            arrival_time,
            client_index: numbers.0,
            current_wave: numbers.1,
            priority: numbers.2,
            trace_headers: headers.map(|headers| headers.into_iter().collect()),
            resumable: numbers.3,
            external_req_id: texts.0,
            abort_immediately: numbers.4,
            session_id: texts.1,
            ..Default::default()
        },
    )
}

pub(crate) fn describe_request(request: &EngineCoreRequest) -> Value {
    let params = request.sampling_params.as_ref();
    let headers = request.trace_headers.as_ref();
    json!({
        "request_id": request.request_id,
        "prompt_token_ids": request.prompt_token_ids,
        "arrival_time": bits(request.arrival_time),
        "client_index": request.client_index,
        "current_wave": request.current_wave,
        "priority": request.priority,
        "trace_headers": headers.map(|h| h.iter().cloned().collect::<std::collections::BTreeMap<_, _>>()),
        "resumable": request.resumable,
        "external_req_id": request.external_req_id,
        "abort_immediately": request.abort_immediately,
        "session_id": request.session_id,
        "max_tokens": params.map(SamplingParams::max_tokens),
        "ignore_eos": params.map(SamplingParams::ignore_eos),
        "stop_token_ids": params.map(SamplingParams::stop_token_ids),
    })
}
