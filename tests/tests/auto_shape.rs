//! The main job in the default shape: 200 requests through three real stage processes into a real Jaeger, held to the
//! nanosecond against what the orchestrator itself returned.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use stagespan_model::{FinishedTimeline, StageRequestStats};
use stagespan_pipeline::outcome::RequestOutcome;
use stagespan_tests::jaeger::Jaeger;
use stagespan_tests::pipeline_run::{self, Calls, Finished, SERVICE, upstream_of};
use stagespan_tests::request_trace::{RequestTrace, StageTrace, group};
use stagespan_tests::rules::{check_links, check_request, check_resolve};
use stagespan_tests::span::{Span, SpanKind, Status, Value};
use stagespan_tests::viewer::check_shown_as_sent;

const REQUESTS: usize = 200;
/// `request`; thinker with `queued`; talker and code2wav with two waits each.
const SPANS_EACH: usize = 1 + 2 + 3 + 3;
/// vLLM's statistics are differences of seconds in double precision.
const STATISTICS_WITHIN_MS: f64 = 1e-6;

#[test]
fn every_figure_is_exact_from_the_scheduler_to_jaeger() -> anyhow::Result<()> {
    let jaeger = Jaeger::start()?;
    let calls = Calls::sampled(REQUESTS as u64);
    let finished = pipeline_run::run(&jaeger, pipeline_run::speech()?, calls, &[])?;
    let spans = pipeline_run::spans_of(&jaeger, &finished.account)?;
    let requests = group(&spans)?;

    nothing_is_lost(&finished, &spans)?;
    ensure!(requests.len() == REQUESTS, "{} requests", requests.len());
    for (request, (outcome, caller)) in
        requests.iter().zip(finished.outcomes.iter().zip(&finished.caller_spans))
    {
        check_request(request)?;
        check_links(request, upstream_of)?;
        one_trace_under_the_caller(request, caller)?;
        as_the_orchestrator_says(request, outcome).with_context(|| format!("request {}", request.id))?;
    }
    check_resolve(&spans)?;
    println!("{} spans of {REQUESTS} requests in {:.2?}: {}", spans.len(), finished.took, finished.account);
    three_processes(&requests, &finished)?;
    both_waits_and_zeros_occur(&requests)?;

    let with_callers: Vec<Span> = spans.into_iter().chain(finished.caller_spans).collect();
    for adjust in [Duration::ZERO, Duration::from_secs(10)] {
        check_shown_as_sent(&with_callers, adjust)
            .with_context(|| format!("with skew adjustment {adjust:?}"))?;
    }
    Ok(())
}

fn nothing_is_lost(finished: &Finished, spans: &[Span]) -> anyhow::Result<()> {
    let account = &finished.account;
    ensure!(account.is_balanced() && account.is_complete(), "{account}");
    ensure!((account.rejected, account.dropped.total(), account.pending) == (0, 0, 0), "{account}");
    ensure!(spans.len() == REQUESTS * SPANS_EACH, "{} spans, account {account}", spans.len());
    ensure!(usize::try_from(account.produced)? == spans.len(), "{account}, and Jaeger has {}", spans.len());
    Ok(())
}

fn one_trace_under_the_caller(request: &RequestTrace, caller: &Span) -> anyhow::Result<()> {
    let span = &request.request;
    ensure!(span.trace_id == caller.trace_id && span.parent.as_ref() == Some(&caller.span_id), "{span:?}");
    ensure!(span.kind == SpanKind::Server, "called from outside, and yet {:?}", span.kind);
    ensure!(caller.start_ns <= span.start_ns && span.end_ns <= caller.end_ns, "{span:?} in {caller:?}");
    for one in request.spans() {
        ensure!(one.trace_id == caller.trace_id, "{} is in another trace", one.name);
        ensure!(one.status == Status::Unset, "{one:?}");
        ensure!(one.flags & 0xff == 3, "flags {:#x} of {}", one.flags, one.name);
        ensure!(one.resource_str("service.name") == Some(SERVICE), "{:?}", one.resource);
        ensure!(one.resource_str("host.id") == span.resource_str("host.id"), "{:?}", one.resource);
    }
    ensure!(span.attributes.keys().any(|key| key.starts_with("gen_ai.usage.")), "no tokens: {span:?}");
    Ok(())
}

/// Spans, timelines and statistics are three views of the same instants.
fn as_the_orchestrator_says(request: &RequestTrace, outcome: &RequestOutcome) -> anyhow::Result<()> {
    ensure!(
        request.id == outcome.request_id.as_str(),
        "{} is not {}",
        request.id,
        outcome.request_id.as_str()
    );
    let trace_id = outcome.trace_id.map(|id| id.to_string());
    ensure!(trace_id.as_ref() == Some(&request.request.trace_id), "trace {trace_id:?}");
    ensure!(outcome.error.is_none(), "{:?}", outcome.error);
    ensure!(request.stages.len() == 3 && outcome.stages.len() == 3, "{} stages", request.stages.len());
    for (number, (stage, told)) in request.stages.iter().zip(&outcome.stages).enumerate() {
        let timeline = told.timeline.as_ref().context("no timeline")?;
        let reason = if number == 0 { "first_stage" } else { "measured" };
        ensure!(stage.span.str("stagespan.split") == Some(reason), "{:?}", stage.span);
        ensure!(timeline.split().as_str() == reason, "{timeline:?}");
        ensure!(stage.span.str("stagespan.end") == Some(told.end.as_str()), "{:?}", stage.span);
        ensure!(stage.span.int("stagespan.tokens.output") == Some(told.tokens_output.into()), "{told:?}");
        same_instants(stage, timeline)?;
        same_statistics(&told.stats, timeline)?;
        if number == 0 {
            ensure!(stage.children.len() == 1 && stage.child("queued").is_some(), "{:?}", stage.children);
        }
    }
    Ok(())
}

