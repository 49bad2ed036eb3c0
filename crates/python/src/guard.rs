//! A panic becomes an ordinary Python exception.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Runs `work`; a panic in it becomes a `RuntimeError`.
///
/// PyO3 alone would raise `PanicException`, a `BaseException`: it would pass every `except
/// Exception` on its way and stop the engine that we only watch.
pub(crate) fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    // Unwind-safe: what `work` may leave half-done is one request's timeline, behind a lock whose
    // poison is looked past, and every field of it is whole at any time.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(PyRuntimeError::new_err(
            "stagespan failed inside (its panic message is on stderr); please report it",
        ))
    })
}
