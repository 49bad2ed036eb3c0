use proptest::prelude::*;

use super::*;
use crate::clock_domain::ClockDomain;
use crate::record::Detail;
use crate::split::Absent;

const S: u64 = 1_000_000_000;

fn at(ns: u64) -> Instant {
    Instant::from_ns(ns, ClockDomain::from_id("stage").unwrap().tag()).unwrap()
}

fn s(seconds: f64) -> Instant {
    at((seconds * S as f64).round() as u64)
}

fn ready(seconds: f64) -> TimelineEvent {
    TimelineEvent::InputReady { at: s(seconds), resolution_ns: Some(1) }
}

/// A gated request with these events, all of which must be accepted.
fn request(queued: f64, events: &[TimelineEvent]) -> StageTimeline {
    let mut timeline = StageTimeline::new(Position::Gated, s(queued));
    for event in events {
        timeline.apply(*event).unwrap_or_else(|e| panic!("{event:?}: {e}"));
    }
    timeline
}

fn waits(done: &FinishedTimeline) -> (Option<u64>, Option<u64>) {
    (done.split().input_wait_ns(), done.split().ready_queued_ns())
}

fn picture(done: &FinishedTimeline, detail: Detail) -> Vec<(&'static str, u64, u64, bool)> {
    let phases = done.phases(detail);
    phases.iter().map(|p| (p.kind.as_str(), p.start.as_ns() / S, p.end.as_ns() / S, p.truncated)).collect()
}

use TimelineEvent::{Preempted, Queued, Scheduled};

#[test]
fn vllm_56238_a_streaming_update_changes_no_wait() {
    let done = request(1.0, &[ready(1.5), Scheduled(s(2.0)), Queued(s(50.0)), Scheduled(s(52.0))])
        .finish(s(60.0), End::Stop);
    assert_eq!(waits(&done), (Some(S / 2), Some(S / 2)));
    assert_eq!(done.queued_ns(), Some(S));
}

#[test]
fn vllm_32162_an_abort_while_ready_leaves_a_truncated_phase_and_no_figures() {
    let done = request(100.0, &[ready(101.0)]).finish(s(103.0), End::Aborted);
    assert_eq!(
        picture(&done, Detail::Waits),
        [("input_wait", 100, 101, false), ("ready_queued", 101, 103, true)]
    );
    assert_eq!(waits(&done), (None, None));
    assert_eq!(done.queued_ns(), None);
    assert_eq!(done.split(), Split::Absent(Absent::NotScheduled));
    assert_eq!(done.error_type(), Some(ErrorType::Aborted));
}

#[test]
fn vllm_18357_an_abort_while_held_truncates_the_input_wait() {
    let done = request(5.0, &[]).finish(s(5.2), End::Aborted);
    assert_eq!(done.split(), Split::Absent(Absent::NotObserved));
    let phases = done.phases(Detail::Phases);
    let phase = phases.iter().next().unwrap();
    assert_eq!((phases.len(), phase.kind, phase.truncated), (1, PhaseKind::InputWait, true));
    assert_eq!(phase.duration_ns(), S / 5);
}

#[test]
fn dynamo_12344_a_measured_zero_is_there() {
    let done = request(10.0, &[ready(10.0), Scheduled(s(10.0))]).finish(s(11.0), End::Stop);
    assert_eq!(waits(&done), (Some(0), Some(0)));
    assert_eq!(done.prefill_ns(), None);
}

#[test]
fn vllm_omni_4670_the_stage_starts_at_queued() {
    let done = request(100.0, &[ready(186.0), Scheduled(s(186.1))]).finish(s(187.0), End::Length);
    assert_eq!(done.queued(), s(100.0));
    assert_eq!(waits(&done), (Some(86 * S), Some(S / 10)));
}

#[test]
fn vllm_13169_only_the_first_scheduled_counts() {
    let events = [
        ready(101.0),
        Scheduled(s(102.0)),
        Preempted(s(103.0)),
        Scheduled(s(105.0)),
        Preempted(s(106.0)),
        Scheduled(s(109.0)),
    ];
    let done = request(100.0, &events).finish(s(112.0), End::Stop);
    assert_eq!(
        picture(&done, Detail::Waits),
        [("input_wait", 100, 101, false), ("ready_queued", 101, 102, false)]
    );
    assert_eq!(done.preemptions(), 2);
}

