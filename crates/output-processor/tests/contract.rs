//! What an output processor promises: one end for each request, the anchor in force, and nothing
//! where it is off.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

mod stage;

use std::sync::Arc;

use stage::{S, Stage, end, identity, instant, output, picture, ready, waits_ms};
use stagespan_model::{
    Absent, ClockAnchor, ClockDomain, Detail, End, ForeignClock, Placement, Position, Refusal, RequestId,
    SpanId, SpanRef, Split, StageContext, TraceId,
};
use stagespan_output_processor::{Options, OutputProcessor, Submission};
use stagespan_wire::{EngineCoreOutput, EngineCoreOutputs, StopReason};

fn span(n: u8) -> SpanRef {
    SpanRef {
        trace_id: TraceId::from_bytes([n; 16]).unwrap(),
        span_id: SpanId::from_bytes([n; 8]).unwrap(),
        flags: SpanRef::SAMPLED,
    }
}

fn context(placement: Placement) -> Box<StageContext> {
    Box::new(StageContext {
        span: span(1),
        placement,
        request: span(2),
        tracestate: None,
        upstreams: Vec::new(),
        request_host_id: None,
        joined_refused: false,
    })
}

fn one_request(stage: &mut Stage, submission: Submission<'_>) {
    let id = submission.internal_id.to_owned();
    stage.processor.submitted(submission);
    stage.batch(4.0, vec![ready(2.0, output(&id, "Q1.5 S3"))]);
    stage.batch(5.0, vec![end(&id, End::Stop)]);
}

#[test]
fn every_end_on_the_wire_is_one_record() {
    for wanted in End::ALL {
        let mut stage = Stage::gated();
        stage.submit("r");
        let held = EngineCoreOutput { events: output("r", "Q1").events, ..end("r", wanted) };
        stage.batch(2.0, vec![held]);
        assert_eq!(stage.record().timeline.end(), wanted);
        assert_eq!(stage.finished[0].end, wanted);
        assert_eq!(stage.finished[0].error_type(), wanted.error_type(false));
        assert_eq!(stage.processor.live(), 0);
    }
    let mut stage = Stage::gated();
    stage.submit("r");
    let stop_token = EngineCoreOutput { stop_reason: Some(StopReason::Token(2)), ..end("r", End::Stop) };
    stage.batch(2.0, vec![output("r", "Q1 S1.5"), stop_token]);
    assert_eq!(stage.record().timeline.end(), End::Stop);
}

#[test]
fn a_finish_without_an_output_ends_the_request_too() {
    let mut stage = Stage::gated();
    stage.submit("r");
    stage.submit("other");
    stage.batch(3.5, vec![ready(2.0, output("r", "Q1 S3"))]);
    let batch = EngineCoreOutputs {
        timestamp: 6.0,
        finished_requests: Some(vec!["r".into(), "unknown".into()]),
        ..Default::default()
    };
    stage.process(batch.clone());
    stage.process(batch);
    let record = stage.record();
    assert_eq!((record.timeline.end(), record.timeline.ended()), (End::Aborted, stage.at(6.0)));
    assert_eq!(record.timeline.error_type(), None, "it had been scheduled");
    assert_eq!(stage.stats().vllm_queued_ms, Some(2000.0));
    assert_eq!(stage.ignored(), [("unknown_request", 2)], "an ended id in the list is the usual case");
    assert_eq!(stage.processor.live(), 1);
}

#[test]
fn a_terminal_output_and_its_id_in_the_list_are_one_end() {
    let mut stage = Stage::gated();
    stage.submit("r");
    stage.process(EngineCoreOutputs {
        timestamp: 6.0,
        outputs: vec![ready(2.0, output("r", "Q1 S3")), end("r", End::Length)],
        finished_requests: Some(vec!["r".into()]),
        ..Default::default()
    });
    assert_eq!(stage.record().timeline.end(), End::Length);
    assert_eq!(stage.ignored(), []);
}

#[test]
fn without_a_valid_queued_there_is_no_span() {
    let mut stage = Stage::gated();
    stage.submit("r");
    // What follows a SCHEDULED without QUEUED can't tell when the request began.
    stage.batch(4.0, vec![ready(2.0, output("r", "S3 Q3.5"))]);
    stage.batch(5.0, vec![end("r", End::Stop)]);
    assert_eq!(stage.records(), []);
    assert_eq!(stage.refusals(), [Refusal::NeverQueued]);
    assert_eq!(stage.finished.len(), 1);
    assert!(stage.finished[0].timeline.is_none());
    assert_eq!(stage.stats().vllm_queued_ms, None);
    assert_eq!(stage.ignored(), [("never_queued", 1), ("before_queued", 4)]);
}

