//! The live `request` span, and the ids that it assigns to its stages.

use std::sync::Arc;

use opentelemetry::Context;
use opentelemetry::context::FutureExt as _;
use opentelemetry::trace::{Status, TraceContextExt as _};
use stagespan_model::{
    ClockAnchor, ClockDomain, ClockPair, ErrorType, Instant, Placement, RequestId, SpanId, SpanRef,
    StageContext, StageName, TraceId, Upstream,
};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::account::count;
use crate::attributes as name;
use crate::config::TraceShape;
use crate::door::{self, Caller};
use crate::fork;
use crate::id_source;
use crate::layer::{Inner, Layer};
use crate::processor::RequestTiming;
use crate::span::{link_name, stage_link};
use crate::stage_headers::{ClockClaim, StageHeaders, refused};

/// Through what kind of door a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// An HTTP server: the span's kind is SERVER.
    Http,
    /// A call within the process: SERVER only with a remote caller.
    Call,
}

/// A request that has just come in.
#[derive(Clone, Copy, Debug)]
pub struct RequestOpening<'a, H> {
    /// The request's id as the client knows it. Two requests may carry the same.
    pub request_id: &'a str,
    /// The caller's headers: (name, value), names in any case. `stagespan-*` ones are ignored.
    pub headers: H,
    /// The door.
    pub door: Door,
}

/// A stage that is about to be given the request.
#[derive(Clone, Copy, Debug)]
pub struct StageTarget<'a> {
    /// Its name.
    pub name: &'a StageName,
    /// Its clock, as told at connection or read of a local child; `None` counts as another clock.
    pub clock: Option<&'a ClockDomain>,
    /// The stages whose output it takes, to be linked if they have been assigned ids before.
    pub upstreams: &'a [StageName],
    /// The role of a companion request, whose spans stay apart from the main request's.
    pub companion_role: Option<&'a str>,
}

/// What a stage is given. Empty while the layer is off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assigned {
    /// For the [`StageRecord`](stagespan_model::StageRecord) that will be made of it.
    pub context: Option<Box<StageContext>>,
    /// For the submit message, names in lower case.
    pub headers: Vec<(String, String)>,
}

/// The live span of one request, from its door until it ends by [`RequestSpan::end`] or is dropped.
///
/// It may be moved between threads. Its times are the monotonic clock's, placed by its anchor. In a
/// forked child the copy of a parent's request does nothing: the parent's own is exported.
#[must_use = "the request's span ends when this is dropped"]
pub struct RequestSpan {
    live: Option<Box<Live>>,
}

struct Live {
    /// Which process in a line of forks it was opened in.
    generation: u64,
    layer: Arc<Inner>,
    span: tracing::Span,
    context: Context,
    span_ref: SpanRef,
    tracestate: Option<Arc<str>>,
    request_id: RequestId,
    anchor: ClockAnchor,
    assigned: Vec<AssignedSpan>,
}

struct AssignedSpan {
    stage: StageName,
    companion_role: Option<Arc<str>>,
    span: SpanRef,
}

impl Layer {
    /// Opens the `request` span: a child of the process's active span, else of the caller's
    /// context, else a root. A caller's context that is malformed is counted, never guessed at.
    pub fn open_request<'h, H>(&self, opening: RequestOpening<'_, H>) -> RequestSpan
    where
        H: IntoIterator<Item = (&'h str, &'h str)>,
    {
        let live = self.inner.as_ref().map(|inner| Box::new(Live::open(Arc::clone(inner), opening)));
        RequestSpan { live }
    }
}

