//! The command with real stage processes: a small pipeline to its end, and two that are cut short.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Two stages; the first one's start takes `start_cost_ms`.
fn pipeline(directory: &Path, start_cost_ms: u32) {
    let text = format!(
        r#"
        [[stage]]
        name = "first"
        scheduler = "ar"
        start_cost_ms = {start_cost_ms}

        [[stage]]
        name = "second"
        scheduler = "ar"
        gate = "async_chunk"
        "#
    );
    fs::write(directory.join("small.toml"), text).unwrap();
    let rows: String = (0..6).map(|n| format!("2023-11-16 18:15:46.{n},20,5\r\n")).collect();
    fs::write(directory.join("rows.csv"), format!("TIMESTAMP,ContextTokens,GeneratedTokens\r\n{rows}"))
        .unwrap();
}

/// `stagespan demo --json` on them, with nothing from the developer's environment.
fn demo(directory: &Path, more: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stagespan"));
    for (name, _) in std::env::vars() {
        if name.starts_with("OTEL_") || name.starts_with("STAGESPAN_") || name.starts_with("VLLM_OMNI_") {
            command.env_remove(name);
        }
    }
    command.args(["demo", "--pipeline", "small.toml", "--trace", "rows.csv", "--json"]).args(more);
    command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The pids of its stages, once both are there.
fn stages(demo: &Child) -> Vec<String> {
    let path = format!("/proc/{0}/task", demo.id());
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let tasks = fs::read_dir(&path).unwrap().flatten();
        let children: Vec<String> = tasks
            .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
            .flat_map(|children| children.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        if children.len() == 2 {
            return children;
        }
        assert!(Instant::now() < deadline, "no stages: {children:?}");
        sleep(Duration::from_millis(10));
    }
}

fn signal(name: &str, pid: &str) {
    assert!(Command::new("kill").args([name, pid]).status().unwrap().success());
}

fn figures(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The spans of a trace file, by name.
fn spans(path: &Path) -> Vec<String> {
    let trace: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    list(&trace, "resourceSpans")
        .iter()
        .flat_map(|resource| list(resource, "scopeSpans"))
        .flat_map(|scope| list(&scope, "spans"))
        .map(|span| span["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Waits for the end of stages: those killed with the command may outlive it by a moment.
fn gone(pids: &[String]) {
    let deadline = Instant::now() + Duration::from_secs(5);
    for pid in pids {
        while Path::new("/proc").join(pid).exists() {
            assert!(Instant::now() < deadline, "stage process {pid} is left");
            sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_run_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    pipeline(directory.path(), 30);
    let output = demo(directory.path(), &["--out", "trace.json"]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let figures = figures(&output);
    assert_eq!((&figures["schema"], &figures["scenarios"][0]["name"]), (&1.into(), &"small".into()));
    let requests = figures["scenarios"][0]["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 6);
    for request in requests {
        assert_eq!(request["trace_id"].as_str().map(str::len), Some(32), "{request}");
        let second = &request["stages"][1];
        let ns = |field: &str| second[field].as_u64().unwrap();
        assert_eq!(ns("input_wait_ns") + ns("ready_queued_ns"), ns("queued_ns"), "{request}");
    }
    assert!(requests[0]["stages"][1]["input_wait_ns"].as_u64().unwrap() >= 30_000_000);
    // Each request: itself, two stages, one wait on the first and two on the second.
    let spans = spans(&directory.path().join("trace.json"));
    assert_eq!(figures["account"]["exported"], spans.len());
    assert_eq!(spans.len(), 6 * 6);
    assert_eq!(spans.iter().filter(|name| *name == "stage second").count(), 6);
}

#[test]
fn with_tracing_off_the_figures_are_the_same() {
    let directory = tempfile::tempdir().unwrap();
    pipeline(directory.path(), 0);
    let output = demo(directory.path(), &["--no-trace"]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let figures = figures(&output);
    assert_eq!((&figures["account"], &figures["trace_output"]["kind"]), (&Value::Null, &"off".into()));
    let stage = &figures["scenarios"][0]["requests"][0]["stages"][1];
    assert_eq!((&stage["split"], stage["queued_ns"].is_u64()), (&"measured".into(), true));
    let files: Vec<_> = fs::read_dir(directory.path()).unwrap().flatten().map(|f| f.file_name()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
}

#[test]
fn a_signal_ends_the_run_in_order() {
    for (name, code) in [("-INT", 130), ("-TERM", 143)] {
        let directory = tempfile::tempdir().unwrap();
        pipeline(directory.path(), 3_600_000);
        let demo = demo(directory.path(), &["--out", "trace.json"]);
        let stages = stages(&demo);
        signal(name, &demo.id().to_string());
        let output = demo.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        gone(&stages);
        let account = figures(&output)["account"].clone();
        assert_eq!(account["exported"], spans(&directory.path().join("trace.json")).len(), "{account}");
        assert_eq!(account["produced"], account["exported"]);
    }
}

#[test]
fn a_killed_stage_is_named() {
    let directory = tempfile::tempdir().unwrap();
    pipeline(directory.path(), 3_600_000);
    let demo = demo(directory.path(), &["--out", "trace.json"]);
    let stages = stages(&demo);
    signal("-KILL", &stages[0]);
    let output = demo.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("stagespan: stage "), "{stderr}");
    gone(&stages);
    let account = figures(&output)["account"].clone();
    assert_eq!(account["exported"], spans(&directory.path().join("trace.json")).len(), "{account}");
}
