//! Real forks. Each scenario runs in a process of its own, since `fork` in the middle of a test
//! harness would copy that too; what arrives is judged here.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "what can't be set up fails the test")]

mod support;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use stagespan_otel::{Config, Door, Environment, Layer, OtlpOutput, Output, RequestOpening, resource};
use support::receiver::{Answer, Receiver, Speaks, attribute};
use support::{Pipeline, SPANS_PER_REQUEST, config_for, start};

/// Long enough for anything that isn't meant to hang.
const AMPLE: Duration = Duration::from_secs(60);

/// A process that hangs is ended by an alarm, and so fails the scenario instead of the machine.
const ALARM_S: u32 = 120;

const ENDPOINT: &str = "STAGESPAN_TEST_ENDPOINT";

/// What a child is forked for, and the statuses of children that did not end well.
fn fork(child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child runs only `child`, which uses what the crate under test promises to be
    // usable there, and leaves by `_exit`, so that nothing of the harness runs in it.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0, "fork failed");
        if pid == 0 {
            libc::alarm(ALARM_S);
            let is_well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).is_ok();
            libc::_exit(if is_well { 0 } else { 1 });
        }
        pid
    }
}

fn wait_for(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: `status` is a valid place for the call to write to; `pid` is a child of ours.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!((waited, status), (pid, 0), "a child ended badly, or hung");
}

/// In the scenario's process: a layer that exports to the receiver of the test that started it.
fn layer() -> Layer {
    let endpoint = std::env::var(ENDPOINT).unwrap();
    let output = if endpoint.ends_with("/v1/traces") {
        OtlpOutput::http(endpoint)
    } else {
        OtlpOutput::grpc(endpoint)
    };
    start(config_for(output))
}

/// Exports so many requests, and checks that all of them were taken.
fn export(layer: &Layer, requests: usize) {
    let before = layer.stats().exported;
    Pipeline::new(layer).run_requests(requests);
    layer.flush(AMPLE).unwrap();
    assert_eq!(layer.stats().exported - before, requests as u64 * SPANS_PER_REQUEST);
}

/// A child exports and ends its layer; its account is its own.
fn child_exports(layer: &Layer, requests: usize) {
    assert_eq!(layer.stats().produced, 0, "a child begins at nothing");
    export(layer, requests);
    layer.shutdown(AMPLE).unwrap();
    assert!(layer.stats().is_complete());
}

/// Runs a scenario below in a process of its own.
fn run(scenario: &str, receiver: &Receiver) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", scenario, "--ignored", "--test-threads", "1", "--nocapture"])
        .env(ENDPOINT, receiver.endpoint())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{scenario}: {text}");
}

/// Spans by the pid of the process that exported them. No id may come twice.
fn by_process(receiver: &Receiver) -> BTreeMap<String, u64> {
    let mut ids = std::collections::BTreeSet::new();
    let mut counts = BTreeMap::new();
    for export in receiver.exports() {
        for of_resource in &export.request.resource_spans {
            let resource = &of_resource.resource.as_ref().unwrap().attributes;
            for span in of_resource.scope_spans.iter().flat_map(|scope| &scope.spans) {
                assert!(ids.insert(span.span_id.clone()), "a span came twice: {span:?}");
                if span.name == "request" {
                    let pid = attribute(resource, "process.pid").unwrap();
                    let instance = attribute(resource, "service.instance.id").unwrap();
                    assert!(instance.ends_with(&format!("-{pid}")), "{instance} {pid}");
                    *counts.entry(pid).or_default() += 1;
                }
            }
        }
    }
    counts
}

fn sorted_counts(receiver: &Receiver) -> Vec<u64> {
    let mut counts: Vec<_> = by_process(receiver).into_values().collect();
    counts.sort_unstable();
    counts
}

