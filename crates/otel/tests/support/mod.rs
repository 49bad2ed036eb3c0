//! What the tests of the export share: a receiver that answers by a script, and a pipeline's records.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "what can't be set up fails the test")]

use std::sync::Arc;

use stagespan_model::{
    Clock, ClockAnchor, ClockSource, Detail, End, Gate, ManualClock, Position, RecordSink, StageContext,
    StageIdentity, StageName, StageRecord, StageTimeline, SystemClock, TimelineEvent,
};
use stagespan_otel::{
    Config, Door, Environment, Layer, OtlpOutput, Output, RequestOpening, StageTarget, resource,
};

pub(crate) mod certificates;
mod grpc_server;
mod http_server;
pub(crate) mod receiver;

/// Spans of one request of [`run_request`]: `request`, and per stage the stage's and its waits'.
pub(crate) const SPANS_PER_REQUEST: u64 = 1 + 2 + 3;

/// A configuration that exports to `endpoint`, with everything else at its default.
pub(crate) fn config_to(endpoint: &str) -> Config {
    config_for(OtlpOutput::http(endpoint))
}

/// The same for any receiver.
pub(crate) fn config_for(output: OtlpOutput) -> Config {
    let own = resource::detect_process(&Environment::default());
    Config::new(Output::Otlp(output), "stagespan-test", own)
}

pub(crate) fn start(config: Config) -> Layer {
    Layer::start(config, Arc::new(SystemClock::new())).unwrap()
}

fn stage(stage_id: u32, name: &str, clock: &SystemClock) -> Arc<StageIdentity> {
    let gate = if stage_id == 0 { Gate::None } else { Gate::AsyncChunk };
    Arc::new(StageIdentity {
        stage_id,
        name: StageName::new(name).unwrap(),
        replica_id: 0,
        gate,
        position: Position::of(stage_id, gate, false),
        clock_domain: clock.domain().clone(),
        resource: Arc::new(resource::detect(&Environment::default(), stage_id, 0)),
    })
}

/// Two stages, thinker and talker, in this process.
pub(crate) struct Pipeline {
    layer: Layer,
    sink: Arc<dyn RecordSink>,
    clock: SystemClock,
    stages: [Arc<StageIdentity>; 2],
}

impl Pipeline {
    pub(crate) fn new(layer: &Layer) -> Self {
        let clock = SystemClock::new();
        let stages = [stage(0, "thinker", &clock), stage(1, "talker", &clock)];
        Self { layer: layer.clone(), sink: layer.sink(), clock, stages }
    }

    /// Runs one request through both stages: [`SPANS_PER_REQUEST`] spans.
    pub(crate) fn run_request(&self, id: &str) {
        let mut request =
            self.layer.open_request(RequestOpening { request_id: id, headers: [], door: Door::Http });
        let thinker = [self.stages[0].name.clone()];
        for stage in &self.stages {
            let upstreams = if stage.stage_id == 0 { &[][..] } else { &thinker[..] };
            let assigned = request.assign(StageTarget {
                name: &stage.name,
                clock: Some(self.clock.domain()),
                upstreams,
                companion_role: None,
            });
            self.sink.record(self.record(stage, id, request.anchor(), assigned.context));
        }
        request.end();
    }

    /// One record of a finished request on `stage`.
    fn record(
        &self,
        stage: &Arc<StageIdentity>,
        id: &str,
        anchor: Option<ClockAnchor>,
        context: Option<Box<StageContext>>,
    ) -> StageRecord {
        let mut timeline = StageTimeline::new(stage.position, self.clock.now());
        if stage.position == Position::Gated {
            let at = self.clock.now();
            timeline.apply(TimelineEvent::InputReady { at, resolution_ns: None }).unwrap();
        }
        timeline.apply(TimelineEvent::Scheduled(self.clock.now())).unwrap();
        StageRecord {
            request_id: id.into(),
            internal_id: None,
            stage: Arc::clone(stage),
            timeline: timeline.finish(self.clock.now(), End::Stop),
            anchor: anchor.unwrap_or_else(|| ClockAnchor::read(&self.clock)),
            context,
            clock_source: ClockSource::Events,
            companion_role: None,
            tokens_input: 1,
            detail: Detail::Waits,
        }
    }

    /// A faulty stage: what it was assigned once, it uses for two requests.
    pub(crate) fn run_request_twice_on_one_assignment(&self, id: &str) {
        let mut request =
            self.layer.open_request(RequestOpening { request_id: id, headers: [], door: Door::Call });
        let stage = &self.stages[1];
        let clock = Some(self.clock.domain());
        let target = StageTarget { name: &stage.name, clock, upstreams: &[], companion_role: None };
        let assigned = request.assign(target);
        for _ in 0..2 {
            self.sink.record(self.record(stage, id, request.anchor(), assigned.context.clone()));
        }
        request.end();
    }

    /// A record of 2 spans whose times can't be placed.
    pub(crate) fn record_with_a_foreign_anchor(&self) {
        let foreign = ClockAnchor::read(&ManualClock::new(5));
        self.sink.record(self.record(&self.stages[0], "r", Some(foreign), None));
    }

    pub(crate) fn run_requests(&self, count: usize) {
        for i in 0..count {
            self.run_request(&format!("r{i}"));
        }
    }
}
