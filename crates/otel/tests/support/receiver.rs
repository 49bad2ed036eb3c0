//! An OTLP receiver that answers by a script, over HTTP or gRPC, with or without TLS.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use stagespan_otel::OtlpOutput;

use super::grpc_server;
use super::http_server;

/// What the receiver does with one export.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Takes it.
    Ok,
    /// Takes it, with so many spans rejected.
    Partial(i64),
    /// This HTTP status, with these header lines. Over gRPC too: as a proxy would answer.
    Status(u16, &'static [&'static str]),
    /// This gRPC status, with the time after which to try again.
    Code(tonic::Code, Option<Duration>),
    /// Calls it malformed if it holds the span of this name and request id; else takes it.
    BadIf(&'static str, &'static str),
    /// Calls it malformed if it holds any span whose request id is this.
    BadRequestId(&'static str),
    /// Nothing, ever.
    Hang,
    /// Sends its answer byte by byte, for ever.
    Drip,
    /// Closes the connection.
    Close,
    /// Closes the connection before it has read the export's body.
    ResetMidBody,
    /// Takes it, but sends half of the answer that was announced.
    HalfBody,
    /// Something that isn't the protocol.
    Garbage,
    /// An answer of many megabytes. Over HTTP it takes the export: the status says so.
    Huge,
    /// Refuses it, with words that repeat what was sent in header `authorization`.
    Echo,
}

/// One export as it came.
#[derive(Clone, Debug)]
pub(crate) struct Export {
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) request: ExportTraceServiceRequest,
    /// How many of its spans the answer says were taken.
    pub(crate) accepted: u64,
    pub(crate) rejected: u64,
}

impl Export {
    pub(crate) fn spans(&self) -> impl Iterator<Item = &Span> {
        self.request.resource_spans.iter().flat_map(|r| &r.scope_spans).flat_map(|s| &s.spans)
    }
}

/// What receiver and test share.
#[derive(Default)]
pub(crate) struct State {
    script: Vec<Answer>,
    /// What it does when the script is used up.
    then: Option<Answer>,
    exports: Vec<Export>,
    attempts: u64,
}

pub(crate) type Shared = Arc<Mutex<State>>;

impl State {
    /// The next answer, before anything was read of the export.
    pub(crate) fn next(&mut self) -> Answer {
        self.attempts += 1;
        self.script.pop().or_else(|| self.then.clone()).unwrap_or(Answer::Ok)
    }

    /// Notes an export, and settles what the answer is. `over_http` says which answers count as
    /// taken there.
    pub(crate) fn note(&mut self, mut export: Export, answer: Answer, over_http: bool) -> Answer {
        let total = export.spans().count() as u64;
        let is_bad = |of: &dyn Fn(&Span) -> bool| export.spans().any(of);
        let request_id = |span: &Span| attribute(&span.attributes, "stagespan.request.id");
        let bad = if over_http {
            Answer::Status(400, &[])
        } else {
            Answer::Code(tonic::Code::InvalidArgument, None)
        };
        let answer = match answer {
            Answer::BadIf(name, id) => {
                match is_bad(&|span| span.name == name && request_id(span).as_deref() == Some(id)) {
                    true => bad,
                    false => Answer::Ok,
                }
            }
            Answer::BadRequestId(id) => match is_bad(&|span| request_id(span).as_deref() == Some(id)) {
                true => bad,
                false => Answer::Ok,
            },
            answer => answer,
        };
        (export.accepted, export.rejected) = match answer {
            Answer::Ok => (total, 0),
            Answer::HalfBody | Answer::Huge if over_http => (total, 0),
            Answer::Partial(rejected) => {
                let rejected = (rejected as u64).min(total);
                (total - rejected, rejected)
            }
            _ => (0, 0),
        };
        self.exports.push(export);
        answer
    }
}

pub(crate) struct Receiver {
    address: SocketAddr,
    is_grpc: bool,
    is_secure: bool,
    state: Shared,
}