#[test]
fn a_child_exports_its_own_and_nothing_of_its_parents() {
    for speaks in [Speaks::Http, Speaks::Grpc] {
        let receiver = Receiver::always(speaks, Answer::Ok);
        run("scenario_before_and_after_the_first_span", &receiver);
        // The parent's 3 + 4, a child's 5 before the parent's first span, another's 6 after it.
        assert_eq!(sorted_counts(&receiver), [5, 6, 7], "{speaks:?}");
    }
}

#[test]
#[ignore = "a scenario, run by a test"]
fn scenario_before_and_after_the_first_span() {
    let layer = layer();
    wait_for(fork(|| child_exports(&layer, 5)));
    // Not flushed: what lies in the queue at the fork is exported once, by the parent.
    Pipeline::new(&layer).run_requests(3);
    wait_for(fork(|| child_exports(&layer, 6)));
    Pipeline::new(&layer).run_requests(4);
    layer.shutdown(AMPLE).unwrap();
    assert_eq!(layer.stats().exported, 7 * SPANS_PER_REQUEST);
}

#[test]
fn forks_of_forks() {
    let receiver = Receiver::start([]);
    run("scenario_nested", &receiver);
    assert_eq!(sorted_counts(&receiver), [1, 2, 3, 4]);
}

#[test]
#[ignore = "a scenario, run by a test"]
fn scenario_nested() {
    let layer = layer();
    export(&layer, 1);
    wait_for(fork(|| {
        export(&layer, 2);
        wait_for(fork(|| {
            // No span of this process's own before it forks again.
            wait_for(fork(|| child_exports(&layer, 4)));
            child_exports(&layer, 3);
        }));
        layer.shutdown(AMPLE).unwrap();
    }));
    layer.shutdown(AMPLE).unwrap();
}

#[test]
fn a_request_that_is_open_at_the_fork_is_its_parents() {
    let receiver = Receiver::start([]);
    run("scenario_open_request", &receiver);
    assert_eq!(sorted_counts(&receiver), [1, 1], "the parent's, and the child's own");
}

#[test]
#[ignore = "a scenario, run by a test"]
fn scenario_open_request() {
    let layer = layer();
    let opening = || RequestOpening { request_id: "r", headers: [], door: Door::Call };
    let mut request = Some(layer.open_request(opening()));
    wait_for(fork(|| {
        let copy = request.take().unwrap();
        assert_eq!(copy.trace_id(), None, "it is not the child's");
        drop(copy);
        layer.open_request(opening()).end();
        layer.shutdown(AMPLE).unwrap();
        assert_eq!(layer.stats().exported, 1);
    }));
    assert!(request.as_ref().unwrap().trace_id().is_some());
    drop(request);
    layer.shutdown(AMPLE).unwrap();
    assert_eq!(layer.stats().exported, 1);
}

#[test]
fn forks_in_the_middle_of_everything() {
    let receiver = Receiver::start([]);
    run("scenario_under_load", &receiver);
    let counts = by_process(&receiver);
    assert_eq!(counts.len(), 1 + CHILDREN, "{counts:?}");
    assert_eq!(counts.values().filter(|n| **n == 3).count(), CHILDREN, "{counts:?}");
}

/// Children of the scenario under load.
const CHILDREN: usize = 40;

#[test]
#[ignore = "a scenario, run by a test"]
fn scenario_under_load() {
    let mut config = match std::env::var(ENDPOINT) {
        Ok(endpoint) => config_for(OtlpOutput::http(endpoint)),
        Err(error) => panic!("{error}"),
    };
    // A worker that always works.
    config.batch.schedule_delay = Duration::from_millis(1);
    config.batch.export_batch_spans = 16;
    let layer = start(config);
    let is_over = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (layer, is_over) = (layer.clone(), Arc::clone(&is_over));
            std::thread::spawn(move || {
                let pipeline = Pipeline::new(&layer);
                while !is_over.load(Ordering::Relaxed) {
                    pipeline.run_requests(3);
                    let _ = layer.flush(Duration::from_millis(1));
                }
            })
        })
        .collect();
    // Something of the parent's is in flight at each fork.
    while layer.stats().exported < 100 {
        std::thread::yield_now();
    }
    for _ in 0..CHILDREN {
        wait_for(fork(|| child_exports(&layer, 3)));
    }
    is_over.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    let _ = layer.shutdown(AMPLE);
    let account = layer.stats();
    assert!(account.is_balanced() && account.pending == 0, "{account}");
}

