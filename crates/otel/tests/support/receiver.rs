//! An OTLP/HTTP receiver that answers by a script.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

/// What the receiver does with one export.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// 200.
    Ok,
    /// 200, with so many spans rejected.
    Partial(i64),
    /// This status, with these header lines.
    Status(u16, &'static [&'static str]),
    /// Nothing, ever.
    Hang,
    /// Closes the connection.
    Close,
    /// 200 and half of the body that was announced.
    HalfBody,
    /// Something that isn't HTTP.
    Garbage,
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

#[derive(Default)]
struct State {
    script: Vec<Answer>,
    exports: Vec<Export>,
}

pub(crate) struct Receiver {
    address: String,
    state: Arc<Mutex<State>>,
}

impl Receiver {
    /// Answers by the script; when it is used up, 200.
    pub(crate) fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut script: Vec<_> = script.into_iter().collect();
        script.reverse();
        let state = Arc::new(Mutex::new(State { script, exports: Vec::new() }));
        let shared = Arc::clone(&state);
        // The threads end with the test's process; a connection ends with its client.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(stream, &state));
            }
        });
        Self { address, state }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}/v1/traces", self.address)
    }

    pub(crate) fn exports(&self) -> Vec<Export> {
        self.state.lock().unwrap().exports.clone()
    }

    /// (accepted, rejected) by its own count.
    pub(crate) fn count(&self) -> (u64, u64) {
        let state = self.state.lock().unwrap();
        state.exports.iter().fold((0, 0), |(a, r), e| (a + e.accepted, r + e.rejected))
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(mut export) = read_export(&mut reader) {
        let total = export.spans().count() as u64;
        let answer = {
            let mut state = state.lock().unwrap();
            let answer = state.script.pop().unwrap_or(Answer::Ok);
            (export.accepted, export.rejected) = match answer {
                Answer::Ok | Answer::HalfBody => (total, 0),
                Answer::Partial(rejected) => (total - rejected as u64, rejected as u64),
                Answer::Status(..) | Answer::Hang | Answer::Close | Answer::Garbage => (0, 0),
            };
            state.exports.push(export);
            answer
        };
        if !reply(&mut writer, answer) {
            // Held open: to the client it looks as if the answer were still to come.
            thread::park();
            return;
        }
    }
}

/// Whether the conversation may go on, or has ended; `false` to stay silent.
fn reply(writer: &mut TcpStream, answer: Answer) -> bool {
    let mut send = |status: u16, headers: &[&str], body: &[u8], announced: usize| {
        let mut head = format!("HTTP/1.1 {status} X\r\ncontent-length: {announced}\r\n");
        for line in headers {
            head.push_str(line);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        let _ = writer.write_all(&[head.as_bytes(), body].concat());
    };
    match answer {
        Answer::Ok => send(200, &[], &[], 0),
        Answer::Partial(rejected_spans) => {
            let partial_success =
                Some(ExportTracePartialSuccess { rejected_spans, error_message: "too old".to_owned() });
            let body = ExportTraceServiceResponse { partial_success }.encode_to_vec();
            send(200, &[], &body, body.len());
        }
        Answer::Status(status, headers) => send(status, headers, &[], 0),
        Answer::Hang => return false,
        Answer::Close => drop(writer.shutdown(std::net::Shutdown::Both)),
        Answer::HalfBody => {
            send(200, &[], b"12345", 10);
            drop(writer.shutdown(std::net::Shutdown::Both));
        }
        Answer::Garbage => {
            let _ = writer.write_all(b"SSH-2.0-OpenSSH_9.2\r\n\r\n");
            drop(writer.shutdown(std::net::Shutdown::Both));
        }
    }
    true
}

fn read_export(reader: &mut BufReader<TcpStream>) -> Option<Export> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    let request = ExportTraceServiceRequest::decode(&*body).unwrap();
    Some(Export { path, headers, request, accepted: 0, rejected: 0 })
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
