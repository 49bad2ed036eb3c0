//! 5,000 requests at full speed, for each thing that a receiver can do to us: what our account says
//! is what the receiver counted itself.

#![allow(clippy::unwrap_used, reason = "what can't be set up fails the test")]

mod support;

use std::net::TcpListener;
use std::time::Duration;

use stagespan_otel::{Account, Config, FlushError, OtlpOutput};
use support::receiver::{Answer, Receiver, Speaks};
use support::{Pipeline, SPANS_PER_REQUEST, config_for, start};
use tonic::Code;

const REQUESTS: usize = 5_000;
const PRODUCED: u64 = REQUESTS as u64 * SPANS_PER_REQUEST;

/// Entries in the queue, a tenth of what comes.
const QUEUE: u64 = 2_048;
const BATCH: u64 = 512;

/// What a run came to.
struct Run {
    account: Account,
    result: Result<(), FlushError>,
}

/// Sends everything at once, and ends the layer with `within` for what is left.
///
/// The timeouts are the default ones: on a machine that is busy enough, shorter ones would pass
/// while a sound answer is on its way, and nobody could say who has the spans.
fn run(output: OtlpOutput, within: Duration) -> Run {
    run_with(config_for(output), within)
}

/// The same for a receiver that never takes anything, so that no time is too short.
fn run_impatiently(output: OtlpOutput) -> Run {
    let mut config = config_for(OtlpOutput { timeout: Some(Duration::from_millis(80)), ..output });
    config.batch.export_timeout = Some(Duration::from_millis(200));
    run_with(config, Duration::from_millis(500))
}

fn run_with(mut config: Config, within: Duration) -> Run {
    config.batch.queue_entries = QUEUE as usize;
    config.batch.export_batch_spans = BATCH as usize;
    let layer = start(config);
    let pipeline = Pipeline::new(&layer);
    let mut most_pending = 0;
    for n in 0..REQUESTS {
        pipeline.run_request(&format!("r{n}"));
        if n % 16 == 0 {
            most_pending = most_pending.max(layer.stats().pending);
        }
    }
    let result = layer.shutdown(within);
    let account = layer.stats();

    // What is held is bounded by the queue (an entry is 3 spans at the most) and the worker's groups.
    assert!(most_pending <= 3 * QUEUE + 4 * BATCH + 3 * 64, "{most_pending}");
    assert_eq!(account.produced, PRODUCED);
    assert!(account.is_balanced() && account.pending == 0, "{account}");
    // A result is never better than what happened after the call, nor worse than all of it.
    let lost = account.rejected + account.dropped.total() - account.dropped.queue_full;
    match result {
        Ok(()) => assert!(account.exported > 0, "{account}"),
        Err(FlushError::Lost { spans }) => assert!(spans > 0 && spans <= lost, "{spans} of {account}"),
        Err(FlushError::Deadline { pending }) => {
            assert!(pending > 0 && pending <= lost, "{pending} of {account}");
        }
    }
    Run { account, result }
}

const AMPLE: Duration = Duration::from_secs(120);

/// A receiver that does the same for ever, so that nothing arrives.
fn nothing_arrives(speaks: Speaks, answer: Answer) -> (Run, Receiver) {
    let receiver = Receiver::always(speaks, answer.clone());
    let run = run_impatiently(receiver.output());
    assert_eq!(run.account.exported, 0, "{speaks:?} {answer:?}: {}", run.account);
    assert!(run.result.is_err(), "{speaks:?} {answer:?}");
    assert_eq!(receiver.count(), (0, 0), "{speaks:?} {answer:?}");
    assert!(receiver.attempts() > 0);
    (run, receiver)
}

#[test]
fn a_sound_receiver() {
    for speaks in [Speaks::Http, Speaks::Grpc] {
        let receiver = Receiver::always(speaks, Answer::Ok);
        let Run { account, result } = run(receiver.output(), AMPLE);
        assert_eq!(result, Ok(()), "{speaks:?}");
        assert_eq!(receiver.count(), (account.exported, 0), "{speaks:?}");
        assert_eq!(account.dropped.total(), account.dropped.queue_full, "{account}");
    }
}