impl Live {
    fn open<'h, H>(layer: Arc<Inner>, opening: RequestOpening<'_, H>) -> Self
    where
        H: IntoIterator<Item = (&'h str, &'h str)>,
    {
        let RequestOpening { request_id, headers, door } = opening;
        let counters = &layer.pipe.get().ledger.counters;
        let (request_id, was_changed) = RequestId::sanitized(request_id);
        if was_changed {
            count(&counters.cut_request_ids);
        }
        // The anchor first: the request's own start then lies after it.
        let anchor = layer.anchors.current();
        let start = layer.clock.now();
        let Caller { context: parent, is_remote, has_random_ids } =
            door::caller(headers, &layer.propagators, counters);
        let kind = if door == Door::Http || is_remote { "server" } else { "internal" };
        // Level error, so that a program built with a lower `max_level_*` still has its requests;
        // levels are not exported. The private dispatcher sees it, and no other.
        let span = tracing::dispatcher::with_default(
            &layer.dispatch,
            || tracing::error_span!(target: "stagespan", parent: None, "request", otel.kind = kind),
        );
        // Can't fail: the dispatcher has the layer, and the span was made just now.
        let _ = span.set_parent(parent);
        span.set_attribute(name::REQUEST_ID, request_id.as_str().to_owned());
        let context = span.context();
        let sdk = context.span().span_context().clone();
        let sampled = if sdk.is_sampled() { SpanRef::SAMPLED } else { 0 };
        let random = if has_random_ids { SpanRef::RANDOM } else { 0 };
        let span_ref = SpanRef {
            trace_id: TraceId::from_bytes(sdk.trace_id().to_bytes())
                .unwrap_or_else(|_| id_source::trace_id()),
            span_id: SpanId::from_bytes(sdk.span_id().to_bytes()).unwrap_or_else(|_| id_source::span_id()),
            flags: sampled | random,
        };
        let tracestate = Some(sdk.trace_state().header()).filter(|s| !s.is_empty()).map(Arc::from);
        if sdk.is_sampled() {
            layer.pipe.get().worker();
            let timing = RequestTiming { anchor, start, end: None, flags: span_ref.flags };
            layer.timings.insert(sdk.span_id(), timing);
        }
        let (generation, assigned) = (fork::generation(), Vec::new());
        Self { generation, layer, span, context, span_ref, tracestate, request_id, anchor, assigned }
    }

    fn assign(&mut self, target: StageTarget<'_>) -> Assigned {
        let StageTarget { name: stage, clock, upstreams, companion_role } = target;
        let shares_clock = clock == Some(self.layer.clock.domain());
        let placement = match (self.layer.shape, shares_clock) {
            (TraceShape::Linked, _) | (TraceShape::Auto, false) => Placement::Own,
            (TraceShape::Auto | TraceShape::Joined, true) => Placement::Same,
            (TraceShape::Joined, false) => Placement::Forced,
        };
        let span = match placement {
            Placement::Own => SpanRef {
                trace_id: id_source::trace_id(),
                span_id: id_source::span_id(),
                flags: (self.span_ref.flags & SpanRef::SAMPLED) | SpanRef::RANDOM,
            },
            Placement::Same | Placement::Forced => SpanRef { span_id: id_source::span_id(), ..self.span_ref },
        };
        let upstreams = upstreams.iter().filter_map(|name| self.upstream(name, companion_role)).collect();
        let context = StageContext {
            span,
            placement,
            request: self.span_ref,
            tracestate: self.tracestate.clone(),
            upstreams,
            request_host_id: Some(Arc::clone(&self.layer.host_id)),
            joined_refused: false,
        };
        if placement == Placement::Own {
            self.link_to(stage, &span, companion_role);
        }
        self.assigned.push(AssignedSpan {
            stage: stage.clone(),
            companion_role: companion_role.map(Arc::from),
            span,
        });
        let claim = ClockClaim {
            domain: self.layer.clock.domain().clone(),
            anchor: self.anchor,
            // Read only where a stage will check it.
            pair: if placement == Placement::Same { ClockPair::read(&*self.layer.clock) } else { None },
            host_id: context.request_host_id.clone(),
        };
        let headers = StageHeaders::write(&context, &claim);
        Assigned { context: Some(Box::new(context)), headers }
    }

    /// The span assigned last to this stage, of the same companion if it has one.
    fn upstream(&self, stage: &StageName, companion_role: Option<&str>) -> Option<Upstream> {
        let of_role = |role: Option<&str>| {
            self.assigned.iter().rev().find(|a| a.stage == *stage && a.companion_role.as_deref() == role)
        };
        let assigned = of_role(companion_role).or_else(|| of_role(None))?;
        Some(Upstream { stage: stage.clone(), span: assigned.span })
    }

    /// Links `request` to a stage that has a trace of its own. Inside one trace such a link would
    /// leave Jaeger's page blank.
    fn link_to(&self, stage: &StageName, span: &SpanRef, companion_role: Option<&str>) {
        let (context, attributes) = stage_link(stage, span);
        self.span.add_link_with_attributes(context, attributes);
        if companion_role.is_none() {
            self.span.set_attribute(link_name(stage), span.trace_id.to_string());
        }
    }

    fn end(self, at: Option<Instant>) {
        let id = self.context.span().span_context().span_id();
        self.layer.timings.end(id, at.unwrap_or_else(|| self.layer.clock.now()));
        // The context holds the span's other handle; the span ends with `tracing`'s.
        drop(self.context);
        drop(self.span);
        // Still there if the span was not exported after all.
        self.layer.timings.remove(id);
    }
}

