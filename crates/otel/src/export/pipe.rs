//! The bounded queue, and what producers, worker and whoever flushes share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use opentelemetry_sdk::trace::SpanData;
use stagespan_model::StageRecord;

use super::transport::Opening;
use super::worker::{self, Plan, Seed};
use crate::account::{DropReason, Ledger};
use crate::report::LogLevel;

/// What producers hand over.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A finished request on a stage.
    Stage(StageRecord),
    /// A finished live span of this process.
    Live(Box<SpanData>),
}

impl Entry {
    /// How many spans it becomes.
    pub(crate) fn span_count(&self) -> u64 {
        match self {
            Self::Stage(record) => u64::from(record.span_count()),
            Self::Live(_) => 1,
        }
    }
}

/// A flush or a shutdown didn't get everything out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlushError {
    /// The deadline passed first.
    #[error("the deadline passed with {pending} spans not exported; is the receiver reachable?")]
    Deadline {
        /// Spans not settled by then. After a shutdown they are dropped.
        pending: u64,
    },
    /// Everything was tried, but spans were refused or lost meanwhile.
    #[error("{spans} spans were refused or could not be exported; the account says why")]
    Lost {
        /// How many.
        spans: u64,
    },
}

/// What worker and flushers tell each other.
#[derive(Debug, Default)]
struct State {
    /// Spans that the worker has taken out of the queue and not settled.
    in_custody: u64,
    /// Shutdown's deadline has passed: whatever the worker still holds is settled already.
    abandoned: bool,
    flush_requested: u64,
    flush_done: u64,
    /// Set by shutdown.
    closing_at: Option<Instant>,
    exited: bool,
}

impl State {
    /// Whether what is pushed now would stay where it is.
    fn nobody_looks(&self) -> bool {
        self.exited || self.abandoned
    }
}

/// Why the worker woke up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// The queue has filled, or the delay has passed.
    Work,
    /// Someone waits for everything that is in the queue now, under this number.
    Flush(u64),
    /// Shutdown.
    Close,
}

