//! The generation scheduler.

mod rig;

use std::num::NonZeroU64;

use rig::{MS, Rig};
use stagespan_model::{End, EventKind, Gate};
use stagespan_scheduler::{Coalescing, CoalescingPolicy, RequestHandle, SchedulerKind, Step, StopReason};

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
    type Action = fn(&mut Rig, RequestHandle);
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

fn coalescing(gate: Gate, policy: CoalescingPolicy) -> Rig {
    Rig::new(SchedulerKind::Generation, gate, |c| {
        let max_wait_ns = NonZeroU64::MIN.saturating_add(10 * MS - 1);
        c.coalescing = Some(Coalescing { min_batch: 2, max_wait_ns, policy });
    })
}

fn wait_ms(rig: &mut Rig) -> Option<u64> {
    let begun = rig.clock.inner_ns();
    match rig.scheduler.step(&rig.clock) {
        Step::Wait { until } => Some((until.as_ns() - begun + MS / 2) / MS),
        Step::Run(plan) => {
            rig.update(plan);
            None
        }
    }
}

fn two_requests(rig: &mut Rig) -> (RequestHandle, RequestHandle) {
    let handles = (rig.add(1, 1), rig.add(1, 1));
    assert_eq!(wait_ms(rig), None, "the gate must see admissions first");
    handles
}

#[test]
fn coalescing_waits_for_a_fuller_batch() {
    let mut rig = coalescing(Gate::AsyncChunk, CoalescingPolicy::Fixed);
    let (a, b) = two_requests(&mut rig);
    assert_eq!(wait_ms(&mut rig), None, "nothing is runnable: an empty step");
    rig.last_chunk(a, 3);
    assert_eq!(wait_ms(&mut rig), Some(10));
    rig.clock.advance_ms(4);
    assert_eq!(wait_ms(&mut rig), Some(6), "the same step goes on");
    rig.last_chunk(b, 3);
    assert_eq!(rig.step(), [(a, 3), (b, 3)]);
    let (first, second) = (rig.story(a), rig.story(b));
    assert_eq!(first.first(EventKind::Scheduled), second.first(EventKind::Scheduled));
    assert_eq!(first.split().unwrap().1, 0, "stamp and SCHEDULED are of the time at which the step began");
}

#[test]
fn coalescing_gives_up_at_its_deadline() {
    let mut rig = coalescing(Gate::AsyncChunk, CoalescingPolicy::Fixed);
    let (a, _) = two_requests(&mut rig);
    rig.last_chunk(a, 3);
    assert_eq!(wait_ms(&mut rig), Some(10));
    rig.clock.advance_ms(10);
    assert_eq!(rig.step(), [(a, 3)]);
}

#[test]
fn coalescing_expects_no_more_requests_than_live() {
    let mut rig = coalescing(Gate::AsyncChunk, CoalescingPolicy::Fixed);
    let (a, b) = two_requests(&mut rig);
    rig.scheduler.abort(b);
    rig.last_chunk(a, 3);
    assert_eq!(rig.step(), [(a, 3)]);
}

#[test]
fn idle_coalescing_gives_the_batch_its_own_time_from_the_first_input() {
    let mut rig = coalescing(Gate::AsyncChunk, CoalescingPolicy::IdleWait);
    let (a, _) = two_requests(&mut rig);
    assert_eq!(wait_ms(&mut rig), Some(10));
    rig.clock.advance_ms(7);
    rig.last_chunk(a, 3);
    assert_eq!(wait_ms(&mut rig), Some(10));
    rig.clock.advance_ms(10);
    assert_eq!(rig.step(), [(a, 3)]);
}

#[test]
fn a_newcomer_during_the_wait_is_not_scheduled_before_it_is_queued() {
    let mut rig = coalescing(Gate::FullPayload, CoalescingPolicy::Fixed);
    let (a, _) = two_requests(&mut rig);
    rig.payload(a);
    assert_eq!(wait_ms(&mut rig), Some(10));
    rig.clock.advance_ms(5);
    let c = rig.add(4, 1);
    rig.payload(c);
    assert_eq!(rig.step(), [(a, 1), (c, 4)]);
    assert_eq!(rig.story(c).split(), Some((0, 0)));
}

#[test]
fn with_a_plan_in_flight_coalescing_defers_instead_of_waiting() {
    let mut rig = coalescing(Gate::AsyncChunk, CoalescingPolicy::Fixed);
    let (a, b) = two_requests(&mut rig);
    let c = rig.add(1, 1);
    rig.step();
    rig.chunk(a, 3);
    rig.chunk(b, 3);
    let flying = rig.plan();
    assert_eq!(flying.scheduled.len(), 2);
    rig.last_chunk(c, 3);
    assert!(rig.plan().is_empty(), "the results in flight may make the batch fuller");
    rig.update(flying);
    rig.clock.advance_ms(10);
    assert_eq!(rig.step(), [(c, 3)]);
    assert!(rig.story(c).split().unwrap().1 >= 10 * MS, "a deferred input is ready_queued");
}

/// Where nothing goes the fast way, vLLM's own schedule runs with its own, later time; the stamp
/// stays the earlier one.
#[test]
fn the_upstream_fallback_schedules_at_a_later_time() {
    let mut rig = coalescing(Gate::FullPayload, CoalescingPolicy::Fixed);
    let (a, b) = two_requests(&mut rig);
    let c = rig.add(1, 1);
    rig.step();
    rig.payload(a);
    rig.payload(b);
    let flying = rig.plan();
    rig.payload(c);
    let plan = rig.plan();
    assert_eq!(plan.scheduled.iter().map(|s| s.handle).collect::<Vec<_>>(), [c]);
    rig.update(flying);
    rig.update(plan);
    let (_, ready_queued) = rig.story(c).split().unwrap();
    assert!(ready_queued > 0, "two readings of the clock");
}

#[test]
fn idle_coalescing_does_not_begin_anew_while_nothing_comes() {
    let mut rig = coalescing(Gate::AsyncChunk, CoalescingPolicy::IdleWait);
    two_requests(&mut rig);
    assert_eq!(wait_ms(&mut rig), Some(10));
    rig.clock.advance_ms(7);
    assert_eq!(wait_ms(&mut rig), Some(3));
    rig.clock.advance_ms(3);
    assert_eq!(wait_ms(&mut rig), None, "an empty step at the deadline");
}

#[test]
fn idle_coalescing_waits_for_streams_in_mid_run_too() {
    let mut rig = coalescing(Gate::AsyncChunk, CoalescingPolicy::IdleWait);
    let (a, b) = two_requests(&mut rig);
    rig.chunk(a, 3);
    rig.clock.advance_ms(1);
    rig.chunk(b, 3);
    assert_eq!(rig.step(), [(a, 3), (b, 3)]);
    assert_eq!(wait_ms(&mut rig), None, "they still run");
    assert_eq!((rig.scheduler.counts().parked, rig.scheduler.counts().held), (2, 0));
    assert_eq!(wait_ms(&mut rig), Some(10), "now both are held");
}
