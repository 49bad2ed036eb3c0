//! Both protocols, as the variables ask for them: compression, headers, TLS, retries.

mod support;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use stagespan_otel::config::TlsFiles;
use stagespan_otel::{Account, Compression, FlushError, Layer, OtlpOutput, Secret, StartError};
use support::certificates::Authority;
use support::receiver::{Answer, Receiver, Speaks};
use support::{Pipeline, SPANS_PER_REQUEST, config_for, start};

/// Long enough for anything that isn't meant to hang.
const AMPLE: Duration = Duration::from_secs(60);

/// Runs `requests` through a layer with this output, and shuts it down.
fn run(output: OtlpOutput, requests: usize) -> (Account, Result<(), FlushError>) {
    let mut config = config_for(output);
    // Many batches, so that a connection is used again.
    config.batch.export_batch_spans = 32;
    // What never works is not tried for long.
    config.batch.export_timeout = Some(Duration::from_secs(20));
    let layer = start(config);
    Pipeline::new(&layer).run_requests(requests);
    let result = layer.shutdown(AMPLE);
    let account = layer.stats();
    assert!(account.is_balanced() && account.pending == 0, "{account}");
    (account, result)
}

#[test]
fn every_protocol_and_compression_delivers() {
    let mut sizes = Vec::new();
    for speaks in [Speaks::Http, Speaks::Grpc] {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let what = format!("{speaks:?} {compression:?}");
            let receiver = Receiver::always(speaks, Answer::Ok);
            let mut output = receiver.output();
            output.compression = compression;
            output.headers.push(("x-tenant".to_owned(), Secret::new("t1")));
            let (account, result) = run(output, 50);
            assert_eq!(result, Ok(()), "{what}");
            assert_eq!(account.produced, 50 * SPANS_PER_REQUEST, "{what}");
            assert_eq!(receiver.count(), (account.produced, 0), "{what}");
            for export in receiver.exports() {
                assert_eq!(export.headers["x-tenant"], "t1", "{what}");
                let agent = &export.headers["user-agent"];
                assert!(agent.starts_with("Stagespan-OTLP-Exporter-Rust/"), "{agent}");
                let encoding = match speaks {
                    Speaks::Http => export.headers.get("content-encoding"),
                    Speaks::Grpc => export.headers.get("grpc-encoding"),
                };
                let expected = (compression != Compression::None).then_some(compression.as_str());
                assert_eq!(encoding.map(String::as_str), expected, "{what}");
                match speaks {
                    Speaks::Http => assert_eq!(export.path, "/v1/traces"),
                    Speaks::Grpc => {
                        assert_eq!(export.path, "/opentelemetry.proto.collector.trace.v1.TraceService/Export")
                    }
                }
            }
            if speaks == Speaks::Http {
                let length =
                    |e: &support::receiver::Export| e.headers["content-length"].parse::<u64>().unwrap();
                sizes.push(receiver.exports().iter().map(length).sum::<u64>());
            }
        }
    }
    let [plain, gzip, zstd] = sizes[..] else { panic!("{sizes:?}") };
    assert!(gzip < plain / 2 && zstd < plain / 2, "{sizes:?}");
}

#[test]
fn grpc_partial_success_is_counted() {
    let receiver = Receiver::start_grpc([Answer::Partial(3)]);
    let (account, result) = run(receiver.output(), 10);
    assert_eq!(result, Err(FlushError::Lost { spans: 3 }));
    assert_eq!((account.exported, account.rejected), receiver.count());
    assert_eq!(account.rejected, 3);
}

#[test]
fn grpc_retries_send_the_same_spans_and_they_count_once() {
    use tonic::Code::{ResourceExhausted, Unavailable};
    let receiver = Receiver::start_grpc([
        Answer::Code(ResourceExhausted, Some(Duration::from_secs(1))),
        Answer::Code(Unavailable, None),
        Answer::Status(503, &[]),
        Answer::Close,
        Answer::HalfBody,
    ]);
    let began = Instant::now();
    let (account, result) = run(receiver.output(), 3);
    assert_eq!(result, Ok(()));
    assert!(began.elapsed() >= Duration::from_secs(1), "the receiver asked for a second");
    assert_eq!(receiver.count(), (account.exported, 0));
    let exports = receiver.exports();
    for attempt in &exports[1..6] {
        assert_eq!(attempt.request, exports[0].request);
    }
}

