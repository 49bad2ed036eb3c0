//! The faults of other systems that a front end must not repeat, each named after where it was
//! reported.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

mod stage;

use stage::{S, Stage, end, output, picture, ready, waits_ms};
use stagespan_model::{Absent, End, EventKind, Refusal, RequestId, Split};
use stagespan_output_processor::{OutputProcessor, Submission};
use stagespan_wire::{EngineCoreOutput, EngineCoreOutputs, WireEvent};

#[test]
fn vllm_56238_a_streaming_update_changes_no_wait() {
    let mut stage = Stage::gated();
    stage.processor.submitted(Submission { resumable: true, ..Submission::new("r") });
    stage.batch(3.0, vec![ready(1.5, output("r", "Q1 S2"))]);
    let segment_end = EngineCoreOutput { is_segment_finished: Some(true), ..end("r", End::Stop) };
    stage.batch(4.0, vec![segment_end]);
    assert_eq!(stage.processor.live(), 1, "the session goes on");
    stage.processor.updated("r", true, 5);
    stage.batch(52.5, vec![ready(51.0, output("r", "Q50 S52"))]);
    stage.batch(60.0, vec![end("r", End::Stop)]);

    let record = stage.record();
    assert_eq!(picture(&record), [("input_wait", 1.0, 1.5, false), ("ready_queued", 1.5, 2.0, false)]);
    assert_eq!(record.tokens_input, 5);
    let stats = stage.stats();
    assert_eq!(stats.vllm_queued_ms, Some(2000.0), "the last segment's");
    assert_eq!(waits_ms(&stats), (None, None));
    assert_eq!(stage.ignored(), [("repeated_stamp", 1)], "the stamp is taken once");
}

#[test]
fn vllm_32162_an_abort_while_ready_subtracts_no_unset_time() {
    for scheduled in [None, Some(0.0)] {
        let mut stage = Stage::gated();
        stage.submit("r");
        let mut aborted =
            ready(101.0, EngineCoreOutput { events: output("r", "Q100").events, ..end("r", End::Aborted) });
        let events = aborted.events.as_mut().unwrap();
        events.extend(scheduled.map(|timestamp| WireEvent { kind: EventKind::Scheduled, timestamp }));
        stage.batch(103.0, vec![aborted]);

        let record = stage.record();
        assert_eq!(record.timeline.queued_ns(), None);
        assert_eq!(record.timeline.error_type().unwrap().as_str(), "aborted");
        let stats = stage.stats();
        assert_eq!((stats.vllm_queued_ms, waits_ms(&stats)), (None, (None, None)));
        match scheduled {
            None => {
                let phases = [("input_wait", 100.0, 101.0, false), ("ready_queued", 101.0, 103.0, true)];
                assert_eq!(picture(&record), phases);
                assert_eq!(record.timeline.split(), Split::Absent(Absent::NotScheduled));
                assert_eq!(stage.ignored(), []);
            }
            // 0.0 is no time: it is counted, and nothing is split by what is left.
            Some(_) => {
                assert_eq!(picture(&record), [("queued", 100.0, 103.0, true)]);
                assert_eq!(record.timeline.split(), Split::Absent(Absent::InvalidTime));
                assert_eq!(stage.ignored(), [("invalid_scheduled", 1)]);
            }
        }
    }
}

#[test]
fn vllm_18357_cancelling_crashes_nothing() {
    let mut stage = Stage::gated();
    stage.submit("r");
    let held = EngineCoreOutput { events: output("r", "Q5").events, ..end("r", End::Aborted) };
    stage.batch(5.2, vec![end("unknown", End::Aborted), held.clone(), held]);
    let record = stage.record();
    assert_eq!(picture(&record), [("input_wait", 5.0, 5.2, true)]);
    assert_eq!(record.timeline.split(), Split::Absent(Absent::NotObserved));
    assert_eq!(stage.ignored(), [("unknown_request", 1), ("after_end", 1)]);
    assert_eq!(stage.processor.live(), 0);
}

