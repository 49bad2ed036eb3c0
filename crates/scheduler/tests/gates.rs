//! The input gates.

mod rig;

use std::num::NonZeroU64;

use rig::{MS, Rig};
use stagespan_model::{End, EventKind, Gate};
use stagespan_scheduler::{NewRequest, Payload, SchedulerKind, StopReason};

#[test]
fn a_payload_releases_a_request_and_splits_its_wait() {
    let mut rig = Rig::ar(Gate::FullPayload);
    let a = rig.add(8, 1);
    for _ in 0..5 {
        assert!(rig.step().is_empty());
    }
    rig.payload(a);
    assert_eq!(rig.step(), [(a, 8)]);
    let story = rig.story(a);
    let (input_wait, ready_queued) = story.split().unwrap();
    assert!((5 * MS..6 * MS).contains(&input_wait), "{input_wait}");
    assert_eq!(ready_queued, 1, "AR reads the clock for the stamp, then again for SCHEDULED");
    let resolution = story.resolution_ns.unwrap();
    assert!((MS..MS + 10).contains(&resolution), "one step: {resolution}");
}

#[test]
fn an_input_that_was_there_first_is_stamped_in_the_first_step() {
    let mut rig = Rig::ar(Gate::FullPayload);
    let a = rig.add(8, 1);
    rig.clock.advance_ms(3);
    rig.payload(a);
    rig.step();
    let story = rig.story(a);
    let (input_wait, ready_queued) = story.split().unwrap();
    assert!((3 * MS..3 * MS + 10).contains(&input_wait), "{input_wait}");
    assert_eq!(ready_queued, 1);
    assert_eq!(story.resolution_ns, Some(input_wait), "unready since it was added, as far as anyone saw");
}

#[test]
fn a_ready_request_without_a_slot_is_ready_queued() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::FullPayload, |c| c.max_num_seqs = 1);
    let (a, b) = (rig.add(8, 4), rig.add(8, 1));
    rig.step();
    rig.payload(a);
    rig.payload(b);
    rig.run_out(20);
    let (first, second) = (rig.story(a).split().unwrap(), rig.story(b).split().unwrap());
    assert_eq!(second.0 + 1, first.0, "both were seen ready in the same step, b was added a reading later");
    assert!((4 * MS..5 * MS).contains(&second.1), "{second:?}");
}

#[test]
fn a_stage_that_only_holds_requests_has_no_work() {
    let mut rig = Rig::ar(Gate::FullPayload);
    let a = rig.add(8, 2);
    assert!(rig.scheduler.has_work(), "a gate pass has to see it");
    rig.step();
    assert!(!rig.scheduler.has_work());
    rig.payload(a);
    assert!(rig.scheduler.has_work());
    let plan = rig.plan();
    assert!(!plan.is_empty() && rig.scheduler.has_work(), "it runs");
    rig.update(plan);
    rig.run_out(2);
    rig.step();
    assert!(!rig.scheduler.has_work());
}

#[test]
fn a_payload_may_make_the_prompt_as_long_as_the_stage_runs() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::FullPayload, |c| c.max_model_len = 64);
    let a = rig.add(8, 1);
    rig.scheduler.deliver_payload(a, Payload { prompt_tokens: Some(64) });
    assert_eq!(rig.step(), [(a, 64)]);
    assert_eq!(rig.story(a).end, Some(End::Length));
}

#[test]
fn released_requests_keep_their_order_whatever_order_the_inputs_come_in() {
    let mut rig = Rig::ar(Gate::FullPayload);
    let (a, b, c) = (rig.add(1, 1), rig.add(2, 1), rig.add(3, 1));
    rig.step();
    rig.payload(c);
    rig.payload(a);
    let d = rig.add(4, 1);
    rig.payload(d);
    assert_eq!(rig.step(), [(a, 1), (c, 3), (d, 4)], "held ones first, then what arrived since");
    rig.payload(b);
    assert_eq!(rig.step(), [(b, 2)]);
}

#[test]
fn an_overdue_payload_ends_the_request() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::FullPayload, |c| {
        c.input_wait_timeout_ns = NonZeroU64::new(50 * MS);
    });
    let a = rig.add(8, 1);
    rig.step();
    rig.clock.advance_ms(20);
    let b = rig.add(8, 1);
    rig.step();
    let deadline = rig.scheduler.next_deadline().unwrap();
    rig.clock.advance_ms(30);
    assert!(rig.step().is_empty());
    assert_eq!(rig.scheduler.len(), 1, "b came later");
    let story = rig.story(a);
    assert_eq!((story.end, story.last_outputs), (Some(End::Timeout), 1));
    assert_eq!(story.events.len(), 1, "QUEUED rides the last output: {:?}", story.events);
    assert!(deadline.as_ns() - story.first(EventKind::Queued).unwrap() < 51 * MS);
    let reason = rig.sent.last().unwrap().finished.clone().unwrap().stop_reason;
    assert_eq!(reason, Some(StopReason::Text("Timed out waiting for connector input after 0.05s".into())));
    assert!(rig.scheduler.contains(b));
}

