//! Whether a receiver takes what we send: one empty export, and a closer look if it gets no answer.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_sdk::Resource;

use super::batch::Batch;
use super::outcome::OutcomeKind;
use super::receiver::Receiver;
use super::transport::Opening;
use crate::config::{Config, Output, Protocol};

mod cause;
mod look;

pub use cause::ProbeCause;
use look::Seen;

/// The longest that one step of the closer look may take.
const STEP_MAX: Duration = Duration::from_secs(2);

/// What came of contacting the receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeOutcome {
    /// Which case it is.
    pub cause: ProbeCause,
    /// What happened. Holds no secret.
    pub detail: String,
    /// What to do; empty where nothing is to be done.
    pub remedy: String,
}

/// Contacts the receiver of this configuration with an export that holds no span, as the layer
/// itself would, and says what came of it, `within` at the longest.
///
/// Where the export gets no answer, a second connection is looked at step by step, to tell a
/// refused port from a wrong certificate from another protocol. That one goes to the receiver
/// directly, also where the environment names an HTTP proxy.
pub fn probe(config: &Config, within: Duration) -> ProbeOutcome {
    let Output::Otlp(otlp) = &config.output else {
        return ProbeOutcome::new(ProbeCause::NoReceiver, "the spans go to no receiver", "");
    };
    let receiver = match Receiver::check(otlp) {
        Ok(receiver) => receiver,
        Err(error) => return ProbeOutcome::new(ProbeCause::Unusable, error.to_string(), ""),
    };
    let deadline = Instant::now() + within;
    let contact = Contact {
        protocol: otlp.protocol,
        attempt_within: otlp.timeout.map_or(within, |timeout| timeout.min(within)),
        deadline,
        receiver,
    };
    let address = contact.address();
    let (sender, outcome) = mpsc::channel();
    // Both clients want a thread outside any async runtime; and name resolution knows no deadline.
    let started = thread::Builder::new().name("stagespan-probe".to_owned()).spawn(move || {
        // Nobody listens any more where it took too long.
        let _ = sender.send(contact.make());
    });
    if let Err(error) = started {
        return ProbeOutcome::new(ProbeCause::NoAnswer, format!("no thread can be started: {error}"), "");
    }
    outcome.recv_timeout(within).unwrap_or_else(|_| {
        ProbeOutcome::of(ProbeCause::TimedOut, format!("no answer from {address} within {within:?}"))
    })
}

struct Contact {
    receiver: Receiver,
    protocol: Protocol,
    attempt_within: Duration,
    deadline: Instant,
}

impl Contact {
    /// Host and port, without user and password.
    fn address(&self) -> String {
        let url = &self.receiver.url;
        let host = url.host_str().unwrap_or_default();
        url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    fn make(self) -> ProbeOutcome {
        let receiver = Box::new(self.receiver.clone());
        let opening = match self.protocol {
            Protocol::HttpProtobuf => Opening::Http(receiver),
            Protocol::Grpc => Opening::Grpc(receiver),
        };
        let mut transport = match opening.open() {
            Ok(transport) => transport,
            Err(error) => return ProbeOutcome::new(ProbeCause::Unusable, error.to_string(), ""),
        };
        let mut nothing = Batch::new(Resource::builder_empty().build(), Vec::new());
        let outcome = transport.send(&mut nothing, Some(self.attempt_within));
        if outcome.kind == OutcomeKind::Delivered {
            let detail = format!("{} takes spans over {}", self.address(), self.protocol.as_str());
            return ProbeOutcome::new(ProbeCause::Ok, detail, "");
        }
        if let Some(cause) = cause::of_answer(&outcome.message) {
            let detail = cause::without_hint(&outcome.message);
            return ProbeOutcome::new(cause, detail, self.remedy_of_answer(cause, &outcome.message));
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        let step = self.attempt_within.min(STEP_MAX).min(left);
        let seen = look::at(&self.receiver, self.protocol, step);
        self.no_answer(seen, &outcome.message)
    }

    fn remedy_of_answer(&self, cause: ProbeCause, message: &str) -> String {
        match (cause, self.protocol) {
            (ProbeCause::NotFound, Protocol::HttpProtobuf) => format!(
                "OTLP/HTTP is usually at /v1/traces, and this address's path is {}: that path is added to \
                 OTEL_EXPORTER_OTLP_ENDPOINT, but OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is used as it is",
                self.receiver.url.path()
            ),
            (ProbeCause::Answered, _) => cause::remedy_of_status(message).to_owned(),
            _ => cause.remedy().to_owned(),
        }
    }

    /// What it was, from what a closer look saw, and the client's own words.
    fn no_answer(&self, seen: Seen, words: &str) -> ProbeOutcome {
        let address = self.address();
        let (cause, detail) = match (seen, self.protocol) {
            (Seen::NoAddress(why), _) => {
                let host = self.receiver.url.host_str().unwrap_or_default();
                (ProbeCause::NameNotResolved, format!("the name {host} can't be resolved: {why}"))
            }
            (Seen::Refused, _) => {
                (ProbeCause::Refused, format!("connection refused: nothing listens at {address}"))
            }
            (Seen::NotConnected(why), _) => {
                (ProbeCause::NotReached, format!("no connection to {address}: {why}"))
            }
            (Seen::ConnectTimedOut, _) => {
                (ProbeCause::TimedOut, format!("no connection to {address} in time"))
            }
            (Seen::TlsFailed(cause, why), _) => (cause, format!("TLS with {address} failed: {why}")),
            (Seen::NotTls, _) => (
                ProbeCause::NotTls,
                format!("the receiver at {address} does not speak TLS, and the address is https://"),
            ),
            (Seen::Tls, _) => (
                ProbeCause::ExpectsTls,
                format!("the receiver at {address} speaks TLS, and the address is http://"),
            ),
            (Seen::Http2, Protocol::HttpProtobuf) => (
                ProbeCause::SpeaksGrpc,
                format!("the receiver at {address} speaks gRPC (HTTP/2), not OTLP over HTTP/1.1"),
            ),
            (Seen::Http1, Protocol::Grpc) => {
                (ProbeCause::SpeaksHttp, format!("the receiver at {address} speaks HTTP/1.1, not gRPC"))
            }
            (Seen::Garbage, _) => {
                (ProbeCause::NotOtlp, format!("what listens at {address} speaks neither HTTP nor gRPC"))
            }
            (Seen::Silent, _) => {
                (ProbeCause::TimedOut, format!("{address} takes the connection, but never answers"))
            }
            (Seen::Closed | Seen::Http1 | Seen::Http2, _) => {
                (ProbeCause::NoAnswer, format!("no answer from {address}: {words}"))
            }
        };
        ProbeOutcome::of(cause, detail)
    }
}

impl ProbeOutcome {
    fn new(cause: ProbeCause, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { cause, detail: detail.into(), remedy: remedy.into() }
    }

    /// With the remedy of its cause.
    fn of(cause: ProbeCause, detail: impl Into<String>) -> Self {
        Self::new(cause, detail, cause.remedy())
    }
}

#[cfg(test)]
mod tests;