pub(crate) struct Pipe {
    queue: ArrayQueue<Entry>,
    pub(crate) ledger: Ledger,
    /// Entries in the queue that wake the worker before its delay has passed.
    wake_at: usize,
    /// Whether the worker has been woken and hasn't looked yet: spares producers the wake-up.
    signalled: AtomicBool,
    closed: AtomicBool,
    worker: OnceLock<Option<Thread>>,
    log: LogLevel,
    seed: Mutex<Option<Seed>>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Pipe {
    pub(crate) fn new(plan: Plan, opening: Opening) -> Arc<Self> {
        let queue_entries = plan.batch.queue_entries.max(1);
        // Most stages become three spans. Half a queue leaves producers room while the worker wakes.
        let wake_at = (plan.batch.export_batch_spans / 3).min(queue_entries / 2).max(1);
        let log = plan.log;
        Arc::new(Self {
            queue: ArrayQueue::new(queue_entries),
            ledger: Ledger::default(),
            wake_at,
            signalled: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            worker: OnceLock::new(),
            log,
            seed: Mutex::new(Some(Seed { plan, opening })),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Hands an entry over, or counts it as dropped. Never blocks; takes no lock once the worker
    /// runs.
    pub(crate) fn push(self: &Arc<Self>, entry: Entry) {
        let spans = entry.span_count();
        self.ledger.produced(spans);
        if self.closed.load(Ordering::SeqCst) {
            self.ledger.dropped(spans, DropReason::Shutdown);
            return;
        }
        if self.queue.push(entry).is_err() {
            self.ledger.dropped(spans, DropReason::QueueFull);
            return;
        }
        if self.closed.load(Ordering::SeqCst) && self.state().nobody_looks() {
            // Shutdown came in between and may have looked already.
            self.drop_queue();
            return;
        }
        let Some(worker) = self.worker() else { return };
        if self.queue.len() >= self.wake_at && !self.signalled.swap(true, Ordering::SeqCst) {
            worker.unpark();
        }
    }

    /// The worker, started now if it wasn't yet. A request's door calls it too, so that the
    /// scheduler's thread hardly ever pays for the start.
    pub(crate) fn worker(self: &Arc<Self>) -> Option<&Thread> {
        self.worker.get_or_init(|| self.start_worker()).as_ref()
    }

    fn start_worker(self: &Arc<Self>) -> Option<Thread> {
        let seed = self.seed.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let pipe = Arc::clone(self);
        let spawned = thread::Builder::new().name("stagespan-export".to_owned()).spawn(move || {
            worker::run(&pipe, seed);
        });
        match spawned {
            Ok(handle) => Some(handle.thread().clone()),
            Err(error) => {
                // Nothing is exported then; the queue fills, and what comes after is counted.
                self.log.problem(&format!("the export thread can't be started: {error}"));
                None
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and every field is whole at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_worker(&self) {
        if let Some(Some(worker)) = self.worker.get() {
            worker.unpark();
        }
    }

    // -- the worker's side

    /// Sleeps until there is something to do, `delay` at the longest. Calls `meanwhile` when it
    /// begins, and as often as that asks for.
    pub(super) fn wait(&self, delay: Duration, meanwhile: impl Fn() -> Option<Duration>) -> Wake {
        let until = Instant::now().checked_add(delay);
        loop {
            {
                let state = self.state();
                if state.closing_at.is_some() {
                    return Wake::Close;
                }
                if state.flush_requested > state.flush_done {
                    return Wake::Flush(state.flush_requested);
                }
            }
            if self.signalled.swap(false, Ordering::SeqCst) || self.queue.len() >= self.wake_at {
                return Wake::Work;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Wake::Work;
            }
            match [left, meanwhile()].into_iter().flatten().min() {
                Some(pause) => thread::park_timeout(pause),
                None => thread::park(),
            }
        }
    }

    /// Sleeps for `pause`, or until shutdown begins.
    pub(super) fn pause(&self, pause: Duration) {
        let closing = self.closing_at();
        let until = Instant::now() + pause;
        while self.closing_at() == closing {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::park_timeout(left);
        }
    }

    pub(super) fn closing_at(&self) -> Option<Instant> {
        self.state().closing_at
    }

    pub(super) fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Moves up to `max` entries into the worker's custody. `None` once shutdown has given up on it.
    pub(super) fn take(&self, max: usize) -> Option<Vec<Entry>> {
        let mut entries = Vec::with_capacity(max.min(self.queue.len()));
        // Locked before the first is taken out: between queue and custody shutdown would miss it.
        // No producer takes this lock while the worker runs.
        let mut state = self.state();
        if state.abandoned {
            return None;
        }
        while entries.len() < max
            && let Some(entry) = self.queue.pop()
        {
            entries.push(entry);
        }
        state.in_custody += entries.iter().map(Entry::span_count).sum::<u64>();
        Some(entries)
    }

    /// Settles spans in the worker's custody. Without effect once shutdown has settled them.
    pub(super) fn settle(&self, spans: u64, into: impl FnOnce(&Ledger)) {
        let mut state = self.state();
        if !state.abandoned {
            state.in_custody -= spans;
            into(&self.ledger);
        }
    }

    pub(super) fn flush_done(&self, number: u64) {
        self.state().flush_done = number;
        self.changed.notify_all();
    }

    /// The worker has ended, in whatever way: what is left is settled.
    pub(super) fn exited(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.abandon();
        self.state().exited = true;
        self.changed.notify_all();
        self.drop_queue();
    }

    // -- the side of flush and shutdown

    /// Waits until everything produced before the call is settled.
    pub(crate) fn flush(&self, within: Duration) -> Result<(), FlushError> {
        let lost_before = self.lost();
        let deadline = Instant::now().checked_add(within);
        if self.worker.get().is_none() {
            return Ok(());
        }
        let number = {
            let mut state = self.state();
            state.flush_requested += 1;
            state.flush_requested
        };
        self.wake_worker();
        let in_time = self.wait_for(deadline, |state| state.flush_done >= number || state.exited);
        self.verdict(in_time, lost_before)
    }

    /// Exports what there is and ends the worker. What isn't out by then is dropped.
    pub(crate) fn shutdown(&self, within: Duration) -> Result<(), FlushError> {
        let lost_before = self.lost();
        let now = Instant::now();
        // A deadline centuries away is as good as none.
        let deadline = now.checked_add(within).unwrap_or_else(|| now + Duration::from_secs(u32::MAX.into()));
        self.close(deadline);
        if self.worker.get().is_none() {
            self.state().exited = true;
            self.drop_queue();
            return Ok(());
        }
        let in_time = self.wait_for(Some(deadline), |state| state.exited);
        let verdict = self.verdict(in_time, lost_before);
        if !in_time {
            self.abandon();
            self.drop_queue();
        }
        verdict
    }

    /// Tells the worker to finish by `deadline`, without waiting for it.
    pub(crate) fn close(&self, deadline: Instant) {
        self.closed.store(true, Ordering::SeqCst);
        {
            let mut state = self.state();
            // A second shutdown may not prolong the first.
            state.closing_at = Some(state.closing_at.map_or(deadline, |earlier| earlier.min(deadline)));
        }
        self.wake_worker();
    }

    /// Settles what the worker holds, over its head.
    fn abandon(&self) {
        let mut state = self.state();
        state.abandoned = true;
        let spans = std::mem::take(&mut state.in_custody);
        self.ledger.dropped(spans, DropReason::Shutdown);
    }

    fn drop_queue(&self) {
        while let Some(entry) = self.queue.pop() {
            self.ledger.dropped(entry.span_count(), DropReason::Shutdown);
        }
    }

    fn wait_for(&self, deadline: Option<Instant>, done: impl Fn(&State) -> bool) -> bool {
        let mut state = self.state();
        while !done(&state) {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => return false,
                Some(left) => {
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        true
    }

    /// Spans refused or lost so far, those that found the queue full aside: they were lost before.
    fn lost(&self) -> u64 {
        let account = self.ledger.account();
        account.rejected + account.dropped.total() - account.dropped.queue_full
    }

    fn verdict(&self, in_time: bool, lost_before: u64) -> Result<(), FlushError> {
        let pending = self.ledger.account().pending;
        // With nothing left, it was settled in the last moment, and only the word of it is late.
        if !in_time && pending > 0 {
            return Err(FlushError::Deadline { pending });
        }
        match self.lost() - lost_before {
            0 => Ok(()),
            spans => Err(FlushError::Lost { spans }),
        }
    }
}
