//! The live `request` span, and the headers that it gives each stage.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use stagespan_model::ClockDomain;
use stagespan_otel::{Door, RequestOpening, RequestSpan as Live, StageTarget};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::arguments;
use crate::guard::guarded;
use crate::process::Process;

/// The span of one request, from its door until `end()` (or until it is collected).
///
/// It may be used from any thread.
#[pyclass(frozen, module = "stagespan")]
pub(crate) struct RequestSpan {
    live: Mutex<Option<Live>>,
    epoch: u64,
}

/// Opens the span of a request that has just come in: a child of the caller's context in
/// `headers`, if there is one. Names of headers count in any case; `stagespan-*` ones are ignored.
#[pyfunction]
#[pyo3(signature = (request_id, headers=None, *, door="call"))]
pub(crate) fn open_request(
    request_id: &Bound<'_, PyString>,
    headers: Option<&Bound<'_, PyAny>>,
    door: &str,
) -> PyResult<RequestSpan> {
    guarded(|| {
        let door = match door {
            "http" => Door::Http,
            "call" => Door::Call,
            other => return Err(PyValueError::new_err(format!("door {other:?} is neither http nor call"))),
        };
        let headers = arguments::headers(headers)?;
        let process = Process::current();
        let request_id = arguments::text(request_id);
        let headers = headers.iter().map(|(name, value)| (&**name, &**value));
        let opening = RequestOpening { request_id: &request_id, headers, door };
        let live = process.exporting(|| process.layer.open_request(opening));
        Ok(RequestSpan { live: Mutex::new(Some(live)), epoch: process.epoch })
    })
}

impl RequestSpan {
    fn live(&self) -> MutexGuard<'_, Option<Live>> {
        // Whoever panicked with it left a span that can still be ended.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the span is of this process: after a fork it belongs to the parent.
    fn is_ours(&self) -> bool {
        self.epoch == Process::current().epoch
    }

    fn take(&self) -> Option<Live> {
        let live = self.live().take()?;
        if self.is_ours() {
            return Some(live);
        }
        // Its locks are the parent's, and may be held for ever.
        std::mem::forget(live);
        None
    }
}

#[pymethods]
impl RequestSpan {
    /// The ids and the context of a stage's span, as the headers of its submit message; empty while
    /// tracing is off or the span has ended. Once per stage, upstream stages first.
    ///
    /// `pid` is the stage's process on this machine, `clock_domain` what a remote one said of its
    /// clock; without either its clock counts as another.
    #[pyo3(signature = (stage, *, pid=None, clock_domain=None, upstreams=vec![], companion_role=None))]
    fn assign<'py>(
        &self,
        py: Python<'py>,
        stage: &str,
        pid: Option<u32>,
        clock_domain: Option<&str>,
        upstreams: Vec<String>,
        companion_role: Option<&str>,
    ) -> PyResult<Bound<'py, PyDict>> {
        guarded(|| {
            let headers = PyDict::new(py);
            let name = arguments::stage_name(stage)?;
            let upstreams: Vec<_> =
                upstreams.iter().map(|stage| arguments::stage_name(stage)).collect::<PyResult<_>>()?;
            let clock =
                clock_domain.and_then(ClockDomain::from_id).or_else(|| pid.and_then(ClockDomain::of_process));
            if !self.is_ours() {
                return Ok(headers);
            }
            if let Some(live) = &mut *self.live() {
                let assigned = live.assign(StageTarget {
                    name: &name,
                    clock: clock.as_ref(),
                    upstreams: &upstreams,
                    companion_role,
                });
                for (name, value) in assigned.headers {
                    headers.set_item(name, value)?;
                }
            }
            Ok(headers)
        })
    }

    /// Marks the request as failed. The message is for people and must hold nothing of the payload.
    fn fail(&self, error_type: &str, message: &Bound<'_, PyString>) -> PyResult<()> {
        guarded(|| {
            let error_type = arguments::error_type(error_type)?;
            if let Some(live) = self.live().as_ref().filter(|_| self.is_ours()) {
                live.fail(error_type, &arguments::text(message));
            }
            Ok(())
        })
    }

    /// The tokens that the request took and gave, as they would be billed.
    fn usage(&self, input_tokens: u64, output_tokens: u64) -> PyResult<()> {
        guarded(|| {
            if let Some(live) = self.live().as_ref().filter(|_| self.is_ours()) {
                live.usage(input_tokens, output_tokens);
            }
            Ok(())
        })
    }

    /// Ends the request now. A second call does nothing.
    fn end(&self) -> PyResult<()> {
        guarded(|| {
            if let Some(live) = self.take() {
                live.end();
            }
            Ok(())
        })
    }

    /// The request's trace id in hex; `None` while tracing is off.
    #[getter]
    fn trace_id(&self) -> PyResult<Option<String>> {
        guarded(|| {
            let live = self.live();
            Ok(live.as_ref().filter(|_| self.is_ours()).and_then(Live::trace_id).map(|id| id.to_string()))
        })
    }

    /// Whether the request and its stages are exported.
    #[getter]
    fn is_sampled(&self) -> PyResult<bool> {
        guarded(|| Ok(self.live().as_ref().is_some_and(|live| self.is_ours() && live.is_sampled())))
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        // Nobody is there to raise to; a failure inside has been printed by the panic hook.
        let _ = self.end();
    }
}