#[test]
fn what_a_grpc_receiver_refuses_is_not_sent_again() {
    use tonic::Code::{Internal, PermissionDenied, ResourceExhausted, Unauthenticated, Unimplemented};
    for code in [Internal, PermissionDenied, ResourceExhausted, Unauthenticated, Unimplemented] {
        let receiver = Receiver::always(Speaks::Grpc, Answer::Code(code, None));
        let (account, result) = run(receiver.output(), 2);
        assert_eq!(result, Err(FlushError::Lost { spans: account.produced }), "{code:?}");
        assert_eq!(account.dropped.export_failed, account.produced, "{code:?}");
        assert_eq!(receiver.attempts(), 3, "one attempt for each resource");
    }
}

#[test]
fn grpc_works_inside_and_outside_any_runtime() {
    let receiver = Receiver::start_grpc([]);
    let all = |layer: &Layer| {
        Pipeline::new(layer).run_requests(5);
        layer.flush(AMPLE).unwrap();
        layer.shutdown(AMPLE).unwrap();
        assert!(layer.stats().is_complete(), "{}", layer.stats());
    };
    all(&start(config_for(receiver.output())));
    let current_thread = tokio::runtime::Builder::new_current_thread().build().unwrap();
    current_thread.block_on(async { all(&start(config_for(receiver.output()))) });
    let several_threads = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    several_threads.block_on(async { all(&start(config_for(receiver.output()))) });
    assert_eq!(receiver.count(), (3 * 5 * SPANS_PER_REQUEST, 0));
}

#[test]
fn tls_trusts_only_the_certificate_it_is_given() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    for speaks in [Speaks::Http, Speaks::Grpc] {
        let receiver = Receiver::secure(speaks, authority.server("localhost", false));
        let trusting = |certificate: PathBuf| OtlpOutput {
            tls: TlsFiles { certificate: Some(certificate), client: None },
            ..receiver.output()
        };
        let (account, result) = run(trusting(authority.certificate()), 10);
        assert_eq!((result, receiver.count()), (Ok(()), (account.produced, 0)), "{speaks:?}");

        let lost = |output: OtlpOutput, why: &str| {
            let mut config = config_for(output);
            config.batch.export_timeout = Some(Duration::from_millis(200));
            let layer = start(config);
            Pipeline::new(&layer).run_requests(1);
            let lost = Err(FlushError::Lost { spans: SPANS_PER_REQUEST });
            assert_eq!(layer.flush(AMPLE), lost, "{speaks:?} {why}");
            assert!(layer.stats().is_balanced());
        };
        lost(trusting(stranger.certificate()), "another authority");
        lost(receiver.output(), "the operating system's roots");
        let plain =
            OtlpOutput { endpoint: receiver.endpoint().replace("https", "http"), ..receiver.output() };
        lost(plain, "no TLS");
        let other_name = Receiver::secure(speaks, authority.server("elsewhere", false));
        let output = OtlpOutput { endpoint: other_name.endpoint(), ..trusting(authority.certificate()) };
        lost(output, "another name");
        assert_eq!(receiver.count(), (account.produced, 0));
    }
}