#[test]
fn tensorrt_llm_13872_9726_another_clocks_instant_is_refused_not_converted() {
    let foreign = Instant::from_ns(5 * S, ClockDomain::from_id("other").unwrap().tag()).unwrap();
    let mut timeline = request(4.0, &[]);
    let before = timeline.clone();
    for event in [
        Queued(foreign),
        Scheduled(foreign),
        Preempted(foreign),
        TimelineEvent::InputReady { at: foreign, resolution_ns: None },
    ] {
        assert_eq!(timeline.apply(event), Err(Ignored::ForeignClock), "{event:?}");
    }
    assert_eq!(timeline, before);
    timeline.apply(Scheduled(s(6.0))).unwrap();
    assert_eq!(timeline.finish(foreign, End::Stop).ended(), s(6.0));
}

#[test]
fn a_stamp_outside_the_interval_splits_nothing() {
    for stamp in [0.5, 3.5] {
        let done = request(1.0, &[ready(stamp), Scheduled(s(3.0))]).finish(s(4.0), End::Stop);
        assert_eq!(done.split(), Split::Absent(Absent::OutOfInterval));
        assert_eq!(done.queued_ns(), Some(2 * S));
        assert_eq!(picture(&done, Detail::Waits), [("queued", 1, 3, false)]);
    }
}

#[test]
fn stages_without_a_gate_have_a_queued_phase() {
    for (position, reason) in [(Position::First, Absent::FirstStage), (Position::Ungated, Absent::Ungated)] {
        let mut timeline = StageTimeline::new(position, s(1.0));
        timeline.apply(Scheduled(s(2.0))).unwrap();
        let done = timeline.finish(s(3.0), End::Stop);
        assert_eq!(done.split(), Split::Absent(reason));
        assert_eq!(picture(&done, Detail::Waits), [("queued", 1, 2, false)]);
        let held = StageTimeline::new(position, s(1.0)).finish(s(2.0), End::Shutdown);
        assert_eq!(picture(&held, Detail::Waits), [("queued", 1, 2, true)]);
    }
}

#[test]
fn an_invalid_time_leaves_no_split() {
    let done =
        request(1.0, &[ready(2.0), TimelineEvent::InvalidTime, Scheduled(s(3.0))]).finish(s(4.0), End::Stop);
    assert_eq!(done.split(), Split::Absent(Absent::InvalidTime));
    assert_eq!(picture(&done, Detail::Waits), [("queued", 1, 3, false)]);
}

#[test]
fn prefill_and_decode_follow_the_tokens() {
    let tokens = |t, count| TimelineEvent::Tokens { at: s(t), count };
    let running = request(1.0, &[ready(2.0), Scheduled(s(3.0)), tokens(5.0, 1), tokens(9.0, 2)]);
    let done = running.clone().finish(s(8.0), End::Stop);
    assert_eq!((done.prefill_ns(), done.decode_ns(), done.tokens_output()), (Some(2 * S), Some(4 * S), 3));
    assert_eq!(done.ended(), s(9.0), "never before the last token");
    let expected = [("prefill", 3, 5, false), ("decode", 5, 9, false)];
    assert_eq!(picture(&done, Detail::Phases)[2..], expected);
    let failed = running.finish(s(12.0), End::EngineError);
    assert_eq!(picture(&failed, Detail::Phases)[3], ("decode", 5, 12, true));
    let early = request(1.0, &[ready(2.0), Scheduled(s(3.0))]).finish(s(4.0), End::Aborted);
    assert_eq!(picture(&early, Detail::Phases)[2], ("prefill", 3, 4, true));
    assert_eq!(early.error_type(), None);
}

#[test]
fn events_that_do_not_fit_change_nothing() {
    let mut timeline = request(5.0, &[]);
    let before = timeline.clone();
    for event in
        [Scheduled(s(4.9)), Preempted(s(6.0)), TimelineEvent::Tokens { at: s(6.0), count: 1 }, Queued(s(4.0))]
    {
        assert_eq!(timeline.apply(event), Err(Ignored::OutOfOrder), "{event:?}");
    }
    assert_eq!(timeline, before);
    timeline.apply(ready(6.0)).unwrap();
    assert_eq!(timeline.apply(ready(6.5)), Err(Ignored::Repeated));
    timeline.apply(Scheduled(s(7.0))).unwrap();
    assert_eq!(timeline.apply(Preempted(s(6.9))), Err(Ignored::OutOfOrder));
    assert_eq!(timeline.apply(TimelineEvent::Tokens { at: s(6.9), count: 1 }), Err(Ignored::OutOfOrder));
    let done = timeline.finish(s(6.0), End::Stop);
    assert_eq!(done.ended(), s(7.0));
    assert_eq!(waits(&done), (Some(S), Some(S)));
}

