//! Python's arguments as the model's types, and what is refused.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString};
use stagespan_model::{Clock, End, ErrorType, Gate, Instant, InstantError, StageName};

/// An instant of this process's monotonic clock: `at` in seconds as `time.monotonic()` reads it,
/// or the present if it is not given.
pub(crate) fn instant(at: Option<f64>, clock: &dyn Clock) -> Result<Instant, InstantError> {
    let now = clock.now();
    at.map_or(Ok(now), |seconds| Instant::from_seconds(seconds, clock.domain().tag(), Some(now)))
}

/// A stage's name.
pub(crate) fn stage_name(text: &str) -> PyResult<StageName> {
    StageName::new(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// An input gate.
pub(crate) fn gate(word: &str) -> PyResult<Gate> {
    [Gate::None, Gate::AsyncChunk, Gate::FullPayload].into_iter().find(|g| g.as_str() == word).ok_or_else(
        || PyValueError::new_err(format!("gate {word:?} is none of none, async_chunk, full_payload")),
    )
}

/// The words for how a request ended. `error` has two: a connector's failure is told apart.
const ENDS: [(&str, End); 8] = [
    ("stop", End::Stop),
    ("length", End::Length),
    ("aborted", End::Aborted),
    ("timeout", End::Timeout),
    ("connector_failure", End::ConnectorFailure),
    ("error", End::EngineError),
    ("rejected", End::Rejected),
    ("shutdown", End::Shutdown),
];

/// How a request ended.
pub(crate) fn end(word: &str) -> PyResult<End> {
    ENDS.into_iter().find(|(known, _)| *known == word).map(|(_, end)| end).ok_or_else(|| {
        let words = ENDS.map(|(word, _)| word).join(", ");
        PyValueError::new_err(format!("end {word:?} is none of {words}"))
    })
}

/// The word for how a request ended.
pub(crate) fn end_word(end: End) -> &'static str {
    ENDS.into_iter().find(|(_, known)| *known == end).map_or("error", |(word, _)| word)
}

/// The error of a failed request.
pub(crate) fn error_type(word: &str) -> PyResult<ErrorType> {
    const ALL: [ErrorType; 7] = [
        ErrorType::InputTimeout,
        ErrorType::ConnectorFailure,
        ErrorType::Rejected,
        ErrorType::Shutdown,
        ErrorType::EngineError,
        ErrorType::Aborted,
        ErrorType::StageLost,
    ];
    ALL.into_iter().find(|error| error.as_str() == word).ok_or_else(|| {
        let words = ALL.map(ErrorType::as_str).join(", ");
        PyValueError::new_err(format!("error type {word:?} is none of {words}"))
    })
}

/// A text whose characters may hold lone surrogates, as Python makes of bytes that are no UTF-8;
/// those become U+FFFD.
pub(crate) fn text(value: &Bound<'_, PyString>) -> String {
    value.to_string_lossy().into_owned()
}

/// Headers: any mapping of texts. Entries that are not texts are left out, since a header of
/// another layer is no reason to fail.
pub(crate) fn headers(mapping: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<(String, String)>> {
    let Some(mapping) = mapping.filter(|m| !m.is_none()) else { return Ok(Vec::new()) };
    let mut pairs = Vec::new();
    let mut push = |name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>| {
        if let (Ok(name), Ok(value)) = (name.cast::<PyString>(), value.cast::<PyString>()) {
            pairs.push((text(name), text(value)));
        }
    };
    if let Ok(dict) = mapping.cast::<PyDict>() {
        dict.iter().for_each(|(name, value)| push(&name, &value));
    } else {
        for item in mapping.cast::<PyMapping>()?.items()?.iter() {
            push(&item.get_item(0)?, &item.get_item(1)?);
        }
    }
    Ok(pairs)
}
