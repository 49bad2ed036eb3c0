//! One finished request on one stage → its spans. The only place where that is decided.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanKind, Status};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use stagespan_model::anchor::AnchorError;
use stagespan_model::{
    ErrorType, FinishedTimeline, Phase, PhaseKind, Placement, SpanId, SpanRef, StageContext, StageIdentity,
    StageRecord,
};

use crate::attributes as name;
use crate::id_source;
use crate::resource::ResourceKey;

pub(crate) mod limits;
mod links;

pub(crate) use links::{link_name, sdk_span_context, stage_link};

/// The instrumentation scope of every span of ours.
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(name::SCOPE).with_version(env!("CARGO_PKG_VERSION")).build()
}

/// The spans of one record, and the resource they belong to.
#[derive(Debug)]
pub(crate) struct StageSpans {
    pub(crate) resource: ResourceKey,
    /// The stage's span, then its children in order.
    pub(crate) spans: Vec<SpanData>,
}

/// Turns a record into its spans, [`StageRecord::span_count`] of them.
///
/// # Errors
/// An anchor of another clock than the timeline's, or one that puts it outside unix nanoseconds.
pub(crate) fn spans_of(record: StageRecord, scope: &InstrumentationScope) -> Result<StageSpans, AnchorError> {
    // Destructured whole, so that a new field of the record can't be forgotten here.
    let StageRecord {
        request_id,
        internal_id,
        stage,
        timeline,
        anchor,
        context,
        clock_source,
        companion_role,
        tokens_input,
        detail,
    } = record;
    let phases = timeline.phases(detail);
    let place = |kind: Option<PhaseKind>, start, end| -> Result<(u64, u64), AnchorError> {
        let (start_ns, end_ns) = (anchor.wall_ns(start)?, anchor.wall_ns(end)?);
        // Jaeger turns a span without length into one of 1 ns, with a false warning; say it first.
        // A stage's own span only has to enclose its children.
        let least = if kind.is_some() { 1 } else { 0 };
        Ok((start_ns, end_ns.max(start_ns.saturating_add(least))))
    };
    let children: Vec<(Phase, (u64, u64))> = phases
        .iter()
        .map(|phase| place(Some(phase.kind), phase.start, phase.end).map(|times| (*phase, times)))
        .collect::<Result<_, _>>()?;
    let (start_ns, mut end_ns) = place(None, timeline.queued(), timeline.ended())?;
    end_ns = children.iter().map(|(_, (_, end))| *end).fold(end_ns, u64::max);

    let own_root = root_span();
    let span = context.as_ref().map_or(own_root, |context| context.span);
    let trace_state = context.as_deref().map(links::trace_state).unwrap_or_default();
    let error = timeline.error_type();

    let mut common = vec![KeyValue::new(name::REQUEST_ID, request_id.as_str().to_owned())];
    common.extend(stage_attributes(&stage));

    let mut own = common.clone();
    own.extend(internal_id.map(|id| KeyValue::new(name::REQUEST_INTERNAL_ID, id.as_str().to_owned())));
    own.extend(timeline_attributes(&timeline));
    own.extend([
        KeyValue::new(name::CLOCK_DOMAIN, stage.clock_domain.id().to_owned()),
        KeyValue::new(name::CLOCK_ANCHOR_UNCERTAINTY_NS, int(anchor.uncertainty_ns())),
        KeyValue::new(name::CLOCK_SOURCE, clock_source.as_str()),
        KeyValue::new(name::GATE, stage.gate.as_str()),
        KeyValue::new(name::TOKENS_INPUT, i64::from(tokens_input)),
        KeyValue::new(name::TOKENS_OUTPUT, i64::from(timeline.tokens_output())),
    ]);
    own.extend(companion_role.map(|role| KeyValue::new(name::COMPANION_ROLE, role.to_string())));
    own.extend(error.map(error_attribute));
    own.extend(context.as_deref().map(links::attributes).unwrap_or_default());

    let in_trace = |context: SpanContext| SpanParts { context, scope };
    let own_context = sdk_span_context(&span, false, trace_state.clone());
    let mut spans = Vec::with_capacity(1 + children.len());
    spans.push(SpanData {
        parent_span_id: context
            .as_deref()
            .and_then(parent)
            .map_or(opentelemetry::SpanId::INVALID, sdk_span_id),
        // The request's span is another process's; in ours that is always so for a stage.
        parent_span_is_remote: context.as_deref().and_then(parent).is_some(),
        links: span_links(context.as_deref()),
        ..in_trace(own_context).span(format!("stage {}", stage.name).into(), start_ns, end_ns, own, error)
    });
    for (phase, (start_ns, end_ns)) in children {
        let child = SpanRef { span_id: id_source::span_id(), ..span };
        let mut attributes = common.clone();
        attributes.push(KeyValue::new(name::DURATION_NS, int(phase.duration_ns())));
        if phase.kind == PhaseKind::InputWait {
            let resolution = timeline.resolution_ns().filter(|_| !phase.truncated);
            attributes.extend(resolution.map(|ns| KeyValue::new(name::INPUT_WAIT_RESOLUTION_NS, int(ns))));
        }
        // A failure lands on the phase that it cut short.
        let error = error.filter(|_| phase.truncated);
        if phase.truncated {
            attributes.push(KeyValue::new(name::TRUNCATED, true));
        }
        attributes.extend(error.map(error_attribute));
        spans.push(SpanData {
            parent_span_id: sdk_span_id(span.span_id),
            ..in_trace(sdk_span_context(&child, false, trace_state.clone())).span(
                phase.kind.as_str().into(),
                start_ns,
                end_ns,
                attributes,
                error,
            )
        });
    }
    let host_id = context.filter(|c| c.placement == Placement::Same).and_then(|c| c.request_host_id);
    let resource = ResourceKey::Stage { resource: Arc::clone(&stage.resource), host_id };
    Ok(StageSpans { resource, spans })
}