#[test]
fn vllm_47994_unix_time_is_no_instant() {
    let unix = 1_790_000_000.0;
    let mut stage = Stage::gated();
    for id in ["queued", "scheduled", "stamp"] {
        stage.submit(id);
    }
    stage.batch(
        4213.0,
        vec![
            output("queued", &format!("Q{unix} S4212")),
            ready(4211.5, output("scheduled", &format!("Q4211 S{unix}"))),
            ready(unix, output("stamp", "Q4211 S4212")),
        ],
    );
    let ends = ["queued", "scheduled", "stamp"].map(|id| end(id, End::Stop));
    stage.batch(4214.0, ends.to_vec());

    assert_eq!(stage.refusals(), [Refusal::NeverQueued], "a QUEUED that is no time is none");
    let records = stage.records();
    let splits: Vec<_> = records.iter().map(|r| (r.request_id.as_str(), r.timeline.split())).collect();
    let invalid = Split::Absent(Absent::InvalidTime);
    assert_eq!(splits, [("scheduled", invalid), ("stamp", invalid)]);
    assert_eq!(records[0].timeline.queued_ns(), None);
    assert_eq!(records[1].timeline.queued_ns(), Some(S));
    for name in ["invalid_queued", "invalid_scheduled", "invalid_input_ready"] {
        assert!(stage.ignored().contains(&(name, 1)), "{:?}", stage.ignored());
    }
    let queued_ms: Vec<_> = stage.finished.iter().map(|f| f.stats.unwrap().vllm_queued_ms).collect();
    assert_eq!(queued_ms, [None, None, Some(1000.0)]);
}

#[test]
fn vllm_47994_nothing_is_later_than_the_readers_own_clock() {
    let mut stage = Stage::gated();
    stage.now = 10.0;
    stage.submit("r");
    stage.batch(9.0, vec![ready(12.0, output("r", "Q5 S8"))]);
    stage.batch(11.0, vec![end("r", End::Stop)]);
    assert_eq!(stage.record().timeline.split(), Split::Absent(Absent::InvalidTime));
    assert_eq!(stage.record().timeline.ended(), stage.at(9.0), "its last token");
    assert_eq!(stage.ignored(), [("invalid_input_ready", 1), ("invalid_batch_time", 1)]);
}

#[test]
fn dynamo_12344_a_measured_zero_is_there_and_the_unmeasured_is_not() {
    let mut stage = Stage::gated();
    stage.submit("zero");
    stage.batch(10.0, vec![ready(10.0, output("zero", "Q10 S10"))]);
    stage.batch(10.0, vec![end("zero", End::Stop)]);
    let stats = stage.stats();
    assert_eq!(waits_ms(&stats), (Some(0.0), Some(0.0)));
    assert_eq!((stats.vllm_queued_ms, stats.vllm_num_preemptions), (Some(0.0), Some(0)));

    stage.submit("unmeasured");
    stage.batch(11.0, vec![EngineCoreOutput { events: None, ..end("unmeasured", End::Stop) }]);
    let stats = stage.finished[1].stats.unwrap();
    assert_eq!((stats.vllm_queued_ms, stats.vllm_num_preemptions), (None, None));
    assert_eq!(waits_ms(&stats), (None, None));
}

#[test]
fn vllm_omni_4670_the_stage_starts_at_queued() {
    let mut stage = Stage::gated();
    stage.submit("r");
    stage.batch(187.0, vec![ready(186.0, output("r", "Q100 S186.1"))]);
    stage.batch(188.0, vec![end("r", End::Length)]);
    let record = stage.record();
    assert_eq!(record.timeline.queued(), stage.at(100.0));
    assert_eq!(record.timeline.split().input_wait_ns(), Some(86 * S));
    assert_eq!(record.timeline.split().ready_queued_ns(), Some(S / 10));
}

