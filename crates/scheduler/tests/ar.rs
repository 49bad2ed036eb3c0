//! The AR scheduler: slots, budget, KV blocks, ends.

mod rig;

use rig::{MS, Rig, TOKEN};
use stagespan_model::{End, EventKind, Gate};
use stagespan_scheduler::{NewRequest, SchedulerKind, StopReason};

#[test]
fn a_request_is_prefilled_decoded_and_ends_at_its_length() {
    let mut rig = Rig::ar(Gate::None);
    let a = rig.add(8, 3);
    assert_eq!(rig.step(), [(a, 8)]);
    assert_eq!(rig.step(), [(a, 1)]);
    assert_eq!(rig.step(), [(a, 1)]);
    assert!(rig.step().is_empty() && rig.scheduler.is_empty());
    let story = rig.story(a);
    assert_eq!((story.end, story.tokens, story.last_outputs), (Some(End::Length), 3, 1));
    assert_eq!((story.count(EventKind::Queued), story.count(EventKind::Scheduled)), (1, 1));
    assert_eq!(story.ready_ns, None, "a stage without a gate stamps nothing");
    assert_eq!(rig.scheduler.counts().kv_blocks_free, 1024);
}

#[test]
fn a_stop_token_ends_a_request_and_is_told() {
    let mut rig = Rig::ar(Gate::None);
    let a = rig.add_new(NewRequest {
        prompt_tokens: 4,
        max_tokens: 9,
        stop_token_ids: vec![TOKEN],
        ..NewRequest::default()
    });
    rig.step();
    let finished = rig.sent.last().unwrap().finished.clone().unwrap();
    assert_eq!((finished.end, finished.stop_reason), (End::Stop, Some(StopReason::Token(TOKEN))));
    assert_eq!(rig.story(a).tokens, 1);
}

#[test]
fn tokens_sampled_beyond_the_end_are_dropped() {
    let mut rig = Rig::ar(Gate::None);
    let a = rig.add(4, 2);
    let plan = rig.plan();
    let sampled = [stagespan_scheduler::Sampled { handle: a, token_ids: vec![1, 2, 3], has_payload: false }];
    rig.scheduler.update(plan, &sampled, &rig.clock);
    rig.flush();
    assert_eq!(rig.sent.last().unwrap().new_token_ids, [1, 2]);
}

#[test]
fn a_long_prompt_is_prefilled_in_chunks_of_the_budget() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::None, |c| c.token_budget = 10);
    let (a, b) = (rig.add(25, 1), rig.add(8, 1));
    assert_eq!(rig.step(), [(a, 10)]);
    assert_eq!(rig.step(), [(a, 10)]);
    assert_eq!(rig.step(), [(a, 5), (b, 5)]);
    assert_eq!(rig.step(), [(b, 3)]);
    assert_eq!(rig.story(b).end, Some(End::Length));
    assert!(rig.scheduler.is_empty());
}

#[test]
fn without_chunked_prefill_a_prompt_waits_for_enough_budget() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::None, |c| {
        c.token_budget = 10;
        c.chunked_prefill = false;
    });
    let (a, b) = (rig.add(6, 2), rig.add(6, 1));
    assert_eq!(rig.step(), [(a, 6)]);
    assert_eq!(rig.step(), [(a, 1), (b, 6)]);
}

#[test]
fn slots_are_given_first_come_first_served() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::None, |c| c.max_num_seqs = 2);
    let (a, b, c) = (rig.add(4, 2), rig.add(4, 3), rig.add(4, 1));
    assert_eq!(rig.step(), [(a, 4), (b, 4)]);
    assert_eq!(rig.step(), [(a, 1), (b, 1)]);
    assert_eq!(rig.step(), [(b, 1), (c, 4)]);
    assert!(rig.scheduler.is_empty());
}