fn same_instants(stage: &StageTrace, timeline: &FinishedTimeline) -> anyhow::Result<()> {
    let split = timeline.split();
    let expected = [
        ("stagespan.queued_ns", timeline.queued_ns()),
        ("stagespan.input_wait_ns", split.input_wait_ns()),
        ("stagespan.ready_queued_ns", split.ready_queued_ns()),
        ("stagespan.prefill_ns", timeline.prefill_ns()),
        ("stagespan.decode_ns", timeline.decode_ns()),
    ];
    for (key, ns) in expected {
        let ns = ns.map(i64::try_from).transpose()?;
        ensure!(stage.span.int(key) == ns, "{key} is {:?}, measured {ns:?}", stage.span.int(key));
    }
    let resolution =
        stage.child("input_wait").and_then(|wait| wait.int("stagespan.input_wait.resolution_ns"));
    ensure!(resolution == timeline.resolution_ns().map(i64::try_from).transpose()?, "{resolution:?}");
    // The span may be longer by the one nanosecond that a measured zero takes.
    let length_ns = stage.span.end_ns - stage.span.start_ns;
    let measured_ns = timeline.ended().as_ns() - timeline.queued().as_ns();
    ensure!(
        length_ns == measured_ns || length_ns == measured_ns + 1,
        "{length_ns} ns long, measured {measured_ns}"
    );
    Ok(())
}

fn same_statistics(stats: &StageRequestStats, timeline: &FinishedTimeline) -> anyhow::Result<()> {
    let split = timeline.split();
    let mut expected = vec![
        (stats.vllm_queued_ms, timeline.queued_ns()),
        (stats.vllm_input_wait_ms, split.input_wait_ns()),
        (stats.vllm_ready_queued_ms, split.ready_queued_ns()),
    ];
    // vLLM times prefill and decode by outputs, tokens or not; a generation stage has outputs and no tokens, and so
    // statistics of both and no phase of either.
    if timeline.tokens_output() > 0 {
        expected.push((stats.vllm_prefill_ms, timeline.prefill_ns()));
        expected.push((stats.vllm_decode_ms, timeline.decode_ns()));
    }
    for (ms, ns) in expected {
        // Nanoseconds of a run of seconds are exact in a double.
        let same = match (ms, ns) {
            (Some(ms), Some(ns)) => (ms - ns as f64 / 1e6).abs() <= STATISTICS_WITHIN_MS,
            (ms, ns) => ms.is_none() && ns.is_none(),
        };
        ensure!(same, "{stats:?} is not {timeline:?}");
    }
    Ok(())
}

/// Each stage is its own process, and no stage is the orchestrator's.
fn three_processes(requests: &[RequestTrace], finished: &Finished) -> anyhow::Result<()> {
    let mut processes: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
    let mut instances = BTreeSet::new();
    for span in requests.iter().flat_map(RequestTrace::spans) {
        let Some(Value::Int(pid)) = span.resource.get("process.pid") else {
            anyhow::bail!("{:?}", span.resource)
        };
        let stage = span.str("stagespan.stage.name").unwrap_or("request");
        processes.entry(stage.to_owned()).or_default().insert(*pid);
        instances.insert(span.resource_str("service.instance.id").context("no service.instance.id")?);
    }
    let mut expected: BTreeMap<String, BTreeSet<i64>> = finished
        .stages
        .iter()
        .map(|s| (s.name.as_str().to_owned(), BTreeSet::from([i64::from(s.pid)])))
        .collect();
    expected.insert("request".to_owned(), BTreeSet::from([i64::from(std::process::id())]));
    ensure!(processes == expected, "{processes:?} are not {expected:?}");
    let pids: BTreeSet<i64> = processes.values().flatten().copied().collect();
    ensure!(pids.len() == 4 && instances.len() == 4, "processes {pids:?}, instances {instances:?}");
    Ok(())
}

/// Guards the test itself: a run in which nothing waits, or no zero is measured, would prove little.
fn both_waits_and_zeros_occur(requests: &[RequestTrace]) -> anyhow::Result<()> {
    let figures = |stage: &'static str, key: &'static str| {
        requests.iter().filter_map(move |request| request.stage(stage)?.span.int(key))
    };
    ensure!(
        figures("talker", "stagespan.input_wait_ns").any(|ns| ns > 0),
        "the talker never waits for input"
    );
    ensure!(
        figures("talker", "stagespan.ready_queued_ns").any(|ns| ns > 0),
        "no ready talker request queues"
    );
    ensure!(figures("code2wav", "stagespan.ready_queued_ns").any(|ns| ns == 0), "code2wav measures no zero");
    Ok(())
}