/// What spans of one record share.
struct SpanParts<'a> {
    context: SpanContext,
    scope: &'a InstrumentationScope,
}

impl SpanParts<'_> {
    fn span(
        self,
        name: Cow<'static, str>,
        start_ns: u64,
        end_ns: u64,
        attributes: Vec<KeyValue>,
        error: Option<ErrorType>,
    ) -> SpanData {
        SpanData {
            span_context: self.context,
            parent_span_id: opentelemetry::SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name,
            start_time: unix_time(start_ns),
            end_time: unix_time(end_ns),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: error.map_or(Status::Unset, |error| Status::error(describe(error))),
            instrumentation_scope: self.scope.clone(),
        }
    }
}

/// A record without a context: a root of its own.
fn root_span() -> SpanRef {
    SpanRef {
        trace_id: id_source::trace_id(),
        span_id: id_source::span_id(),
        flags: SpanRef::SAMPLED | SpanRef::RANDOM,
    }
}

/// The parent of a stage's span: `request`, in its trace.
fn parent(context: &StageContext) -> Option<SpanId> {
    (context.placement != Placement::Own).then_some(context.request.span_id)
}

fn span_links(context: Option<&StageContext>) -> SpanLinks {
    let mut span_links = SpanLinks::default();
    span_links.links = context.map(links::links).unwrap_or_default();
    span_links
}

fn sdk_span_id(id: SpanId) -> opentelemetry::SpanId {
    opentelemetry::SpanId::from_bytes(id.to_bytes())
}

/// Unix nanoseconds as the SDK wants them.
pub(crate) fn unix_time(ns: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(ns)
}

/// OTLP has no unsigned integers; 2⁶³ ns are 292 years.
fn int(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

fn error_attribute(error: ErrorType) -> KeyValue {
    KeyValue::new(name::ERROR_TYPE, error.as_str())
}

/// What stands as the status' description.
fn describe(error: ErrorType) -> &'static str {
    match error {
        ErrorType::InputTimeout => "the input gate's timeout passed before the input was ready",
        ErrorType::ConnectorFailure => "the connector that brings the stage's input failed",
        ErrorType::Rejected => "too large for this stage",
        ErrorType::Shutdown => "the stage was shut down with the request in flight",
        ErrorType::EngineError => "the engine failed",
        ErrorType::Aborted => "aborted before it was ever scheduled",
        ErrorType::StageLost => "a stage's process died",
    }
}

fn stage_attributes(stage: &StageIdentity) -> [KeyValue; 3] {
    [
        KeyValue::new(name::STAGE_ID, i64::from(stage.stage_id)),
        KeyValue::new(name::STAGE_NAME, stage.name.as_str().to_owned()),
        KeyValue::new(name::STAGE_REPLICA_ID, i64::from(stage.replica_id)),
    ]
}

fn timeline_attributes(timeline: &FinishedTimeline) -> Vec<KeyValue> {
    let split = timeline.split();
    let measured = [
        (name::QUEUED_NS, timeline.queued_ns()),
        (name::INPUT_WAIT_NS, split.input_wait_ns()),
        (name::READY_QUEUED_NS, split.ready_queued_ns()),
        (name::PREFILL_NS, timeline.prefill_ns()),
        (name::DECODE_NS, timeline.decode_ns()),
    ];
    let mut attributes: Vec<_> =
        measured.into_iter().filter_map(|(name, ns)| ns.map(|ns| KeyValue::new(name, int(ns)))).collect();
    attributes.extend([
        KeyValue::new(name::SPLIT, split.as_str()),
        KeyValue::new(name::END, timeline.end().as_str()),
        KeyValue::new(name::PREEMPTION_COUNT, i64::from(timeline.preemptions())),
    ]);
    attributes
}

#[cfg(test)]
mod tests;