#[test]
fn vllm_13169_only_the_first_scheduled_counts() {
    let mut stage = Stage::gated();
    stage.submit("r");
    stage.batch(102.5, vec![ready(101.0, output("r", "Q100 S102"))]);
    // An engine that repeats the stamp on every output with events says nothing new.
    stage.batch(105.5, vec![ready(101.0, output("r", "P103 S105"))]);
    stage.batch(109.5, vec![output("r", "P106 S109")]);
    stage.batch(112.0, vec![end("r", End::Stop)]);
    let record = stage.record();
    assert_eq!(
        picture(&record),
        [("input_wait", 100.0, 101.0, false), ("ready_queued", 101.0, 102.0, false)]
    );
    assert_eq!(record.timeline.preemptions(), 2);
    let stats = stage.stats();
    assert_eq!((stats.vllm_queued_ms, stats.vllm_num_preemptions), (Some(2000.0), Some(2)));
    assert_eq!(stage.ignored(), []);
}

fn submit_as(processor: &mut OutputProcessor, internal_id: &str, client_id: &str) {
    processor
        .submitted(Submission { request_id: RequestId::from(client_id), ..Submission::new(internal_id) });
}

#[test]
fn vllm_10583_two_requests_of_one_client_id_stay_apart() {
    let mut stage = Stage::gated();
    submit_as(&mut stage.processor, "id-a", "id");
    submit_as(&mut stage.processor, "id-b", "id");
    stage.batch(4.0, vec![ready(2.0, output("id-a", "Q1 S3")), ready(3.5, output("id-b", "Q1.5 S3.75"))]);
    stage.batch(5.0, vec![end("id-b", End::Stop), end("id-a", End::Stop)]);
    let seen: Vec<_> = stage
        .records()
        .iter()
        .map(|r| {
            let internal_id = r.internal_id.clone().unwrap().to_string();
            (internal_id, r.request_id.to_string(), r.timeline.queued_ns().unwrap())
        })
        .collect();
    assert_eq!(seen, [("id-b".into(), "id".into(), 9 * S / 4), ("id-a".into(), "id".into(), 2 * S)]);
    assert_eq!(stage.ignored(), []);
}

#[test]
fn vllm_27987_an_id_used_again_right_after_an_abort_has_its_own_times() {
    let mut stage = Stage::gated();
    stage.submit("id");
    let aborted = EngineCoreOutput { events: output("id", "Q1").events, ..end("id", End::Aborted) };
    stage.batch(2.0, vec![aborted]);
    stage.submit("id");
    stage.batch(4.0, vec![ready(3.0, output("id", "Q2.5 S3.5"))]);
    stage.batch(5.0, vec![end("id", End::Stop)]);
    let records = stage.records();
    assert_eq!(records.iter().map(|r| r.timeline.queued_ns()).collect::<Vec<_>>(), [None, Some(S)]);
    assert_eq!(records.iter().map(|r| r.timeline.end()).collect::<Vec<_>>(), [End::Aborted, End::Stop]);
    assert_eq!(records[0].internal_id, None, "one id is enough where both are the same");
    assert_eq!(stage.ignored(), []);
}

#[test]
fn vllm_omni_2061_a_second_submission_under_a_live_id_changes_nothing() {
    let mut stage = Stage::gated();
    submit_as(&mut stage.processor, "id", "first");
    submit_as(&mut stage.processor, "id", "second");
    stage.batch(4.0, vec![ready(2.0, output("id", "Q1 S3")), end("id", End::Stop)]);
    assert_eq!(stage.record().request_id.as_str(), "first");
    assert_eq!(stage.ignored(), [("duplicate_request", 1)]);
}

#[test]
fn n8n_36769_an_output_before_the_submission_is_nobodys() {
    let mut stage = Stage::gated();
    stage.batch(2.0, vec![output("r", "Q1 S2")]);
    stage.process(EngineCoreOutputs { finished_requests: Some(vec!["r".into()]), ..Default::default() });
    assert_eq!(stage.records(), []);
    assert_eq!(stage.ignored(), [("unknown_request", 2)]);
}
