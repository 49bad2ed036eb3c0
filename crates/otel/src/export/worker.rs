//! The one thread that builds spans and exports them.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry::{Context, InstrumentationScope};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use stagespan_model::StageResource;

use super::batch::Batch;
use super::groups::Groups;
use super::isolation::{Search, Verdict};
use super::outcome::{Outcome, OutcomeKind};
use super::pipe::{Entry, Pipe, Wake};
use super::retry::{self, Next};
use super::seen_ids::SeenIds;
use super::transport::{Opening, Transport};
use crate::account::{DropReason, count};
use crate::config::{BatchLimits, SpanLimits};
use crate::drop_log::DropLog;
use crate::id_source;
use crate::in_flight::InFlight;
use crate::report::LogLevel;
use crate::resource::{self, ResourceKey};
use crate::span::{self, limits};

/// Entries taken out of the queue at once.
const CHUNK: usize = 64;
/// A receiver that asks to be left alone is, for this long at the most.
const THROTTLE_MAX: Duration = Duration::from_secs(30);
/// Resources whose exported form is kept; more means that stages come and go.
const RESOURCES_MAX: usize = 256;

/// What the worker is to do.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) batch: BatchLimits,
    pub(crate) span_limits: SpanLimits,
    pub(crate) log: LogLevel,
    /// The longest that one attempt may take.
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) resource: StageResource,
    pub(crate) service_name: String,
    /// Where the worker looks for long waits.
    pub(crate) in_flight: InFlight,
}

impl Plan {
    /// The same for a forked child, which is another process.
    pub(crate) fn in_child(&self) -> Self {
        Self { resource: resource::in_child(&self.resource), ..self.clone() }
    }
}

/// What the worker needs to begin.
pub(super) struct Seed {
    pub(super) plan: Plan,
    pub(super) opening: Opening,
}

/// Runs until shutdown.
pub(super) fn run(pipe: &Arc<Pipe>, seed: Seed) {
    // Whatever ends this thread, nobody waits for it in vain.
    struct Exit<'a>(&'a Pipe);
    impl Drop for Exit<'_> {
        fn drop(&mut self) {
            self.0.exited();
        }
    }
    let _exit = Exit(pipe);
    // An export must not trace itself.
    let _suppressed = Context::enter_telemetry_suppressed_scope();
    let Seed { plan, opening } = seed;
    let Plan { batch, span_limits, log, attempt_timeout, resource, service_name, in_flight } = plan;
    let transport = opening.open().map_err(|error| log.problem(&error.to_string())).ok();
    let mut worker = Worker {
        pipe,
        transport,
        batch,
        span_limits,
        log,
        attempt_timeout,
        resource,
        service_name,
        in_flight,
        resources: HashMap::new(),
        groups: Groups::default(),
        seen_ids: SeenIds::default(),
        scope: span::scope(),
        throttled_until: None,
        may_halve: true,
        drop_log: DropLog::new(log),
    };
    worker.run();
}

/// Shutdown has settled what the worker holds; it has nothing left to do.
struct Abandoned;

/// Why a batch was not delivered.
enum Undelivered {
    /// The receiver calls it bad.
    Bad,
    /// It is lost.
    Lost(DropReason),
}

struct Worker<'p> {
    pipe: &'p Pipe,
    /// `None` if it could not be opened: everything fails then, and is counted.
    transport: Option<Box<dyn Transport>>,
    batch: BatchLimits,
    span_limits: SpanLimits,
    log: LogLevel,
    attempt_timeout: Option<Duration>,
    resource: StageResource,
    service_name: String,
    in_flight: InFlight,
    resources: HashMap<ResourceKey, Resource>,
    groups: Groups,
    seen_ids: SeenIds,
    scope: InstrumentationScope,
    throttled_until: Option<Instant>,
    /// Whether a refused batch is worth searching for what is bad in it.
    may_halve: bool,
    drop_log: DropLog,
}

