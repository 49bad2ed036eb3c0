//! Requests as a pipeline of three stages would report them, made without one: what is sent is known exactly, and it costs
//! next to nothing to send it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use stagespan_model::{
    Clock, ClockSource, Detail, End, ErrorType, Gate, Position, RequestId, StageIdentity, StageName,
    StageRecord, StageResource, StageTimeline, SystemClock, TimelineEvent,
};
use stagespan_otel::config::BatchLimits;
use stagespan_otel::{
    Account, Config, Door, Layer, OtlpOutput, Output, RequestOpening, StageTarget, TraceShape,
};

use crate::caller::Caller;

/// Names of the stages, first to last.
pub const STAGES: [&str; 3] = ["thinker", "talker", "code2wav"];

/// Spans of a request that ran to its end: `request`, then stage and `queued`, then twice stage and both waits.
pub const SPANS_OF_A_REQUEST: usize = 1 + 2 + 3 + 3;

/// How the talker fared with a request. The thinker always has room; code2wav schedules what has just arrived in the same
/// step, and measures zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Talker {
    /// QUEUED to input ready.
    pub input_wait: Duration,
    /// Input ready to first SCHEDULED.
    pub ready_queued: Duration,
    /// Whether the input never came, and the gate gave up after `input_wait`. code2wav then never sees the request.
    pub timed_out: bool,
}

impl Default for Talker {
    /// Neither slow nor failed, for every policy.
    fn default() -> Self {
        Self {
            input_wait: Duration::from_millis(30),
            ready_queued: Duration::from_micros(1500),
            timed_out: false,
        }
    }
}

/// Sends requests through a layer of its own.
#[derive(Debug)]
pub struct Generator {
    layer: Layer,
    clock: Arc<SystemClock>,
    stages: Vec<Arc<StageIdentity>>,
}

impl Generator {
    /// A generator that exports to `endpoint` (OTLP/HTTP, without `/v1/traces`) under this service name. Its queue is so
    /// long that requests are dropped only if the receiver does not take them.
    ///
    /// # Errors
    /// If the layer does not start.
    pub fn new(endpoint: &str, service: &str, shape: TraceShape) -> anyhow::Result<Self> {
        let clock = Arc::new(SystemClock::new());
        let resource = |instance: &str| StageResource {
            service_instance_id: instance.to_owned(),
            service_version: "1".to_owned(),
            host_id: "generator".to_owned(),
            host_name: "generator".to_owned(),
            process_pid: std::process::id(),
            extra: Vec::new(),
        };
        let output = Output::Otlp(OtlpOutput::http(format!("{endpoint}/v1/traces")));
        let batch = BatchLimits {
            queue_entries: 65_536,
            schedule_delay: Duration::from_millis(100),
            ..BatchLimits::default()
        };
        let config = Config { shape, batch, ..Config::new(output, service, resource("door")) };
        let layer =
            Layer::start(config, Arc::<SystemClock>::clone(&clock)).context("the layer does not start")?;
        let stage = |(stage_id, name): (u32, &&str)| {
            let gate = if stage_id == 0 { Gate::None } else { Gate::AsyncChunk };
            Ok(Arc::new(StageIdentity {
                stage_id,
                name: StageName::new(name).context("a stage's name")?,
                replica_id: 0,
                gate,
                position: Position::of(stage_id, gate, false),
                clock_domain: clock.domain().clone(),
                resource: Arc::new(resource(name)),
            }))
        };
        let stages = (0..).zip(&STAGES).map(stage).collect::<anyhow::Result<_>>()?;
        Ok(Self { layer, clock, stages })
    }

    /// Sends the request of this caller, which has just ended.
    ///
    /// # Errors
    /// If the talker's waits lie before the machine was started.
    pub fn send(&self, id: &str, caller: &Caller, talker: Talker) -> anyhow::Result<()> {
        let headers = caller.headers();
        let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        self.send_with(id, headers, talker)
    }

    /// The same with these headers of a caller, or none.
    ///
    /// # Errors
    /// As [`Generator::send`].
    pub fn send_with<'h>(
        &self,
        id: &str,
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
        talker: Talker,
    ) -> anyhow::Result<()> {
        let mut request =
            self.layer.open_request(RequestOpening { request_id: id, headers, door: Door::Http });
        let anchor = request.anchor().context("the layer is off")?;
        let sink = self.layer.sink();
        let mut upstream: Vec<StageName> = Vec::new();
        for stage in &self.stages {
            let assigned = request.assign(StageTarget {
                name: &stage.name,
                clock: Some(&stage.clock_domain),
                upstreams: &upstream,
                companion_role: None,
            });
            upstream = vec![stage.name.clone()];
            let timed_out = talker.timed_out && stage.stage_id == 1;
            let waits = match stage.stage_id {
                0 => (Duration::ZERO, Duration::from_micros(200)),
                1 => (talker.input_wait, talker.ready_queued),
                _ => (Duration::from_millis(40), Duration::ZERO),
            };
            sink.record(StageRecord {
                request_id: RequestId::sanitized(id).0,
                internal_id: None,
                stage: Arc::clone(stage),
                timeline: self.timeline(stage.position, waits, timed_out)?,
                anchor,
                context: assigned.context,
                clock_source: ClockSource::Events,
                companion_role: None,
                tokens_input: 8,
                detail: Detail::Waits,
            });
            if timed_out {
                request.fail(ErrorType::InputTimeout, "the talker's input never came");
                break;
            }
        }
        request.end();
        Ok(())
    }

    /// QUEUED, then `waits` (the second from QUEUED on where there is no gate), then 2 ms of work, which end now.
    fn timeline(
        &self,
        position: Position,
        (input_wait, ready_queued): (Duration, Duration),
        timed_out: bool,
    ) -> anyhow::Result<stagespan_model::FinishedTimeline> {
        const WORK_NS: u64 = 2_000_000;
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let now = self.clock.now();
        let total = ns(input_wait) + ns(ready_queued) + WORK_NS;
        let queued_ns = now.as_ns().checked_sub(total).context("the machine has only just started")?;
        let at = |after_queued_ns: u64| {
            stagespan_model::Instant::from_ns(queued_ns + after_queued_ns, now.domain())
                .context("an instant of zero")
        };
        let mut timeline = StageTimeline::new(position, at(0)?);
        if timed_out {
            return Ok(timeline.finish(at(ns(input_wait))?, End::Timeout));
        }
        if position == Position::Gated {
            let at = at(ns(input_wait))?;
            timeline.apply(TimelineEvent::InputReady { at, resolution_ns: Some(1_000_000) })?;
        }
        timeline.apply(TimelineEvent::Scheduled(at(ns(input_wait) + ns(ready_queued))?))?;
        timeline.apply(TimelineEvent::Tokens { at: now, count: 8 })?;
        Ok(timeline.finish(now, End::Stop))
    }

    /// Waits until everything sent so far was acknowledged.
    ///
    /// # Errors
    /// If something was not.
    pub fn flush(&self, within: Duration) -> anyhow::Result<Account> {
        self.layer.flush(within).context("flush")?;
        let account = self.layer.stats();
        ensure!(account.is_complete(), "{account}");
        Ok(account)
    }

    /// What became of every span so far.
    #[must_use]
    pub fn account(&self) -> Account {
        self.layer.stats()
    }
}