/// The protocol that a receiver speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http,
    Grpc,
}

impl Receiver {
    /// Speaks HTTP. Answers by the script; when it is used up, it takes everything.
    pub(crate) fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        Self::scripted(Speaks::Http, script)
    }

    /// Speaks gRPC.
    pub(crate) fn start_grpc(script: impl IntoIterator<Item = Answer>) -> Self {
        Self::scripted(Speaks::Grpc, script)
    }

    /// Answers by the script in this protocol.
    pub(crate) fn scripted(speaks: Speaks, script: impl IntoIterator<Item = Answer>) -> Self {
        Self::build(speaks, script, None, None)
    }

    /// Gives one answer for ever.
    pub(crate) fn always(speaks: Speaks, answer: Answer) -> Self {
        Self::build(speaks, [], Some(answer), None)
    }

    /// Takes everything, behind TLS.
    pub(crate) fn secure(speaks: Speaks, tls: Arc<rustls::ServerConfig>) -> Self {
        Self::build(speaks, [], None, Some(tls))
    }

    fn build(
        speaks: Speaks,
        script: impl IntoIterator<Item = Answer>,
        then: Option<Answer>,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut script: Vec<_> = script.into_iter().collect();
        script.reverse();
        let state = Arc::new(Mutex::new(State { script, then, ..State::default() }));
        let is_secure = tls.is_some();
        match speaks {
            Speaks::Http => http_server::start(listener, Arc::clone(&state), tls),
            Speaks::Grpc => grpc_server::start(listener, Arc::clone(&state), tls),
        }
        Self { address, is_grpc: speaks == Speaks::Grpc, is_secure, state }
    }

    pub(crate) fn endpoint(&self) -> String {
        let path = if self.is_grpc { "" } else { "/v1/traces" };
        match self.is_secure {
            // Certificates are for names.
            true => format!("https://localhost:{}{path}", self.address.port()),
            false => format!("http://{}{path}", self.address),
        }
    }

    pub(crate) fn output(&self) -> OtlpOutput {
        if self.is_grpc { OtlpOutput::grpc(self.endpoint()) } else { OtlpOutput::http(self.endpoint()) }
    }

    pub(crate) fn exports(&self) -> Vec<Export> {
        self.state.lock().unwrap().exports.clone()
    }

    /// How often it was asked, whatever it then read.
    pub(crate) fn attempts(&self) -> u64 {
        self.state.lock().unwrap().attempts
    }

    /// (accepted, rejected) by its own count.
    pub(crate) fn count(&self) -> (u64, u64) {
        let state = self.state.lock().unwrap();
        state.exports.iter().fold((0, 0), |(a, r), e| (a + e.accepted, r + e.rejected))
    }
}

/// The body of an answer that takes all but `rejected` spans.
pub(crate) fn answer_body(rejected: i64) -> Vec<u8> {
    let partial_success = (rejected != 0)
        .then(|| ExportTracePartialSuccess { rejected_spans: rejected, error_message: "too old".to_owned() });
    ExportTraceServiceResponse { partial_success }.encode_to_vec()
}

/// Undoes a `content-encoding` or `grpc-encoding`.
pub(crate) fn decompress(encoding: Option<&str>, body: Vec<u8>) -> Vec<u8> {
    match encoding {
        None | Some("identity") => body,
        Some("gzip") => {
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&*body).read_to_end(&mut plain).unwrap();
            plain
        }
        Some("zstd") => zstd::stream::decode_all(&*body).unwrap(),
        Some(other) => panic!("encoding {other}"),
    }
}

/// An attribute as text.
pub(crate) fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let value = attributes.iter().find(|kv| kv.key == key)?.value.clone()?;
    match value {
        AnyValue { value: Some(Value::StringValue(text)) } => Some(text),
        AnyValue { value: Some(Value::IntValue(int)) } => Some(int.to_string()),
        AnyValue { value: Some(Value::BoolValue(bool)) } => Some(bool.to_string()),
        other => Some(format!("{other:?}")),
    }
}