#[test]
fn the_last_running_request_is_preempted_when_kv_blocks_run_out() {
    // Two blocks of 16 each after prefill, five in all: the first to need a third takes the fifth,
    // the other is preempted.
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::FullPayload, |c| {
        c.kv_blocks = 5;
        c.max_model_len = 80;
    });
    let (a, b) = (rig.add(30, 12), rig.add(30, 12));
    rig.step();
    rig.payload(a);
    rig.payload(b);
    assert_eq!(rig.step(), [(a, 30), (b, 30)]);
    assert_eq!(rig.step(), [(a, 1), (b, 1)]);
    assert_eq!(rig.step(), [(a, 1), (b, 1)]);
    assert_eq!(rig.step(), [(a, 1)], "b lost its blocks and is not admitted in the same step");
    assert_eq!(rig.scheduler.counts().ready, 1);
    rig.run_out(40);
    let (first, second) = (rig.story(a), rig.story(b));
    assert_eq!((first.preemptions, second.preemptions), (0, 1));
    assert_eq!((second.tokens, second.end), (12, Some(End::Length)));
    assert_eq!((second.count(EventKind::Preempted), second.count(EventKind::Scheduled)), (1, 2));
    let kinds: Vec<_> = second.events.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [EventKind::Queued, EventKind::Scheduled, EventKind::Preempted, EventKind::Scheduled]);
    let (a_split, b_split) = (first.split().unwrap(), second.split().unwrap());
    assert_eq!((b_split.0 + 1, b_split.1), a_split, "a preemption changes neither wait");
    assert_eq!(rig.scheduler.counts().kv_blocks_free, 5);
}

#[test]
fn a_request_too_large_for_the_stage_is_rejected_at_once() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::FullPayload, |c| c.max_model_len = 100);
    let (long, empty) = (rig.add(101, 1), rig.add(0, 1));
    assert!(rig.scheduler.is_empty());
    rig.flush();
    for handle in [long, empty] {
        let story = rig.story(handle);
        assert_eq!((story.end, story.last_outputs), (Some(End::Rejected), 1));
        assert_eq!(story.count(EventKind::Queued), 1);
    }
    let Some(StopReason::Text(reason)) = &rig.sent[0].finished.as_ref().unwrap().stop_reason else {
        panic!("no reason: {:?}", rig.sent[0])
    };
    assert!(reason.contains("101") && reason.contains("100"), "{reason}");
}

#[test]
fn a_payload_that_makes_the_prompt_too_long_is_rejected_after_it_was_ready() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::FullPayload, |c| c.max_model_len = 100);
    let a = rig.add(5, 1);
    rig.step();
    rig.scheduler.deliver_payload(a, stagespan_scheduler::Payload { prompt_tokens: Some(101) });
    rig.step();
    let story = rig.story(a);
    assert_eq!(story.end, Some(End::Rejected));
    assert!(story.ready_ns.is_some() && story.first(EventKind::Scheduled).is_none());
}

#[test]
fn a_payload_may_fix_the_prompt_length() {
    let mut rig = Rig::ar(Gate::FullPayload);
    let a = rig.add(5, 1);
    rig.step();
    rig.scheduler.deliver_payload(a, stagespan_scheduler::Payload { prompt_tokens: Some(40) });
    assert_eq!(rig.step(), [(a, 40)]);
}

#[test]
fn an_abort_in_any_state_frees_everything_and_sends_the_events() {
    for (steps, label) in [(0, "before the first step"), (1, "held"), (2, "ready"), (3, "running")] {
        let mut rig = Rig::new(SchedulerKind::Ar, Gate::FullPayload, |c| c.max_num_seqs = 1);
        let other = rig.add(4, 9);
        let a = rig.add(4, 9);
        rig.payload(other);
        if steps >= 1 {
            rig.step();
        }
        if steps >= 2 {
            rig.payload(a);
            rig.step();
            // `other` keeps the only slot, so `a` is ready without one.
            if steps == 2 {
                assert_eq!(rig.scheduler.counts().ready, 1, "{label}");
            }
        }
        if steps >= 3 {
            rig.scheduler.abort(other);
            assert_eq!(rig.step(), [(a, 4)], "{label}");
        }
        rig.scheduler.abort(a);
        rig.scheduler.abort(a);
        rig.flush();
        let story = rig.story(a);
        assert_eq!((story.end, story.last_outputs), (Some(End::Aborted), 1), "{label}");
        assert_eq!(story.count(EventKind::Queued), 1, "{label}");
        assert_eq!(story.ready_ns.is_some(), steps >= 2, "{label}");
        assert_eq!(story.count(EventKind::Scheduled), usize::from(steps >= 3), "{label}");
        assert_eq!(rig.scheduler.ignored().unknown_request, 1, "{label}: the second abort");
        rig.scheduler.abort(other);
        assert_eq!(rig.scheduler.counts().kv_blocks_free, 1024, "{label}");
    }
}

#[test]
fn an_abort_between_plan_and_update_drops_what_was_sampled() {
    let mut rig = Rig::ar(Gate::None);
    let (a, b) = (rig.add(4, 2), rig.add(4, 1));
    let plan = rig.plan();
    rig.scheduler.abort(a);
    rig.update(plan);
    assert_eq!((rig.story(a).end, rig.story(a).tokens), (Some(End::Aborted), 0));
    assert_eq!(rig.story(b).end, Some(End::Length));
}

