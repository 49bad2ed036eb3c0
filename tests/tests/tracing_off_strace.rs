//! Off means off, down to the system calls: with tracing off no process of a run makes a socket that isn't for its own
//! stages, and no thread takes the exporter's name.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use stagespan_tests::command_run::{Ended, Run};
use stagespan_tests::demo_run::Demo;
use stagespan_tests::stagespan_binary;

const WITHIN: Duration = Duration::from_secs(120);
/// The kernel keeps 15 bytes of a thread's name.
const EXPORTER_THREAD: &str = "\"stagespan-expor";

/// A run, and the system calls of it and all of its children that make sockets, connect, and name threads.
fn traced(arguments: &[&str], variables: &[(&str, &str)]) -> anyhow::Result<(Ended, Vec<String>)> {
    let mut strace = Command::new("strace");
    strace.args(["--follow-forks", "--quiet=all", "--signal=none", "--trace=socket,connect,prctl"]);
    strace.args(["--output=calls.txt", "--string-limit=200"]).arg(stagespan_binary()?);
    strace
        .args(["demo", "--pipeline", "pipeline.toml", "--trace", "rows.csv", "--speed", "1"])
        .args(arguments);
    let mut run = Run::of(strace)?;
    for name in ["pipeline.toml", "rows.csv"] {
        // The same files as in every other run.
        let files = Demo::default().run(&[])?;
        run = run.file(name, &fs::read_to_string(files.path().join(name))?)?;
    }
    for (name, value) in variables {
        run = run.env(name, value);
    }
    let ended = run.end(WITHIN)?;
    ended.check_nothing_left()?;
    let calls =
        fs::read_to_string(ended.directory.path().join("calls.txt")).context("strace wrote nothing")?;
    Ok((ended, calls.lines().map(str::to_owned).collect()))
}

fn check_off(ended: &Ended, calls: &[String]) -> anyhow::Result<()> {
    ensure!(ended.status.success(), "{}: {}", ended.status, ended.stderr);
    let directory = ended.directory.path().display();
    let (mut sockets, mut connections) = (0, 0);
    for call in calls {
        if call.contains(" socket(") {
            sockets += 1;
            ensure!(call.contains("socket(AF_UNIX,"), "a socket that is no stage's: {call}");
        }
        if call.contains(" connect(") {
            connections += 1;
            ensure!(call.contains(&format!("sun_path=\"{directory}/")), "not to a stage: {call}");
        }
        ensure!(!call.contains(EXPORTER_THREAD), "an exporter thread: {call}");
    }
    // Three stages connect to the orchestrator, and two to the stage after them.
    ensure!(
        (sockets, connections) >= (5, 5),
        "{sockets} sockets and {connections} connections of a whole run"
    );
    let named = calls.iter().any(|call| call.contains("PR_SET_NAME, \"from-orchestrat"));
    ensure!(named, "no thread of a stage was seen to take its name");
    Ok(())
}

#[test]
fn off_makes_no_socket_but_the_stages_and_no_exporter_thread() -> anyhow::Result<()> {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    let (ended, calls) = traced(&["--no-trace"], &[endpoint])?;
    check_off(&ended, &calls).context("--no-trace")?;
    let (ended, calls) = traced(&[], &[endpoint, ("OTEL_SDK_DISABLED", "true")])?;
    check_off(&ended, &calls).context("OTEL_SDK_DISABLED")
}

/// With tracing on both are seen, so the test above would see them.
#[test]
fn on_has_the_exporter_thread_and_its_socket() -> anyhow::Result<()> {
    let (_, calls) = traced(&[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")])?;
    ensure!(calls.iter().any(|call| call.contains(EXPORTER_THREAD)), "no exporter thread");
    let connected = calls.iter().any(|call| call.contains(" connect(") && call.contains("htons(9)"));
    ensure!(connected, "no connection to the receiver");
    Ok(())
}