#[test]
fn a_refused_queued_spoils_the_split_but_not_the_one_after_it() {
    let mut stage = Stage::gated();
    stage.submit("r");
    stage.batch(4.0, vec![ready(2.0, output("r", "Q0 Q1 S3"))]);
    stage.batch(5.0, vec![end("r", End::Stop)]);
    assert_eq!(stage.record().timeline.split(), Split::Absent(Absent::InvalidTime));
    assert_eq!(stage.record().timeline.queued_ns(), Some(2 * S));
    let stats = stage.stats();
    assert_eq!((stats.vllm_queued_ms, waits_ms(&stats)), (Some(2000.0), (None, None)));
}

#[test]
fn a_refused_first_scheduled_does_not_make_the_next_one_first() {
    let mut stage = Stage::gated();
    stage.submit("r");
    stage.batch(3.0, vec![ready(2.0, output("r", "Q1 S0"))]);
    stage.batch(9.0, vec![output("r", "P7 S8")]);
    stage.batch(10.0, vec![end("r", End::Stop)]);
    let record = stage.record();
    assert_eq!(record.timeline.queued_ns(), None);
    assert_eq!(record.timeline.split(), Split::Absent(Absent::InvalidTime));
}

#[test]
fn refused_times_later_on_change_neither_wait() {
    let mut stage = Stage::gated();
    stage.submit("r");
    stage.batch(4.0, vec![ready(2.0, output("r", "Q1 S3"))]);
    stage.batch(5.0, vec![output("r", "P-1 S-1 Q-1")]);
    stage.batch(f64::NAN, vec![end("r", End::Stop)]);
    let record = stage.record();
    assert_eq!(record.timeline.split(), Split::Measured { input_wait_ns: S, ready_queued_ns: S });
    assert_eq!(record.timeline.ended(), stage.at(5.0), "the last instant known");
    let names: Vec<_> = stage.ignored().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["invalid_queued", "invalid_scheduled", "invalid_preempted", "invalid_batch_time"]);
}

#[test]
fn a_stage_on_another_clock_may_be_ahead_of_the_reader() {
    let mut stage = Stage::gated();
    let reader = instant(&ClockDomain::from_id("reader").unwrap(), 1.0);
    stage.submit("r");
    let batch = EngineCoreOutputs {
        timestamp: 100_005.0,
        outputs: vec![ready(100_002.0, output("r", "Q100001 S100003")), end("r", End::Stop)],
        ..Default::default()
    };
    stage.processor.process(&batch, reader, |_| {});
    assert_eq!(stage.record().timeline.split().input_wait_ns(), Some(S));
    assert_eq!(stage.ignored(), []);
}

#[test]
fn the_resolution_told_apart_goes_with_the_stamp() {
    let mut stage = Stage::gated();
    stage.submit("r");
    stage.processor.observed("r", 1_900_000);
    stage.processor.observed("unknown", 1);
    stage.batch(4.0, vec![ready(2.0, output("r", "Q1 S3"))]);
    stage.batch(5.0, vec![end("r", End::Stop)]);
    assert_eq!(stage.record().timeline.resolution_ns(), Some(1_900_000));
    assert_eq!(stage.ignored(), [("unknown_request", 1)]);
}

#[test]
fn the_anchor_is_the_one_in_force_at_queued() {
    let mut stage = Stage::gated();
    // The wall clock was set back between the two; the second is in force from 2 s on.
    let later = ClockAnchor::new(stage.at(2.0), 7 * S, 1);
    stage.submit("early");
    stage.submit("late");
    stage.processor.anchor_renewed(later);
    let foreign = instant(&ClockDomain::from_id("other").unwrap(), 3.0);
    stage.processor.anchor_renewed(ClockAnchor::new(foreign, 1, 1));
    stage.batch(9.0, vec![output("late", "Q2.5 S3"), output("early", "Q1.5 S3")]);
    stage.batch(9.5, vec![end("early", End::Stop), end("late", End::Stop)]);
    let walls: Vec<_> = stage.records().iter().map(|r| r.anchor.wall_unix_ns()).collect();
    assert_eq!(walls, [1_000 * S, 7 * S]);
    assert_eq!(stage.ignored(), [("foreign_clock", 1)]);
}

