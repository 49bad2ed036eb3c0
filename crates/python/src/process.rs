//! What a process has once: layer, clock and figures, made at first use and anew after a fork.
//!
//! A forked child inherits the memory of the export thread, but not the thread; its locks may be
//! held for ever. So everything hangs on one pointer, which the child's fork handler sets to null:
//! the next call builds anew, and what was inherited is leaked, never touched. That costs the hot
//! calls nothing but the load of the pointer.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use stagespan_model::{Clock, RecordSink, SystemClock};
use stagespan_otel::{Activation, AnchorSource, Config, Environment, Layer, Output, Reading, TraceOutput};

use crate::arguments;
use crate::guard::guarded;
use crate::signals;

/// Spans leave after this long at the latest, unless `OTEL_BSP_SCHEDULE_DELAY` says otherwise: what
/// a SIGKILL can cost.
const SCHEDULE_DELAY: Duration = Duration::from_millis(200);
/// The longest that one attempt to export may take, unless the environment says otherwise: what a
/// receiver that hangs can keep the worker from.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);

/// What one process has.
pub(crate) struct Process {
    pub(crate) layer: Layer,
    pub(crate) sink: Arc<dyn RecordSink>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) anchors: AnchorSource,
    pub(crate) environment: Environment,
    pub(crate) figures: Figures,
    /// Which of the process's lives this is: handles of another are refused.
    pub(crate) epoch: u64,
    exporting: Once,
}

/// Things counted beside the layer's own account: by whoever calls us wrongly, each is ignored.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Requests that an abort named and no scheduler knew.
    pub(crate) unknown_requests: AtomicU64,
    /// Calls with a handle that names no request in flight.
    pub(crate) unknown_handles: AtomicU64,
    /// Times that were no instants.
    pub(crate) invalid_times: AtomicU64,
    /// Events out of order, repeated or on another clock.
    pub(crate) ignored_events: AtomicU64,
    /// Stage headers that were malformed: the stage's span became a root.
    pub(crate) bad_stage_headers: AtomicU64,
    /// Stages that refused to join the request's trace.
    pub(crate) refused_joins: AtomicU64,
}

/// Adds one to a figure.
pub(crate) fn count(figure: &AtomicU64) {
    figure.fetch_add(1, Ordering::Relaxed);
}

static CURRENT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
static EPOCH: AtomicU64 = AtomicU64::new(0);
static FORK_HANDLER: Once = Once::new();

/// Runs in a child between fork and return: an atomic store is all that is allowed there.
extern "C" fn forget_the_parents() {
    CURRENT.store(std::ptr::null_mut(), Ordering::SeqCst);
}

/// Prevents the inherited state from being used after a fork, whoever forks.
fn watch_forks() {
    FORK_HANDLER.call_once(|| {
        #[cfg(unix)]
        // SAFETY: the handler is a plain function of this library, which the interpreter never
        // unloads, and does nothing but an atomic store.
        unsafe {
            libc::pthread_atfork(None, None, Some(forget_the_parents));
        }
    });
}

impl Process {
    /// This process's, made from the environment at the first call.
    pub(crate) fn current() -> &'static Self {
        let current = CURRENT.load(Ordering::Acquire);
        if current.is_null() {
            return Self::install(Config::from_environment(&Environment::of_this_process()), None);
        }
        // SAFETY: the pointer came out of `install`, which leaks what it points to.
        unsafe { &*current }
    }

    /// This process's, if anything has used it yet.
    fn used() -> Option<&'static Self> {
        // SAFETY: as in `current`.
        unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
    }

    /// Starts with this configuration. `instead_of` is what it replaces; if another thread was
    /// faster, its result stands.
    fn install(reading: Reading, instead_of: Option<&'static Self>) -> &'static Self {
        watch_forks();
        let environment = Environment::of_this_process();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let layer = Layer::start_or_off(suited(reading, &environment), Arc::clone(&clock));
        let made = Box::leak(Box::new(Self {
            sink: layer.sink(),
            layer,
            anchors: AnchorSource::new(Arc::clone(&clock)),
            clock,
            environment,
            figures: Figures::default(),
            epoch: EPOCH.fetch_add(1, Ordering::Relaxed) + 1,
            exporting: Once::new(),
        }));
        let expected = instead_of.map_or(std::ptr::null_mut(), |old| std::ptr::from_ref(old).cast_mut());
        match CURRENT.compare_exchange(expected, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            // SAFETY: as in `current`; null is not possible, since only a fork's child stores it.
            Err(theirs) => unsafe { theirs.as_ref() }.unwrap_or(made),
        }
    }

    /// Runs `work`, which may start the export thread: the first record does, or the first request.
    pub(crate) fn exporting<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.exporting.is_completed() {
            return work();
        }
        let done = signals::blocked(work);
        self.exporting.call_once(|| {});
        done
    }
}