#[test]
fn an_input_that_comes_in_the_step_of_its_deadline_still_counts() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::FullPayload, |c| {
        c.input_wait_timeout_ns = NonZeroU64::new(50 * MS);
    });
    let a = rig.add(8, 1);
    rig.step();
    rig.clock.advance_ms(100);
    rig.payload(a);
    assert_eq!(rig.step(), [(a, 8)]);
}

#[test]
fn without_a_timeout_a_request_waits_for_ever() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::AsyncChunk, |c| c.input_wait_timeout_ns = None);
    let a = rig.add(8, 1);
    rig.step();
    rig.clock.advance_ms(100_000_000);
    rig.step();
    assert!(rig.scheduler.contains(a));
    assert_eq!(rig.scheduler.next_deadline(), None);
}

#[test]
fn a_stalled_stream_times_out_between_its_chunks() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::AsyncChunk, |c| {
        c.input_wait_timeout_ns = NonZeroU64::new(50 * MS);
    });
    let a = rig.add(8, 99);
    rig.step();
    for _ in 0..4 {
        rig.clock.advance_ms(40);
        rig.chunk(a, 1);
        assert_eq!(rig.step().len(), 1, "each chunk restarts the clock");
        rig.step();
    }
    rig.clock.advance_ms(51);
    rig.step();
    let story = rig.story(a);
    assert_eq!((story.end, story.tokens), (Some(End::Timeout), 4));
    assert!(story.split().is_some());
}

#[test]
fn a_connector_failure_ends_the_request_in_the_next_step() {
    for gate in [Gate::AsyncChunk, Gate::FullPayload] {
        let mut rig = Rig::ar(gate);
        let a = rig.add(8, 1);
        rig.step();
        rig.scheduler.fail_input(a, "connection reset");
        rig.step();
        let story = rig.story(a);
        assert_eq!((story.end, story.count(EventKind::Queued)), (Some(End::ConnectorFailure), 1));
        rig.scheduler.fail_input(a, "again");
        assert_eq!(rig.scheduler.ignored().unknown_request, 1);
    }
}

#[test]
fn an_ar_stage_runs_one_step_per_chunk_and_freely_after_the_last() {
    let mut rig = Rig::ar(Gate::AsyncChunk);
    let a = rig.add(8, 5);
    assert!(rig.step().is_empty());
    rig.chunk(a, 1);
    assert_eq!(rig.step(), [(a, 8)]);
    assert!(rig.step().is_empty(), "parked until its next chunk");
    assert_eq!(rig.scheduler.counts().parked, 1);
    rig.chunk(a, 1);
    assert_eq!(rig.step(), [(a, 1)]);
    assert!(rig.step().is_empty());
    rig.last_chunk(a, 1);
    assert_eq!(rig.step(), [(a, 1)]);
    assert_eq!(rig.step(), [(a, 1)]);
    assert_eq!(rig.step(), [(a, 1)]);
    let story = rig.story(a);
    assert_eq!((story.end, story.count(EventKind::Scheduled)), (Some(End::Length), 1));
}

#[test]
fn chunks_delivered_ahead_wait_for_their_turn() {
    let mut rig = Rig::ar(Gate::AsyncChunk);
    let a = rig.add(8, 3);
    rig.chunk(a, 1);
    rig.chunk(a, 1);
    rig.last_chunk(a, 1);
    rig.last_chunk(a, 1);
    assert_eq!(rig.scheduler.ignored().late_input, 1);
    assert!(rig.step().is_empty(), "the first pass only asks for the chunk");
    assert_eq!(rig.step(), [(a, 8)]);
    assert!(rig.step().is_empty(), "the next pass asks again");
    assert_eq!(rig.step(), [(a, 1)]);
    assert!(rig.step().is_empty());
    assert_eq!(rig.step(), [(a, 1)]);
    assert!(rig.scheduler.is_empty());
}

#[test]
fn the_window_lets_streams_in_first_come_first_served() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::AsyncChunk, |c| c.active_stream_window = 1);
    let (a, b, c) = (rig.add(8, 1), rig.add(8, 1), rig.add(8, 1));
    for handle in [c, b, a] {
        rig.last_chunk(handle, 1);
    }
    rig.step();
    assert_eq!((rig.scheduler.counts().held, rig.scheduler.counts().without_slot), (1, 2));
    assert_eq!(rig.step(), [(a, 8)]);
    assert!(rig.step().is_empty(), "b gets the slot and asks for its chunk");
    assert_eq!(rig.step(), [(b, 8)]);
    rig.scheduler.abort(c);
    rig.flush();
    let waited = rig.story(b);
    assert!(waited.split().unwrap().0 >= 3 * MS, "waiting for a slot is input wait: {waited:?}");
    assert_eq!(rig.story(c).ready_ns, None);
    let d = rig.add(8, 1);
    rig.last_chunk(d, 1);
    rig.step();
    assert_eq!(rig.step(), [(d, 8)], "an abort gives its place to the next");
}

