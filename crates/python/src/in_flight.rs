//! The requests in flight of one stage, in one process.

use std::sync::Arc;

use stagespan_model::{
    ClockAnchor, ClockSource, End, Gate, Handle, Instant, LiveTable, Position, Refusal, RequestId,
    StageContext, StageIdentity, StageName, StageRecord, StageTimeline, TimelineEvent,
    live::LIVE_SLOTS_DEFAULT,
};
use stagespan_otel::{Join, StageHeaders, check_join, resource};

use crate::arguments;
use crate::process::{Process, count};

/// What the stage is told to be.
pub(crate) struct Spec {
    pub(crate) name: StageName,
    pub(crate) stage_id: u32,
    pub(crate) replica_id: u32,
    pub(crate) gate: Gate,
    pub(crate) position: Position,
    pub(crate) clock_source: ClockSource,
    pub(crate) engine_version: Option<String>,
}

/// The stage in one process.
pub(crate) struct InFlight {
    pub(crate) process: &'static Process,
    pub(crate) identity: Arc<StageIdentity>,
    pub(crate) live: LiveTable<Request>,
}

/// A request in flight.
pub(crate) struct Request {
    pub(crate) timeline: StageTimeline,
    request_id: RequestId,
    internal_id: Option<RequestId>,
    context: Option<Box<StageContext>>,
    anchor: ClockAnchor,
    companion_role: Option<Arc<str>>,
    tokens_input: u32,
}

/// Bits of a handle that tell the process's lives apart: a handle from before a fork is unknown
/// after it.
const EPOCH_SHIFT: u32 = 48;

impl InFlight {
    pub(crate) fn new(spec: &Spec, process: &'static Process) -> Self {
        let mut resource = resource::detect(&process.environment, spec.stage_id, spec.replica_id);
        if let Some(version) = &spec.engine_version
            && !process
                .environment
                .get("OTEL_RESOURCE_ATTRIBUTES")
                .is_some_and(|v| v.contains("service.version"))
        {
            resource.service_version.clone_from(version);
        }
        let identity = Arc::new(StageIdentity {
            stage_id: spec.stage_id,
            name: spec.name.clone(),
            replica_id: spec.replica_id,
            gate: spec.gate,
            position: spec.position,
            clock_domain: process.clock.domain().clone(),
            resource: Arc::new(resource),
        });
        Self { process, identity, live: LiveTable::new(LIVE_SLOTS_DEFAULT) }
    }

    pub(crate) fn handle(&self, bits: u64) -> Handle {
        Handle::from_bits(bits ^ (self.process.epoch << EPOCH_SHIFT))
    }

    /// Notes an event of a request in flight; what doesn't fit is counted.
    pub(crate) fn apply(
        &mut self,
        handle: u64,
        at: Option<f64>,
        event: impl FnOnce(Instant) -> TimelineEvent,
    ) {
        let process = self.process;
        let handle = self.handle(handle);
        let Some(request) = self.live.get_mut(handle) else {
            count(&process.figures.unknown_handles);
            return;
        };
        let event = match arguments::instant(at, &*process.clock) {
            Ok(at) => event(at),
            Err(_) => {
                count(&process.figures.invalid_times);
                TimelineEvent::InvalidTime
            }
        };
        if request.timeline.apply(event).is_err() {
            count(&process.figures.ignored_events);
        }
    }
}

/// What a new request brings along.
pub(crate) struct Arrival {
    pub(crate) request_id: String,
    pub(crate) internal_id: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) companion_role: Option<String>,
    pub(crate) tokens_input: u32,
}

/// How a request ends.
#[derive(Clone, Copy)]
pub(crate) struct Ending {
    pub(crate) end: End,
    /// Its input tokens, where they are known only now.
    pub(crate) tokens_input: Option<u32>,
}

impl InFlight {
    pub(crate) fn enqueue(&mut self, position: Position, at: Option<f64>, arrival: Arrival) -> u64 {
        let process = self.process;
        let Ok(queued) = arguments::instant(at, &*process.clock) else {
            count(&process.figures.invalid_times);
            process.sink.refused(Refusal::NeverQueued);
            return 0;
        };
        let Arrival { request_id, internal_id, headers, companion_role, tokens_input } = arrival;
        let headers = StageHeaders::parse(headers.iter().map(|(name, value)| (&**name, &**value)))
            .unwrap_or_else(|_| {
                count(&process.figures.bad_stage_headers);
                None
            });
        let (context, anchor) = match headers {
            Some(headers) => {
                let join = check_join(&headers, &*process.clock);
                if matches!(join, Join::Refused(_)) {
                    count(&process.figures.refused_joins);
                }
                let requests = headers.request_anchor().filter(|_| join == Join::Accepted);
                (Some(Box::new(headers.into_context(&join))), requests)
            }
            None => (None, None),
        };
        let request = Request {
            timeline: StageTimeline::new(position, queued),
            request_id: RequestId::from(&*request_id),
            internal_id: internal_id.filter(|id| *id != request_id).map(|id| RequestId::from(&*id)),
            context,
            anchor: anchor.unwrap_or_else(|| process.anchors.current()),
            companion_role: companion_role.map(Arc::from),
            tokens_input,
        };
        match self.live.insert(request) {
            Ok(handle) => handle.to_bits() ^ (process.epoch << EPOCH_SHIFT),
            Err(_) => {
                process.sink.refused(Refusal::TooManyLive);
                0
            }
        }
    }

    /// Ends a request and hands its record over.
    pub(crate) fn finish(
        &mut self,
        clock_source: ClockSource,
        handle: Handle,
        at: Option<f64>,
        ending: Ending,
    ) -> bool {
        let process = self.process;
        let Some(request) = self.live.remove(handle) else {
            count(&process.figures.unknown_handles);
            return false;
        };
        let at = arguments::instant(at, &*process.clock).unwrap_or_else(|_| {
            count(&process.figures.invalid_times);
            process.clock.now()
        });
        let Request { timeline, request_id, internal_id, context, anchor, companion_role, tokens_input } =
            request;
        let Ending { end, tokens_input: counted_since } = ending;
        let record = StageRecord {
            request_id,
            internal_id,
            stage: Arc::clone(&self.identity),
            timeline: timeline.finish(at, end),
            anchor,
            context,
            clock_source,
            companion_role,
            tokens_input: counted_since.unwrap_or(tokens_input),
            detail: process.layer.detail(),
        };
        process.exporting(|| process.sink.record(record));
        true
    }
}
