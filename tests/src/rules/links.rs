//! The rules on links: what is in another trace is linked, both ways, and what is the parent is not.

use std::collections::HashSet;

use anyhow::{Context as _, ensure};

use crate::request_trace::{RequestTrace, StageTrace};
use crate::span::{Link, Span};

/// What a link says that it is.
fn role(link: &Link) -> &str {
    link.attributes.get("stagespan.link").and_then(crate::span::Value::as_str).unwrap_or_default()
}

fn points_at(link: &Link, span: &Span) -> bool {
    link.trace_id == span.trace_id && link.span_id == span.span_id
}

/// The rules on the links between a request's spans. `upstream_of` names the stages that feed a stage.
///
/// # Errors
/// What is wrong, with the link.
pub fn check_links<'a>(
    trace: &RequestTrace,
    upstream_of: impl Fn(&str) -> Vec<&'a str>,
) -> anyhow::Result<()> {
    let request = &trace.request;
    for span in trace.spans() {
        for link in &span.links {
            let to_parent = link.trace_id == span.trace_id && span.parent.as_ref() == Some(&link.span_id);
            ensure!(!to_parent, "`{}` links to its own parent, which Jaeger then drops", span.name);
        }
    }
    let own: Vec<&StageTrace> =
        trace.stages.iter().filter(|stage| stage.span.trace_id != request.trace_id).collect();
    ensure!(
        request.links.len() == own.len(),
        "`request` has {} links, and {} stages have a trace of their own",
        request.links.len(),
        own.len()
    );
    for link in &request.links {
        let stage = own.iter().find(|stage| points_at(link, &stage.span));
        let stage = stage.with_context(|| format!("a link of `request` leads to no stage: {link:?}"))?;
        ensure!(role(link) == "stage", "a link of `request` says {:?}", role(link));
        attribute(request, stage.name(), &stage.span)?;
    }
    for stage in &trace.stages {
        check_stage_links(trace, stage, &upstream_of(stage.name()))
            .with_context(|| format!("request {}, stage {}", trace.id, stage.name()))?;
    }
    Ok(())
}

fn check_stage_links(trace: &RequestTrace, stage: &StageTrace, upstreams: &[&str]) -> anyhow::Result<()> {
    let (span, own_trace) = (&stage.span, stage.span.trace_id != trace.request.trace_id);
    let to_request: Vec<&Link> = span.links.iter().filter(|link| role(link) == "request").collect();
    ensure!(to_request.len() == usize::from(own_trace), "links to `request`: {to_request:?}");
    if own_trace {
        ensure!(points_at(to_request[0], &trace.request), "the link to `request` leads elsewhere");
        attribute(span, "request", &trace.request)?;
    }
    let to_upstreams: Vec<&Link> = span.links.iter().filter(|link| role(link) == "upstream").collect();
    ensure!(to_upstreams.len() == upstreams.len(), "links to upstream stages: {to_upstreams:?}");
    ensure!(span.links.len() == to_request.len() + to_upstreams.len(), "other links: {:?}", span.links);
    // A lost upstream stage has no span: the link to it is there and leads nowhere.
    for upstream in upstreams.iter().filter_map(|name| trace.stage(name)) {
        ensure!(
            to_upstreams.iter().any(|link| points_at(link, &upstream.span)),
            "no link to {}",
            upstream.name()
        );
        attribute(span, upstream.name(), &upstream.span)?;
    }
    Ok(())
}

/// Viewers show links without names, so the linked trace's id stands as an attribute too.
fn attribute(span: &Span, name: &str, linked: &Span) -> anyhow::Result<()> {
    let key = format!("stagespan.link.{name}");
    ensure!(
        span.str(&key) == Some(&linked.trace_id),
        "{key} is {:?}, not {}",
        span.str(&key),
        linked.trace_id
    );
    Ok(())
}

/// Every link of these spans leads to one of them.
///
/// # Errors
/// The first that does not.
pub fn check_resolve(spans: &[Span]) -> anyhow::Result<()> {
    let known: HashSet<(&str, &str)> =
        spans.iter().map(|span| (span.trace_id.as_str(), span.span_id.as_str())).collect();
    for span in spans {
        for link in &span.links {
            let found = known.contains(&(link.trace_id.as_str(), link.span_id.as_str()));
            ensure!(found, "a link of `{}` leads nowhere: {link:?}", span.name);
        }
    }
    Ok(())
}
