use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use rcgen::{CertificateParams, CertifiedKey, DnType, KeyPair, generate_simple_self_signed};
use rustls::crypto::ring;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;
use crate::config::{OtlpOutput, Secret};
use crate::resource;

const SECRET: &str = "hunter2-token";
const WITHIN: Duration = Duration::from_secs(60);

/// Serves every connection with `serve`, for as long as the test's process lives.
fn server(serve: impl Fn(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || listener.incoming().flatten().for_each(serve));
    port
}

/// Answers so, once a blank line came.
fn answering(answer: &'static str) -> u16 {
    server(move |mut tcp| {
        let mut request = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") && tcp.read(&mut byte).is_ok_and(|n| n == 1) {
            request.push(byte[0]);
        }
        let _ = tcp.write_all(answer.as_bytes());
    })
}

/// Sends an HTTP/2 server's settings at once, and hears no one out.
fn http2_only() -> u16 {
    server(|mut tcp| {
        let _ = tcp.write_all(b"\0\0\0\x04\0\0\0\0\0");
        let _ = tcp.shutdown(std::net::Shutdown::Write);
        let _ = tcp.read_to_end(&mut Vec::new());
    })
}

fn probed(mut output: OtlpOutput) -> ProbeOutcome {
    output.headers = vec![("authorization".to_owned(), Secret::new(format!("Bearer {SECRET}")))];
    let resource = resource::detect_process(&crate::Environment::default());
    let outcome = probe(&Config::new(Output::Otlp(output), "t", resource), WITHIN);
    let text = format!("{outcome:?}");
    assert!(!text.contains(SECRET) && !text.contains("passw0rd"), "{text}");
    outcome
}

fn http(port: u16) -> OtlpOutput {
    OtlpOutput::http(format!("http://me:passw0rd@127.0.0.1:{port}/v1/traces"))
}

fn grpc(port: u16) -> OtlpOutput {
    OtlpOutput::grpc(format!("http://me:passw0rd@127.0.0.1:{port}"))
}

#[test]
fn answers_over_http() {
    let table = [
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", ProbeCause::Ok),
        ("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n", ProbeCause::Unauthorized),
        ("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n", ProbeCause::Unauthorized),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", ProbeCause::NotFound),
        ("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", ProbeCause::Answered),
        ("SSH-2.0-OpenSSH_9.2\r\n", ProbeCause::NotOtlp),
        ("", ProbeCause::NoAnswer),
    ];
    for (answer, cause) in table {
        let outcome = probed(http(answering(answer)));
        assert_eq!(outcome.cause, cause, "{answer:?}: {outcome:?}");
        assert_eq!(outcome.remedy.is_empty(), cause == ProbeCause::Ok, "{outcome:?}");
        assert!(!outcome.detail.contains("look at"), "the remedy is not said twice: {outcome:?}");
    }
}

#[test]
fn not_found_names_the_path() {
    let port = answering("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    let outcome = probed(OtlpOutput::http(format!("http://127.0.0.1:{port}/otel")));
    assert!(outcome.remedy.contains("/v1/traces") && outcome.remedy.contains("/otel:"), "{outcome:?}");
}

#[test]
fn each_protocol_at_the_others_port() {
    assert_eq!(probed(http(http2_only())).cause, ProbeCause::SpeaksGrpc);
    let port = answering("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(probed(grpc(port)).cause, ProbeCause::SpeaksHttp);
}

#[test]
fn nobody_there() {
    // A port that was free a moment ago; nothing else of this test takes it.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_eq!(probed(http(port)).cause, ProbeCause::Refused);
    assert_eq!(probed(grpc(port)).cause, ProbeCause::Refused);
    assert_eq!(probed(OtlpOutput::http("http://no-such-host.invalid/")).cause, ProbeCause::NameNotResolved);
}

#[test]
fn a_connection_that_is_never_answered() {
    // The kernel takes the connection; nobody accepts it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for mut output in [http, grpc].map(|of| of(listener.local_addr().unwrap().port())) {
        output.timeout = Some(Duration::from_millis(200));
        assert_eq!(probed(output).cause, ProbeCause::TimedOut);
    }
}

#[test]
fn certificates() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["elsewhere".to_owned()]).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], signing_key.serialize_der().try_into().unwrap())
        .unwrap();
    let config = Arc::new(config);
    let port = server(move |tcp| {
        let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
        let _ = StreamOwned::new(tls, tcp).read(&mut [0]);
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), cert.pem()).unwrap();
    // One whose issuer has the same name and another key, and one of another name.
    let mut named = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let same_name = named.self_signed(&KeyPair::generate().unwrap()).unwrap();
    named.distinguished_name.push(DnType::CommonName, "another authority");
    let other_name = named.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let other_file = tempfile::NamedTempFile::new().unwrap();
    for of in [OtlpOutput::http, OtlpOutput::grpc] {
        let mut output = of(format!("https://localhost:{port}"));
        output.tls.certificate = Some(file.path().to_owned());
        assert_eq!(probed(output.clone()).cause, ProbeCause::TlsName);
        output.tls.certificate = Some(other_file.path().to_owned());
        for other in [&same_name, &other_name] {
            std::fs::write(other_file.path(), other.pem()).unwrap();
            assert_eq!(probed(output.clone()).cause, ProbeCause::TlsUnknownIssuer);
        }
    }
    // http:// to this port: rustls answers with an alert.
    assert_eq!(probed(http(port)).cause, ProbeCause::ExpectsTls);
    let plain = server(|mut tcp| {
        // As a server of plain HTTP does at the first line that is none.
        let _ = tcp.read(&mut [0; 512]);
        let _ = tcp.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let mut output = OtlpOutput::http(format!("https://localhost:{plain}"));
    output.tls.certificate = Some(file.path().to_owned());
    assert_eq!(probed(output).cause, ProbeCause::NotTls);
}

#[test]
fn what_needs_no_contact() {
    let resource = resource::detect_process(&crate::Environment::default());
    assert_eq!(probe(&Config::new(Output::Console, "t", resource), WITHIN).cause, ProbeCause::NoReceiver);
    let mut output = OtlpOutput::http("https://localhost");
    output.tls.certificate = Some("/nowhere/ca.pem".into());
    let outcome = probed(output);
    assert_eq!(outcome.cause, ProbeCause::Unusable);
    assert!(outcome.detail.contains("OTEL_EXPORTER_OTLP_CERTIFICATE"), "{outcome:?}");
}
