//! A stage on another clock: the talker's monotonic clock is 100,000 s ahead of all others.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use stagespan_pipeline::pipeline_file::Pipeline;
use stagespan_tests::jaeger::Jaeger;
use stagespan_tests::pipeline_run::{self, Calls, Finished, upstream_of};
use stagespan_tests::request_trace::{RequestTrace, group};
use stagespan_tests::rules::{check_links, check_request, check_resolve};
use stagespan_tests::span::Span;
use stagespan_tests::viewer::check_shown_as_sent;

const REQUESTS: usize = 60;
const AHEAD: [&str; 5] = ["unshare", "--time", "--fork", "--monotonic", "100000"];
/// Wall clocks are one here, so spans of both monotonic clocks lie where they were, give or take what two anchors differ.
const ANCHORS_WITHIN_NS: u64 = 100_000_000;

fn talker_ahead() -> anyhow::Result<Pipeline> {
    let mut pipeline = pipeline_run::speech()?;
    let talker = pipeline.stages.iter_mut().find(|stage| stage.name == "talker").context("no talker")?;
    talker.launch = AHEAD.iter().map(|word| (*word).to_owned()).collect();
    Ok(pipeline)
}

fn run(shape: &str) -> anyhow::Result<(Finished, Vec<Span>, Vec<RequestTrace>)> {
    let jaeger = Jaeger::start()?;
    let calls = Calls::sampled(REQUESTS as u64);
    let finished = pipeline_run::run(&jaeger, talker_ahead()?, calls, &[("STAGESPAN_TRACE_SHAPE", shape)])?;
    let spans = pipeline_run::spans_of(&jaeger, &finished.account)?;
    ensure!(finished.account.is_complete(), "{}", finished.account);
    let requests = group(&spans)?;
    ensure!(requests.len() == REQUESTS, "{} requests", requests.len());
    Ok((finished, spans, requests))
}

#[test]
fn auto_gives_the_stage_on_the_other_clock_its_own_trace() -> anyhow::Result<()> {
    let (finished, spans, requests) = run("auto")?;
    let longest_ns = u64::try_from(finished.took.as_nanos())?;
    for request in &requests {
        // Every child inside its parent to the nanosecond, on either clock.
        check_request(request)?;
        check_links(request, upstream_of)?;
        only_the_talker_is_apart(request)?;
        figures_are_of_the_runs_size(request, longest_ns)?;
    }
    check_resolve(&spans)?;
    ensure!(finished.account.counters.refused_joins == 0, "{}", finished.account);
    let with_callers: Vec<Span> = spans.into_iter().chain(finished.caller_spans).collect();
    for adjust in [Duration::ZERO, Duration::from_secs(10)] {
        check_shown_as_sent(&with_callers, adjust)?;
    }
    Ok(())
}

fn only_the_talker_is_apart(request: &RequestTrace) -> anyhow::Result<()> {
    ensure!(request.stages.len() == 3, "{} stages", request.stages.len());
    let domain = |name: &str| {
        let stage = request.stage(name).with_context(|| format!("no {name}"))?;
        Ok::<_, anyhow::Error>((
            stage.span.trace_id == request.request.trace_id,
            stage.span.str("stagespan.clock.domain").context("no clock domain")?,
        ))
    };
    let (thinker, talker, code2wav) = (domain("thinker")?, domain("talker")?, domain("code2wav")?);
    ensure!((thinker.0, talker.0, code2wav.0) == (true, false, true), "{thinker:?} {talker:?} {code2wav:?}");
    ensure!(thinker.1 == code2wav.1 && thinker.1 != talker.1, "{thinker:?} {talker:?} {code2wav:?}");
    Ok(())
}

/// 100,000 s that got into any figure or place would stick out of a run of a second.
fn figures_are_of_the_runs_size(request: &RequestTrace, longest_ns: u64) -> anyhow::Result<()> {
    for stage in &request.stages {
        let figures = stage.span.attributes.iter().filter(|(key, _)| key.ends_with("_ns"));
        for (key, _) in figures {
            let ns = stage.span.int(key).and_then(|ns| u64::try_from(ns).ok());
            ensure!(ns.is_some_and(|ns| ns <= longest_ns), "{key} is {ns:?} in a run of {longest_ns} ns");
        }
        ensure!(stage.span.str("stagespan.split") != Some("invalid_time"), "{:?}", stage.span);
        let (span, whole) = (&stage.span, &request.request);
        let placed = whole.start_ns <= span.start_ns + ANCHORS_WITHIN_NS
            && span.end_ns <= whole.end_ns + ANCHORS_WITHIN_NS;
        ensure!(placed, "{span:?} is not near {whole:?}");
    }
    Ok(())
}

/// `joined` puts it into the request's trace on demand, and says on the span that its times are another clock's.
#[test]
fn joined_forces_it_in_and_says_so() -> anyhow::Result<()> {
    let (_, spans, requests) = run("joined")?;
    for request in &requests {
        check_request(request)?;
        check_links(request, upstream_of)?;
        for stage in &request.stages {
            ensure!(stage.span.trace_id == request.request.trace_id, "{:?}", stage.span);
            let shared = stage.span.attributes.get("stagespan.clock.shared");
            let expected = (stage.name() == "talker").then_some(&stagespan_tests::span::Value::Bool(false));
            ensure!(shared == expected, "{}: {shared:?}", stage.name());
        }
    }
    check_resolve(&spans)
}

/// The same waits as without the other clock: the talker is as slow as its slots make it, whatever its clock says.
#[test]
fn its_figures_are_those_of_the_same_run_on_one_clock() -> anyhow::Result<()> {
    let jaeger = Jaeger::start()?;
    let calls = Calls::sampled(REQUESTS as u64);
    let finished = pipeline_run::run(&jaeger, pipeline_run::speech()?, calls, &[])?;
    let one_clock = group(&pipeline_run::spans_of(&jaeger, &finished.account)?)?;
    let (_, _, apart) = run("auto")?;
    let (one_clock, apart) = (longest_queued_ns(&one_clock)?, longest_queued_ns(&apart)?);
    println!("the talker's longest queued time: {one_clock} ns on one clock, {apart} ns apart");
    // Machines have moods; an offset of 100,000 s is eight orders of magnitude.
    ensure!(apart < one_clock * 1000 && one_clock < apart * 1000, "{apart} ns against {one_clock} ns");
    Ok(())
}

fn longest_queued_ns(requests: &[RequestTrace]) -> anyhow::Result<i64> {
    let queued =
        requests.iter().filter_map(|request| request.stage("talker")?.span.int("stagespan.queued_ns"));
    queued.max().context("the talker was never queued")
}
