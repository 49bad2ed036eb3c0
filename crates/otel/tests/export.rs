//! The account against a receiver's own count, for each thing that a receiver can do.

mod support;

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use stagespan_otel::config::RootSampler;
use stagespan_otel::{Account, FlushError, Layer, OtlpOutput, Output, Secret};
use support::receiver::{Answer, Receiver, attribute};
use support::{Pipeline, SPANS_PER_REQUEST, config_to, start};

/// Long enough for anything that isn't meant to hang.
const AMPLE: Duration = Duration::from_secs(60);

/// Runs `requests` through a layer that exports to `receiver`, and shuts it down.
fn run(receiver: &Receiver, requests: usize) -> (Account, Result<(), FlushError>) {
    let layer = start(config_to(&receiver.endpoint()));
    Pipeline::new(&layer).run_requests(requests);
    let result = layer.shutdown(AMPLE);
    (layer.stats(), result)
}

#[test]
fn everything_arrives_once_by_resource() {
    let receiver = Receiver::start([]);
    let layer = start(config_to(&receiver.endpoint()));
    let pipeline = Pipeline::new(&layer);
    pipeline.run_requests(200);
    layer.flush(AMPLE).unwrap();
    let account = layer.stats();
    assert_eq!(account.produced, 200 * SPANS_PER_REQUEST);
    assert!(account.is_complete() && account.is_balanced(), "{account}");
    assert_eq!(receiver.count(), (account.exported, 0));

    let exports = receiver.exports();
    let ids: BTreeSet<_> = exports.iter().flat_map(|e| e.spans().map(|s| s.span_id.clone())).collect();
    assert_eq!(ids.len() as u64, account.produced, "each span once");
    for export in &exports {
        assert_eq!(export.path, "/v1/traces");
        assert_eq!(export.headers["content-type"], "application/x-protobuf");
        let [resource] = &export.request.resource_spans[..] else { panic!("one resource in a batch") };
        let resource = &resource.resource.as_ref().unwrap().attributes;
        assert_eq!(attribute(resource, "service.name").as_deref(), Some("stagespan-test"));
        assert_eq!(attribute(resource, "ip"), attribute(resource, "host.id"));
        let instance = attribute(resource, "service.instance.id").unwrap();
        let stages: BTreeSet<_> =
            export.spans().map(|span| attribute(&span.attributes, "stagespan.stage.id")).collect();
        assert_eq!(stages.len(), 1, "{stages:?}");
        match stages.first().unwrap() {
            Some(stage) => assert!(instance.starts_with(&format!("stage{stage}.0-")), "{instance}"),
            None => assert!(!instance.starts_with("stage"), "{instance}"),
        }
        let scope = export.request.resource_spans[0].scope_spans[0].scope.as_ref().unwrap();
        assert_eq!((scope.name.as_str(), scope.version.as_str()), ("stagespan", env!("CARGO_PKG_VERSION")));
    }

    // What comes after a flush is exported by the shutdown.
    pipeline.run_requests(1);
    layer.shutdown(AMPLE).unwrap();
    assert!(layer.stats().is_complete());
    // And what comes after that is counted.
    pipeline.run_requests(1);
    let account = layer.stats();
    assert_eq!(account.dropped.shutdown, SPANS_PER_REQUEST);
    assert!(account.is_balanced() && account.pending == 0, "{account}");
    layer.shutdown(AMPLE).unwrap();
}

#[test]
fn a_partial_success_is_counted() {
    let receiver = Receiver::start([Answer::Partial(2)]);
    let (account, result) = run(&receiver, 10);
    assert_eq!(result, Err(FlushError::Lost { spans: 2 }));
    assert_eq!((account.exported, account.rejected), receiver.count());
    assert_eq!(account.rejected, 2);
    assert!(account.is_balanced() && account.pending == 0, "{account}");
}

#[test]
fn a_retry_sends_the_same_spans_and_they_count_once() {
    let receiver = Receiver::start([
        Answer::Status(503, &["Retry-After: 1"]),
        Answer::Status(429, &[]),
        Answer::Close,
        Answer::Garbage,
    ]);
    let began = Instant::now();
    let (account, result) = run(&receiver, 3);
    assert_eq!(result, Ok(()));
    assert!(began.elapsed() >= Duration::from_secs(1), "the receiver asked for a second");
    assert!(account.is_complete(), "{account}");
    assert_eq!(receiver.count(), (account.exported, 0));
    let exports = receiver.exports();
    for attempt in &exports[1..5] {
        assert_eq!(attempt.request, exports[0].request);
    }
}

