//! Whole pipelines of real processes, with this test binary as the stages' binary.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the report")]

use std::ffi::OsString;
use std::io::Read;
use std::sync::Arc;

use stagespan_model::{Absent, End, ErrorType, Split, SystemClock};
use stagespan_pipeline::{
    NewRequest, Orchestrator, OrchestratorError, OrchestratorOptions, Pipeline, RequestOutcome, StageSpec,
};

const STAGE_PROCESS: &str = "STAGESPAN_TEST_STAGE_PROCESS";

/// Not a test of its own: the stage process that the other tests start, marked by the variable.
#[test]
fn stage_process() {
    if std::env::var_os(STAGE_PROCESS).is_none() {
        return;
    }
    let mut json = String::new();
    std::io::stdin().read_to_string(&mut json).unwrap();
    let spec: StageSpec = serde_json::from_str(&json).unwrap();
    let environment = stagespan_otel::Environment::of_this_process();
    let resource = stagespan_otel::resource::detect(&environment, spec.stage_id, spec.replica_id);
    stagespan_pipeline::stage::run(spec, resource, Arc::new(SystemClock::new())).unwrap();
    // The harness's own report would go to the orchestrator's test output.
    std::process::exit(0);
}

fn stage_command() -> Vec<OsString> {
    let this = std::env::current_exe().unwrap();
    let marked = format!("{STAGE_PROCESS}=1");
    vec![
        "env".into(),
        marked.into(),
        this.into(),
        "stage_process".into(),
        "--exact".into(),
        "--nocapture".into(),
    ]
}

fn pipeline(connector: &str, talker: &str) -> Pipeline {
    let text = format!(
        r#"
        [pipeline]
        connector = "{connector}"

        [[stage]]
        name = "thinker"
        scheduler = "ar"
        step_us = 200
        chunk_tokens = 4

        [[stage]]
        name = "talker"
        scheduler = "ar"
        step_us = 200
        tokens_per_input_token = 2
        chunk_tokens = 4
        {talker}

        [[stage]]
        name = "code2wav"
        scheduler = "generation"
        gate = "async_chunk"
        step_us = 200
        "#
    );
    Pipeline::parse(&text, "test").unwrap()
}

fn options(connector: &str, talker: &str) -> OrchestratorOptions {
    OrchestratorOptions::new(pipeline(connector, talker), Arc::new(SystemClock::new()), stage_command())
}

fn request(number: usize, output_tokens: u32) -> NewRequest {
    NewRequest { request_id: format!("r{number}"), prompt_tokens: 30, output_tokens }
}

async fn run_all(orchestrator: &Orchestrator, requests: usize) -> Vec<RequestOutcome> {
    let mut tickets = Vec::new();
    for number in 0..requests {
        tickets.push(orchestrator.submit(request(number, 10), &[]).await.unwrap());
    }
    let mut outcomes = Vec::new();
    for ticket in tickets {
        outcomes.push(ticket.outcome().await.unwrap());
    }
    outcomes
}

fn split_of(outcome: &RequestOutcome, stage: usize) -> Split {
    outcome.stages[stage].timeline.as_ref().expect("a timeline").split()
}

