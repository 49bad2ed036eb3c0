//! The generation scheduler.

mod rig;

use rig::{MS, Rig};
use stagespan_model::{End, EventKind, Gate};
use stagespan_scheduler::{SchedulerKind, StopReason};

#[test]
fn an_input_runs_in_the_step_it_arrives_and_waits_no_time_ready() {
    let mut rig = Rig::generation(Gate::FullPayload);
    let a = rig.add(8, 1);
    for _ in 0..3 {
        assert!(rig.step().is_empty());
    }
    rig.payload(a);
    assert_eq!(rig.step(), [(a, 8)]);
    let story = rig.story(a);
    assert_eq!(story.end, Some(End::Stop));
    let (input_wait, ready_queued) = story.split().unwrap();
    assert_eq!(ready_queued, 0, "a measured zero");
    assert!((3 * MS..4 * MS).contains(&input_wait));
}

#[test]
fn each_chunk_is_one_scheduled_and_the_last_one_ends_it() {
    let mut rig = Rig::generation(Gate::AsyncChunk);
    let a = rig.add(1, 1);
    assert!(rig.step().is_empty());
    rig.chunk(a, 3);
    assert_eq!(rig.step(), [(a, 3)]);
    assert!(rig.step().is_empty());
    rig.chunk(a, 4);
    assert_eq!(rig.step(), [(a, 4)]);
    assert!(rig.step().is_empty());
    rig.last_chunk(a, 2);
    assert_eq!(rig.step(), [(a, 2)]);
    assert!(rig.scheduler.is_empty());
    let story = rig.story(a);
    assert_eq!((story.end, story.count(EventKind::Scheduled)), (Some(End::Stop), 3));
    assert_eq!(story.split().unwrap().1, 0, "later chunks change neither wait");
}

#[test]
fn an_empty_last_chunk_ends_a_request_without_running_it() {
    let mut rig = Rig::generation(Gate::AsyncChunk);
    let a = rig.add(1, 1);
    rig.step();
    rig.last_chunk(a, 0);
    assert!(rig.step().is_empty());
    let story = rig.story(a);
    assert_eq!((story.end, story.last_outputs), (Some(End::Stop), 1));
    assert!(story.ready_ns.is_some() && story.first(EventKind::Scheduled).is_none());
}

#[test]
fn an_empty_chunk_in_mid_stream_is_no_input() {
    let mut rig = Rig::generation(Gate::AsyncChunk);
    let a = rig.add(1, 1);
    rig.step();
    rig.chunk(a, 0);
    assert!(rig.step().is_empty());
    assert_eq!(rig.scheduler.counts().held, 1, "a first chunk without a token leaves it held");
    rig.chunk(a, 5);
    assert_eq!(rig.step(), [(a, 5)]);
    rig.step();
    rig.last_chunk(a, 0);
    rig.step();
    assert_eq!(rig.story(a).end, Some(End::Stop));
}

#[test]
fn a_chunk_larger_than_a_step_is_rejected() {
    let mut rig = Rig::new(SchedulerKind::Generation, Gate::AsyncChunk, |c| c.token_budget = 10);
    let (a, b) = (rig.add(1, 1), rig.add(1, 1));
    rig.step();
    rig.chunk(a, 11);
    rig.chunk(b, 10);
    assert_eq!(rig.step(), [(b, 10)]);
    rig.step();
    rig.chunk(b, 11);
    rig.step();
    for (handle, scheduled) in [(a, false), (b, true)] {
        let story = rig.story(handle);
        assert_eq!(
            (story.end, story.first(EventKind::Scheduled).is_some()),
            (Some(End::Rejected), scheduled)
        );
        assert!(story.ready_ns.is_some());
    }
    let Some(StopReason::Text(reason)) = rig.sent.last().unwrap().finished.clone().unwrap().stop_reason
    else {
        panic!("no reason")
    };
    assert!(reason.contains("11 tokens") && reason.contains("10"), "{reason}");
}

#[test]
fn chunks_stay_whole_within_the_budget() {
    let mut rig = Rig::new(SchedulerKind::Generation, Gate::AsyncChunk, |c| c.token_budget = 10);
    let (a, b) = (rig.add(1, 1), rig.add(1, 1));
    rig.step();
    rig.last_chunk(a, 6);
    rig.last_chunk(b, 6);
    assert_eq!(rig.step(), [(a, 6)]);
    assert_eq!(rig.step(), [(b, 6)]);
    let (_, ready_queued) = rig.story(b).split().unwrap();
    assert!(ready_queued >= MS, "no budget is ready_queued: {ready_queued}");
}

#[test]
fn a_payload_larger_than_a_step_runs_in_parts() {
    let mut rig = Rig::new(SchedulerKind::Generation, Gate::FullPayload, |c| c.token_budget = 10);
    let a = rig.add(25, 1);
    rig.payload(a);
    assert_eq!([rig.step(), rig.step(), rig.step()], [[(a, 10)], [(a, 10)], [(a, 5)]]);
    let story = rig.story(a);
    assert_eq!((story.end, story.count(EventKind::Scheduled)), (Some(End::Stop), 3));
}

#[test]
fn slots_bound_a_generation_stage() {
    let mut rig = Rig::new(SchedulerKind::Generation, Gate::FullPayload, |c| c.max_num_seqs = 2);
    let handles: Vec<_> = (0..3).map(|_| rig.add(4, 1)).collect();
    handles.iter().for_each(|&handle| rig.payload(handle));
    assert_eq!(rig.step(), [(handles[0], 4), (handles[1], 4)]);
    assert_eq!(rig.step(), [(handles[2], 4)]);
}

#[test]
fn a_stream_parked_in_mid_run_keeps_its_slot_if_so_configured() {
    let slots_taken = |keep| {
        let mut rig = Rig::new(SchedulerKind::Generation, Gate::AsyncChunk, |c| {
            c.max_num_seqs = 1;
            c.parked_keep_slots = keep;
        });
        let (a, b) = (rig.add(1, 1), rig.add(1, 1));
        rig.step();
        rig.chunk(a, 3);
        assert_eq!(rig.step(), [(a, 3)]);
        rig.chunk(b, 3);
        rig.step().len()
    };
    assert_eq!((slots_taken(false), slots_taken(true)), (1, 0));
}

#[test]
fn every_end_of_a_generation_request_sends_its_events() {
    type Action = fn(&mut Rig, stagespan_scheduler::RequestHandle);
    let ends: [(Action, End); 3] = [
        (|rig, a| rig.scheduler.abort(a), End::Aborted),
        (|rig, a| rig.scheduler.fail_input(a, "gone"), End::ConnectorFailure),
        (|rig, _| rig.scheduler.shutdown(), End::Shutdown),
    ];
    for (action, end) in ends {
        let mut rig = Rig::generation(Gate::FullPayload);
        let a = rig.add(8, 1);
        rig.step();
        action(&mut rig, a);
        rig.step();
        let story = rig.story(a);
        assert_eq!((story.end, story.last_outputs), (Some(end), 1));
        assert_eq!(story.count(EventKind::Queued), 1, "{end:?}");
    }
}
