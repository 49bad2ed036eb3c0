//! The requests that are in flight on this process's stages, and a warning for each that waits long.
//!
//! A span is exported when its request is finished; a request that is stuck never is. Whoever knows
//! that a request was queued on a stage holds a [`Watched`] for it, and says what it waits for:
//!
//! ```
//! # use std::sync::Arc;
//! # use std::time::Duration;
//! # use stagespan_model::{ClockDomain, Gate, ManualClock, Position, StageName};
//! # use stagespan_otel::{InFlight, LogLevel, StageFacts};
//! # let clock = Arc::new(ManualClock::new(1_000_000_000));
//! use stagespan_model::Clock as _;
//!
//! let in_flight = InFlight::new(clock.clone(), Some(Duration::from_secs(30)), LogLevel::Info);
//! let talker = in_flight.stage(StageFacts {
//!     name: StageName::new("talker")?,
//!     gate: Gate::AsyncChunk,
//!     position: Position::Gated,
//!     upstreams: vec![StageName::new("thinker")?],
//! });
//! let request = talker.queued("7f3c", clock.now());
//! clock.advance_ns(30_000_000_000);
//! assert_eq!(
//!     in_flight.oldest(1)[0].to_string(),
//!     "request 7f3c on stage talker has waited 30 s for its input (async_chunk gate; no chunk from thinker yet)"
//! );
//! request.input_ready(clock.now());
//! request.scheduled(clock.now());
//! drop(request); // finished, in whatever way
//! assert!(in_flight.oldest(1).is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A call costs some tens of nanoseconds: a few stores into a fixed table, no lock, no allocation
//! but for the table itself as it grows.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use stagespan_model::{Clock, Gate, Instant, Position, StageIdentity, StageName};

use crate::export::SharedPipe;
use crate::fork::{self, PerProcess};
use crate::report::LogLevel;

mod request;
mod slab;

pub use request::{RequestInFlight, Wait};
use slab::{Seen, Slab};

/// Stages that can be told apart; a process has a handful.
const STAGES_MAX: usize = 256;

/// The least time between two looks for long waits.
const LOOK_EVERY_NS: u64 = 1_000_000_000;

/// Warnings of one look; what is beyond is said as a number.
const WARNINGS_MAX: usize = 5;

/// What a warning says of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageFacts {
    /// Its name.
    pub name: StageName,
    /// Its input gate.
    pub gate: Gate,
    /// Whether that gate holds requests.
    pub position: Position,
    /// The stages whose output it waits for; may be left empty.
    pub upstreams: Vec<StageName>,
}

impl StageFacts {
    /// Of a stage's identity.
    pub fn of(stage: &StageIdentity, upstreams: &[StageName]) -> Self {
        Self {
            name: stage.name.clone(),
            gate: stage.gate,
            position: stage.position,
            upstreams: upstreams.to_vec(),
        }
    }
}

/// The requests in flight. Clones share everything; a forked child begins with none.
#[derive(Clone)]
pub struct InFlight {
    shared: Option<Arc<Shared>>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    long_wait_ns: Option<u64>,
    log: LogLevel,
    stages: Box<[OnceLock<StageFacts>]>,
    slab: PerProcess<Slab>,
    looked_at_ns: AtomicU64,
}

