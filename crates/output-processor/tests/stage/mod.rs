//! A stage whose outputs a test writes by hand, and a sink that keeps what comes.

#![allow(dead_code, reason = "each test binary uses its own part of it")]
#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use std::sync::{Arc, Mutex};

use stagespan_model::*;
use stagespan_output_processor::{Options, OutputProcessor, StageFinished, Submission};
use stagespan_wire::{EngineCoreOutput, EngineCoreOutputs, StopReason, WireEvent};

pub(crate) const S: u64 = 1_000_000_000;

#[derive(Default)]
pub(crate) struct Records {
    records: Mutex<Vec<StageRecord>>,
    refusals: Mutex<Vec<Refusal>>,
}

impl RecordSink for Records {
    fn record(&self, record: StageRecord) {
        self.records.lock().unwrap().push(record);
    }
    fn refused(&self, reason: Refusal) {
        self.refusals.lock().unwrap().push(reason);
    }
}

pub(crate) struct Stage {
    pub(crate) processor: OutputProcessor,
    pub(crate) sink: Arc<Records>,
    pub(crate) finished: Vec<StageFinished>,
    pub(crate) domain: ClockDomain,
    /// The reader's clock, in seconds.
    pub(crate) now: f64,
}

pub(crate) fn identity(domain: &ClockDomain, position: Position) -> Arc<StageIdentity> {
    Arc::new(StageIdentity {
        stage_id: u32::from(position != Position::First),
        name: StageName::new("talker").unwrap(),
        replica_id: 0,
        gate: Gate::AsyncChunk,
        position,
        clock_domain: domain.clone(),
        resource: Arc::default(),
    })
}

impl Stage {
    /// A gated stage on the reader's own clock, with tracing and statistics.
    pub(crate) fn gated() -> Self {
        Self::new(Position::Gated, |options| options)
    }

    pub(crate) fn new(position: Position, change: impl FnOnce(Options) -> Options) -> Self {
        let domain = ClockDomain::from_id("stage").unwrap();
        let sink = Arc::new(Records::default());
        let options = change(Options {
            sink: Some(Arc::clone(&sink) as Arc<dyn RecordSink>),
            statistics: true,
            ..Options::default()
        });
        let anchor = ClockAnchor::new(instant(&domain, 1.0), 1_000 * S, 1);
        let processor = OutputProcessor::new(identity(&domain, position), anchor, options).unwrap();
        Self { processor, sink, finished: Vec::new(), domain, now: 100_000.0 }
    }

    pub(crate) fn at(&self, seconds: f64) -> Instant {
        instant(&self.domain, seconds)
    }

    pub(crate) fn submit(&mut self, internal_id: &str) {
        self.processor.submitted(Submission::new(internal_id));
    }

    pub(crate) fn batch(&mut self, timestamp: f64, outputs: Vec<EngineCoreOutput>) {
        self.process(EngineCoreOutputs { timestamp, outputs, ..Default::default() });
    }

    pub(crate) fn process(&mut self, batch: EngineCoreOutputs) {
        // What a test writes by hand must be what the wire can carry.
        let batch = EngineCoreOutputs::decode(&batch.encode()).unwrap();
        let (now, finished) =
            (instant(&ClockDomain::from_id("stage").unwrap(), self.now), &mut self.finished);
        self.processor.process(&batch, now, |f| finished.push(f));
    }

    pub(crate) fn records(&self) -> Vec<StageRecord> {
        self.sink.records.lock().unwrap().clone()
    }

    /// The one record there is.
    pub(crate) fn record(&self) -> StageRecord {
        let records = self.records();
        assert_eq!(records.len(), 1, "{records:?}");
        records.into_iter().next().unwrap()
    }

    pub(crate) fn refusals(&self) -> Vec<Refusal> {
        self.sink.refusals.lock().unwrap().clone()
    }

    /// The statistics of the one request that has ended.
    pub(crate) fn stats(&self) -> StageRequestStats {
        assert_eq!(self.finished.len(), 1, "{:?}", self.finished);
        self.finished[0].stats.unwrap()
    }

    /// What was ignored, by reason.
    pub(crate) fn ignored(&self) -> Vec<(&'static str, u64)> {
        self.processor.counts().iter().map(|(reason, n)| (reason.as_str(), n)).collect()
    }
}

pub(crate) fn instant(domain: &ClockDomain, seconds: f64) -> Instant {
    Instant::from_seconds(seconds, domain.tag(), None).unwrap()
}

/// Events as the scheduler's log writes them: `Q100 S102 P103`.
pub(crate) fn events(text: &str) -> Vec<WireEvent> {
    text.split_whitespace()
        .map(|word| {
            let kind = match &word[..1] {
                "Q" => EventKind::Queued,
                "S" => EventKind::Scheduled,
                "P" => EventKind::Preempted,
                other => panic!("no event is called {other}"),
            };
            WireEvent { kind, timestamp: word[1..].parse().unwrap() }
        })
        .collect()
}

/// An output with these events and one token.
pub(crate) fn output(request_id: &str, text: &str) -> EngineCoreOutput {
    EngineCoreOutput {
        request_id: request_id.into(),
        new_token_ids: vec![7],
        events: Some(events(text)),
        ..Default::default()
    }
}

/// The same with the stamp.
pub(crate) fn ready(input_ready_ts: f64, output: EngineCoreOutput) -> EngineCoreOutput {
    EngineCoreOutput { input_ready_ts: Some(input_ready_ts), ..output }
}

/// The output that ends a request, without a token.
pub(crate) fn end(request_id: &str, end: End) -> EngineCoreOutput {
    let (finish_reason, stop_reason) = end.to_wire();
    EngineCoreOutput {
        request_id: request_id.into(),
        finish_reason: Some(finish_reason),
        stop_reason: stop_reason.map(|text| StopReason::Text(text.into())),
        ..Default::default()
    }
}

/// The phases of a record: name, start and end in seconds, whether it was cut short.
pub(crate) fn picture(record: &StageRecord) -> Vec<(&'static str, f64, f64, bool)> {
    let phases = record.timeline.phases(Detail::Waits);
    phases.iter().map(|p| (p.kind.as_str(), p.start.as_seconds(), p.end.as_seconds(), p.truncated)).collect()
}

pub(crate) fn waits_ms(stats: &StageRequestStats) -> (Option<f64>, Option<f64>) {
    (stats.vllm_input_wait_ms, stats.vllm_ready_queued_ms)
}