#[test]
fn the_names_of_what_is_ignored() {
    let all = [Ignored::ForeignClock, Ignored::OutOfOrder, Ignored::Repeated];
    assert_eq!(all.map(Ignored::as_str), ["foreign_clock", "out_of_order", "repeated"]);
    let texts = all.map(|ignored| ignored.to_string());
    assert!(texts[0].contains("another clock"), "{texts:?}");
    assert!(texts[1].contains("before what it must follow"), "{texts:?}");
    assert!(texts[2].contains("already stamped"), "{texts:?}");
}

#[test]
fn only_phases_that_were_never_filled_are_empty() {
    assert!(Phases::default().is_empty());
    assert!(!request(1.0, &[]).finish(s(2.0), End::Stop).phases(Detail::Waits).is_empty());
}

#[test]
fn which_wait_a_request_is_in() {
    let mut timeline = request(1.0, &[]);
    assert_eq!(timeline.waiting_for(), Some(PhaseKind::InputWait));
    timeline.apply(ready(2.0)).unwrap();
    assert_eq!(timeline.waiting_for(), Some(PhaseKind::ReadyQueued));
    assert!(!timeline.is_scheduled());
    timeline.apply(Scheduled(s(3.0))).unwrap();
    assert_eq!(timeline.waiting_for(), None);
    assert!(timeline.is_scheduled());
    assert_eq!(StageTimeline::new(Position::First, s(1.0)).waiting_for(), Some(PhaseKind::Queued));
}

#[test]
fn a_request_in_flight_is_small() {
    assert!(size_of::<StageTimeline>() <= 104, "{}", size_of::<StageTimeline>());
}

fn any_event() -> impl Strategy<Value = TimelineEvent> {
    // Few instants, so that equal ones and every order come up; one in eight is of another clock.
    let instant = (1u64..9, 0u8..8).prop_map(|(ns, clock)| {
        let domain = ClockDomain::from_id(if clock == 0 { "other" } else { "stage" }).unwrap();
        Instant::from_ns(ns, domain.tag()).unwrap()
    });
    prop_oneof![
        instant.clone().prop_map(Queued),
        (instant.clone(), proptest::option::of(0u64..9))
            .prop_map(|(at, resolution_ns)| TimelineEvent::InputReady { at, resolution_ns }),
        instant.clone().prop_map(Scheduled),
        instant.clone().prop_map(Preempted),
        (instant, 0u32..3).prop_map(|(at, count)| TimelineEvent::Tokens { at, count }),
        Just(TimelineEvent::InvalidTime),
    ]
}

proptest! {
    #[test]
    fn any_events_in_any_order(
        position in prop_oneof![Just(Position::First), Just(Position::Ungated), Just(Position::Gated)],
        queued in 1u64..9,
        events in proptest::collection::vec(any_event(), 0..12),
        end_at in 1u64..12,
        end in proptest::sample::select(End::ALL.to_vec()),
    ) {
        let mut timeline = StageTimeline::new(position, at(queued));
        for event in events {
            let before = timeline.clone();
            if timeline.apply(event).is_err() {
                prop_assert_eq!(&timeline, &before, "a refused event changes nothing");
            }
        }
        let done = timeline.finish(at(end_at), end);
        let (input, ready) = waits(&done);
        prop_assert_eq!(input.is_some(), ready.is_some());
        if let (Some(input), Some(ready)) = (input, ready) {
            prop_assert_eq!(Some(input + ready), done.queued_ns());
        }
        for detail in [Detail::Waits, Detail::Phases] {
            let phases: Vec<Phase> = done.phases(detail).iter().copied().collect();
            prop_assert!(!phases.is_empty());
            prop_assert_eq!(phases.len(), done.phases(detail).len());
            let mut edge = done.queued().as_ns();
            for phase in &phases {
                prop_assert_eq!(phase.start.as_ns(), edge, "phases share edges");
                prop_assert!(phase.end.as_ns() >= edge);
                edge = phase.end.as_ns();
            }
            prop_assert!(edge <= done.ended().as_ns(), "inside the stage");
            let last_truncated = phases.iter().rposition(|p| p.truncated);
            prop_assert!(last_truncated.is_none_or(|i| i == phases.len() - 1), "only the last is cut");
        }
    }
}