#[test]
fn shutdown_ends_all_that_is_in_flight() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::FullPayload, |c| c.max_num_seqs = 1);
    let handles: Vec<_> = (0..3).map(|_| rig.add(4, 9)).collect();
    rig.payload(handles[0]);
    rig.payload(handles[1]);
    rig.step();
    rig.scheduler.shutdown();
    rig.flush();
    for handle in handles {
        assert_eq!(rig.story(handle).end, Some(End::Shutdown));
    }
    assert!(rig.scheduler.is_empty());
    assert_eq!(
        rig.scheduler.counts(),
        stagespan_scheduler::Counts { kv_blocks_free: 1024, ..Default::default() }
    );
}

#[test]
fn an_engine_failure_ends_one_request() {
    let mut rig = Rig::ar(Gate::None);
    let (a, b) = (rig.add(4, 9), rig.add(4, 1));
    rig.scheduler.fail_request(a, "out of memory");
    rig.run_out(3);
    assert_eq!(rig.story(a).end, Some(End::EngineError));
    assert_eq!(rig.story(b).end, Some(End::Length));
}

#[test]
fn deferral_keeps_new_requests_back_until_a_batch_or_a_deadline() {
    let admission = stagespan_scheduler::PrefillAdmission {
        min_batch: 2,
        max_wait_ns: std::num::NonZeroU64::new(10 * MS).unwrap(),
        min_running: 1,
    };
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::FullPayload, |c| c.prefill_admission = Some(admission));
    let a = rig.add(4, 99);
    rig.payload(a);
    assert_eq!(rig.step(), [(a, 4)], "nothing runs, so nothing is deferred");
    let b = rig.add(4, 1);
    rig.payload(b);
    assert_eq!(rig.step(), [(a, 1)]);
    let deadline = rig.scheduler.next_deadline().unwrap();
    rig.clock.advance_ms(9);
    assert_eq!(rig.step(), [(a, 1), (b, 4)], "its time is over");
    assert!(deadline.as_ns() <= rig.story(b).first(EventKind::Scheduled).unwrap());
    let (_, ready_queued) = rig.story(b).split().unwrap();
    assert!(ready_queued >= 9 * MS, "deferral is ready_queued: {ready_queued}");
    let (c, d) = (rig.add(4, 1), rig.add(4, 1));
    rig.payload(c);
    rig.payload(d);
    assert_eq!(rig.step(), [(a, 1), (c, 4), (d, 4)], "a batch is full");
}

#[test]
fn deferral_ends_at_its_deadline() {
    let admission = stagespan_scheduler::PrefillAdmission {
        min_batch: 2,
        max_wait_ns: std::num::NonZeroU64::new(10 * MS).unwrap(),
        min_running: 1,
    };
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::None, |c| c.prefill_admission = Some(admission));
    rig.clock.tick_ns = 0;
    let a = rig.add(4, 99);
    assert_eq!(rig.step(), [(a, 4)]);
    let b = rig.add(4, 1);
    rig.clock.advance_ms(9);
    assert_eq!(rig.step(), [(a, 1)]);
    assert_eq!(rig.scheduler.next_deadline().unwrap().as_ns(), rig.clock.inner_ns());
    assert_eq!(rig.step(), [(a, 1), (b, 4)], "to the nanosecond");
}

#[test]
fn a_compiled_grammar_frees_a_request_at_its_place() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::None, |c| c.max_num_seqs = 1);
    let a = rig.add(4, 2);
    let g = rig.add_new(NewRequest {
        prompt_tokens: 4,
        max_tokens: 1,
        grammar_pending: true,
        ..Default::default()
    });
    let b = rig.add(4, 1);
    assert_eq!(rig.step(), [(a, 4)]);
    rig.scheduler.grammar_ready(g);
    rig.scheduler.grammar_ready(g);
    assert_eq!(rig.scheduler.ignored().no_grammar, 1);
    rig.step();
    assert_eq!(rig.step(), [(g, 4)], "it came before b");
    assert_eq!(rig.step(), [(b, 4)]);
}

#[test]
fn a_pending_grammar_does_not_hold_up_the_others() {
    let mut rig = Rig::ar(Gate::None);
    let g = rig.add_new(NewRequest {
        prompt_tokens: 4,
        max_tokens: 1,
        grammar_pending: true,
        ..Default::default()
    });
    let b = rig.add(4, 1);
    assert_eq!(rig.step(), [(b, 4)]);
    assert!(rig.step().is_empty());
    rig.scheduler.grammar_ready(g);
    assert_eq!(rig.step(), [(g, 4)]);
}