#[test]
fn silence() {
    for speaks in [Speaks::Http, Speaks::Grpc] {
        // Its answer would come never: that we are here says that nobody waited for it.
        nothing_arrives(speaks, Answer::Hang);
    }
}

#[test]
fn a_blackhole_takes_connections_and_reads_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for output in [
        OtlpOutput::http(format!("http://{address}/v1/traces")),
        OtlpOutput::grpc(format!("http://{address}")),
    ] {
        let Run { account, result } = run_impatiently(output);
        assert!(result.is_err());
        assert_eq!(account.exported, 0, "{account}");
    }
    drop(listener);
}

#[test]
fn nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for output in [
        OtlpOutput::http(format!("http://{address}/v1/traces")),
        OtlpOutput::grpc(format!("http://{address}")),
    ] {
        let Run { account, result } = run_impatiently(output);
        assert!(result.is_err());
        assert_eq!(account.exported, 0, "{account}");
    }
}

#[test]
fn a_slow_drip() {
    for speaks in [Speaks::Http, Speaks::Grpc] {
        nothing_arrives(speaks, Answer::Drip);
    }
}

#[test]
fn a_connection_that_ends_in_the_middle() {
    for speaks in [Speaks::Http, Speaks::Grpc] {
        nothing_arrives(speaks, Answer::ResetMidBody);
        nothing_arrives(speaks, Answer::Close);
    }
    nothing_arrives(Speaks::Grpc, Answer::HalfBody);
}

#[test]
fn garbage() {
    for speaks in [Speaks::Http, Speaks::Grpc] {
        nothing_arrives(speaks, Answer::Garbage);
    }
    // Another protocol altogether: the refusal of an HTTP/1.1 server, and HTTP/2 frames.
    let http = Receiver::always(Speaks::Http, Answer::Garbage);
    let address = http.endpoint().trim_end_matches("/v1/traces").to_owned();
    assert_eq!(run_impatiently(OtlpOutput::grpc(address)).account.exported, 0);
    let grpc = Receiver::always(Speaks::Grpc, Answer::Ok);
    let output = OtlpOutput::http(format!("{}/v1/traces", grpc.endpoint()));
    assert_eq!(run_impatiently(output).account.exported, 0);
    assert_eq!((http.count(), grpc.count()), ((0, 0), (0, 0)));
}

#[test]
fn a_huge_answer() {
    // The status has said that the spans were taken; the rest is not read.
    let receiver = Receiver::always(Speaks::Http, Answer::Huge);
    let Run { account, .. } = run(receiver.output(), AMPLE);
    assert!(account.exported > 0);
    assert_eq!(receiver.count(), (account.exported, 0), "{account}");
    // Over gRPC the status would have come after it.
    nothing_arrives(Speaks::Grpc, Answer::Huge);
}

#[test]
fn half_an_answer() {
    let receiver = Receiver::always(Speaks::Http, Answer::HalfBody);
    let Run { account, .. } = run(receiver.output(), AMPLE);
    assert!(account.exported > 0);
    assert_eq!(receiver.count(), (account.exported, 0), "{account}");
}

#[test]
fn a_refusal_for_good_costs_one_attempt_a_batch() {
    let refusals = [
        (Speaks::Http, Answer::Status(401, &[])),
        (Speaks::Http, Answer::Status(500, &[])),
        (Speaks::Grpc, Answer::Code(Code::Unauthenticated, None)),
        (Speaks::Grpc, Answer::Code(Code::ResourceExhausted, None)),
    ];
    for (speaks, refusal) in refusals {
        let receiver = Receiver::always(speaks, refusal.clone());
        let run = run(receiver.output(), AMPLE);
        assert_eq!(run.account.exported, 0, "{refusal:?} {}", run.account);
        let sent: Vec<_> = receiver.exports().iter().map(|export| export.spans().count() as u64).collect();
        assert_eq!(
            sent.iter().sum::<u64>(),
            run.account.dropped.export_failed,
            "{refusal:?} {}",
            run.account
        );
    }
}

