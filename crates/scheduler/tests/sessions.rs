//! Streaming sessions: input in segments.

mod rig;

use rig::Rig;
use stagespan_model::{End, EventKind, Gate};
use stagespan_scheduler::{SchedulerKind, StopReason, StreamingUpdate};

const fn update(prompt_tokens: u32, max_tokens: u32) -> StreamingUpdate {
    StreamingUpdate { prompt_tokens, max_tokens }
}

#[test]
fn a_session_waits_for_its_next_segment_and_keeps_what_is_computed() {
    let mut rig = Rig::ar(Gate::None);
    let a = rig.add_session(8, 2);
    rig.step();
    rig.step();
    let segment = rig.sent.last().unwrap();
    assert!(segment.segment_finished && !segment.is_last());
    assert_eq!(segment.finished.as_ref().unwrap().end, End::Length);
    assert!(rig.step().is_empty(), "paused");
    assert_eq!(rig.scheduler.counts().paused, 1);
    rig.scheduler.update_session(a, update(5, 1), &rig.clock);
    // 8 prompt tokens and the first output are computed; the last sampled token is given up.
    assert_eq!(rig.step(), [(a, 5)]);
    rig.scheduler.close_session(a);
    rig.flush();
    let story = rig.story(a);
    assert_eq!((story.end, story.segments, story.tokens), (Some(End::Aborted), 2, 3));
    assert_eq!((story.count(EventKind::Queued), story.count(EventKind::Scheduled)), (2, 2));
    assert_eq!(rig.scheduler.counts().kv_blocks_free, 1024);
}

#[test]
fn updates_that_come_early_wait_their_turn() {
    let mut rig = Rig::ar(Gate::None);
    let a = rig.add_session(8, 1);
    rig.scheduler.update_session(a, update(4, 1), &rig.clock);
    rig.scheduler.close_session(a);
    assert_eq!(rig.step(), [(a, 8)]);
    assert_eq!(rig.step(), [(a, 4)]);
    let story = rig.story(a);
    assert_eq!((story.end, story.segments, story.tokens), (Some(End::Length), 1, 2));
}

#[test]
fn a_paused_session_keeps_its_slot() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::None, |c| c.max_num_seqs = 1);
    let (a, b) = (rig.add_session(8, 1), rig.add(8, 1));
    assert_eq!(rig.step(), [(a, 8)]);
    assert!(rig.step().is_empty(), "b has no slot");
    rig.scheduler.abort(a);
    assert_eq!(rig.step(), [(b, 8)]);
}

#[test]
fn a_segment_that_grows_too_long_is_rejected_with_the_numbers() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::None, |c| c.max_model_len = 20);
    let (a, b) = (rig.add_session(8, 1), rig.add_session(8, 1));
    rig.scheduler.update_session(b, update(12, 1), &rig.clock);
    rig.step();
    rig.scheduler.update_session(a, update(12, 1), &rig.clock);
    rig.flush();
    for handle in [a, b] {
        let story = rig.story(handle);
        assert_eq!((story.end, story.last_outputs), (Some(End::Rejected), 1));
    }
    let Some(StopReason::Text(reason)) = rig.sent.last().unwrap().finished.clone().unwrap().stop_reason
    else {
        panic!("no reason")
    };
    assert!(reason.starts_with("context_length_exceeded") && reason.contains("20"), "{reason}");
    assert_eq!((rig.scheduler.len(), rig.scheduler.counts().paused), (0, 0));
}

#[test]
fn a_receiving_session_takes_its_segments_from_the_connector() {
    let mut rig = Rig::ar(Gate::AsyncChunk);
    let a = rig.add_session(8, 2);
    rig.step();
    rig.segment_end(a, 1);
    assert_eq!(rig.step(), [(a, 8)]);
    assert_eq!(rig.step(), [(a, 1)], "all of the segment's input is there");
    assert!(rig.step().is_empty());
    rig.last_chunk(a, 1);
    assert!(rig.step().is_empty(), "paused: only an update makes it ask for the next chunk");
    rig.scheduler.update_session(a, update(3, 9), &rig.clock);
    assert!(rig.step().is_empty());
    assert_eq!(rig.step(), [(a, 1)], "the token sampled last");
    assert_eq!(rig.step(), [(a, 1)]);
    let story = rig.story(a);
    assert_eq!((story.end, story.segments, story.tokens), (Some(End::Length), 1, 4));
    assert_eq!((story.count(EventKind::Queued), story.count(EventKind::Scheduled)), (2, 2));
}

#[test]
fn a_generation_session_asks_for_its_next_segment_by_itself() {
    let mut rig = Rig::generation(Gate::AsyncChunk);
    let a = rig.add_session(1, 1);
    rig.step();
    rig.segment_end(a, 3);
    assert_eq!(rig.step(), [(a, 3)]);
    assert!(rig.step().is_empty());
    rig.segment_end(a, 0);
    assert_eq!(rig.step(), [(a, 1)], "an empty segment still runs once");
    rig.step();
    rig.last_chunk(a, 4);
    assert_eq!(rig.step(), [(a, 4)]);
    let story = rig.story(a);
    assert_eq!((story.end, story.segments, story.count(EventKind::Scheduled)), (Some(End::Stop), 2, 3));
    assert_eq!(story.count(EventKind::Queued), 1);
}

#[test]
fn a_stage_that_sends_chunks_ends_a_closed_session_in_good_order() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::AsyncChunk, |c| c.stage_id = 0);
    let a = rig.add_session(8, 1);
    rig.step();
    rig.scheduler.close_session(a);
    rig.flush();
    assert_eq!(rig.story(a).end, Some(End::Stop));
}

#[test]
fn an_update_of_what_is_no_session_is_counted() {
    let mut rig = Rig::ar(Gate::None);
    let a = rig.add(8, 1);
    rig.scheduler.update_session(a, update(1, 1), &rig.clock);
    rig.scheduler.close_session(a);
    assert_eq!(rig.scheduler.ignored().not_a_session, 2);
    rig.step();
    rig.scheduler.update_session(a, update(1, 1), &rig.clock);
    rig.scheduler.close_session(a);
    assert_eq!(rig.scheduler.ignored().unknown_request, 2);
}