impl InFlight {
    /// A table that warns of waits longer than `long_wait`, as far as `log` lets it. For a process
    /// that has no layer; it must call [`InFlight::look`] from time to time.
    pub fn new(clock: Arc<dyn Clock>, long_wait: Option<Duration>, log: LogLevel) -> Self {
        let long_wait_ns = long_wait.map(|wait| u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        let shared = Shared {
            clock,
            long_wait_ns,
            log,
            stages: (0..STAGES_MAX).map(|_| OnceLock::new()).collect(),
            slab: PerProcess::new(Slab::default(), Slab::default),
            looked_at_ns: AtomicU64::new(0),
        };
        Self { shared: Some(Arc::new(shared)) }
    }

    /// A table that holds nothing.
    pub fn off() -> Self {
        Self { shared: None }
    }

    /// A handle for one stage, to be kept: looking the stage up is not for every request.
    pub fn stage(&self, facts: StageFacts) -> StageWatch {
        let Some(shared) = &self.shared else { return StageWatch::off() };
        for (stage, place) in (0_u32..).zip(&shared.stages) {
            let is_it = place.get().map_or_else(|| place.set(facts.clone()).is_ok(), |known| *known == facts)
                || place.get() == Some(&facts);
            if is_it {
                return StageWatch { shared: Some(Arc::clone(shared)), stage, pipe: None };
            }
        }
        // More stages than any process has: these are not watched.
        StageWatch::off()
    }

    /// The requests in flight, those queued first before the others, `most` of them.
    pub fn oldest(&self, most: usize) -> Vec<RequestInFlight> {
        let Some(shared) = &self.shared else { return Vec::new() };
        let now_ns = shared.clock.now().as_ns();
        let mut seen: Vec<Seen> = Vec::new();
        shared.slab.get().each(|_, request| seen.push(request));
        seen.sort_by_key(|request| request.queued_ns);
        seen.truncate(most);
        seen.into_iter().filter_map(|request| shared.describe(request, now_ns)).collect()
    }

    /// How many requests are in flight; those for which the table had no room are among them.
    pub fn len(&self) -> u64 {
        self.shared.as_ref().map_or(0, |shared| shared.slab.get().len())
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Warns of each request that has waited for too long and was not warned of, and says of how
    /// many. Does nothing if it looked less than a second ago.
    ///
    /// A layer's worker calls it by itself.
    pub fn look(&self) -> usize {
        let Some(shared) = &self.shared else { return 0 };
        let lines = shared.new_long_waits();
        let beyond = lines.len().saturating_sub(WARNINGS_MAX);
        for line in lines.iter().take(WARNINGS_MAX) {
            shared.log.problem(line);
        }
        if beyond > 0 {
            shared.log.problem(&format!("{beyond} more requests have waited as long"));
        }
        lines.len()
    }
}

impl InFlight {
    /// When it is worth looking again; `None` while nothing is in flight. A request that comes
    /// meanwhile wakes nobody: it is none that waits for long yet.
    pub(crate) fn looks_again_in(&self) -> Option<Duration> {
        let is_watching = self.shared.as_ref().is_some_and(|shared| shared.long_wait_ns.is_some());
        (is_watching && !self.is_empty()).then_some(Duration::from_nanos(LOOK_EVERY_NS))
    }
}

impl Shared {
    /// A warning for each request that has come to wait for too long since the last look.
    fn new_long_waits(&self) -> Vec<String> {
        let Some(long_wait_ns) = self.long_wait_ns else { return Vec::new() };
        let slab = self.slab.get();
        if slab.len() == 0 {
            return Vec::new();
        }
        let now_ns = self.clock.now().as_ns();
        let looked_at_ns = self.looked_at_ns.load(Ordering::Relaxed);
        let is_due = looked_at_ns == 0 || now_ns.saturating_sub(looked_at_ns) >= LOOK_EVERY_NS;
        if !is_due
            || self
                .looked_at_ns
                .compare_exchange(looked_at_ns, now_ns, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            return Vec::new();
        }
        let mut waiting = Vec::new();
        slab.each(|slot, request| {
            let is_long = now_ns.saturating_sub(request.queued_ns) >= long_wait_ns;
            if is_long && request.wait.is_wait() && slab.mark_warned(slot, &request) {
                waiting.push(request);
            }
        });
        waiting.sort_by_key(|request| request.queued_ns);
        waiting.into_iter().filter_map(|request| Some(self.describe(request, now_ns)?.to_string())).collect()
    }

    fn describe(&self, seen: Seen, now_ns: u64) -> Option<RequestInFlight> {
        let facts = self.stages.get(seen.stage as usize)?.get()?.clone();
        let since = |ns: u64| Duration::from_nanos(now_ns.saturating_sub(ns));
        Some(RequestInFlight {
            request_id: seen.request_id,
            stage: facts,
            wait: seen.wait,
            queued_for: since(seen.queued_ns),
            waits_for: since(seen.since_ns),
        })
    }

    /// An instant as the table keeps it. One of another clock can't be compared with this one's:
    /// the request then counts from now.
    fn ns(&self, at: Instant) -> u64 {
        let is_ours = at.domain() == self.clock.domain().tag();
        if is_ours { at.as_ns() } else { self.clock.now().as_ns() }
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// One stage, whose requests are watched.
#[derive(Clone)]
pub struct StageWatch {
    shared: Option<Arc<Shared>>,
    stage: u32,
    /// Whose worker looks for long waits.
    pipe: Option<SharedPipe>,
}

impl StageWatch {
    /// A handle that watches nothing.
    pub fn off() -> Self {
        Self { shared: None, stage: 0, pipe: None }
    }

    /// Has the worker of this pipe do the looking.
    pub(crate) fn looked_after_by(self, pipe: SharedPipe) -> Self {
        Self { pipe: Some(pipe), ..self }
    }

    /// A request was queued on the stage at this instant. It is in flight until what is returned
    /// is dropped. Ids longer than 128 bytes are cut.
    pub fn queued(&self, request_id: &str, at: Instant) -> Watched {
        let Some(shared) = &self.shared else { return Watched { place: None } };
        let wait = match shared.stages.get(self.stage as usize).and_then(OnceLock::get) {
            Some(facts) if facts.position == Position::Gated => Wait::Input,
            _ => Wait::Scheduling,
        };
        let slot = shared.slab.get().insert(request_id, self.stage, wait, shared.ns(at));
        if let Some(pipe) = &self.pipe {
            // The first request of all may be the one that is stuck.
            pipe.get().worker();
        }
        Watched { place: Some(Place { shared: Arc::clone(shared), slot, generation: fork::generation() }) }
    }
}

impl fmt::Debug for StageWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageWatch").field("stage", &self.stage).finish_non_exhaustive()
    }
}

/// A request in flight on a stage, until this is dropped.
#[must_use = "the request is in flight only while this is held"]
pub struct Watched {
    place: Option<Place>,
}

struct Place {
    shared: Arc<Shared>,
    /// `None` where the table was full.
    slot: Option<u32>,
    /// The process that it was made in; a forked child has only a copy.
    generation: u64,
}

impl Watched {
    /// It waits for a slot in the stage's `active_stream_window`, as part of its input wait.
    pub fn waits_for_stream_slot(&self) {
        self.set(Wait::StreamSlot, None);
    }

    /// It waits for its input; said again after a wait for a slot.
    pub fn waits_for_input(&self) {
        self.set(Wait::Input, None);
    }

    /// The gate saw its input ready at this instant.
    pub fn input_ready(&self, at: Instant) {
        self.set(Wait::Ready, Some(at));
    }

    /// It was scheduled at this instant, for the first time: its wait is over.
    pub fn scheduled(&self, at: Instant) {
        self.set(Wait::Over, Some(at));
    }

    /// Goes on to another wait. Within the input wait the time is that of QUEUED.
    fn set(&self, wait: Wait, at: Option<Instant>) {
        let Some(Place { shared, slot: Some(slot), generation }) = &self.place else { return };
        if *generation == fork::generation() {
            shared.slab.get().set(*slot, wait, at.map(|at| shared.ns(at)));
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let Some(Place { shared, slot, generation }) = self.place.take() else { return };
        if generation == fork::generation() {
            shared.slab.get().remove(slot);
        }
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

#[cfg(test)]
mod tests;
