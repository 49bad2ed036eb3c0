//! The shape `linked`: every stage in a trace of its own, found from either side by links.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use stagespan_tests::caller::Caller;
use stagespan_tests::jaeger::Jaeger;
use stagespan_tests::pipeline_run::{self, Calls, upstream_of};
use stagespan_tests::request_trace::{RequestTrace, group};
use stagespan_tests::rules::{check_links, check_request, check_resolve};
use stagespan_tests::span::Span;
use stagespan_tests::viewer::check_shown_as_sent;

const REQUESTS: usize = 200;
const LINKED: [(&str, &str); 1] = [("STAGESPAN_TRACE_SHAPE", "linked")];
/// `request`; thinker with `queued`; talker and code2wav with two waits each.
const SPANS_EACH: usize = 1 + 2 + 3 + 3;

/// Every other caller brings randomness of its own, as a sampling caller does.
fn callers() -> Vec<Caller> {
    (0..REQUESTS as u64)
        .map(|number| match number % 2 {
            0 => Caller::new(number),
            _ => Caller::new(number).with_trace_state(&format!("vendor=7,ot=rv:{number:014x}")),
        })
        .collect()
}

#[test]
fn every_stage_has_its_own_trace_and_links_lead_both_ways() -> anyhow::Result<()> {
    let jaeger = Jaeger::start()?;
    let callers = callers();
    let finished = pipeline_run::run(&jaeger, pipeline_run::speech()?, Calls::of(callers.clone()), &LINKED)?;
    let spans = pipeline_run::spans_of(&jaeger, &finished.account)?;
    ensure!(finished.account.is_complete() && spans.len() == REQUESTS * SPANS_EACH, "{}", finished.account);
    let requests = group(&spans)?;
    ensure!(requests.len() == REQUESTS, "{} requests", requests.len());
    for (request, caller) in requests.iter().zip(&callers) {
        check_request(request)?;
        check_links(request, upstream_of)?;
        own_traces(request)?;
        sampled_alike(request, caller)?;
    }
    // Both ways: every link of every span leads to a span that Jaeger holds.
    check_resolve(&spans)?;
    let with_callers: Vec<Span> = spans.into_iter().chain(finished.caller_spans).collect();
    for adjust in [Duration::ZERO, Duration::from_secs(10)] {
        check_shown_as_sent(&with_callers, adjust)?;
    }
    Ok(())
}

fn own_traces(request: &RequestTrace) -> anyhow::Result<()> {
    ensure!(request.stages.len() == 3, "{} stages", request.stages.len());
    let traces: BTreeSet<&str> = request.spans().map(|span| span.trace_id.as_str()).collect();
    ensure!(traces.len() == 4, "{} traces: {traces:?}", traces.len());
    ensure!(request.request.links.len() == 3, "{:?}", request.request.links);
    Ok(())
}

/// A collector that samples by probability decides by `rv`, or where there is none by the trace id's low 56 bits. All
/// traces of a request show it the same number.
fn sampled_alike(request: &RequestTrace, caller: &Caller) -> anyhow::Result<()> {
    let state = &request.request.trace_state;
    ensure!(state == caller.trace_state(), "the caller's tracestate {} became {state}", caller.trace_state());
    let randomness = match state.split_once("rv:") {
        Some((_, rv)) => rv,
        None => &request.request.trace_id[18..],
    };
    for stage in &request.stages {
        for span in stage.spans() {
            ensure!(span.trace_state == format!("ot=rv:{randomness}"), "{}: {}", span.name, span.trace_state);
            // Sampled, and with a trace id whose randomness may be relied on.
            ensure!(span.flags & 0xff == 3, "{}: flags {:#x}", span.name, span.flags);
        }
    }
    Ok(())
}

#[test]
fn what_the_caller_does_not_sample_is_recorded_by_no_stage() -> anyhow::Result<()> {
    for shape in ["auto", "linked"] {
        let jaeger = Jaeger::start()?;
        let callers = (0..40).map(Caller::new);
        let callers =
            callers.enumerate().map(|(n, caller)| if n % 4 == 0 { caller } else { caller.unsampled() });
        let finished = pipeline_run::run(
            &jaeger,
            pipeline_run::speech()?,
            Calls::of(callers.collect()),
            &[("STAGESPAN_TRACE_SHAPE", shape)],
        )?;
        let requests = group(&pipeline_run::spans_of(&jaeger, &finished.account)?)?;
        let sampled: Vec<&str> = requests.iter().map(|request| request.id.as_str()).collect();
        let expected: Vec<String> = (0..40).step_by(4).map(pipeline_run::request_id).collect();
        assert_eq!(sampled, expected, "shape {shape}");
        assert_eq!(finished.account.produced, 10 * SPANS_EACH as u64, "{}", finished.account);
        assert_eq!(finished.account.counters.unsampled, 30 * 3, "stage records: {}", finished.account);
    }
    Ok(())
}
