//! A stage that this process runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stagespan_model::{
    Clock, ClockAnchor, ClockSource, Detail, Gate, Placement, Position, RecordSink, RequestId, StageContext,
    StageIdentity, StageName, StageNameError, StageTimeline,
};
use stagespan_otel::{
    AnchorSource, Environment, Layer, RequestSpan, StageHeaders, StageTarget, check_join, resource,
};

use crate::request::{Open, StageRequest};

/// What is common to all requests of a stage.
#[derive(Clone, Copy, Debug)]
pub struct StageOptions<'a> {
    stage_id: u32,
    name: &'a str,
    replica_id: u32,
    gate: Gate,
}

impl<'a> StageOptions<'a> {
    /// Stage number `stage_id` of the pipeline, from 0; without a gate, as replica 0.
    pub const fn new(stage_id: u32, name: &'a str) -> Self {
        Self { stage_id, name, replica_id: 0, gate: Gate::None }
    }

    /// The gate that holds a request until its input is there. Without one there is no split.
    #[must_use]
    pub const fn gate(self, gate: Gate) -> Self {
        Self { gate, ..self }
    }

    /// Which replica of the stage this is.
    #[must_use]
    pub const fn replica(self, replica_id: u32) -> Self {
        Self { replica_id, ..self }
    }
}

/// A stage that this process runs. Cloned freely, used from any thread.
#[derive(Clone)]
pub struct StageTracer {
    shared: Arc<Shared>,
}

/// What a stage's requests share.
pub(crate) struct Shared {
    pub(crate) identity: Arc<StageIdentity>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) sink: Arc<dyn RecordSink>,
    pub(crate) detail: Detail,
    anchors: AnchorSource,
    is_on: bool,
    ignored: AtomicU64,
}

impl Shared {
    /// Counts a call that did not fit.
    pub(crate) fn ignore(&self) {
        self.ignored.fetch_add(1, Ordering::Relaxed);
    }
}

impl StageTracer {
    pub(crate) fn new(
        layer: &Layer,
        clock: &Arc<dyn Clock>,
        anchors: &AnchorSource,
        environment: &Environment,
        options: StageOptions<'_>,
    ) -> Result<Self, StageNameError> {
        let StageOptions { stage_id, name, replica_id, gate } = options;
        let identity = StageIdentity {
            stage_id,
            name: StageName::new(name)?,
            replica_id,
            gate,
            position: Position::of(stage_id, gate, false),
            clock_domain: clock.domain().clone(),
            resource: Arc::new(resource::detect(environment, stage_id, replica_id)),
        };
        let shared = Shared {
            identity: Arc::new(identity),
            clock: Arc::clone(clock),
            sink: layer.sink(),
            detail: layer.detail(),
            anchors: anchors.clone(),
            is_on: layer.is_on(),
            ignored: AtomicU64::new(0),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The stage's name.
    pub fn name(&self) -> &StageName {
        &self.shared.identity.name
    }

    /// Calls that were ignored because they did not fit: out of order, or repeated.
    pub fn ignored(&self) -> u64 {
        self.shared.ignored.load(Ordering::Relaxed)
    }

    /// Assigns this stage its ids in a request, at its submission. The headers travel with the
    /// request and go into [`StageTracer::enqueue`]; `upstreams` are the stages that feed this one.
    pub fn assign(&self, request: &mut RequestSpan, upstreams: &[&StageName]) -> Vec<(String, String)> {
        let upstreams: Vec<StageName> = upstreams.iter().map(|name| (*name).clone()).collect();
        let target = StageTarget {
            name: self.name(),
            clock: Some(&self.shared.identity.clock_domain),
            upstreams: &upstreams,
            companion_role: None,
        };
        request.assign(target).headers
    }

    /// QUEUED: the stage's scheduler takes the request in. `headers` are those that were assigned;
    /// without any, or with malformed ones, the stage's span is a trace of its own.
    pub fn enqueue(&self, request_id: &str, headers: &[(String, String)]) -> StageRequest {
        if !self.shared.is_on {
            return StageRequest::off();
        }
        let shared = &self.shared;
        let queued = shared.clock.now();
        let (context, anchor) = self.context(headers);
        StageRequest::new(Open {
            stage: Arc::clone(shared),
            request_id: RequestId::from(request_id),
            timeline: StageTimeline::new(shared.identity.position, queued),
            anchor,
            context,
            tokens_input: 0,
            clock_source: ClockSource::Hook,
        })
    }

    /// The assigned context, and the anchor that places the request's instants on this stage: the
    /// request's own, where the stage is on the request's clock.
    fn context(&self, headers: &[(String, String)]) -> (Option<Box<StageContext>>, ClockAnchor) {
        let shared = &self.shared;
        let parsed = StageHeaders::parse(headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let Ok(Some(given)) = parsed else {
            if let Err(error) = parsed {
                shared.ignore();
                ::tracing::warn!(target: "stagespan", %error, "ignored the context headers of a request");
            }
            return (None, shared.anchors.current());
        };
        let join = check_join(&given, &*shared.clock);
        let request_anchor = given.request_anchor();
        let context = given.into_context(&join);
        let anchor = match (context.placement, request_anchor) {
            (Placement::Same, Some(anchor)) => anchor,
            _ => shared.anchors.current(),
        };
        (Some(Box::new(context)), anchor)
    }
}

impl std::fmt::Debug for StageTracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StageTracer").field("stage", &self.shared.identity.name).finish_non_exhaustive()
    }
}