impl Worker<'_> {
    fn run(&mut self) {
        loop {
            let wake = self.pipe.wait(self.batch.schedule_delay, || {
                self.in_flight.look();
                self.in_flight.looks_again_in()
            });
            if self.drain().is_err() {
                return;
            }
            match wake {
                Wake::Work => {}
                Wake::Flush(number) => self.pipe.flush_done(number),
                // Producers are turned away since; only what they pushed meanwhile may be left.
                Wake::Close if self.pipe.queue_len() == 0 => return,
                Wake::Close => {}
            }
        }
    }

    /// Exports what is in the queue now. What comes meanwhile is left for the next turn, so that
    /// steady producers can't hold up a flush.
    fn drain(&mut self) -> Result<(), Abandoned> {
        let mut left = self.pipe.queue_len();
        while left > 0 {
            let entries = self.pipe.take(left.min(CHUNK)).ok_or(Abandoned)?;
            left = if entries.is_empty() { 0 } else { left - entries.len() };
            for entry in entries {
                self.build(entry);
            }
            while let Some((key, spans)) = self.groups.take_full(self.batch.export_batch_spans) {
                self.deliver(key, spans);
            }
            if self.groups.len() >= 4 * self.batch.export_batch_spans {
                self.deliver_all();
            }
        }
        self.deliver_all();
        self.drop_log.look(&self.pipe.ledger.account(), Instant::now());
        Ok(())
    }

    fn build(&mut self, entry: Entry) {
        match entry {
            Entry::Live(span) => self.groups.add(ResourceKey::Own, [*span]),
            Entry::Stage(mut record) => {
                let spans = u64::from(record.span_count());
                if self.seen_ids.make_distinct(&mut record) {
                    count(&self.pipe.ledger.counters.repeated_ids);
                }
                match span::spans_of(record, &self.scope) {
                    Ok(stage) => self.groups.add(stage.resource, stage.spans),
                    Err(error) => {
                        self.log.detail(format_args!("a stage's times can't be expressed: {error}"));
                        self.pipe.settle(spans, |ledger| ledger.dropped(spans, DropReason::Invalid));
                    }
                }
            }
        }
    }

    fn deliver_all(&mut self) {
        while let Some((key, spans)) = self.groups.take_any() {
            self.deliver(key, spans);
        }
    }

    /// Sends one batch and settles it. Of a batch that is called bad, only the bad spans are lost.
    fn deliver(&mut self, key: ResourceKey, mut spans: Vec<SpanData>) {
        for span in &mut spans {
            limits::apply(&self.span_limits, span);
        }
        let whole = Batch::new(self.exported_resource(key), spans);
        let began = Instant::now();
        let mut search = Search::new(whole.len(), self.may_halve);
        let mut parts = vec![whole];
        while let Some(mut part) = parts.pop() {
            let len = part.len();
            let undelivered = match self.send(&mut part, began) {
                Ok(outcome) => {
                    search.accepted();
                    self.settle_delivered(&outcome);
                    continue;
                }
                Err(Undelivered::Bad) => match search.refused(len) {
                    Verdict::Halve => match part.halves() {
                        Some([first, second]) => {
                            parts.extend([second, first]);
                            continue;
                        }
                        None => DropReason::ExportFailed,
                    },
                    Verdict::Reject => {
                        self.pipe.settle(len, |ledger| ledger.delivered(0, len));
                        continue;
                    }
                    Verdict::GiveUp => DropReason::ExportFailed,
                },
                Err(Undelivered::Lost(reason)) => reason,
            };
            self.pipe.settle(len, |ledger| ledger.dropped(len, undelivered));
        }
        self.may_halve = search.next_may_halve(self.may_halve);
    }

    /// Sends one batch, with all of its retries.
    fn send(&mut self, batch: &mut Batch, began: Instant) -> Result<Outcome, Undelivered> {
        let mut attempt = 0;
        loop {
            let limits = Limits {
                batch_at: self.batch.export_timeout.and_then(|timeout| began.checked_add(timeout)),
                closing_at: self.pipe.closing_at(),
            };
            let now = Instant::now();
            if let Some(wait) = self.throttled_until.map(|until| until.saturating_duration_since(now))
                && !wait.is_zero()
            {
                if limits.left(now).is_some_and(|left| wait >= left) {
                    return Err(Undelivered::Lost(limits.reason()));
                }
                self.pipe.pause(wait);
                continue;
            }
            self.throttled_until = None;
            let left = limits.left(now);
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Undelivered::Lost(limits.reason()));
            }
            attempt += 1;
            // A receiver that hangs must not hide a stage that does.
            self.in_flight.look();
            let within = [left, self.attempt_timeout].into_iter().flatten().min();
            let outcome = self.attempt(batch, within);
            let now = Instant::now();
            if let Some(wish) = outcome.retry_after {
                self.throttled_until = now.checked_add(wish.min(THROTTLE_MAX));
            }
            let next = retry::next(&outcome, attempt, limits.left(now), chance());
            if !matches!(next, Next::Done) {
                self.log.detail(format_args!("export attempt {attempt}: {}", outcome.message));
            }
            match next {
                Next::Done => return Ok(outcome),
                Next::RetryIn(delay) => self.pipe.pause(delay),
                Next::Split => {
                    self.drop_log.cause(&outcome.message);
                    return Err(Undelivered::Bad);
                }
                Next::GiveUp => {
                    self.drop_log.cause(&outcome.message);
                    // Whatever the receiver would take later, shutdown doesn't wait for.
                    let cut_short = outcome.kind == OutcomeKind::Retryable && limits.closing_at.is_some();
                    let reason = if cut_short { DropReason::Shutdown } else { DropReason::ExportFailed };
                    return Err(Undelivered::Lost(reason));
                }
            }
        }
    }

    fn settle_delivered(&mut self, outcome: &Outcome) {
        let &Outcome { accepted, rejected, .. } = outcome;
        self.pipe.settle(accepted + rejected, |ledger| ledger.delivered(accepted, rejected));
        if rejected > 0 {
            self.drop_log.cause(&outcome.message);
        }
    }

    /// One attempt. An exporter that panics costs the batch, not the thread.
    fn attempt(&mut self, batch: &mut Batch, within: Option<Duration>) -> Outcome {
        let Some(transport) = &mut self.transport else {
            return Outcome::lost(OutcomeKind::Failed, "the output could not be opened");
        };
        catch_unwind(AssertUnwindSafe(|| transport.send(batch, within)))
            .unwrap_or_else(|_| Outcome::lost(OutcomeKind::Failed, "the exporter panicked"))
    }

    fn exported_resource(&mut self, key: ResourceKey) -> Resource {
        if self.resources.len() >= RESOURCES_MAX {
            self.resources.clear();
        }
        let (own, service_name) = (&self.resource, &self.service_name);
        self.resources.entry(key).or_insert_with_key(|key| key.resource(own, service_name)).clone()
    }
}

/// When a batch has to be settled.
struct Limits {
    batch_at: Option<Instant>,
    closing_at: Option<Instant>,
}

impl Limits {
    /// The time until then; `None` is no limit.
    fn left(&self, now: Instant) -> Option<Duration> {
        let until = [self.batch_at, self.closing_at].into_iter().flatten().min()?;
        Some(until.saturating_duration_since(now))
    }

    /// What a batch that ran out of time is counted as.
    fn reason(&self) -> DropReason {
        match (self.batch_at, self.closing_at) {
            (Some(batch), Some(closing)) if batch < closing => DropReason::ExportFailed,
            (_, Some(_)) => DropReason::Shutdown,
            (_, None) => DropReason::ExportFailed,
        }
    }
}

/// A number in 0..1, so that many processes don't retry in step.
fn chance() -> f64 {
    f64::from(u32::from_ne_bytes(id_source::random_bytes())) / (f64::from(u32::MAX) + 1.0)
}