#[test]
fn an_aborted_stream_gives_its_slot_back() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::AsyncChunk, |c| c.active_stream_window = 1);
    let (a, b) = (rig.add(8, 1), rig.add(8, 1));
    rig.last_chunk(b, 1);
    rig.step();
    rig.scheduler.abort(a);
    rig.step();
    assert_eq!(rig.step(), [(b, 8)]);
}

/// A grammar lets requests past the window; they run once, and then step aside until there is a slot.
#[test]
fn an_abort_while_running_without_a_slot_leaves_the_others_theirs() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::AsyncChunk, |c| c.active_stream_window = 1);
    let a = rig.add(8, 1);
    rig.step();
    let new = NewRequest { prompt_tokens: 8, max_tokens: 2, grammar_pending: true, ..Default::default() };
    let [g, h] = [(); 2].map(|()| rig.add_new(new.clone()));
    [g, h].into_iter().for_each(|handle| rig.scheduler.grammar_ready(handle));
    assert_eq!(rig.step(), [(g, 8), (h, 8)]);
    assert!(rig.step().is_empty(), "the slot is a's");
    assert_eq!(rig.scheduler.counts().without_slot, 2);
    rig.scheduler.abort(g);
    assert_eq!(rig.scheduler.counts().without_slot, 1);
    rig.scheduler.abort(a);
    rig.last_chunk(h, 1);
    rig.run_out(9);
    assert_eq!(rig.story(h).end, Some(End::Length));
}

#[test]
fn the_window_is_never_wider_than_the_slots() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::AsyncChunk, |c| {
        c.active_stream_window = 9;
        c.max_num_seqs = 2;
    });
    for _ in 0..4 {
        rig.add(8, 1);
    }
    rig.step();
    assert_eq!((rig.scheduler.counts().held, rig.scheduler.counts().without_slot), (2, 2));
}

#[test]
fn a_sender_only_stage_holds_and_stamps_nothing() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::AsyncChunk, |c| c.sender_only = true);
    let a = rig.add(8, 1);
    assert_eq!(rig.step(), [(a, 8)]);
    let story = rig.story(a);
    assert_eq!((story.ready_ns, story.end), (None, Some(End::Length)));
    rig.chunk(a, 1);
    let b = rig.add(8, 1);
    rig.chunk(b, 1);
    let ignored = rig.scheduler.ignored();
    assert_eq!((ignored.unknown_request, ignored.unexpected_input), (1, 1));
}

#[test]
fn stage_0_is_not_gated() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::AsyncChunk, |c| c.stage_id = 0);
    let a = rig.add(8, 1);
    assert_eq!(rig.step(), [(a, 8)]);
    assert_eq!(rig.story(a).ready_ns, None);
}

#[test]
fn requests_that_come_back_beyond_the_slots_wait_again_with_their_blocks() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::AsyncChunk, |c| c.max_num_seqs = 1);
    let (a, b) = (rig.add(8, 9), rig.add(8, 9));
    rig.step();
    rig.chunk(a, 1);
    assert_eq!(rig.step(), [(a, 8)]);
    rig.chunk(b, 1);
    assert_eq!(rig.step(), [(b, 8)], "a is parked, which leaves its slot to b");
    rig.step();
    assert_eq!(rig.scheduler.counts().parked, 2);
    rig.last_chunk(a, 1);
    rig.last_chunk(b, 1);
    assert_eq!(rig.step(), [(b, 1)], "b was parked last, and stands first");
    assert_eq!(rig.scheduler.counts().ready, 1);
    rig.run_out(40);
    let story = rig.story(a);
    assert_eq!((story.preemptions, story.count(EventKind::Scheduled), story.tokens), (0, 2, 9));
}

#[test]
fn a_preempted_stream_waits_for_its_next_chunk_again() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::AsyncChunk, |c| {
        c.kv_blocks = 3;
        c.max_model_len = 48;
    });
    let (a, b) = (rig.add(15, 9), rig.add(15, 9));
    rig.step();
    rig.last_chunk(a, 1);
    rig.chunk(b, 1);
    assert_eq!(rig.step(), [(a, 15), (b, 15)]);
    rig.chunk(b, 1);
    // Not parked yet, so its chunk is taken by the next pass but one.
    assert_eq!(rig.step(), [(a, 1)]);
    assert_eq!(rig.step(), [(a, 1), (b, 1)]);
    assert_eq!(rig.step(), [(a, 1)], "b is parked");
    let ready = rig.scheduler.counts().ready;
    assert_eq!(ready, 0);
    rig.last_chunk(b, 1);
    rig.run_out(60);
    assert_eq!(rig.story(b).tokens, 9);
}
