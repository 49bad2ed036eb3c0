//! Faults that bit real systems, named after the reports they come from.

mod rig;

use rig::{MS, Rig};
use stagespan_model::{End, EventKind, Gate};
use stagespan_scheduler::{SchedulerKind, StreamingUpdate};

/// A streaming segment emits QUEUED again; the stamp belongs to the first interval.
#[test]
fn vllm_56238_a_second_queued_moves_no_stamp() {
    let mut rig = Rig::ar(Gate::FullPayload);
    let a = rig.add_session(8, 1);
    rig.step();
    rig.payload(a);
    rig.step();
    rig.clock.advance_ms(48_000);
    rig.scheduler.update_session(a, StreamingUpdate { prompt_tokens: 4, max_tokens: 1 }, &rig.clock);
    rig.scheduler.close_session(a);
    rig.run_out(5);
    let story = rig.story(a);
    assert_eq!((story.count(EventKind::Queued), story.count(EventKind::Scheduled)), (2, 2));
    let (input_wait, ready_queued) = story.split().unwrap();
    assert!(input_wait < 2 * MS && ready_queued == 1, "{story:?}");
}

/// An abort after the input came and before any step ran it: QUEUED and the stamp, no SCHEDULED.
#[test]
fn vllm_32162_an_abort_while_ready_keeps_what_was_seen() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::FullPayload, |c| c.max_num_seqs = 1);
    let (a, b) = (rig.add(8, 9), rig.add(8, 9));
    rig.step();
    rig.payload(a);
    rig.payload(b);
    rig.step();
    rig.scheduler.abort(b);
    rig.flush();
    let story = rig.story(b);
    assert_eq!((story.end, story.first(EventKind::Scheduled)), (Some(End::Aborted), None));
    assert!(story.ready_ns.unwrap() > story.first(EventKind::Queued).unwrap());
}

/// Cancelling must crash nothing, whatever the state; an unknown id is counted.
#[test]
fn vllm_18357_a_cancel_while_held_ends_one_request() {
    for gate in [Gate::AsyncChunk, Gate::FullPayload] {
        let mut rig = Rig::ar(gate);
        let a = rig.add(8, 1);
        rig.step();
        rig.scheduler.abort(a);
        rig.scheduler.abort(a);
        rig.step();
        let story = rig.story(a);
        assert_eq!((story.end, story.events.len(), story.ready_ns), (Some(End::Aborted), 1, None));
        assert_eq!(rig.scheduler.ignored().unknown_request, 1);
    }
}

/// A wait of zero is measured, not missing.
#[test]
fn dynamo_12344_a_zero_wait_is_there() {
    let mut rig = Rig::generation(Gate::FullPayload);
    rig.clock.tick_ns = 0;
    let a = rig.add(8, 1);
    rig.payload(a);
    rig.step();
    assert_eq!(rig.story(a).split(), Some((0, 0)));
}

/// The stage begins at QUEUED, however long its first chunk takes.
#[test]
fn vllm_omni_4670_the_wait_for_the_first_chunk_is_input_wait() {
    let mut rig = Rig::ar(Gate::AsyncChunk);
    let a = rig.add(8, 1);
    rig.step();
    rig.clock.advance_ms(86_000);
    rig.last_chunk(a, 1);
    rig.step();
    let (input_wait, ready_queued) = rig.story(a).split().unwrap();
    assert_eq!((input_wait / MS, ready_queued), (86_001, 1));
}

/// Several SCHEDULED after preemptions; the first one ends the queued time.
#[test]
fn vllm_13169_later_scheduled_events_change_neither_wait() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::FullPayload, |c| {
        c.kv_blocks = 4;
        c.max_model_len = 64;
    });
    let (a, b) = (rig.add(20, 40), rig.add(20, 40));
    rig.payload(a);
    rig.payload(b);
    rig.run_out(200);
    let story = rig.story(b);
    assert!(story.preemptions >= 1, "{story:?}");
    assert_eq!(story.count(EventKind::Preempted), story.preemptions as usize);
    assert_eq!(story.count(EventKind::Scheduled), 1 + story.preemptions as usize);
    assert_eq!(story.split().map(|(_, ready_queued)| ready_queued), Some(1));
    assert_eq!(story.tokens, 40);
}

/// The same client id twice in flight, and reused right after an abort: handles never mix.
#[test]
fn vllm_10583_two_requests_of_one_client_id_stay_apart() {
    let mut rig = Rig::ar(Gate::FullPayload);
    let a = rig.add(8, 1);
    rig.clock.advance_ms(500);
    let b = rig.add(8, 1);
    rig.step();
    rig.scheduler.abort(a);
    let c = rig.add(8, 1);
    rig.payload(a);
    assert!(rig.step().is_empty(), "an input for the aborted one reaches no other");
    rig.payload(b);
    rig.payload(c);
    rig.run_out(3);
    let queued = [a, b, c].map(|handle| rig.story(handle).first(EventKind::Queued).unwrap());
    assert!(queued[0] + 500 * MS <= queued[1] && queued[1] < queued[2]);
    assert_eq!(rig.scheduler.ignored().unknown_request, 1);
}

/// Requests that nothing happens to are no work: a step has nothing to do for them, however many there are.
#[test]
fn vllm_35781_held_requests_are_no_work() {
    let mut rig = Rig::ar(Gate::FullPayload);
    let held: Vec<_> = (0..10_000).map(|_| rig.add(8, 1)).collect();
    rig.step();
    for _ in 0..1_000 {
        assert!(!rig.scheduler.has_work());
        assert_eq!(rig.step(), []);
    }
    rig.payload(held[7_000]);
    assert!(rig.scheduler.has_work());
    assert_eq!(rig.step(), [(held[7_000], 8)]);
}
