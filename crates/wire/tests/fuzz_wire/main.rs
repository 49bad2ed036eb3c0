//! Fuzzing the decoder: whatever bytes come in, it neither panics nor takes memory out of proportion, and what it takes
//! is stable.
//!
//! `cargo test` tries the corpus and a few thousand inputs; `cargo xtask test` and `deep` give it time. A failure prints
//! the bytes and a seed: run it again with `BOLERO_RANDOM_SEED=<seed>`, then keep the bytes as a case in the corpus
//! (kind, 0, message) or in `bad_bytes.rs`. On a nightly toolchain `cargo bolero test` runs the same target under a
//! coverage-guided fuzzer.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

mod grow;
mod message;

use std::alloc::System;
use std::fmt::Debug;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use cap::Cap;
use stagespan_wire::{
    BatchLayout, DecodeError, EngineCoreMessage, EngineCoreOutputs, OutputLayout, RawValue, RequestKind,
    RequestLayout,
};

use message::{Kind, Message, Messages};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// The most bytes that decoding may take in all, what it gave back on the way included, for a byte of input; and a fixed
/// amount for what the test harness's other thread takes meanwhile.
const TAKEN_TIMES: usize = 128;
const TAKEN_BESIDE: usize = 16 << 10;

/// The most bytes that a byte of input may become when it is encoded again: an array of three bytes is an output whose
/// other fields have their defaults.
const ENCODED_TIMES: usize = 8;
const ENCODED_BESIDE: usize = 64;

/// Tries without a time limit.
const ITERATIONS: usize = 4_000;

/// What was decoded without an error, one bit each, and how many messages were.
#[derive(Default)]
struct Seen {
    tried: AtomicU64,
    decoded: AtomicU64,
    kinds: AtomicU32,
    outputs: AtomicU32,
    batches: AtomicU32,
    requests: AtomicU32,
}

/// One test, since the allocator counts for the whole process.
#[test]
fn fuzz_decoder() {
    let seen = Seen::default();
    bolero::check!()
        .with_generator(Messages::captured())
        .with_iterations(ITERATIONS)
        .for_each(|message| check(message, &seen));
    let [tried, decoded] = [&seen.tried, &seen.decoded].map(|count| count.load(Ordering::Relaxed));
    println!("{decoded} of {tried} messages were decoded");
    assert!(decoded * 8 > tried, "the generator has lost touch with the decoder: {decoded} of {tried}");
    let bits = |mask: &AtomicU32| mask.load(Ordering::Relaxed);
    // The corpus alone reaches each of them, whatever chance brings.
    assert_eq!(bits(&seen.kinds), (1 << Kind::ALL.len()) - 1, "not every kind of message was decoded");
    assert_eq!(bits(&seen.outputs), (1 << 6) - 1, "not every layout of an output was decoded");
    assert_eq!(bits(&seen.batches), (1 << 2) - 1, "not every layout of a batch was decoded");
    assert_eq!(bits(&seen.requests), (1 << 2) - 1, "not every layout of a request was decoded");
}

fn see(mask: &AtomicU32, bit: u32) {
    mask.fetch_or(1 << bit, Ordering::Relaxed);
}

fn check(message: &Message, seen: &Seen) {
    let bytes = &message.bytes[..];
    let decoded = match message.kind {
        Kind::Outputs => {
            let batch = stable(bytes, EngineCoreOutputs::decode, |batch| batch.encode());
            batch.as_ref().inspect(|batch| {
                see(&seen.batches, u32::from(batch.layout == BatchLayout::Vllm032));
                for output in &batch.outputs {
                    let bit = match output.layout {
                        OutputLayout::Vllm030 => 0,
                        OutputLayout::Vllm031 => 1,
                        OutputLayout::Omni030 => 2,
                        OutputLayout::Omni031 => 3,
                        OutputLayout::Omni032 => 4,
                        OutputLayout::InputReady => 5,
                    };
                    see(&seen.outputs, bit);
                }
            });
            batch.is_some()
        }
        Kind::Add => message_of(RequestKind::Add, bytes).is_some_and(|message| {
            let EngineCoreMessage::Add(request) = message else { panic!("no request: {message:?}") };
            see(&seen.requests, u32::from(request.layout == RequestLayout::Omni031));
            // Read again from their bytes each time, long after these were checked.
            if let Some(params) = &request.sampling_params {
                black_box((params.max_tokens(), params.min_tokens(), params.ignore_eos()));
                black_box(params.stop_token_ids());
            }
            true
        }),
        Kind::Abort => message_of(RequestKind::Abort, bytes).is_some(),
        Kind::Utility => message_of(RequestKind::Utility, bytes).is_some(),
        Kind::Value => {
            let value = stable(bytes, RawValue::from_bytes, |value| value.as_bytes().to_vec());
            value.is_some_and(|value| {
                assert_eq!(value.as_bytes(), bytes, "a value is passed on as it came");
                true
            })
        }
    };
    seen.tried.fetch_add(1, Ordering::Relaxed);
    if decoded {
        seen.decoded.fetch_add(1, Ordering::Relaxed);
        see(&seen.kinds, message.kind as u32);
    }
}

fn message_of(kind: RequestKind, bytes: &[u8]) -> Option<EngineCoreMessage> {
    let encode = |message: &EngineCoreMessage| {
        let (same, body) = message.encode();
        assert_eq!(same, kind);
        body
    };
    stable(bytes, |bytes| EngineCoreMessage::decode(kind, bytes), encode)
}

/// Decodes within the bounds of memory; what was decoded is the same after another turn through the wire.
fn stable<T: Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, DecodeError>,
    encode: impl Fn(&T) -> Vec<u8>,
) -> Option<T> {
    let before = ALLOCATOR.total_allocated();
    let decoded = decode(bytes);
    let taken = ALLOCATOR.total_allocated() - before;
    assert!(taken <= TAKEN_TIMES * bytes.len() + TAKEN_BESIDE, "{} bytes took {taken}", bytes.len());
    match decoded {
        Ok(decoded) => {
            let encoded = encode(&decoded);
            let most = ENCODED_TIMES * bytes.len() + ENCODED_BESIDE;
            assert!(encoded.len() <= most, "{} bytes became {}", bytes.len(), encoded.len());
            let again = decode(&encoded).unwrap_or_else(|error| panic!("what we encode: {error}"));
            // Not by `==`: the wire carries NaN, which is not equal to itself.
            assert_eq!(format!("{again:?}"), format!("{decoded:?}"));
            assert_eq!(encode(&again), encoded);
            Some(decoded)
        }
        Err(error) => {
            assert!(!error.field.is_empty() && error.offset <= bytes.len(), "{error:?}");
            let text = error.to_string();
            assert!(text.len() < 200 && text.starts_with("field "), "{text}");
            None
        }
    }
}
