//! What is said of a receiver before any span is sent.

#![allow(clippy::unwrap_used, reason = "what can't be set up fails the test")]

mod support;

use std::net::TcpListener;
use std::time::Duration;

use rcgen::ExtendedKeyUsagePurpose::ClientAuth;
use stagespan_otel::config::TlsFiles;
use stagespan_otel::{Contact, ContactState, OtlpOutput, Secret};
use support::certificates::Authority;
use support::receiver::{Answer, Receiver, Speaks};

use ContactState::{Accepted, Refused, Unreachable};

const WITHIN: Duration = Duration::from_secs(20);

fn contact(output: &OtlpOutput) -> Contact {
    output.contact(WITHIN).unwrap()
}

/// Checks the state, and that each of these words is said.
fn expect(what: &str, contact: &Contact, state: ContactState, words: &[&str]) {
    assert_eq!(contact.state, state, "{what}: {contact:?}");
    for words in words {
        assert!(contact.message.contains(words), "{what}: {contact:?} lacks {words:?}");
    }
}

#[test]
fn what_is_well_is_said_to_be() {
    for speaks in [Speaks::Http, Speaks::Grpc] {
        let receiver = Receiver::always(speaks, Answer::Ok);
        assert_eq!(contact(&receiver.output()), Contact { state: Accepted, message: String::new() });
        let [export] = &receiver.exports()[..] else { panic!("one export") };
        assert_eq!(export.spans().count(), 0);
    }
}

#[test]
fn a_refusal_is_explained() {
    use tonic::Code::{Unauthenticated, Unimplemented};
    let over_http = |status| Receiver::always(Speaks::Http, Answer::Status(status, &[]));
    let over_grpc = |code| Receiver::always(Speaks::Grpc, Answer::Code(code, None));
    let table = [
        (over_http(401), &["401", "OTEL_EXPORTER_OTLP_HEADERS"][..]),
        (over_http(404), &["404", "/v1/traces"]),
        (over_http(301), &["301", "redirects are not followed"]),
        (over_http(503), &["503"]),
        (over_http(415), &["415", "OTEL_EXPORTER_OTLP_COMPRESSION"]),
        (over_grpc(Unauthenticated), &["Unauthenticated", "OTEL_EXPORTER_OTLP_HEADERS"]),
        (over_grpc(Unimplemented), &["Unimplemented", "OTEL_EXPORTER_OTLP_COMPRESSION"]),
    ];
    for (receiver, words) in table {
        expect(&receiver.endpoint(), &contact(&receiver.output()), Refused, words);
    }
}

#[test]
fn nobody_there() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for output in [
        OtlpOutput::http(format!("http://127.0.0.1:{port}/v1/traces")),
        OtlpOutput::grpc(format!("http://127.0.0.1:{port}")),
    ] {
        expect("refused port", &contact(&output), Unreachable, &["nothing listens there"]);
    }
    for output in [
        OtlpOutput::http("http://receiver.invalid:4318/v1/traces"),
        OtlpOutput::grpc("http://receiver.invalid:4317"),
    ] {
        expect("unknown name", &contact(&output), Unreachable, &["name is not known here"]);
    }
    for speaks in [Speaks::Http, Speaks::Grpc] {
        let silent = Receiver::always(speaks, Answer::Hang);
        let contact = silent.output().contact(Duration::from_millis(100)).unwrap();
        expect("silent", &contact, Unreachable, &[]);
        assert!(!contact.message.is_empty());
    }
}

#[test]
fn the_wrong_protocol_is_told() {
    let http = Receiver::start([]);
    let grpc = Receiver::start_grpc([]);
    let table = [
        ("HTTP to a gRPC port", OtlpOutput::http(grpc.endpoint()), "look at protocol"),
        (
            "gRPC to an HTTP port",
            OtlpOutput::grpc(&http.endpoint()[..http.endpoint().len() - 10]),
            "look at protocol",
        ),
    ];
    for (what, output, words) in table {
        expect(what, &contact(&output), Unreachable, &[words]);
    }
}

#[test]
fn tls_troubles_are_told_apart() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let client = authority.issue("us", ClientAuth);
    for speaks in [Speaks::Http, Speaks::Grpc] {
        let receiver = Receiver::secure(speaks, authority.server("localhost", false));
        let with = |receiver: &Receiver, authority: &Authority, client| OtlpOutput {
            tls: TlsFiles { certificate: Some(authority.certificate()), client },
            ..receiver.output()
        };
        expect("good", &contact(&with(&receiver, &authority, None)), Accepted, &[]);
        let unknown = contact(&with(&receiver, &stranger, None));
        expect("unknown authority", &unknown, Unreachable, &["OTEL_EXPORTER_OTLP_CERTIFICATE"]);

        let elsewhere = Receiver::secure(speaks, authority.server("elsewhere", false));
        let name = contact(&with(&elsewhere, &authority, None));
        expect("another name", &name, Unreachable, &["for another name"]);

        let mutual = Receiver::secure(speaks, authority.server("localhost", true));
        expect("good, mutual", &contact(&with(&mutual, &authority, Some(client.clone()))), Accepted, &[]);
        // With TLS 1.3 the refusal comes after the handshake, when the request is being sent.
        expect("no certificate of ours", &contact(&with(&mutual, &authority, None)), Unreachable, &[]);

        let plain = Receiver::always(speaks, Answer::Ok);
        let mut secure = with(&plain, &authority, None);
        secure.endpoint = plain.endpoint().replace("http://127.0.0.1", "https://localhost");
        expect("TLS to a plain port", &contact(&secure), Unreachable, &["speak TLS"]);
    }
}

#[test]
fn it_runs_inside_a_runtime_and_names_bad_files() {
    let receiver = Receiver::start_grpc([]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { expect("inside", &contact(&receiver.output()), Accepted, &[]) });

    let mut output = OtlpOutput::http("https://c");
    output.tls.certificate = Some("/nonexistent/ca.pem".into());
    let error = output.contact(WITHIN).unwrap_err().to_string();
    assert!(error.contains("OTEL_EXPORTER_OTLP_CERTIFICATE"), "{error}");
}

#[test]
fn no_secret_is_repeated() {
    for speaks in [Speaks::Http, Speaks::Grpc] {
        let receiver = Receiver::always(speaks, Answer::Echo);
        let mut output = receiver.output();
        output.headers.push(("authorization".to_owned(), Secret::new("Bearer hunter2")));
        let contact = contact(&output);
        assert_eq!(contact.state, Refused);
        assert!(!format!("{contact:?}").contains("hunter2"), "{contact:?}");
    }
}