#[test]
fn only_a_stage_that_joins_is_timed_by_the_requests_anchor() {
    let own = 1_000 * S;
    let table = [(Placement::Own, own), (Placement::Forced, own), (Placement::Same, 55)];
    for (placement, expected) in table {
        let mut stage = Stage::gated();
        let request_anchor = Some(ClockAnchor::new(stage.at(1.25), 55, 1));
        let context = Some(context(placement));
        one_request(&mut stage, Submission { context, request_anchor, ..Submission::new("r") });
        assert_eq!(stage.record().anchor.wall_unix_ns(), expected, "{placement:?}");
    }
    let mut stage = Stage::gated();
    let foreign = instant(&ClockDomain::from_id("other").unwrap(), 1.25);
    let request_anchor = Some(ClockAnchor::new(foreign, 55, 1));
    let context = Some(context(Placement::Same));
    one_request(&mut stage, Submission { context, request_anchor, ..Submission::new("r") });
    assert_eq!(stage.record().anchor.wall_unix_ns(), own, "an anchor of another clock places nothing");
    assert_eq!(stage.ignored(), [("foreign_clock", 1)]);
}

#[test]
fn a_stage_that_refused_to_join_goes_into_a_trace_of_its_own() {
    let mut stage = Stage::gated();
    let request_anchor = Some(ClockAnchor::new(stage.at(1.25), 55, 1));
    let context = Some(context(Placement::Same));
    stage.processor.submitted(Submission { context, request_anchor, ..Submission::new("r") });
    let assigned = stage.processor.context_mut("r").unwrap();
    assigned.joined_refused = true;
    assigned.span = span(9);
    assert_eq!(stage.processor.context_mut("unknown"), None);
    stage.batch(5.0, vec![output("r", "Q1.5 S3"), end("r", End::Stop)]);
    let record = stage.record();
    assert_eq!(record.anchor.wall_unix_ns(), 1_000 * S);
    let context = record.context.unwrap();
    assert!(context.joined_refused);
    assert_eq!((context.span, context.request), (span(9), span(2)));
}

#[test]
fn what_was_submitted_stands_on_the_record() {
    let mut stage = Stage::new(Position::Gated, |o| Options { detail: Detail::Phases, ..o });
    let submission = Submission {
        request_id: RequestId::from("client"),
        context: Some(context(Placement::Own)),
        tokens_input: 12,
        companion_role: Some(Arc::from("cfg")),
        ..Submission::new("internal")
    };
    one_request(&mut stage, submission);
    let record = stage.record();
    assert_eq!(record.request_id.as_str(), "client");
    assert_eq!(record.internal_id.as_ref().unwrap().as_str(), "internal");
    assert_eq!(record.tokens_input, 12);
    assert_eq!(record.companion_role.as_deref(), Some("cfg"));
    assert_eq!(record.context, Some(context(Placement::Own)));
    assert_eq!(record.detail, Detail::Phases);
    assert_eq!(record.span_count(), 5);
}

#[test]
fn tokens_are_counted_as_sent_or_as_the_engine_counts_them() {
    let mut stage = Stage::gated();
    for id in ["sent", "counted"] {
        stage.submit(id);
    }
    let tokens = |id: &str, n| EngineCoreOutput { new_token_ids: vec![1; n], ..output(id, "") };
    let counted = |total| EngineCoreOutput {
        new_token_ids: Vec::new(),
        num_generation_tokens: Some(total),
        ..output("counted", "")
    };
    stage.batch(3.0, vec![output("sent", "Q1 S2"), output("counted", "Q1 S2")]);
    stage.batch(4.0, vec![tokens("sent", 3), counted(5)]);
    stage.batch(5.0, vec![tokens("sent", 0), counted(5)]);
    stage.batch(
        6.0,
        vec![
            end("sent", End::Stop),
            EngineCoreOutput { finish_reason: end("", End::Stop).finish_reason, ..counted(7) },
        ],
    );
    let seen: Vec<_> =
        stage.records().iter().map(|r| (r.timeline.tokens_output(), r.timeline.decode_ns())).collect();
    // A count of 5 is a total, of which the first token was sent before; an output without a token
    // moves no token time.
    assert_eq!(seen, [(4, Some(S)), (8, Some(3 * S))]);
    let decode_ms: Vec<_> = stage.finished.iter().map(|f| f.stats.unwrap().vllm_decode_ms).collect();
    assert_eq!(decode_ms, [Some(3000.0), Some(3000.0)], "vLLM counts every output as a token time");
}

