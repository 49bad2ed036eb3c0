//! The table of one request and the summary of a run.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

mod stage;

use stage::{Stage, end, output, ready};
use stagespan_model::{End, Position, RequestId};
use stagespan_output_processor::{Aggregator, Options, Submission};

/// Two stages through which one request went: it waited on the second, and was never preempted.
fn run() -> Aggregator {
    let mut first = Stage::new(Position::First, |o| o);
    let mut second = Stage::gated();
    for stage in [&mut first, &mut second] {
        let request_id = RequestId::from("client");
        stage.processor.submitted(Submission { request_id, tokens_input: 3, ..Submission::new("r-1") });
    }
    first.batch(1.5, vec![output("r-1", "Q1 S1.25")]);
    first.batch(1.75, vec![end("r-1", End::Stop)]);
    second.batch(90.0, vec![ready(87.0, output("r-1", "Q1 S87"))]);
    second.batch(90.0, vec![end("r-1", End::Length)]);
    let mut aggregator = Aggregator::default();
    // In any order: the rows stand in the order of the stages.
    second.finished.iter().chain(&first.finished).for_each(|finished| aggregator.add(finished));
    aggregator
}

#[test]
fn a_figure_that_is_nothing_on_every_stage_is_left_out_of_the_table() {
    let aggregator = run();
    let expected = "\
[StageRequestStats [request_id=client]]
Field               0 talker   1 talker
num_tokens_in              3          3
num_tokens_out             1          1
vllm_queued_ms       250.000  86000.000
vllm_input_wait_ms         -  86000.000
vllm_prefill_ms      250.000   3000.000
vllm_decode_ms       250.000      0.000";
    assert_eq!(aggregator.request("r-1").unwrap().table(), expected);
    assert!(aggregator.request("unknown").is_none());
}

#[test]
fn every_row_of_the_summary_has_every_key() {
    let summary = serde_json::to_value(run().summary()).unwrap();
    let expected = serde_json::json!({
        "overall_summary": {"e2e_requests": 1, "e2e_total_tokens": 5, "requests_omitted": 0},
        "stage_table": [{
            "request_id": "client",
            "internal_id": "r-1",
            "stages": [
                {
                    "stage_id": 0, "stage_name": "talker", "replica_id": 0, "end": "stop",
                    "split": "first_stage", "num_tokens_in": 3, "num_tokens_out": 1,
                    "vllm_queued_ms": 250.0, "vllm_input_wait_ms": null, "vllm_ready_queued_ms": null,
                    "vllm_prefill_ms": 250.0, "vllm_decode_ms": 250.0, "vllm_num_preemptions": 0,
                },
                {
                    "stage_id": 1, "stage_name": "talker", "replica_id": 0, "end": "length",
                    "split": "measured", "num_tokens_in": 3, "num_tokens_out": 1,
                    "vllm_queued_ms": 86000.0, "vllm_input_wait_ms": 86000.0, "vllm_ready_queued_ms": 0.0,
                    "vllm_prefill_ms": 3000.0, "vllm_decode_ms": 0.0, "vllm_num_preemptions": 0,
                },
            ],
        }],
    });
    assert_eq!(summary, expected);
}

#[test]
fn two_requests_of_one_client_id_are_two() {
    let mut stage = Stage::gated();
    for id in ["a", "b"] {
        let request_id = RequestId::from("client");
        stage.processor.submitted(Submission { request_id, ..Submission::new(id) });
        stage.batch(4.0, vec![output(id, "Q1 S2"), end(id, End::Stop)]);
    }
    let mut aggregator = Aggregator::new(9);
    stage.finished.iter().for_each(|finished| aggregator.add(finished));
    let summary = aggregator.summary();
    let ids: Vec<_> = summary.stage_table.iter().map(|r| (&*r.internal_id, &*r.request_id)).collect();
    assert_eq!(ids, [("a", "client"), ("b", "client")]);
}

#[test]
fn only_the_latest_requests_are_kept_and_the_rest_are_counted() {
    let mut stage = Stage::gated();
    let mut aggregator = Aggregator::new(2);
    for id in ["a", "b", "c"] {
        stage.submit(id);
        stage.batch(4.0, vec![output(id, "Q1 S2"), end(id, End::Stop)]);
    }
    stage.finished.iter().for_each(|finished| aggregator.add(finished));
    let summary = aggregator.summary();
    let ids: Vec<_> = summary.stage_table.iter().map(|r| &*r.internal_id).collect();
    assert_eq!(ids, ["b", "c"]);
    assert_eq!((summary.overall_summary.e2e_requests, summary.overall_summary.requests_omitted), (3, 1));
    let mut none = Aggregator::new(0);
    stage.finished.iter().for_each(|finished| none.add(finished));
    assert!(none.summary().stage_table.is_empty());
}

#[test]
fn without_statistics_there_is_no_summary() {
    let mut stage = Stage::new(Position::Gated, |o| Options { statistics: false, ..o });
    stage.submit("r");
    stage.batch(4.0, vec![output("r", "Q1 S2"), end("r", End::Stop)]);
    let mut aggregator = Aggregator::default();
    aggregator.add(&stage.finished[0]);
    assert_eq!(aggregator.summary(), Default::default());
}
