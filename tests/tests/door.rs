//! What callers send at the door: broken contexts, forged ones, one id twice.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use stagespan_pipeline::orchestrator::NewRequest;
use stagespan_tests::jaeger::Jaeger;
use stagespan_tests::pipeline_run::{run_with, spans_of, speech, upstream_of};
use stagespan_tests::request_trace::{RequestTrace, group};
use stagespan_tests::rules::{check_links, check_request, check_resolve};
use stagespan_tests::span::{Span, SpanKind};
use stagespan_tests::viewer::check_shown_as_sent;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

type Headers = Vec<(String, String)>;

fn headers(pairs: &[(&str, &str)]) -> Headers {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Sends one request for each set of headers, with these ids, and returns their spans.
fn send(requests: &[(String, Headers)]) -> anyhow::Result<(Vec<Span>, stagespan_otel::Account)> {
    let jaeger = Jaeger::start()?;
    let ((), account) = run_with(
        &jaeger,
        speech()?,
        &[],
        |_| (),
        async |orchestrator| {
            let mut tickets = Vec::new();
            for (id, headers) in requests {
                let request = NewRequest { request_id: id.clone(), prompt_tokens: 4, output_tokens: 4 };
                tickets.push(orchestrator.submit(request, headers).await.context("submit")?);
            }
            for ticket in tickets {
                ticket.outcome().await.context("outcome")?;
            }
            Ok(())
        },
    )?;
    ensure!(account.is_complete(), "{account}");
    Ok((spans_of(&jaeger, &account)?, account))
}

fn sound(requests: &[RequestTrace], spans: &[Span]) -> anyhow::Result<()> {
    for request in requests {
        check_request(request)?;
        check_links(request, upstream_of)?;
        ensure!(request.stages.len() == 3, "{} stages of {}", request.stages.len(), request.id);
    }
    check_resolve(spans)
}

/// What is kept of each, and what becomes a new root. A parent is never made up.
#[test]
fn a_context_is_taken_as_it_is_or_not_at_all() -> anyhow::Result<()> {
    let sound_context = format!("00-{TRACE}-{PARENT}-03");
    let kept: &[(&str, Headers)] = &[
        ("sound", headers(&[("traceparent", &sound_context)])),
        ("of any case", headers(&[("TraceParent", &sound_context)])),
        ("of a later version", headers(&[("traceparent", &format!("cc-{TRACE}-{PARENT}-01-later"))])),
        ("with a bad tracestate", headers(&[("traceparent", &sound_context), ("tracestate", "a=1,,=,b")])),
    ];
    let refused: &[(&str, Headers)] = &[
        ("without", Headers::new()),
        ("upper case", headers(&[("traceparent", &sound_context.to_uppercase())])),
        ("too short", headers(&[("traceparent", "00-1-1-01")])),
        ("all zero", headers(&[("traceparent", &format!("00-{}-{PARENT}-01", "0".repeat(32)))])),
        ("of version ff", headers(&[("traceparent", &format!("ff-{TRACE}-{PARENT}-01"))])),
        ("with a trailing dash", headers(&[("traceparent", &format!("{sound_context}-"))])),
    ];
    let requests: Vec<(String, Headers)> =
        kept.iter().chain(refused).map(|(id, headers)| ((*id).to_owned(), headers.clone())).collect();
    let (spans, account) = send(&requests)?;
    let traces = group(&spans)?;
    sound(&traces, &spans)?;
    for request in &traces {
        let span = &request.request;
        if kept.iter().any(|(id, _)| *id == request.id) {
            ensure!(
                span.trace_id == TRACE && span.parent.as_deref() == Some(PARENT),
                "{}: {span:?}",
                request.id
            );
            ensure!(span.kind == SpanKind::Server, "{}: {span:?}", request.id);
            ensure!(span.trace_state.is_empty(), "{}: {span:?}", request.id);
        } else {
            ensure!(span.trace_id != TRACE && span.parent.is_none(), "{}: {span:?}", request.id);
            ensure!(span.kind == SpanKind::Internal, "{}: {span:?}", request.id);
        }
    }
    let counters = account.counters;
    assert_eq!(
        (counters.bad_context, counters.bad_tracestate, counters.missing_context),
        (5, 1, 1),
        "{account}"
    );
    Ok(())
}

/// A client that knows our own headers must not get to choose a stage's ids, trace or clock.
#[test]
fn a_clients_own_stage_headers_are_dropped() -> anyhow::Result<()> {
    let forged = headers(&[
        ("stagespan-span", &format!("{TRACE}-{PARENT}-03;same")),
        ("Stagespan-Upstream", &format!("thinker={TRACE}-{PARENT}")),
        ("stagespan-clock", "d=unknown;a=1,1,1;p=1,1;h=elsewhere"),
    ]);
    let (spans, account) = send(&[("forged".to_owned(), forged)])?;
    let traces = group(&spans)?;
    sound(&traces, &spans)?;
    ensure!(spans.iter().all(|span| span.trace_id != TRACE && span.span_id != PARENT), "{spans:?}");
    ensure!(account.counters.refused_joins == 0, "{account}");
    Ok(())
}

/// Two live requests may have one id. Each has its own spans, and its own id inside.
#[test]
fn one_id_many_times_at_once() -> anyhow::Result<()> {
    let requests: Vec<(String, Headers)> = (0..20).map(|_| ("twin".to_owned(), Headers::new())).collect();
    let (spans, _) = send(&requests)?;
    let roots: Vec<&Span> = spans.iter().filter(|span| span.name == "request").collect();
    ensure!(roots.len() == 20 && spans.len() == 20 * 9, "{} requests, {} spans", roots.len(), spans.len());
    let mut internal = BTreeSet::new();
    for root in roots {
        let own: Vec<Span> = spans.iter().filter(|span| span.trace_id == root.trace_id).cloned().collect();
        sound(&group(&own)?, &own)?;
        let ids: BTreeSet<&str> =
            own.iter().filter_map(|span| span.str("stagespan.request.internal_id")).collect();
        ensure!(ids.len() == 1, "stages of one request have {ids:?}");
        internal.extend(ids.into_iter().map(str::to_owned));
    }
    ensure!(internal.len() == 20, "{internal:?}");
    Ok(())
}

/// A long id is cut, and nothing in it can break a line of a log.
#[test]
fn an_id_of_any_kind_is_made_safe() -> anyhow::Result<()> {
    let ids = ["", "line\nbreak\u{1b}[31m", &"ö".repeat(4000)];
    let requests: Vec<(String, Headers)> = ids.iter().map(|id| ((*id).to_owned(), Headers::new())).collect();
    let (spans, account) = send(&requests)?;
    ensure!(spans.len() == 3 * 9, "{} spans", spans.len());
    for span in &spans {
        let id = span.str("stagespan.request.id").context("no id")?;
        ensure!(id.len() <= 256 && !id.chars().any(char::is_control), "{id:?}");
    }
    ensure!(account.counters.cut_request_ids >= 2, "{account}");
    check_shown_as_sent(&spans, Duration::ZERO)
}