#[test]
fn beyond_the_bound_a_request_is_counted_and_left_alone() {
    let mut stage = Stage::new(Position::Gated, |o| Options { live_max: 1, ..o });
    stage.submit("a");
    stage.submit("b");
    assert_eq!((stage.processor.live(), stage.refusals()), (1, vec![Refusal::TooManyLive]));
    stage.batch(3.0, vec![output("b", "Q1 S2"), output("a", "Q1 S2"), end("a", End::Stop)]);
    assert_eq!(stage.record().request_id.as_str(), "a");
    stage.submit("c");
    assert_eq!(stage.processor.live(), 1, "a slot is freed with its request");
    assert_eq!(stage.ignored(), [("unknown_request", 1), ("too_many_live", 1)]);
}

#[test]
fn late_outputs_are_told_apart_from_unknown_ones_as_long_as_memory_is_bounded() {
    let mut stage = Stage::gated();
    for n in 0..=1024 {
        let id = format!("r{n}");
        stage.submit(&id);
        stage.batch(2.0, vec![output(&id, "Q1 S1.5"), end(&id, End::Stop)]);
    }
    assert_eq!(stage.ignored(), []);
    stage.batch(3.0, vec![end("r0", End::Stop), end("r1", End::Stop), end("r1024", End::Stop)]);
    assert_eq!(stage.ignored(), [("unknown_request", 1), ("after_end", 2)]);
}

#[test]
fn a_dead_stage_leaves_no_made_up_record() {
    let mut stage = Stage::gated();
    for id in ["done", "running", "held"] {
        stage.submit(id);
    }
    stage.batch(3.0, vec![output("done", "Q1 S2"), output("running", "Q1 S2"), end("done", End::Stop)]);
    let mut ids = stage.processor.abandon();
    ids.sort();
    assert_eq!(ids, [Arc::from("held"), Arc::from("running")]);
    assert_eq!((stage.processor.live(), stage.records().len()), (0, 1));
    assert!(stage.refusals().is_empty());
    // A retry may come under the same id.
    stage.submit("held");
    assert_eq!(stage.processor.live(), 1);
}

#[test]
fn tracing_and_statistics_each_work_alone_and_off_is_off() {
    for (tracing, statistics) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut stage =
            Stage::new(Position::Gated, |o| Options { sink: o.sink.filter(|_| tracing), statistics, ..o });
        stage.submit("r");
        assert_eq!(stage.processor.live(), usize::from(tracing || statistics));
        stage.batch(4.0, vec![ready(2.0, output("r", "Q1 S3")), end("r", End::Stop)]);
        stage.batch(5.0, vec![end("unknown", End::Stop)]);
        stage.processor.observed("unknown", 1);
        assert_eq!(stage.records().len(), usize::from(tracing));
        let waits = stage.finished.iter().map(|f| f.stats.map(|s| waits_ms(&s))).collect::<Vec<_>>();
        match (tracing, statistics) {
            (_, true) => assert_eq!(waits, [Some((Some(1000.0), Some(1000.0)))]),
            (true, false) => assert_eq!(waits, [None]),
            (false, false) => assert!(waits.is_empty() && stage.ignored().is_empty()),
        }
    }
}

#[test]
fn a_stage_without_a_gate_says_why_it_has_no_split() {
    for (position, reason) in [(Position::First, Absent::FirstStage), (Position::Ungated, Absent::Ungated)] {
        let mut stage = Stage::new(position, |o| o);
        stage.submit("r");
        stage.batch(4.0, vec![ready(2.0, output("r", "Q1 S3")), end("r", End::Stop)]);
        assert_eq!(stage.record().timeline.split(), Split::Absent(reason));
        assert_eq!(picture(&stage.record()), [("queued", 1.0, 3.0, false)]);
        assert_eq!(waits_ms(&stage.stats()), (None, None));
    }
}

#[test]
fn an_anchor_of_another_clock_makes_no_processor() {
    let domain = ClockDomain::from_id("stage").unwrap();
    let foreign = instant(&ClockDomain::from_id("other").unwrap(), 1.0);
    let stage = identity(&domain, Position::Gated);
    let made = OutputProcessor::new(stage, ClockAnchor::new(foreign, 1, 1), Options::default());
    assert_eq!(made.err(), Some(ForeignClock));
}
