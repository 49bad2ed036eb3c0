//! Links between the traces of one request, and what they leave on the spans.

use std::str::FromStr;

use opentelemetry::KeyValue;
use opentelemetry::trace::{Link, SpanContext, TraceFlags, TraceState};
use stagespan_model::{Placement, SpanRef, StageContext, StageName, TraceId};

use crate::attributes as name;
use crate::context::OtMember;

/// A span reference as the SDK writes it.
pub(crate) fn sdk_span_context(span: &SpanRef, is_remote: bool, trace_state: TraceState) -> SpanContext {
    SpanContext::new(
        opentelemetry::TraceId::from_bytes(span.trace_id.to_bytes()),
        opentelemetry::SpanId::from_bytes(span.span_id.to_bytes()),
        TraceFlags::new(span.flags),
        is_remote,
        trace_state,
    )
}

fn link(span: &SpanRef, attributes: Vec<KeyValue>) -> Link {
    Link::new(sdk_span_context(span, true, TraceState::NONE), attributes, 0)
}

/// The link from `request` to a stage that has a trace of its own.
pub(crate) fn stage_link(stage: &StageName, span: &SpanRef) -> (SpanContext, Vec<KeyValue>) {
    let attributes =
        vec![KeyValue::new(name::LINK, "stage"), KeyValue::new(name::STAGE_NAME, stage.as_str().to_owned())];
    (sdk_span_context(span, true, TraceState::NONE), attributes)
}

/// The links of a stage's span: to `request`, unless that is its parent (Jaeger would drop the
/// parent), and to its upstream stages.
pub(super) fn links(context: &StageContext) -> Vec<Link> {
    let to_request = (context.placement == Placement::Own)
        .then(|| link(&context.request, vec![KeyValue::new(name::LINK, "request")]));
    let to_upstreams = context.upstreams.iter().map(|upstream| {
        let stage = KeyValue::new(name::STAGE_NAME, upstream.stage.as_str().to_owned());
        link(&upstream.span, vec![KeyValue::new(name::LINK, "upstream"), stage])
    });
    to_request.into_iter().chain(to_upstreams).collect()
}

/// What the context leaves on a stage's span: viewers show links without names, so each linked
/// trace id stands as an attribute too.
pub(super) fn attributes(context: &StageContext) -> Vec<KeyValue> {
    let trace = |id: TraceId| id.to_string();
    let mut attributes = Vec::new();
    if context.placement == Placement::Own {
        attributes.push(KeyValue::new(name::LINK_REQUEST, trace(context.request.trace_id)));
    }
    for upstream in &context.upstreams {
        attributes.push(KeyValue::new(link_name(&upstream.stage), trace(upstream.span.trace_id)));
    }
    // Only stages on another clock are forced: on the request's own they simply join.
    if context.placement == Placement::Forced {
        attributes.push(KeyValue::new(name::CLOCK_SHARED, false));
    }
    if context.joined_refused {
        attributes.push(KeyValue::new(name::JOINED, "refused"));
    }
    attributes
}

/// `stagespan.link.<stage name>`
pub(crate) fn link_name(stage: &StageName) -> String {
    format!("{}{stage}", name::LINK_PREFIX)
}

/// The tracestate of a stage's spans. In the request's trace it is the request's; a trace of its
/// own carries only what makes a collector's probabilistic sampling decide as for the request.
pub(super) fn trace_state(context: &StageContext) -> TraceState {
    let text = match context.placement {
        Placement::Same | Placement::Forced => context.tracestate.as_deref().unwrap_or_default().to_owned(),
        Placement::Own => {
            let OtMember { rv, th } = OtMember::of(context.tracestate.as_deref());
            let rv = rv.unwrap_or_else(|| randomness(context.request.trace_id));
            OtMember { rv: Some(rv), th }.to_string()
        }
    };
    // Ours are sound, and the orchestrator's was checked; a text that the SDK refuses all the same
    // costs the tracestate, never the span.
    TraceState::from_str(&text).unwrap_or_default()
}

/// The randomness that a trace id without `rv` stands for: its low 56 bits.
fn randomness(trace_id: TraceId) -> String {
    trace_id.to_string()[18..].to_owned()
}
