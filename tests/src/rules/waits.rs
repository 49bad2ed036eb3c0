//! The rules on times: figures that add up, children that are exactly where and as long as the figures say.

use anyhow::{Context as _, ensure};

use crate::request_trace::{RequestTrace, StageTrace};
use crate::span::{Span, SpanKind, Status};

/// The rules on one request's spans: parents, kinds, names, and those of [`check_stage`] for each stage.
///
/// # Errors
/// What is wrong, with the span.
pub fn check_request(trace: &RequestTrace) -> anyhow::Result<()> {
    let request = &trace.request;
    ensure!(request.start_ns < request.end_ns, "`request` has no length: {request:?}");
    for stage in &trace.stages {
        check_stage(stage).with_context(|| format!("request {}, stage {}", trace.id, stage.name()))?;
        let joined = stage.span.trace_id == request.trace_id;
        let parent = joined.then(|| request.span_id.clone());
        ensure!(stage.span.parent == parent, "the parent is {:?}, not {parent:?}", stage.span.parent);
        let tokens = stage.spans().find(|span| span.attributes.keys().any(|key| key.starts_with("gen_ai.")));
        ensure!(tokens.is_none(), "tokens would be billed twice: {tokens:?}");
        // A child on the same clock is inside its parent to the nanosecond. One that was refused or forced is on
        // another clock, where inside means nothing.
        if joined && !stage.span.attributes.contains_key("stagespan.clock.shared") {
            inside(&stage.span, request)?;
        }
    }
    Ok(())
}

/// The rules on a stage's span and its children.
///
/// # Errors
/// What is wrong, with the span.
pub fn check_stage(stage: &StageTrace) -> anyhow::Result<()> {
    let span = &stage.span;
    ensure!(span.name == format!("stage {}", stage.name()), "the name is {:?}", span.name);
    for one in stage.spans() {
        ensure!(one.kind == SpanKind::Internal, "{} is {:?}", one.name, one.kind);
        ensure!(one.end_ns > one.start_ns, "no length: {one:?}");
        for key in ["stagespan.stage.id", "stagespan.stage.name", "stagespan.stage.replica_id"] {
            ensure!(one.attributes.contains_key(key), "{} has no {key}", one.name);
            ensure!(one.attributes[key] == span.attributes[key], "{} has another {key}", one.name);
        }
        ensure!(one.resource == span.resource, "{} is of another process", one.name);
    }
    ensure!(span.resource_str("host.id").is_some(), "no host.id: {:?}", span.resource);
    ensure!(
        span.resource_str("host.id") == span.resource_str("ip"),
        "ip is not host.id: {:?}",
        span.resource
    );
    for child in &stage.children {
        ensure!(child.trace_id == span.trace_id && child.parent.as_ref() == Some(&span.span_id), "{child:?}");
        inside(child, span)?;
        ensure!(child.links.is_empty(), "a child has links: {child:?}");
        let measured_ns = child.int("stagespan.duration_ns").context("a child without its duration")?;
        // A measured zero is one nanosecond long, since a span without length would be warned about.
        let length_ns = i64::try_from(child.end_ns - child.start_ns)?;
        ensure!(
            length_ns == measured_ns.max(1),
            "{} is {length_ns} ns long, measured {measured_ns}",
            child.name
        );
    }
    running(stage)?;
    match span.str("stagespan.split") {
        Some("measured") => split(stage),
        Some(_) => unsplit(stage),
        None => anyhow::bail!("no stagespan.split: {span:?}"),
    }
}

fn split(stage: &StageTrace) -> anyhow::Result<()> {
    let span = &stage.span;
    let int = |key: &str| span.int(key).with_context(|| format!("no {key} on {span:?}"));
    let queued_ns = int("stagespan.queued_ns")?;
    let (input_wait_ns, ready_queued_ns) =
        (int("stagespan.input_wait_ns")?, int("stagespan.ready_queued_ns")?);
    ensure!(input_wait_ns >= 0 && ready_queued_ns >= 0, "a negative wait: {span:?}");
    ensure!(
        input_wait_ns + ready_queued_ns == queued_ns,
        "{input_wait_ns} + {ready_queued_ns} is not {queued_ns}"
    );
    let input_wait = stage.child("input_wait").context("no `input_wait`")?;
    let ready_queued = stage.child("ready_queued").context("no `ready_queued`")?;
    ensure!(stage.child("queued").is_none(), "split, and yet a `queued` child");
    ensure!(input_wait.int("stagespan.duration_ns") == Some(input_wait_ns), "{input_wait:?}");
    ensure!(ready_queued.int("stagespan.duration_ns") == Some(ready_queued_ns), "{ready_queued:?}");
    ensure!(input_wait.start_ns == span.start_ns, "`input_wait` does not begin at QUEUED");
    let edge_ns = input_wait.start_ns + u64::try_from(input_wait_ns)?;
    ensure!(
        ready_queued.start_ns == edge_ns,
        "`ready_queued` begins at {}, not {edge_ns}",
        ready_queued.start_ns
    );
    Ok(())
}

/// Where there are spans of the running phases (`STAGESPAN_SPANS=phases`), they follow on the queued time without a gap.
fn running(stage: &StageTrace) -> anyhow::Result<()> {
    let mut at_ns = stage.span.start_ns + u64::try_from(stage.span.int("stagespan.queued_ns").unwrap_or(0))?;
    for name in ["prefill", "decode"] {
        let Some(phase) = stage.child(name) else { continue };
        let length_ns = phase.int("stagespan.duration_ns");
        let told_ns = stage.span.int(&format!("stagespan.{name}_ns"));
        let truncated = phase.attributes.contains_key("stagespan.truncated");
        ensure!(truncated || length_ns == told_ns, "`{name}` is {length_ns:?}, the stage says {told_ns:?}");
        ensure!(phase.start_ns == at_ns, "`{name}` begins at {}, not {at_ns}", phase.start_ns);
        at_ns += u64::try_from(length_ns.unwrap_or(0))?;
    }
    Ok(())
}

fn unsplit(stage: &StageTrace) -> anyhow::Result<()> {
    let span = &stage.span;
    for key in ["stagespan.input_wait_ns", "stagespan.ready_queued_ns"] {
        ensure!(!span.attributes.contains_key(key), "not split, and yet {key}: {span:?}");
    }
    if let Some(queued_ns) = span.int("stagespan.queued_ns") {
        let queued = stage.child("queued").context("scheduled, not split, and no `queued` child")?;
        ensure!(queued.start_ns == span.start_ns, "`queued` does not begin at QUEUED");
        ensure!(queued.int("stagespan.duration_ns") == Some(queued_ns), "{queued:?}");
        ensure!(queued.status == Status::Unset, "`queued` was complete: {queued:?}");
    }
    Ok(())
}

fn inside(child: &Span, parent: &Span) -> anyhow::Result<()> {
    let held = parent.start_ns <= child.start_ns && child.end_ns <= parent.end_ns;
    ensure!(
        held,
        "`{}` [{}, {}] is not inside `{}` [{}, {}]",
        child.name,
        child.start_ns,
        child.end_ns,
        parent.name,
        parent.start_ns,
        parent.end_ns
    );
    Ok(())
}
