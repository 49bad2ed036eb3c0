//! `stagespan doctor` as a program: broken set-ups and the cause that it names, exit codes, and
//! that no secret is printed.
//!
//! Each case runs against a listener of its own on a free port.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use serde_json::Value;

const TOKEN: &str = "tok-hunter2";
const PASSWORD: &str = "passw0rd";

/// What a case keeps alive: a listener that never accepts. The kernel takes the connections.
type Peer = Option<TcpListener>;

fn free_port() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn gone() -> (Peer, u16) {
    (None, free_port().1)
}

fn blackhole() -> (Peer, u16) {
    let (listener, port) = free_port();
    (Some(listener), port)
}

fn server(serve: impl Fn(TcpStream) + Send + 'static) -> (Peer, u16) {
    let (listener, port) = free_port();
    thread::spawn(move || listener.incoming().flatten().for_each(serve));
    (None, port)
}

/// Answers so, once a blank line came, as servers of HTTP/1.1 do.
fn answering(answer: &'static str) -> (Peer, u16) {
    server(move |mut tcp| {
        let mut request = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") && tcp.read(&mut byte).is_ok_and(|n| n == 1) {
            request.push(byte[0]);
        }
        let _ = tcp.write_all(answer.as_bytes());
    })
}

/// Sends an HTTP/2 server's settings and ends, as a server of gRPC does with other clients.
fn http2_only() -> (Peer, u16) {
    server(|mut tcp| {
        let _ = tcp.write_all(b"\0\0\0\x04\0\0\0\0\0");
        let _ = tcp.shutdown(Shutdown::Write);
        let _ = tcp.read_to_end(&mut Vec::new());
    })
}

/// Runs the doctor; `{port}` in a value is the peer's. Gives the exit code and standard output.
fn doctor(arguments: &[&str], variables: &[(&str, &str)], port: u16) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stagespan"));
    command.arg("doctor").args(arguments);
    for (name, _) in std::env::vars() {
        // What the developer's shell asks for is not what is tested; a proxy is not, either.
        if name.starts_with("OTEL_")
            || name.starts_with("STAGESPAN_")
            || name.to_lowercase().ends_with("_proxy")
        {
            command.env_remove(name);
        }
    }
    for (name, value) in variables {
        command.env(name, value.replace("{port}", &port.to_string()));
    }
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    for secret in [TOKEN, PASSWORD] {
        assert!(!out.contains(secret) && !err.contains(secret), "{out}{err}");
    }
    assert!(!out.contains('\u{1b}'), "plain when piped: {out}");
    let is_json = arguments.contains(&"--json");
    assert!(is_json || out.lines().all(|line| line.chars().count() <= 100), "{out}");
    (output.status.code().unwrap(), out)
}

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:passw0rd@127.0.0.1:{port}");
const HEADERS: (&str, &str) = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20tok-hunter2");
const GRPC: (&str, &str) = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
/// Long for an answer on the loopback interface, and short for a test that waits for none.
const TIMEOUT: (&str, &str) = ("OTEL_EXPORTER_OTLP_TIMEOUT", "300");

#[test]
fn broken_set_ups() {
    // Peer, variables beside endpoint and headers, state, cause, words of what is said.
    type Case =
        ((Peer, u16), &'static [(&'static str, &'static str)], &'static str, &'static str, &'static str);
    let table: Vec<Case> = vec![
        (answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"), &[], "ok", "ok", "takes spans"),
        (gone(), &[], "unreachable", "refused", "start the receiver"),
        (gone(), &[GRPC], "unreachable", "refused", "start the receiver"),
        (
            answering("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n"),
            &[],
            "unreachable",
            "unauthorized",
            "OTEL_EXPORTER_OTLP_HEADERS",
        ),
        (
            answering("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"),
            &[],
            "unreachable",
            "unauthorized",
            "OTEL_EXPORTER_OTLP_HEADERS",
        ),
        (
            answering("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"),
            &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:{port}")],
            "unreachable",
            "not_found",
            "/v1/traces",
        ),
        (http2_only(), &[], "unreachable", "speaks_grpc", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"),
        (
            answering("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"),
            &[GRPC],
            "unreachable",
            "speaks_http",
            "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
        ),
        (answering("SSH-2.0-OpenSSH_9.2\r\n"), &[], "unreachable", "not_otlp", "correct host and port"),
        (blackhole(), &[TIMEOUT], "unreachable", "timed_out", "never answers"),
        (blackhole(), &[TIMEOUT, GRPC], "unreachable", "timed_out", "never answers"),
        (
            gone(),
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:passw0rd@no-such-host.invalid")],
            "unreachable",
            "name_not_resolved",
            "no-such-host.invalid",
        ),
        (
            gone(),
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:{port}"),
                ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem"),
            ],
            "misconfigured",
            "",
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
        ),
        (
            gone(),
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:{port}")],
            "misconfigured",
            "",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ),
        (
            gone(),
            &[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")],
            "misconfigured",
            "",
            "use http/protobuf or grpc",
        ),
        (gone(), &[("OTEL_TRACES_EXPORTER", "zipkin")], "misconfigured", "", "use otlp, console or none"),
    ];
    for (i, ((peer, port), variables, state, cause, words)) in table.into_iter().enumerate() {
        let variables = [&[ENDPOINT, HEADERS], variables].concat();
        let (code, out) = doctor(&["--json"], &variables, port);
        let json: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(json["state"], state, "case {i}: {out}");
        let expected = match state {
            "ok" => 0,
            "unreachable" => 1,
            _ => 2,
        };
        assert_eq!(code, expected, "case {i}: {out}");
        if !cause.is_empty() {
            assert_eq!(json["contact"]["cause"], cause, "case {i}: {out}");
        }
        assert!(out.contains(words), "case {i}: {out}");
        drop(peer);
    }
}

#[test]
fn a_warning_changes_no_exit_code_and_an_error_beats_the_unreachable() {
    let warning = ("OTEL_TRACES_SAMPLER", "sometimes");
    let (_server, port) = answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let (code, out) = doctor(&[], &[ENDPOINT, HEADERS, warning], port);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("warning           OTEL_TRACES_SAMPLER=\"sometimes\""), "{out}");
    assert!(out.contains("•••") && out.contains("\ncontact           ok: "), "{out}");
    let (_gone, port) = gone();
    assert_eq!(doctor(&[], &[ENDPOINT, warning], port).0, 1);
    assert_eq!(doctor(&[], &[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")], port).0, 2);
}

#[test]
fn off_is_good() {
    for variables in [
        &[][..],
        &[ENDPOINT, ("OTEL_SDK_DISABLED", "true")],
        &[ENDPOINT, HEADERS, ("OTEL_TRACES_EXPORTER", "none")],
    ] {
        let (_gone, port) = gone();
        let (code, out) = doctor(&["--json"], variables, port);
        let json: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, json["state"].as_str(), &json["contact"]), (0, Some("off"), &Value::Null), "{out}");
    }
}