#[test]
fn mutual_tls_shows_our_certificate() {
    let authority = Authority::new();
    let ours = authority.issue("stagespan", ClientAuth);
    let not_for_clients = authority.issue("server", ServerAuth);
    for speaks in [Speaks::Http, Speaks::Grpc] {
        for compression in [Compression::None, Compression::Zstd] {
            let receiver = Receiver::secure(speaks, authority.server("localhost", true));
            let showing = |client| OtlpOutput {
                tls: TlsFiles { certificate: Some(authority.certificate()), client },
                compression,
                ..receiver.output()
            };
            let (account, result) = run(showing(Some(ours.clone())), 10);
            assert_eq!((result, receiver.count()), (Ok(()), (account.produced, 0)), "{speaks:?}");
            for client in [None, Some(not_for_clients.clone())] {
                let mut config = config_for(showing(client.clone()));
                config.batch.export_timeout = Some(Duration::from_millis(200));
                let layer = start(config);
                Pipeline::new(&layer).run_requests(1);
                assert!(layer.flush(AMPLE).is_err(), "{speaks:?} {client:?}");
            }
            assert_eq!(receiver.count(), (account.produced, 0), "{speaks:?}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named_at_the_start() {
    let mut output = OtlpOutput::grpc("https://c:4317");
    output.tls.certificate = Some(PathBuf::from("/nonexistent/ca.pem"));
    let clock = std::sync::Arc::new(stagespan_model::SystemClock::new());
    let error = Layer::start(config_for(output), clock).unwrap_err();
    assert!(matches!(error, StartError::Output(_)));
    let text = error.to_string();
    assert!(text.starts_with("OTEL_EXPORTER_OTLP_CERTIFICATE names \"/nonexistent/ca.pem\""), "{text}");
}

#[test]
fn one_bad_span_never_costs_its_batch() {
    for speaks in [Speaks::Http, Speaks::Grpc] {
        let receiver = Receiver::always(speaks, Answer::BadIf("stage talker", "r33"));
        let layer = start(config_for(receiver.output()));
        Pipeline::new(&layer).run_requests(80);
        assert_eq!(layer.shutdown(AMPLE), Err(FlushError::Lost { spans: 1 }), "{speaks:?}");
        let account = layer.stats();
        assert_eq!((account.rejected, account.exported), (1, account.produced - 1), "{speaks:?}");
        assert_eq!(receiver.count(), (account.exported, 0), "{speaks:?}");
        assert!(account.is_balanced(), "{account}");
        // Two wake-ups with three resources each, and 2·log₂(512) more at the most.
        assert!(receiver.attempts() <= 2 * 3 + 2 * 9, "{}", receiver.attempts());
    }
}

#[test]
fn several_bad_spans_are_found_too() {
    let receiver = Receiver::always(Speaks::Grpc, Answer::BadRequestId("r7"));
    let layer = start(config_for(receiver.output()));
    Pipeline::new(&layer).run_requests(40);
    layer.shutdown(AMPLE).unwrap_err();
    let account = layer.stats();
    assert_eq!((account.rejected, account.dropped.total()), (SPANS_PER_REQUEST, 0), "{account}");
    assert_eq!(receiver.count(), (account.exported, 0));
}

#[test]
fn a_receiver_that_refuses_everything_is_not_flooded() {
    for speaks in [Speaks::Http, Speaks::Grpc] {
        // One resource of three always holds it.
        let receiver = Receiver::always(speaks, Answer::BadIf("stage talker", "r0"));
        let layer = start(config_for(receiver.output()));
        let pipeline = Pipeline::new(&layer);
        let mut before = 0;
        for round in 0..10 {
            pipeline.run_requests(1);
            layer.flush(AMPLE).unwrap_err();
            let attempts = receiver.attempts() - before;
            assert!(attempts <= 3 + 4, "{speaks:?} round {round}: {attempts}");
            before = receiver.attempts();
        }
        assert!(layer.stats().is_balanced());
        let refusing = Receiver::always(speaks, Answer::BadRequestId("r0"));
        let layer = start(config_for(refusing.output()));
        let pipeline = Pipeline::new(&layer);
        for _ in 0..10 {
            pipeline.run_requests(1);
            layer.flush(AMPLE).unwrap_err();
        }
        let account = layer.stats();
        assert!(account.is_balanced() && account.exported == 0, "{account}");
        // The first resource was searched; nothing was accepted, and no other one was.
        assert!(refusing.attempts() <= 3 * 10 + 2, "{}", refusing.attempts());
    }
}