fn assert_complete(outcomes: &[RequestOutcome]) {
    for outcome in outcomes {
        assert_eq!(outcome.error, None, "{outcome:?}");
        let names: Vec<_> = outcome.stages.iter().map(|s| s.stage.as_str()).collect();
        assert_eq!(names, ["thinker", "talker", "code2wav"]);
        assert_eq!(split_of(outcome, 0), Split::Absent(Absent::FirstStage));
        assert_eq!((outcome.stages[0].tokens_output, outcome.stages[1].tokens_output), (10, 20));
        for stage in &outcome.stages {
            let timeline = stage.timeline.as_ref().unwrap();
            let Some(queued_ns) = timeline.queued_ns() else { panic!("never scheduled: {outcome:?}") };
            if let Split::Measured { input_wait_ns, ready_queued_ns } = timeline.split() {
                assert_eq!(input_wait_ns + ready_queued_ns, queued_ns);
                let resolution_ns = timeline.resolution_ns().expect("a resolution");
                assert!(resolution_ns <= input_wait_ns, "not before QUEUED: {resolution_ns} {input_wait_ns}");
            }
            let queued_ms = stage.stats.vllm_queued_ms.expect("statistics");
            assert!((queued_ms - queued_ns as f64 / 1e6).abs() < 1e-6, "{queued_ms} {queued_ns}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_flow_over_both_kinds_of_socket() {
    for connector in ["unix", "tcp"] {
        let orchestrator = Orchestrator::start(options(connector, r#"gate = "async_chunk""#)).await.unwrap();
        let pids: std::collections::HashSet<u32> = orchestrator.stages().iter().map(|s| s.pid).collect();
        assert_eq!(pids.len(), 3, "three processes");
        let outcomes = run_all(&orchestrator, 20).await;
        assert_complete(&outcomes);
        for outcome in &outcomes {
            assert_eq!(split_of(outcome, 1).as_str(), "measured");
            assert_eq!(split_of(outcome, 2).as_str(), "measured");
        }
        let summary = serde_json::to_value(orchestrator.shut_down().await.unwrap()).unwrap();
        assert_eq!(summary["stage_table"].as_array().unwrap().len(), 20);
    }
}

/// An idle stage passes over the requests it holds again and again, so a stamp says when the input
/// came and not merely that it came since the request did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_wait_is_stamped_finely() {
    let mut options = options("unix", r#"gate = "async_chunk""#);
    options.pipeline.stages[0].start_cost_ms = 400;
    let orchestrator = Orchestrator::start(options).await.unwrap();
    let outcome = run_all(&orchestrator, 1).await.remove(0);
    let talker = outcome.stages[1].timeline.as_ref().unwrap();
    let (wait_ns, resolution_ns) = (talker.split().input_wait_ns().unwrap(), talker.resolution_ns().unwrap());
    assert!(wait_ns >= 400_000_000, "{wait_ns}");
    // A ratio of one run; without passes in between it is 1.
    assert!(resolution_ns < wait_ns / 2, "{resolution_ns} of {wait_ns}");
    orchestrator.shut_down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_payload_is_handed_over_when_the_stage_before_is_done() {
    let orchestrator = Orchestrator::start(options("unix", r#"gate = "full_payload""#)).await.unwrap();
    let outcomes = run_all(&orchestrator, 8).await;
    assert_complete(&outcomes);
    assert!(outcomes.iter().all(|o| split_of(o, 1).as_str() == "measured" && o.stages[1].tokens_input == 10));
    orchestrator.shut_down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ungated_and_a_sender_only_stage_say_so() {
    for talker in ["", "gate = \"async_chunk\"\nrole = \"sender\""] {
        let orchestrator = Orchestrator::start(options("unix", talker)).await.unwrap();
        let outcomes = run_all(&orchestrator, 3).await;
        assert_complete(&outcomes);
        assert!(outcomes.iter().all(|o| split_of(o, 1) == Split::Absent(Absent::Ungated)));
        orchestrator.shut_down().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_live_requests_under_one_client_id_stay_apart() {
    let orchestrator = Orchestrator::start(options("unix", r#"gate = "async_chunk""#)).await.unwrap();
    let same = || NewRequest { request_id: "same".into(), ..request(0, 10) };
    let first = orchestrator.submit(same(), &[]).await.unwrap();
    let second = orchestrator.submit(same(), &[]).await.unwrap();
    assert_ne!(first.internal_id(), second.internal_id());
    let outcomes = [first.outcome().await.unwrap(), second.outcome().await.unwrap()];
    assert_complete(&outcomes);
    assert_ne!(outcomes[0].stages[0].timeline, outcomes[1].stages[0].timeline);
    orchestrator.shut_down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aborted_request_ends_on_every_stage() {
    let orchestrator = Orchestrator::start(options("unix", r#"gate = "async_chunk""#)).await.unwrap();
    // Long enough that the abort is always in time.
    let ticket = orchestrator.submit(request(0, 1_000_000), &[]).await.unwrap();
    orchestrator.abort(ticket.internal_id()).await;
    let outcome = ticket.outcome().await.unwrap();
    assert_eq!(outcome.stages.len(), 3);
    assert!(outcome.stages.iter().all(|s| s.end == End::Aborted), "{outcome:?}");
    orchestrator.shut_down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_too_large_for_a_stage_is_rejected_there_and_aborted_elsewhere() {
    let talker = "gate = \"async_chunk\"\nkv_blocks = 1\nblock_size = 2";
    let orchestrator = Orchestrator::start(options("unix", talker)).await.unwrap();
    let outcome = orchestrator.submit(request(0, 1_000_000), &[]).await.unwrap().outcome().await.unwrap();
    assert_eq!(outcome.error, Some(ErrorType::Rejected), "{outcome:?}");
    let ends: Vec<_> = outcome.stages.iter().map(|s| s.end).collect();
    assert_eq!(ends, [End::Aborted, End::Rejected, End::Aborted]);
    orchestrator.shut_down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_flight_at_shut_down_ends_by_it() {
    let orchestrator = Orchestrator::start(options("unix", r#"gate = "async_chunk""#)).await.unwrap();
    let ticket = orchestrator.submit(request(0, 1_000_000), &[]).await.unwrap();
    orchestrator.shut_down().await.unwrap();
    let outcome = ticket.outcome().await.unwrap();
    assert_eq!(outcome.error, Some(ErrorType::Shutdown));
    assert!(outcome.stages.iter().all(|s| s.end == End::Shutdown), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_stage_is_named_and_leaves_no_record() {
    let orchestrator = Orchestrator::start(options("unix", r#"gate = "async_chunk""#)).await.unwrap();
    let before = orchestrator.submit(request(0, 10), &[]).await.unwrap().outcome().await.unwrap();
    assert_complete(std::slice::from_ref(&before));
    let ticket = orchestrator.submit(request(1, 1_000_000), &[]).await.unwrap();
    let talker = orchestrator.stages()[1].clone();
    let killed = std::process::Command::new("kill").args(["-9", &talker.pid.to_string()]).status().unwrap();
    assert!(killed.success());
    let loss = orchestrator.stage_lost().await;
    let OrchestratorError::StageLost { stage, pid, cause } = &loss else { panic!("{loss:?}") };
    assert_eq!(
        (stage.as_str(), *pid, cause.as_str()),
        ("talker", talker.pid, "its process was killed by signal 9")
    );
    let outcome = ticket.outcome().await.unwrap();
    assert_eq!(outcome.error, Some(ErrorType::StageLost));
    let stages: Vec<_> = outcome.stages.iter().map(|s| (s.stage.as_str(), s.end)).collect();
    assert_eq!(stages, [("thinker", End::Aborted), ("code2wav", End::Aborted)]);
    assert_eq!(orchestrator.submit(request(2, 1), &[]).await.unwrap_err(), loss);
    assert_eq!(orchestrator.shut_down().await.unwrap_err(), loss);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stages_that_do_not_start_are_named() {
    let with = |launch: &str| options("unix", &format!("gate = \"async_chunk\"\nlaunch = {launch}"));
    let error = Orchestrator::start(with(r#"["/no/such/launcher"]"#)).await.err().unwrap().to_string();
    assert!(error.starts_with("can't start stage talker by \"/no/such/launcher\": "), "{error}");
    let error = Orchestrator::start(with(r#"["false"]"#)).await.err().unwrap().to_string();
    assert_eq!(error, "stage talker did not get ready: its process exited with code 1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_orchestrator_leaves_no_process() {
    let orchestrator = Orchestrator::start(options("unix", "")).await.unwrap();
    let pids: Vec<u32> = orchestrator.stages().iter().map(|s| s.pid).collect();
    drop(orchestrator);
    // Ended, not timed: the loop goes on until every process is gone.
    while pids.iter().any(|pid| std::path::Path::new(&format!("/proc/{pid}/exe")).exists()) {
        tokio::task::yield_now().await;
    }
}
