//! OTLP over HTTP.

use std::io::{self, Read as _, Write as _};
use std::time::{Duration, SystemTime};

use ::http::HeaderMap;
use ::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use prost::Message as _;
use reqwest::Url;
use reqwest::blocking::{Client, Response};

use super::batch::Batch;
use super::outcome::{Outcome, OutcomeKind};
use super::receiver::{Receiver, Secrets, USER_AGENT};
use super::transport::{Transport, TransportError};
use super::trouble;
use crate::config::Compression;

mod answer;

use answer::Answer;

/// What is read of an answer's body, at most. A partial success is a few hundred bytes.
const BODY_MAX_BYTES: u64 = 64 * 1024;

/// Posts batches, and reads every answer.
pub(super) struct HttpTransport {
    client: Client,
    url: Url,
    headers: HeaderMap,
    compression: Compression,
    secrets: Secrets,
}

impl HttpTransport {
    /// Opens no connection yet. Must run on a thread outside any async runtime.
    pub(super) fn open(receiver: Receiver) -> Result<Self, TransportError> {
        let Receiver { url, mut headers, compression, tls, connect_timeout, secrets } = receiver;
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .connect_timeout(connect_timeout)
            // Each request has its own; the client's default of 30 s would cut a longer one short.
            .timeout(None)
            // A redirected POST would go on as a GET without its spans.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(USER_AGENT)
            .build()
            .map_err(|error| TransportError::Receiver(format!("the HTTP client can't start: {error}")))?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        if compression != Compression::None {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(compression.as_str()));
        }
        Ok(Self { client, url, headers, compression, secrets })
    }

    fn read(&self, response: Response, len: u64) -> Outcome {
        let status = response.status();
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| answer::retry_after(value, SystemTime::now()));
        let mut body = Vec::new();
        match response.take(BODY_MAX_BYTES).read_to_end(&mut body) {
            Ok(_) => answer::outcome(Answer { status, retry_after, body: &body }, len, &self.secrets),
            Err(error) if is_timeout(&error) => {
                Outcome::lost(OutcomeKind::Failed, format!("no whole answer in time, after status {status}"))
            }
            // The status is the answer; without its body a partial success stays unknown.
            Err(_) => answer::outcome(Answer { status, retry_after, body: &[] }, len, &self.secrets),
        }
    }
}

impl Transport for HttpTransport {
    fn send(&mut self, batch: &mut Batch, within: Option<Duration>) -> Outcome {
        let compression = self.compression;
        let body = match batch.bytes(|message| compress(compression, message.encode_to_vec())) {
            Ok(body) => body,
            Err(error) => {
                return Outcome::lost(OutcomeKind::Failed, format!("the batch can't be compressed: {error}"));
            }
        };
        let mut post = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body);
        if let Some(within) = within {
            post = post.timeout(within);
        }
        match post.send() {
            Ok(response) => self.read(response, batch.len()),
            Err(error) => failure(error),
        }
    }
}

fn compress(compression: Compression, message: Vec<u8>) -> io::Result<Vec<u8>> {
    match compression {
        Compression::None => Ok(message),
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(&message)?;
            encoder.finish()
        }
        Compression::Zstd => zstd::bulk::compress(&message, zstd::DEFAULT_COMPRESSION_LEVEL),
    }
}

fn is_timeout(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<reqwest::Error>());
    error.kind() == io::ErrorKind::TimedOut || inner.is_some_and(reqwest::Error::is_timeout)
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
    Outcome::lost(kind, trouble::describe(&error))
}