#[test]
fn a_receiver_that_calls_everything_bad() {
    for (speaks, refusal) in [
        (Speaks::Http, Answer::Status(400, &[])),
        (Speaks::Http, Answer::Status(413, &[])),
        (Speaks::Grpc, Answer::Code(Code::InvalidArgument, None)),
    ] {
        let receiver = Receiver::always(speaks, refusal);
        let run = run(receiver.output(), AMPLE);
        assert_eq!(run.account.exported, 0, "{}", run.account);
        // The search through the first batch, and one attempt for each after it.
        let batches = PRODUCED.div_ceil(BATCH) + 3;
        assert!(receiver.attempts() <= 41 + 3 * batches, "{} {}", receiver.attempts(), run.account);
        assert!(run.account.rejected <= 40, "{}", run.account);
    }
}

#[test]
fn one_bad_span_among_all() {
    for speaks in [Speaks::Http, Speaks::Grpc] {
        // Among the first in the queue, so that it is not among those for which that had no room.
        let receiver = Receiver::always(speaks, Answer::BadIf("stage talker", "r5"));
        let Run { account, result } = run(receiver.output(), AMPLE);
        assert!(result.is_ok() || account.rejected > 0);
        assert_eq!(account.rejected, 1, "{speaks:?} {account}");
        assert_eq!(receiver.count(), (account.exported, 0), "{speaks:?} {account}");
        assert_eq!(account.dropped.total(), account.dropped.queue_full, "{account}");
    }
}

#[test]
fn overload_with_and_without_a_time() {
    let second = Some(Duration::from_secs(1));
    for (speaks, refusal) in [
        (Speaks::Http, Answer::Status(429, &[])),
        (Speaks::Http, Answer::Status(503, &["Retry-After: 1"])),
        (Speaks::Http, Answer::Status(503, &["Retry-After: 3600"])),
        (Speaks::Grpc, Answer::Code(Code::Unavailable, None)),
        (Speaks::Grpc, Answer::Code(Code::ResourceExhausted, second)),
        (Speaks::Grpc, Answer::Code(Code::Unavailable, Some(Duration::from_secs(3600)))),
    ] {
        nothing_arrives(speaks, refusal);
    }
}

#[test]
fn partial_success() {
    for speaks in [Speaks::Http, Speaks::Grpc] {
        let receiver = Receiver::always(speaks, Answer::Partial(3));
        let Run { account, result } = run(receiver.output(), AMPLE);
        assert!(matches!(result, Ok(()) | Err(FlushError::Lost { .. })));
        assert_eq!((account.exported, account.rejected), receiver.count(), "{speaks:?} {account}");
        assert!(account.rejected > 0);
    }
}

#[test]
fn what_passes_costs_nothing() {
    let moment = Some(Duration::from_millis(20));
    let scripts = [
        (
            Speaks::Http,
            vec![
                Answer::Status(503, &["Retry-After: 0"]),
                Answer::Close,
                Answer::Status(429, &[]),
                Answer::ResetMidBody,
                Answer::Status(504, &[]),
                Answer::Garbage,
            ],
        ),
        (
            Speaks::Grpc,
            vec![
                Answer::Code(Code::ResourceExhausted, moment),
                Answer::Close,
                Answer::Code(Code::Unavailable, None),
                Answer::ResetMidBody,
                Answer::Status(503, &[]),
                Answer::HalfBody,
            ],
        ),
    ];
    for (speaks, script) in scripts {
        let faults = script.len() as u64;
        let receiver = Receiver::scripted(speaks, script);
        let mut config = config_for(receiver.output());
        // The window covers the outage.
        config.batch.export_timeout = Some(AMPLE);
        config.batch.queue_entries = REQUESTS * 3;
        let layer = start(config);
        Pipeline::new(&layer).run_requests(REQUESTS);
        assert_eq!(layer.shutdown(AMPLE), Ok(()), "{speaks:?}");
        let account = layer.stats();
        assert!(account.is_complete(), "{speaks:?} {account}");
        assert_eq!(receiver.count(), (PRODUCED, 0), "{speaks:?}");
        assert!(receiver.attempts() > faults);
    }
}
