//! Which threads there are. Alone in its file, since it looks at the whole process.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what can't be read fails the test")]

mod support;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use stagespan_model::SystemClock;
use stagespan_otel::{Config, Environment, Layer};
use support::receiver::Receiver;
use support::{Pipeline, config_to, start};

/// Names of this process's threads that are ours or our client's; the kernel cuts them at 15 bytes.
fn export_threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names
        .map(|name| name.trim().to_owned())
        .filter(|n| n.starts_with("stagespan-") || n.starts_with("reqwest-"))
        .collect()
}

#[test]
fn a_thread_is_started_by_the_first_span_and_ends_with_the_layer() {
    let off =
        Layer::start_or_off(Config::from_environment(&Environment::default()), Arc::new(SystemClock::new()));
    Pipeline::new(&off).run_requests(10);
    off.flush(Duration::from_secs(1)).unwrap();
    assert_eq!(export_threads(), [""; 0], "off is off");

    let receiver = Receiver::start([]);
    let layer = start(config_to(&receiver.endpoint()));
    layer.flush(Duration::from_secs(1)).unwrap();
    assert_eq!(export_threads(), [""; 0], "on, but there was no span yet");

    Pipeline::new(&layer).run_requests(1);
    layer.flush(Duration::from_secs(60)).unwrap();
    let threads = export_threads();
    assert!(threads.contains(&"stagespan-expor".to_owned()), "{threads:?}");

    layer.shutdown(Duration::from_secs(60)).unwrap();
    // The worker has said that it is done; that its thread is gone takes the kernel a moment more.
    let gone = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        export_threads().is_empty()
    });
    assert!(gone, "{:?}", export_threads());
}
