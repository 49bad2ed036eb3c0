//! The HTTP side of the scripted receiver: threads, and nothing that would mend what is broken on
//! purpose.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;

use super::receiver::{Answer, Export, Shared, answer_body, decompress};

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// Serves for as long as the test's process lives; a connection ends with its client.
pub(crate) fn start(listener: TcpListener, state: Shared, tls: Option<Arc<rustls::ServerConfig>>) {
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (state, tls) = (Arc::clone(&state), tls.clone());
            thread::spawn(move || {
                let tcp = stream.try_clone().unwrap();
                match tls {
                    None => serve(stream, &tcp, &state),
                    Some(tls) => {
                        let connection = rustls::ServerConnection::new(tls).unwrap();
                        serve(rustls::StreamOwned::new(connection, stream), &tcp, &state);
                    }
                }
            });
        }
    });
}

fn serve(stream: impl Stream, tcp: &TcpStream, state: &Shared) {
    let mut stream = BufReader::new(stream);
    while let Some(head) = read_head(&mut stream) {
        let answer = state.lock().unwrap().next();
        if matches!(answer, Answer::ResetMidBody) {
            // What is unread when a socket closes makes the kernel send a reset.
            return;
        }
        let Some(export) = read_export(&mut stream, head) else { return };
        let authorization = export.headers.get("authorization").cloned().unwrap_or_default();
        let answer = state.lock().unwrap().note(export, answer, true);
        if !reply(stream.get_mut(), tcp, &answer, &authorization) {
            // Held open: to the client it looks as if the answer were still to come.
            thread::park();
            return;
        }
    }
}

/// Whether the conversation may go on, or has ended; `false` to stay silent.
fn reply(writer: &mut impl Write, tcp: &TcpStream, answer: &Answer, authorization: &str) -> bool {
    let mut send = |status: u16, headers: &[&str], body: &[u8], announced: usize| {
        let mut head = format!("HTTP/1.1 {status} X\r\ncontent-length: {announced}\r\n");
        for line in headers {
            head.push_str(line);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        let _ = writer.write_all(&[head.as_bytes(), body].concat());
        let _ = writer.flush();
    };
    match answer {
        Answer::Ok => send(200, &[], &[], 0),
        Answer::Partial(rejected) => {
            let body = answer_body(*rejected);
            send(200, &[], &body, body.len());
        }
        Answer::Status(status, headers) => send(*status, headers, &[], 0),
        Answer::Echo => send(401, &[], authorization.as_bytes(), authorization.len()),
        Answer::Hang => return false,
        Answer::Drip => {
            send(200, &[], &[], 1_000_000);
            while writer.write_all(b"x").and_then(|()| writer.flush()).is_ok() {
                thread::sleep(Duration::from_millis(10));
            }
        }
        Answer::Close | Answer::ResetMidBody => drop(tcp.shutdown(Shutdown::Both)),
        Answer::HalfBody => {
            send(200, &[], b"12345", 10);
            drop(tcp.shutdown(Shutdown::Both));
        }
        Answer::Garbage => {
            let _ = writer.write_all(b"SSH-2.0-OpenSSH_9.2\r\n\r\n");
            drop(tcp.shutdown(Shutdown::Both));
        }
        Answer::Huge => {
            let megabyte = vec![b'x'; 1 << 20];
            send(200, &[], &[], 64 * megabyte.len());
            for _ in 0..64 {
                if writer.write_all(&megabyte).is_err() {
                    break;
                }
            }
        }
        Answer::Code(..) | Answer::BadIf(..) | Answer::BadRequestId(_) => panic!("not over HTTP: {answer:?}"),
    }
    true
}

struct Head {
    path: String,
    headers: BTreeMap<String, String>,
}

fn read_head(reader: &mut impl BufRead) -> Option<Head> {
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
    Some(Head { path, headers })
}

fn read_export(reader: &mut impl Read, Head { path, headers }: Head) -> Option<Export> {
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    let body = decompress(headers.get("content-encoding").map(String::as_str), body);
    let request = ExportTraceServiceRequest::decode(&*body).unwrap();
    Some(Export { path, headers, request, accepted: 0, rejected: 0 })
}