#[test]
fn a_child_without_spans_has_nothing_to_wait_for() {
    let receiver = Receiver::always(Speaks::Http, Answer::Hang);
    run("scenario_silent_receiver", &receiver);
}

#[test]
#[ignore = "a scenario, run by a test"]
fn scenario_silent_receiver() {
    let layer = layer();
    Pipeline::new(&layer).run_requests(1);
    // The parent's worker hangs in its export; the child's flush is none of that.
    assert!(layer.flush(Duration::from_millis(100)).is_err());
    wait_for(fork(|| {
        layer.flush(AMPLE).unwrap();
        layer.shutdown(AMPLE).unwrap();
        Pipeline::new(&layer).run_requests(1);
        assert_eq!(layer.stats().dropped.shutdown, SPANS_PER_REQUEST);
    }));
    assert!(layer.shutdown(Duration::from_millis(100)).is_err());
}

#[test]
fn a_trace_file_is_not_shared() {
    let receiver = Receiver::start([]);
    run("scenario_file", &receiver);
}

#[test]
#[ignore = "a scenario, run by a test"]
fn scenario_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.json");
    let own = resource::detect_process(&Environment::default());
    let layer = start(Config::new(Output::OtlpJsonFile(path.clone()), "svc", own));
    let spans = |path: &std::path::Path| {
        let text = std::fs::read_to_string(path).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
        text.matches("\"spanId\"").count()
    };
    export(&layer, 2);
    let before = spans(&path);
    // A child that has nothing to write leaves no file.
    wait_for(fork(|| layer.flush(AMPLE).unwrap()));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    let child = fork(|| child_exports(&layer, 1));
    wait_for(child);
    export(&layer, 1);
    assert!(spans(&path) > before);
    assert!(spans(&directory.path().join(format!("trace.{child}.json"))) < before);
    layer.shutdown(AMPLE).unwrap();
}

/// Spans of a program's own subscriber go the same way.
#[test]
fn users_spans_that_are_open_at_the_fork_are_their_parents() {
    let receiver = Receiver::start([]);
    run("scenario_users_spans", &receiver);
    let exports = receiver.exports();
    let mut names: Vec<_> = exports.iter().flat_map(|e| e.spans()).map(|span| span.name.clone()).collect();
    names.sort_unstable();
    assert_eq!(names, ["child", "parent"]);
}

#[test]
#[ignore = "a scenario, run by a test"]
fn scenario_users_spans() {
    use tracing_subscriber::layer::SubscriberExt as _;
    let layer = layer();
    let subscriber = tracing_subscriber::registry().with(layer.subscriber_layer());
    tracing::subscriber::with_default(subscriber, || {
        let parent = tracing::info_span!(parent: None, "parent");
        let parent = Mutex::new(Some(parent));
        let child = fork(|| {
            drop(parent.lock().unwrap().take());
            drop(tracing::info_span!(parent: None, "child"));
            layer.shutdown(AMPLE).unwrap();
            assert_eq!(layer.stats().exported, 1);
        });
        wait_for(child);
        drop(parent.lock().unwrap().take());
    });
    let (sender, done) = mpsc::channel();
    let ending = layer.clone();
    std::thread::spawn(move || sender.send(ending.shutdown(AMPLE)));
    assert_eq!(done.recv().unwrap(), Ok(()));
    assert_eq!(layer.stats().exported, 1);
}
