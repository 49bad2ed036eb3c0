//! The stamp: which step takes it, and what it travels with.

mod rig;

use rig::{MS, Rig};
use stagespan_model::{End, Gate};
use stagespan_scheduler::{NewRequest, SchedulerKind, StreamingUpdate};

#[test]
fn a_grammar_that_is_compiled_after_the_gate_is_stamped_when_it_is_left_waiting() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::FullPayload, |c| c.max_num_seqs = 1);
    let a = rig.add(8, 3);
    rig.payload(a);
    rig.step();
    let g = rig.add_new(NewRequest {
        prompt_tokens: 8,
        max_tokens: 1,
        grammar_pending: true,
        ..Default::default()
    });
    rig.payload(g);
    rig.step();
    rig.scheduler.grammar_ready(g);
    rig.run_out(20);
    let story = rig.story(g);
    assert_eq!(story.end, Some(End::Length));
    assert_eq!(story.ready_ns, None, "scheduling woke and admitted it in one step: never left WAITING");
}

#[test]
fn nothing_is_read_or_recorded_when_nobody_observes() {
    for kind in [SchedulerKind::Ar, SchedulerKind::Generation] {
        for gate in [Gate::None, Gate::AsyncChunk, Gate::FullPayload] {
            let mut rig = Rig::new(kind, gate, |c| {
                c.observe = false;
                c.input_wait_timeout_ns = None;
            });
            let a = rig.add(8, 2);
            rig.step();
            rig.last_chunk(a, 8);
            rig.payload(a);
            rig.run_out(9);
            assert_eq!(rig.clock.readings(), 0, "{kind:?} {gate:?}");
            assert!(rig.sent.iter().all(|output| output.events.is_empty() && output.input_ready.is_none()));
            assert_eq!(rig.story(a).last_outputs, 1);
        }
    }
}

#[test]
fn the_clock_is_read_at_the_documented_places_only() {
    let readings = |kind, gate| {
        let mut rig = Rig::new(kind, gate, |c| c.input_wait_timeout_ns = None);
        rig.add(8, 2);
        let queued = rig.clock.readings();
        rig.step();
        (queued, rig.clock.readings())
    };
    assert_eq!(readings(SchedulerKind::Ar, Gate::None), (1, 1), "SCHEDULED");
    assert_eq!(readings(SchedulerKind::Ar, Gate::FullPayload), (1, 2), "stamp, SCHEDULED");
    assert_eq!(readings(SchedulerKind::Ar, Gate::AsyncChunk), (1, 2));
    assert_eq!(
        readings(SchedulerKind::Generation, Gate::AsyncChunk),
        (1, 1),
        "both at once, before the gates"
    );
    assert_eq!(readings(SchedulerKind::Generation, Gate::FullPayload), (1, 2), "and the fallback's own");
}

/// A scan of `waiting` alone would miss it: the request holds KV blocks, so it waits in
/// `kv_holding_waiting` when it is first seen ready.
#[test]
fn a_request_that_holds_kv_blocks_is_stamped_too() {
    let mut rig = Rig::new(SchedulerKind::Ar, Gate::FullPayload, |c| c.max_num_seqs = 1);
    let a = rig.add_new(NewRequest {
        prompt_tokens: 8,
        max_tokens: 1,
        resumable: true,
        grammar_pending: true,
        ..NewRequest::default()
    });
    rig.scheduler.grammar_ready(a);
    assert_eq!(rig.step(), [(a, 8)], "a grammar lets it past the gate");
    let b = rig.add(8, 9);
    rig.payload(b);
    rig.scheduler.update_session(a, StreamingUpdate { prompt_tokens: 4, max_tokens: 1 }, &rig.clock);
    rig.step();
    assert_eq!(rig.scheduler.counts().held, 1, "its payload is not there");
    rig.payload(a);
    rig.step();
    rig.scheduler.abort(a);
    rig.flush();
    let story = rig.story(a);
    assert!(story.ready_ns.is_some(), "{story:?}");
}

/// The stamp waits for an output that carries events; the last output of this request has none.
#[test]
fn a_stamp_never_travels_without_events() {
    let mut rig = Rig::new(SchedulerKind::Generation, Gate::AsyncChunk, |c| c.token_budget = 8);
    let b = rig.add(1, 1);
    rig.step();
    rig.chunk(b, 1);
    let a = rig.add_new(NewRequest {
        prompt_tokens: 7,
        resumable: true,
        grammar_pending: true,
        ..NewRequest::default()
    });
    rig.scheduler.grammar_ready(a);
    assert_eq!(rig.step(), [(b, 1), (a, 7)], "a grammar lets it past the gate");
    rig.step();
    rig.segment_end(a, 3);
    assert_eq!(rig.step(), [(a, 3)]);
    rig.step();
    let so_far = rig.story(a);
    assert_eq!((so_far.ready_ns, so_far.segments), (None, 1));
    rig.chunk(b, 6);
    rig.chunk(a, 5);
    // Seen ready in a step that has no budget for it, and taken back before it is scheduled.
    assert_eq!(rig.step(), [(b, 6)]);
    assert_eq!(rig.scheduler.counts().ready, 1);
    rig.scheduler.abort(a);
    rig.flush();
    let last = rig.sent.iter().rfind(|output| output.handle == a && output.is_last()).unwrap();
    assert_eq!((last.events.len(), last.input_ready), (0, None), "{last:?}");
}

#[test]
fn the_resolution_begins_with_the_request_if_it_came_after_the_last_pass() {
    let mut rig = Rig::ar(Gate::FullPayload);
    rig.step();
    rig.clock.advance_ms(20);
    let a = rig.add(8, 1);
    rig.clock.advance_ms(5);
    rig.payload(a);
    rig.step();
    let resolution = rig.story(a).resolution_ns.unwrap();
    assert!((5 * MS..5 * MS + 10).contains(&resolution), "{resolution}");
}

/// Scheduling wakes a request whose grammar is compiled without asking the gate. If it then finds
/// no room for it, the gate has its say after all.
#[test]
fn a_woken_request_that_finds_no_room_goes_through_the_gate() {
    for gate in [Gate::FullPayload, Gate::AsyncChunk] {
        let mut rig = Rig::new(SchedulerKind::Ar, gate, |c| {
            c.kv_blocks = 4;
            c.max_model_len = 64;
        });
        let a = rig.add(40, 2);
        rig.step();
        rig.payload(a);
        rig.last_chunk(a, 1);
        rig.step();
        let g = rig.add_new(NewRequest {
            prompt_tokens: 30,
            max_tokens: 1,
            grammar_pending: true,
            ..Default::default()
        });
        let h = rig.add_new(NewRequest {
            prompt_tokens: 30,
            max_tokens: 1,
            grammar_pending: true,
            ..Default::default()
        });
        rig.scheduler.grammar_ready(g);
        let plan = rig.plan();
        assert_eq!(plan.scheduled.len(), 1, "{gate:?}: no KV space beside a");
        rig.update(plan);
        assert!(rig.step().is_empty(), "{gate:?}: g is held");
        assert_eq!((rig.scheduler.counts().held, rig.scheduler.counts().ready), (1, 0), "{gate:?}");
        rig.payload(g);
        rig.last_chunk(g, 1);
        assert_eq!(rig.step(), [(g, 30)], "{gate:?}");
        assert_eq!(rig.story(g).split().map(|(_, ready_queued)| ready_queued), Some(1), "{gate:?}");
        assert!(rig.scheduler.contains(h));
    }
}
