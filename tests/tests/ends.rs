//! Every way to end that a caller, a gate or a shutdown can bring about, in real processes: one span per stage, each saying
//! how it ended and which wait was cut short.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use stagespan_model::ErrorType;
use stagespan_pipeline::orchestrator::{NewRequest, Orchestrator, Ticket};
use stagespan_pipeline::pipeline_file::Pipeline;
use stagespan_tests::jaeger::Jaeger;
use stagespan_tests::pipeline_run::{SPEECH, run_with, spans_of, speech, upstream_of};
use stagespan_tests::request_trace::{RequestTrace, StageTrace, group};
use stagespan_tests::rules::{check_links, check_request};
use stagespan_tests::span::{Status, Value};

async fn submit(orchestrator: &Orchestrator, id: &str, tokens: u32) -> anyhow::Result<Ticket> {
    let request = NewRequest { request_id: id.to_owned(), prompt_tokens: tokens, output_tokens: tokens };
    orchestrator.submit(request, &[]).await.context("submit")
}

/// The thinker takes an hour for its first step: nothing ever reaches the talker.
fn stuck() -> anyhow::Result<Pipeline> {
    let stuck = SPEECH.replacen("chunk_tokens = 4", "chunk_tokens = 4\nstart_cost_ms = 3600000", 1);
    Pipeline::parse(&stuck, "stuck").context("the stuck pipeline")
}

fn requests(jaeger: &Jaeger, account: &stagespan_otel::Account) -> anyhow::Result<Vec<RequestTrace>> {
    ensure!(account.is_complete() && account.is_balanced(), "{account}");
    let requests = group(&spans_of(jaeger, account)?)?;
    for request in &requests {
        check_request(request)?;
        check_links(request, upstream_of)?;
    }
    Ok(requests)
}

/// The stage failed so, and so did its last child, which the end cut short. The figures of the split stay absent.
fn check_cut_short(stage: &StageTrace, end: &str, error: &str, child: &str) -> anyhow::Result<()> {
    ensure!(stage.span.str("stagespan.end") == Some(end), "{:?}", stage.span);
    let last = stage.children.last().context("no children")?;
    ensure!(last.name == child, "{:?}", stage.children);
    for span in [&stage.span, last] {
        ensure!(matches!(span.status, Status::Error(_)) && span.str("error.type") == Some(error), "{span:?}");
    }
    ensure!(last.attributes.get("stagespan.truncated") == Some(&Value::Bool(true)), "{last:?}");
    ensure!(last.end_ns == stage.span.end_ns, "{last:?} does not end with {:?}", stage.span);
    for figure in ["stagespan.queued_ns", "stagespan.input_wait_ns", "stagespan.ready_queued_ns"] {
        ensure!(!stage.span.attributes.contains_key(figure), "{figure} of {:?}", stage.span);
    }
    Ok(())
}

#[test]
fn an_abort_while_the_talker_waits_for_its_input() -> anyhow::Result<()> {
    let jaeger = Jaeger::start()?;
    let ((), account) = run_with(
        &jaeger,
        stuck()?,
        &[],
        |_| (),
        async |orchestrator| {
            let ticket = submit(orchestrator, "taken-back", 8).await?;
            orchestrator.abort(ticket.internal_id()).await;
            // A stage in the middle of its step answers when that is over, or when it is told to end.
            let _ = tokio::time::timeout(Duration::from_millis(500), ticket.outcome()).await;
            Ok(())
        },
    )?;
    let requests = requests(&jaeger, &account)?;
    let [request] = &requests[..] else { anyhow::bail!("{} requests", requests.len()) };
    check_cut_short(request.stage("talker").context("no talker")?, "aborted", "aborted", "input_wait")?;
    check_cut_short(request.stage("code2wav").context("no code2wav")?, "aborted", "aborted", "input_wait")
}

#[test]
fn a_gate_that_gives_up() -> anyhow::Result<()> {
    let jaeger = Jaeger::start()?;
    let within_ns = 50_000_000;
    let ((), account) = run_with(
        &jaeger,
        stuck()?,
        &[],
        |options| options.input_wait_timeout_ns = within_ns,
        async |orchestrator| {
            let ticket = submit(orchestrator, "starved", 8).await?;
            // The talker's and code2wav's ends are told at once, the thinker's when it is told to end.
            let _ = tokio::time::timeout(Duration::from_millis(500), ticket.outcome()).await;
            Ok(())
        },
    )?;
    let requests = requests(&jaeger, &account)?;
    let [request] = &requests[..] else { anyhow::bail!("{} requests", requests.len()) };
    ensure!(matches!(request.request.status, Status::Error(_)), "{:?}", request.request);
    // Whichever gate gave up first, the other stages were aborted.
    let timed_out: Vec<&StageTrace> =
        request.stages.iter().filter(|stage| stage.span.str("stagespan.end") == Some("timeout")).collect();
    ensure!(!timed_out.is_empty(), "no gate gave up: {:?}", request.stages);
    for stage in timed_out {
        check_cut_short(stage, "timeout", "input_timeout", "input_wait")?;
        let waited = stage.child("input_wait").and_then(|wait| wait.int("stagespan.duration_ns"));
        ensure!(waited >= Some(i64::try_from(within_ns)?), "gave up after {waited:?} ns");
    }
    ensure!(request.request.str("error.type") == Some("input_timeout"), "{:?}", request.request);
    Ok(())
}