/// The configuration, suited to an engine that may be killed at any time.
fn suited(mut reading: Reading, environment: &Environment) -> Reading {
    if let Ok(Activation::On(config)) = &mut reading.activation {
        if environment.get("OTEL_BSP_SCHEDULE_DELAY").is_none() {
            config.batch.schedule_delay = SCHEDULE_DELAY;
        }
        let timeouts = ["OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"];
        if let Output::Otlp(otlp) = &mut config.output
            && timeouts.iter().all(|name| environment.get(name).is_none())
        {
            otlp.timeout = Some(ATTEMPT_TIMEOUT);
        }
    }
    reading
}

/// Starts tracing by hand instead of by the environment: into a file, or with variables of one's
/// own. Whatever ran before is flushed and ended. Answers whether tracing is on.
#[pyfunction]
#[pyo3(signature = (*, json_file=None, environ=None))]
pub(crate) fn configure(
    py: Python<'_>,
    json_file: Option<std::path::PathBuf>,
    environ: Option<&Bound<'_, PyAny>>,
) -> PyResult<bool> {
    guarded(|| {
        let environment = match environ {
            Some(given) => Environment::from_pairs(arguments::headers(Some(given))?),
            None => Environment::of_this_process(),
        };
        let reading = match json_file {
            Some(path) => Config::to_json_file(path, &environment),
            None => Config::from_environment(&environment),
        };
        py.detach(|| {
            let before = Process::used();
            if let Some(before) = before {
                let _ = before.layer.shutdown(Duration::from_secs(2));
            }
            Ok(Process::install(reading, before).layer.is_on())
        })
    })
}

/// Whether tracing is on in this process.
#[pyfunction]
pub(crate) fn is_on() -> PyResult<bool> {
    guarded(|| Ok(Process::current().layer.is_on()))
}

/// Where the spans go: `off`, `console`, a file or the receiver's address.
#[pyfunction]
pub(crate) fn output() -> PyResult<String> {
    guarded(|| {
        Ok(match Process::current().layer.output() {
            TraceOutput::Off => "off".to_owned(),
            TraceOutput::Receiver(address) => address,
            TraceOutput::Console => "console".to_owned(),
            TraceOutput::File(path) => path.display().to_string(),
        })
    })
}

/// The identity of the clock that `time.monotonic()` reads here, or that process `pid` reads on
/// this machine; `None` where it can't be told.
#[pyfunction]
#[pyo3(signature = (pid=None))]
pub(crate) fn clock_domain(pid: Option<u32>) -> PyResult<Option<String>> {
    guarded(|| {
        Ok(match pid {
            None => Some(Process::current().clock.domain().id().to_owned()),
            Some(pid) => stagespan_model::ClockDomain::of_process(pid).map(|domain| domain.id().to_owned()),
        })
    })
}

fn deadline(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{seconds} s is no time to wait")))
}

/// Waits until everything recorded before the call is exported, at most `timeout_s` seconds.
/// Answers whether all of it was.
#[pyfunction]
#[pyo3(signature = (timeout_s=2.0))]
pub(crate) fn flush(py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
    guarded(|| {
        let within = deadline(timeout_s)?;
        // At exit, a process that never traced must not start to.
        let Some(process) = Process::used() else { return Ok(true) };
        Ok(py.detach(|| process.layer.flush(within)).is_ok())
    })
}

/// Exports what there is, at most `timeout_s` seconds, and ends tracing in this process. Answers
/// whether all of it was exported. A second call is harmless.
#[pyfunction]
#[pyo3(signature = (timeout_s=2.0))]
pub(crate) fn shutdown(py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
    guarded(|| {
        let within = deadline(timeout_s)?;
        // At exit, a process that never traced must not start to.
        let Some(process) = Process::used() else { return Ok(true) };
        Ok(py.detach(|| process.layer.shutdown(within)).is_ok())
    })
}

/// What became of every span of this process, as a JSON object.
#[pyfunction]
pub(crate) fn stats() -> PyResult<String> {
    guarded(|| {
        let process = Process::current();
        let figure = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let Figures {
            unknown_requests,
            unknown_handles,
            invalid_times,
            ignored_events,
            bad_stage_headers,
            refused_joins,
        } = &process.figures;
        let mut account = serde_json::to_value(process.layer.stats())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        account["python"] = serde_json::json!({
            "unknown_requests": figure(unknown_requests),
            "unknown_handles": figure(unknown_handles),
            "invalid_times": figure(invalid_times),
            "ignored_events": figure(ignored_events),
            "bad_stage_headers": figure(bad_stage_headers),
            "refused_joins": figure(refused_joins),
        });
        Ok(account.to_string())
    })
}

/// Counts requests that were to be aborted, and that no scheduler knew.
#[pyfunction]
pub(crate) fn count_unknown(requests: u64) -> PyResult<()> {
    guarded(|| {
        Process::current().figures.unknown_requests.fetch_add(requests, Ordering::Relaxed);
        Ok(())
    })
}
