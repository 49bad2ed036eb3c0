//! What decoding takes is bounded by the bytes that came in.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use std::alloc::System;

use cap::Cap;
use stagespan_wire::{EngineCoreMessage, EngineCoreOutputs, MESSAGE_MAX_ENTRIES, RequestKind};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// The most bytes that a byte of input may take, beside a fixed amount for the test itself.
const TIMES: usize = 128;
const BESIDE: usize = 1 << 20;

fn repeated(head: &[u8], count: usize, entry: &[u8]) -> Vec<u8> {
    [head, &[0xdd], &(count as u32).to_be_bytes(), &entry.repeat(count)].concat()
}

/// One test, since the allocator counts for the whole process.
#[test]
fn no_message_is_blown_up_in_memory() {
    let many = MESSAGE_MAX_ENTRIES;
    let no_output = repeated(&[0x92, 0x00], many, &[0x92, 0xa0, 0x90]);
    let carrying = repeated(&[0x92, 0x00], many, &[0x93, 0xa0, 0x90, 0x01]);
    let finished = repeated(&[0x96, 0, 0x90, 0xc0, 0, 0xc0], many, &[0xa0]);
    let event = [&[0x82, 0xa4][..], b"type", &[1, 0xa9], b"timestamp", &[0x01]].concat();
    let events = repeated(&[0x92, 0, 0x91, 0x98, 0xa0, 0x90, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0], 100_000, &event);
    let tokens = repeated(&[0x92, 0, 0x91, 0x92, 0xa0], 1_000_000, &[0x07]);
    for (name, bytes) in [
        ("outputs", no_output),
        ("carrying", carrying),
        ("finished", finished),
        ("events", events),
        ("tokens", tokens),
    ] {
        let before = ALLOCATOR.allocated();
        let batch = EngineCoreOutputs::decode(&bytes).unwrap();
        let taken = ALLOCATOR.allocated() - before;
        println!("{name}: {} bytes in, {taken} bytes taken, {} times", bytes.len(), taken / bytes.len());
        assert!(taken <= TIMES * bytes.len() + BESIDE, "{name}");
        drop(batch);
    }
    let aborts = repeated(&[], many, &[0xa0]);
    let before = ALLOCATOR.allocated();
    let message = EngineCoreMessage::decode(RequestKind::Abort, &aborts).unwrap();
    assert!(ALLOCATOR.allocated() - before <= TIMES * aborts.len() + BESIDE);
    drop(message);
}