#[test]
fn a_request_too_large_for_the_talker() -> anyhow::Result<()> {
    let small = SPEECH.replacen("max_num_seqs = 8", "max_num_seqs = 8\nkv_blocks = 4\nblock_size = 2", 1);
    let jaeger = Jaeger::start()?;
    let pipeline = Pipeline::parse(&small, "small").context("the small pipeline")?;
    // An async_chunk stage is given no more than its first chunk, so the whole payload it is.
    let mut pipeline = pipeline;
    for stage in &mut pipeline.stages[1..] {
        stage.gate = stagespan_model::Gate::FullPayload;
    }
    let (outcome, account) = run_with(
        &jaeger,
        pipeline,
        &[],
        |_| (),
        async |orchestrator| submit(orchestrator, "large", 64).await?.outcome().await.context("outcome"),
    )?;
    ensure!(outcome.error == Some(ErrorType::Rejected), "{outcome:?}");
    let requests = requests(&jaeger, &account)?;
    let [request] = &requests[..] else { anyhow::bail!("{} requests", requests.len()) };
    let talker = request.stage("talker").context("no talker")?;
    ensure!(talker.span.str("stagespan.end") == Some("rejected"), "{:?}", talker.span);
    ensure!(talker.span.str("error.type") == Some("rejected"), "{:?}", talker.span);
    ensure!(request.request.str("error.type") == Some("rejected"), "{:?}", request.request);
    ensure!(request.stage("code2wav").is_none(), "it never got there: {:?}", request.stages);
    Ok(())
}

#[test]
fn a_shutdown_with_requests_in_flight() -> anyhow::Result<()> {
    let jaeger = Jaeger::start()?;
    let slow = SPEECH.replace("step_us = 200", "step_us = 20000");
    let pipeline = Pipeline::parse(&slow, "slow").context("the slow pipeline")?;
    let (tickets, account) = run_with(
        &jaeger,
        pipeline,
        &[],
        |_| (),
        async |orchestrator| {
            let mut tickets = Vec::new();
            for number in 0..30 {
                tickets.push(submit(orchestrator, &format!("cut-{number}"), 64).await?);
            }
            Ok(tickets)
        },
    )?;
    let requests = requests(&jaeger, &account)?;
    ensure!(requests.len() == tickets.len(), "{} requests of {}", requests.len(), tickets.len());
    for request in &requests {
        ensure!(request.request.str("error.type") == Some("shutdown"), "{:?}", request.request);
        ensure!(!request.stages.is_empty(), "no stage of {}", request.id);
        for stage in &request.stages {
            let end = stage.span.str("stagespan.end");
            ensure!(end == Some("shutdown") || end == Some("aborted"), "{:?}", stage.span);
        }
    }
    Ok(())
}

/// After its first SCHEDULED an abort is how a stop string found by the front end arrives: no failure.
#[test]
fn an_abort_of_what_runs_is_no_failure() -> anyhow::Result<()> {
    let jaeger = Jaeger::start()?;
    let pipeline = speech()?;
    let ((), account) = run_with(
        &jaeger,
        pipeline,
        &[],
        |_| (),
        async |orchestrator| {
            // Runs for minutes on the thinker, in steps of a fraction of a millisecond.
            let long = NewRequest { request_id: "long".to_owned(), prompt_tokens: 8, output_tokens: 500_000 };
            let ticket = orchestrator.submit(long, &[]).await.context("submit")?;
            // A later and shorter one is over, of many chunks: the long one, which was there before it and gets as many, has been
            // scheduled on every stage.
            let short = submit(orchestrator, "short", 64).await?.outcome().await.context("outcome")?;
            ensure!(short.error.is_none(), "{short:?}");
            orchestrator.abort(ticket.internal_id()).await;
            let outcome = ticket.outcome().await.context("outcome")?;
            ensure!(outcome.error.is_none(), "{outcome:?}");
            Ok(())
        },
    )?;
    let requests = requests(&jaeger, &account)?;
    let long = requests.iter().find(|request| request.id == "long").context("no long request")?;
    ensure!(long.request.status == Status::Unset, "{:?}", long.request);
    for stage in &long.stages {
        ensure!(stage.span.str("stagespan.end") == Some("aborted"), "{:?}", stage.span);
        ensure!(stage.span.status == Status::Unset, "{:?}", stage.span);
        ensure!(stage.span.int("stagespan.queued_ns").is_some(), "{:?}", stage.span);
    }
    ensure!(long.stages.len() == 3, "{} stages", long.stages.len());
    Ok(())
}
