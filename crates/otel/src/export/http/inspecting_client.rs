//! The HTTP client under the exporter: it sends nothing behind the worker's back.

use std::fmt;
use std::io::Read as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ::http::HeaderMap;
use ::http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use opentelemetry_http::{Bytes, HttpError, Request, Response};

use super::answer::{self, Answer};
use crate::export::transport::{Outcome, OutcomeKind};

/// What is read of an answer's body, at most. A partial success is a few hundred bytes.
const BODY_MAX_BYTES: u64 = 64 * 1024;

/// Takes an encoded batch from the exporter, and posts it when told to.
pub(super) struct InspectingClient {
    http: reqwest::blocking::Client,
    endpoint: reqwest::Url,
    headers: HeaderMap,
    encoded: Mutex<Option<Request<Bytes>>>,
}

impl fmt::Debug for InspectingClient {
    /// Without address and headers: both may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InspectingClient").finish_non_exhaustive()
    }
}

impl InspectingClient {
    pub(super) fn new(http: reqwest::blocking::Client, endpoint: reqwest::Url, headers: HeaderMap) -> Self {
        Self { http, endpoint, headers, encoded: Mutex::default() }
    }

    /// Keeps the exporter's request and answers it with an empty success.
    pub(super) fn take_from_exporter(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        *self.encoded.lock().unwrap_or_else(PoisonError::into_inner) = Some(request);
        Ok(Response::new(Bytes::new()))
    }

    /// The request that the exporter made, once.
    pub(super) fn encoded(&self) -> Option<Request<Bytes>> {
        self.encoded.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Posts an encoded batch of `len` spans, in no longer than `within`.
    pub(super) fn post(&self, request: Request<Bytes>, len: u64, within: Option<Duration>) -> Outcome {
        let mut headers = self.headers.clone();
        for name in [CONTENT_TYPE, CONTENT_ENCODING] {
            if let Some(value) = request.headers().get(&name) {
                headers.insert(name, value.clone());
            }
        }
        if let (false, Some(agent)) = (headers.contains_key(USER_AGENT), request.headers().get(USER_AGENT)) {
            headers.insert(USER_AGENT, agent.clone());
        }
        let mut post = self.http.post(self.endpoint.clone()).headers(headers).body(request.into_body());
        if let Some(within) = within {
            post = post.timeout(within);
        }
        match post.send() {
            Ok(response) => Self::read(response, len),
            Err(error) => failure(error),
        }
    }

    fn read(response: reqwest::blocking::Response, len: u64) -> Outcome {
        let status = response.status();
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| answer::retry_after(value, SystemTime::now()));
        let mut body = Vec::new();
        match response.take(BODY_MAX_BYTES).read_to_end(&mut body) {
            Ok(_) => answer::outcome(Answer { status, retry_after, body: &body }, len),
            Err(error) if is_timeout(&error) => {
                Outcome::lost(OutcomeKind::Failed, format!("no whole answer in time, after status {status}"))
            }
            // The status is the answer; without its body a partial success stays unknown.
            Err(_) => answer::outcome(Answer { status, retry_after, body: &[] }, len),
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<reqwest::Error>());
    error.kind() == std::io::ErrorKind::TimedOut || inner.is_some_and(reqwest::Error::is_timeout)
}

/// What to make of a request that got no answer.
fn failure(error: reqwest::Error) -> Outcome {
    // The address may hold a password.
    let error = error.without_url();
    let kind = if error.is_connect() {
        // It never got there.
        OutcomeKind::Retryable
    } else if error.is_timeout() || error.is_builder() {
        // The receiver may have taken it, and would count it twice.
        OutcomeKind::Failed
    } else {
        // The connection ended without an answer: OTLP asks to send again.
        OutcomeKind::Retryable
    };
    Outcome::lost(kind, chain(&error))
}

/// An error with all of its causes: reqwest's own text stops at "error sending request".
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