#[test]
fn what_the_receiver_refuses_is_not_sent_again() {
    for status in [401, 404, 500, 301] {
        let always = (0..100).map(|_| Answer::Status(status, &["Location: http://127.0.0.1:1/"]));
        let receiver = Receiver::start(always);
        let (account, result) = run(&receiver, 2);
        assert_eq!(result, Err(FlushError::Lost { spans: account.produced }), "{status}");
        assert_eq!(account.dropped.export_failed, account.produced, "{status}");
        assert!(account.is_balanced() && account.pending == 0, "{account}");
        assert_eq!(receiver.exports().len(), 3, "one attempt for each resource");
    }
}

#[test]
fn the_status_counts_where_the_body_breaks_off() {
    let receiver = Receiver::start([Answer::HalfBody]);
    let (account, result) = run(&receiver, 1);
    assert_eq!(result, Ok(()));
    assert_eq!(receiver.count(), (account.exported, 0));
    assert!(account.is_complete(), "{account}");
}

#[test]
fn a_refused_port_is_tried_until_the_batch_times_out() {
    // Bound and closed again: nobody listens there.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut config = config_to(&format!("http://{address}/v1/traces"));
    config.batch.export_timeout = Some(Duration::from_millis(300));
    let layer = start(config);
    Pipeline::new(&layer).run_requests(5);
    let lost = layer.flush(AMPLE);
    let account = layer.stats();
    assert_eq!(
        lost,
        Err(FlushError::Lost { spans: account.produced }),
        "a flush never says that all is well"
    );
    assert_eq!(account.dropped.export_failed, account.produced);
    assert!(account.is_balanced() && account.pending == 0, "{account}");
}

#[test]
fn a_silent_receiver_holds_up_neither_flush_nor_shutdown() {
    let receiver = Receiver::start((0..100).map(|_| Answer::Hang));
    let layer = start(config_to(&receiver.endpoint()));
    Pipeline::new(&layer).run_requests(5);
    let within = Duration::from_millis(200);
    let all = 5 * SPANS_PER_REQUEST;

    let flush = timed(&layer, |layer| layer.flush(within));
    assert_eq!(flush, Err(FlushError::Deadline { pending: all }));
    assert_eq!(layer.stats().pending, all);

    let shutdown = timed(&layer, |layer| layer.shutdown(within));
    assert!(shutdown.is_err(), "{shutdown:?}");
    let account = layer.stats();
    assert_eq!(account.dropped.shutdown + account.dropped.export_failed, all, "{account}");
    assert!(account.is_balanced() && account.pending == 0, "{account}");
    assert_eq!(receiver.count(), (0, 0));
}

/// Runs it and checks that it came back long before the receiver's own timeout of 10 s.
fn timed<T>(layer: &Layer, work: impl FnOnce(&Layer) -> T) -> T {
    let began = Instant::now();
    let result = work(layer);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    result
}

#[test]
fn an_attempt_that_times_out_is_lost_and_not_repeated() {
    let receiver = Receiver::start((0..3).map(|_| Answer::Hang));
    let mut config = config_to(&receiver.endpoint());
    let Output::Otlp(otlp) = &mut config.output else { unreachable!() };
    otlp.timeout = Some(Duration::from_millis(100));
    let layer = start(config);
    Pipeline::new(&layer).run_requests(1);
    assert_eq!(layer.flush(AMPLE), Err(FlushError::Lost { spans: SPANS_PER_REQUEST }));
    assert_eq!(receiver.exports().len(), 3, "the receiver may have it: one attempt for each resource");
    assert!(layer.stats().is_balanced());
}

#[test]
fn a_full_queue_drops_and_counts() {
    let receiver = Receiver::start((0..100).map(|_| Answer::Hang));
    let mut config = config_to(&receiver.endpoint());
    config.batch.queue_entries = 8;
    config.batch.export_batch_spans = 6;
    let layer = start(config);
    Pipeline::new(&layer).run_requests(100);
    let account = layer.stats();
    assert_eq!(account.produced, 100 * SPANS_PER_REQUEST);
    assert!(account.dropped.queue_full > 0 && account.exported == 0, "{account}");
    assert!(layer.shutdown(Duration::from_millis(100)).is_err());
    let account = layer.stats();
    assert!(account.is_balanced() && account.pending == 0, "{account}");
}

