//! `Stage`: the six calls of a stage's scheduler, behind integer handles.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyString;
use stagespan_model::{ClockSource, End, FinishReason, Handle, Instant, Position, TimelineEvent};

use crate::arguments;
use crate::guard::guarded;
use crate::in_flight::{Arrival, Ending, InFlight, Spec};
use crate::process::Process;

/// One stage of a pipeline, as its scheduler sees it: `enqueue`, `input_ready`, `scheduled`,
/// `preempted`, `tokens`, `finish`.
///
/// `enqueue` answers a handle for the other calls; 0 means that the request isn't traced, and every
/// call with it does nothing. `at` is an instant in seconds as `time.monotonic()` reads it in this
/// process, by default the present. No call blocks, and none raises for what it is told in the
/// wrong order: that is ignored and counted in `stagespan.stats()`.
#[pyclass(frozen, module = "stagespan")]
pub(crate) struct Stage {
    spec: Spec,
    /// Never contended while the interpreter has its lock, and then held for nanoseconds.
    bound: Mutex<Option<InFlight>>,
}

impl Stage {
    fn bound(&self) -> MutexGuard<'_, Option<InFlight>> {
        // A panic can't have left a table half-changed that matters: handles are checked anyway.
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` with this process's table, made at the first call, and anew after a fork or a
    /// new configuration. `None` while tracing is off.
    fn with<T>(&self, work: impl FnOnce(&Spec, &mut InFlight) -> T) -> Option<T> {
        let process = Process::current();
        if !process.layer.is_on() {
            return None;
        }
        let mut bound = self.bound();
        match &mut *bound {
            Some(bound) if bound.process.epoch == process.epoch => Some(work(&self.spec, bound)),
            stale => {
                // What was inherited holds the parent's locks: it is leaked, never dropped.
                std::mem::forget(stale.take());
                Some(work(&self.spec, stale.insert(InFlight::new(&self.spec, process))))
            }
        }
    }
}

#[pymethods]
impl Stage {
    #[new]
    #[pyo3(signature = (
        name, stage_id, *, replica_id=0, gate="none", sender_only=false, clock_source="hook", engine_version=None
    ))]
    fn new(
        name: &str,
        stage_id: u32,
        replica_id: u32,
        gate: &str,
        sender_only: bool,
        clock_source: &str,
        engine_version: Option<String>,
    ) -> PyResult<Self> {
        let gate = arguments::gate(gate)?;
        let clock_source = match clock_source {
            "events" => ClockSource::Events,
            "hook" => ClockSource::Hook,
            other => {
                return Err(pyo3::exceptions::PyValueError::new_err(format!(
                    "clock source {other:?} is neither events nor hook"
                )));
            }
        };
        let position = Position::of(stage_id, gate, sender_only);
        let name = arguments::stage_name(name)?;
        let spec = Spec { name, stage_id, replica_id, gate, position, clock_source, engine_version };
        Ok(Self { spec, bound: Mutex::new(None) })
    }

    /// QUEUED: the stage's scheduler took the request in. Answers its handle.
    ///
    /// `headers` are those that `RequestSpan.assign` gave for this stage, as they came with the
    /// submit message. `internal_id` is the engine's own id, where it differs.
    #[pyo3(signature = (
        request_id, *, at=None, headers=None, internal_id=None, tokens_input=0, companion_role=None
    ))]
    fn enqueue(
        &self,
        request_id: &Bound<'_, PyString>,
        at: Option<f64>,
        headers: Option<&Bound<'_, PyAny>>,
        internal_id: Option<&Bound<'_, PyString>>,
        tokens_input: u32,
        companion_role: Option<String>,
    ) -> PyResult<u64> {
        guarded(|| {
            if !Process::current().layer.is_on() {
                return Ok(0);
            }
            let arrival = Arrival {
                request_id: arguments::text(request_id),
                internal_id: internal_id.map(arguments::text),
                headers: arguments::headers(headers)?,
                companion_role,
                tokens_input,
            };
            Ok(self.with(|spec, bound| bound.enqueue(spec.position, at, arrival)).unwrap_or(0))
        })
    }

    /// The scheduler step that saw the request's input ready. The first one counts.
    ///
    /// `unready_at` is when the step before that, which still saw it unready, looked: the distance
    /// is the stamp's resolution.
    #[pyo3(signature = (handle, at=None, unready_at=None))]
    fn input_ready(&self, handle: u64, at: Option<f64>, unready_at: Option<f64>) -> PyResult<()> {
        guarded(|| {
            if handle == 0 {
                return Ok(());
            }
            self.with(|_, bound| {
                let process = bound.process;
                let unready = unready_at.and_then(|at| arguments::instant(Some(at), &*process.clock).ok());
                let handle_ = bound.handle(handle);
                let queued = bound.live.get_mut(handle_).map(|request| request.timeline.queued());
                bound.apply(handle, at, |at| {
                    let since = |from: Instant| at.duration_since(from).ok().flatten();
                    let from_queued = queued.and_then(since);
                    let from_unready = unready.and_then(since);
                    TimelineEvent::InputReady { at, resolution_ns: min_known(from_queued, from_unready) }
                });
            });
            Ok(())
        })
    }

    /// SCHEDULED: the scheduler gave the request its first tokens of a run. The first one counts.
    #[pyo3(signature = (handle, at=None))]
    fn scheduled(&self, handle: u64, at: Option<f64>) -> PyResult<()> {
        self.note(handle, at, TimelineEvent::Scheduled)
    }

    /// PREEMPTED: the scheduler took the request's memory away.
    #[pyo3(signature = (handle, at=None))]
    fn preempted(&self, handle: u64, at: Option<f64>) -> PyResult<()> {
        self.note(handle, at, TimelineEvent::Preempted)
    }

    /// An output with `count` new tokens. The first and the last count; those between may be told
    /// of by one call, with the last.
    #[pyo3(signature = (handle, count=1, at=None))]
    fn tokens(&self, handle: u64, count: u32, at: Option<f64>) -> PyResult<()> {
        self.note(handle, at, |at| TimelineEvent::Tokens { at, count })
    }

    /// The request's end on this stage: `stop`, `length`, `aborted`, `timeout`,
    /// `connector_failure`, `error`, `rejected` or `shutdown`. Answers whether it was in flight.
    ///
    /// `tokens_input` is for a stage whose input has grown since `enqueue`.
    #[pyo3(signature = (handle, end="stop", at=None, tokens_input=None))]
    fn finish(&self, handle: u64, end: &str, at: Option<f64>, tokens_input: Option<u32>) -> PyResult<bool> {
        guarded(|| {
            let end = arguments::end(end)?;
            if handle == 0 {
                return Ok(false);
            }
            let ended = self.with(|spec, bound| {
                let handle = bound.handle(handle);
                bound.finish(spec.clock_source, handle, at, Ending { end, tokens_input })
            });
            Ok(ended.unwrap_or(false))
        })
    }

    /// Ends every request in flight: the stage shuts down. Answers how many there were.
    fn finish_all(&self) -> PyResult<usize> {
        guarded(|| {
            let ended = self.with(|spec, bound| {
                let all: Vec<Handle> = bound.live.iter().map(|(handle, _)| handle).collect();
                let ending = Ending { end: End::Shutdown, tokens_input: None };
                let ended = |handle: &&Handle| bound.finish(spec.clock_source, **handle, None, ending);
                all.iter().filter(ended).count()
            });
            Ok(ended.unwrap_or(0))
        })
    }

    /// How many requests are in flight.
    #[getter]
    fn live(&self) -> PyResult<usize> {
        guarded(|| Ok(self.with(|_, bound| bound.live.len()).unwrap_or(0)))
    }

    /// The stage's name.
    #[getter]
    fn name(&self) -> &str {
        self.spec.name.as_str()
    }

    /// Whether the stage has a gate whose passing is input readiness.
    #[getter]
    fn is_gated(&self) -> bool {
        self.spec.position == Position::Gated
    }
}

fn min_known(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

impl Stage {
    fn note(
        &self,
        handle: u64,
        at: Option<f64>,
        event: impl FnOnce(Instant) -> TimelineEvent,
    ) -> PyResult<()> {
        guarded(|| {
            if handle != 0 {
                self.with(|_, bound| bound.apply(handle, at, event));
            }
            Ok(())
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let stale = self.bound();
        if let Some(bound) = stale.as_ref()
            && bound.process.epoch != Process::current().epoch
        {
            let mut stale = stale;
            std::mem::forget(stale.take());
        }
    }
}

/// The word for the end that vLLM's finish reason and stop reason tell of.
#[pyfunction]
#[pyo3(signature = (finish_reason, stop_reason=None))]
pub(crate) fn end_of(finish_reason: u64, stop_reason: Option<&Bound<'_, PyAny>>) -> PyResult<&'static str> {
    guarded(|| {
        let stop_reason = stop_reason.and_then(|reason| reason.cast::<PyString>().ok()).map(arguments::text);
        let finish_reason = FinishReason::from_code(finish_reason).unwrap_or(FinishReason::Error);
        Ok(arguments::end_word(End::from_wire(finish_reason, stop_reason.as_deref())))
    })
}