impl RequestSpan {
    fn live(&self) -> Option<&Live> {
        self.live.as_deref().filter(|live| live.generation == fork::generation())
    }

    fn live_mut(&mut self) -> Option<&mut Live> {
        self.live.as_deref_mut().filter(|live| live.generation == fork::generation())
    }

    /// Assigns a stage its ids, in the shape that `STAGESPAN_TRACE_SHAPE` and the clocks ask for.
    ///
    /// Call it once per stage and engine-core request, upstream stages first: a retry is given new
    /// ids, an update of a running request keeps the first. A stage that is known to emit nothing
    /// is not assigned at all, so that nothing ever links to it.
    pub fn assign(&mut self, target: StageTarget<'_>) -> Assigned {
        self.live_mut().map(|live| live.assign(target)).unwrap_or_default()
    }

    /// Takes note that a stage refused to join: gives its context a trace of its own, links
    /// `request` to that, and counts it.
    pub fn join_refused(&mut self, stage: &StageName, context: &mut StageContext) {
        let Some(live) = self.live_mut() else { return };
        count(&live.layer.pipe.get().ledger.counters.refused_joins);
        let assigned = live.assigned.iter_mut().find(|a| a.span == context.span);
        *context = refused(context.clone());
        let companion_role = assigned.and_then(|assigned| {
            // Stages that are assigned later link to where the span really is.
            assigned.span = context.span;
            assigned.companion_role.clone()
        });
        live.link_to(stage, &context.span, companion_role.as_deref());
    }

    /// The anchor of all of the request's times, and of stages that joined it.
    pub fn anchor(&self) -> Option<ClockAnchor> {
        self.live().map(|live| live.anchor)
    }

    /// The request's trace.
    pub fn trace_id(&self) -> Option<TraceId> {
        self.live().map(|live| live.span_ref.trace_id)
    }

    /// The request's span.
    pub fn span_ref(&self) -> Option<SpanRef> {
        self.live().map(|live| live.span_ref)
    }

    /// The request's id as it stands in attributes.
    pub fn request_id(&self) -> Option<&RequestId> {
        self.live().map(|live| &live.request_id)
    }

    /// Whether the request and its stages are exported.
    pub fn is_sampled(&self) -> bool {
        self.live().is_some_and(|live| live.span_ref.is_sampled())
    }

    /// Marks the request as failed. The message is for people; it must hold nothing of the payload.
    pub fn fail(&self, error: ErrorType, message: &str) {
        let Some(live) = self.live() else { return };
        live.span.set_attribute(name::ERROR_TYPE, error.as_str());
        live.span.set_status(Status::error(message.to_owned()));
    }

    /// The tokens that the request took and gave, as they would be billed.
    pub fn usage(&self, input_tokens: u64, output_tokens: u64) {
        let Some(live) = self.live() else { return };
        let int = |tokens| i64::try_from(tokens).unwrap_or(i64::MAX);
        live.span.set_attribute(name::GEN_AI_INPUT_TOKENS, int(input_tokens));
        live.span.set_attribute(name::GEN_AI_OUTPUT_TOKENS, int(output_tokens));
    }

    /// Runs `work` inside the request: spans that it opens become the request's children, if the
    /// program's subscriber has [`Layer::subscriber_layer`].
    pub fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        let _attached = self.live().map(|live| live.context.clone().attach());
        work()
    }

    /// Polls `future` inside the request, as [`RequestSpan::in_scope`] runs a closure.
    pub fn instrument<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        let context = self.live().map_or_else(Context::current, |live| live.context.clone());
        future.with_context(context)
    }

    /// Ends the request now.
    pub fn end(self) {}
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        match self.live.take() {
            Some(live) if live.generation == fork::generation() => live.end(None),
            // Its parts may be locked by a thread that this process does not have.
            Some(parents) => std::mem::forget(parents),
            None => {}
        }
    }
}

impl std::fmt::Debug for RequestSpan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestSpan").field("span", &self.span_ref()).finish()
    }
}

#[cfg(test)]
mod tests;