#[test]
fn headers_are_sent_and_never_shown() {
    let receiver = Receiver::start([Answer::Status(401, &[])]);
    let mut otlp = OtlpOutput::http(receiver.endpoint());
    otlp.headers.push(("authorization".to_owned(), Secret::new("Bearer hunter2")));
    let mut config = config_to("http://unused");
    config.output = Output::Otlp(otlp);
    assert!(!format!("{config:?}").contains("hunter2"));
    let layer = start(config);
    Pipeline::new(&layer).run_requests(1);
    let result = layer.shutdown(AMPLE);
    assert!(receiver.exports().iter().all(|e| e.headers["authorization"] == "Bearer hunter2"));
    assert!(!format!("{layer:?}{result:?}{}", layer.stats()).contains("hunter2"));
}

#[test]
fn layers_are_independent() {
    let (first, second) = (Receiver::start([]), Receiver::start([]));
    let layers = [start(config_to(&first.endpoint())), start(config_to(&second.endpoint()))];
    for (n, layer) in (1..).zip(&layers) {
        Pipeline::new(layer).run_requests(n);
    }
    for layer in &layers {
        layer.shutdown(AMPLE).unwrap();
    }
    assert_eq!(first.count().0, SPANS_PER_REQUEST);
    assert_eq!(second.count().0, 2 * SPANS_PER_REQUEST);
}

#[test]
fn an_assigned_id_is_used_once() {
    let receiver = Receiver::start([]);
    let layer = start(config_to(&receiver.endpoint()));
    Pipeline::new(&layer).run_request_twice_on_one_assignment("r1");
    layer.shutdown(AMPLE).unwrap();
    let account = layer.stats();
    assert_eq!(account.counters.repeated_ids, 1);
    assert!(account.is_complete(), "{account}");
    let exports = receiver.exports();
    let stages: Vec<_> =
        exports.iter().flat_map(|e| e.spans()).filter(|s| s.name.starts_with("stage ")).collect();
    let ids: BTreeSet<_> = stages.iter().map(|s| &s.span_id).collect();
    let traces: BTreeSet<_> = stages.iter().map(|s| &s.trace_id).collect();
    assert_eq!((stages.len(), ids.len(), traces.len()), (2, 2, 1));
}

#[test]
fn what_cannot_be_expressed_is_dropped_alone() {
    let receiver = Receiver::start([]);
    let layer = start(config_to(&receiver.endpoint()));
    let pipeline = Pipeline::new(&layer);
    pipeline.run_request("r1");
    pipeline.record_with_a_foreign_anchor();
    pipeline.run_request("r2");
    layer.shutdown(AMPLE).unwrap_err();
    let account = layer.stats();
    assert_eq!((account.dropped.invalid, account.exported), (2, 2 * SPANS_PER_REQUEST));
    assert_eq!(receiver.count(), (account.exported, 0));
    assert!(account.is_balanced() && account.pending == 0, "{account}");
}

#[test]
fn what_is_not_sampled_is_not_produced() {
    let receiver = Receiver::start([]);
    let mut config = config_to(&receiver.endpoint());
    config.sampler.root = RootSampler::AlwaysOff;
    let layer = start(config);
    Pipeline::new(&layer).run_requests(3);
    layer.shutdown(AMPLE).unwrap();
    let account = layer.stats();
    assert_eq!((account.produced, account.counters.unsampled), (0, 6));
    assert!(receiver.exports().is_empty());
}

#[test]
fn a_stages_spans_keep_to_the_limits() {
    let receiver = Receiver::start([]);
    let mut config = config_to(&receiver.endpoint());
    config.span_limits.attributes = 4;
    config.span_limits.links = 0;
    let layer = start(config);
    Pipeline::new(&layer).run_request("r1");
    layer.shutdown(AMPLE).unwrap();
    let exports = receiver.exports();
    let talker = exports.iter().flat_map(|e| e.spans()).find(|span| span.name == "stage talker").unwrap();
    assert_eq!(talker.attributes.len(), 4);
    assert!(talker.dropped_attributes_count > 5, "{}", talker.dropped_attributes_count);
    assert_eq!((talker.links.len(), talker.dropped_links_count), (0, 1));
    assert_eq!(attribute(&talker.attributes, "stagespan.request.id").as_deref(), Some("r1"));
}
