//! Off means off: no connection to the receiver that the environment names, no exporter thread, no trace file. Each is also
//! looked for with tracing on, where it must be found, so that the test is known to see it.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use stagespan_tests::command_run::Ended;
use stagespan_tests::demo_run::Demo;

const WITHIN: Duration = Duration::from_secs(60);
/// The kernel keeps 15 bytes of a thread's name.
const EXPORTER_THREAD: &str = "stagespan-expor";

/// What could be seen of a run from outside.
struct Seen {
    ended: Ended,
    threads: BTreeSet<String>,
    connected: bool,
}

fn watch(arguments: &[&str], disabled: Option<&str>) -> anyhow::Result<Seen> {
    let receiver = TcpListener::bind("127.0.0.1:0").context("no port")?;
    receiver.set_nonblocking(true)?;
    let endpoint = format!("http://{}", receiver.local_addr()?);
    let demo = Demo { requests: 30, talker_step_us: 2000, ..Demo::default() };
    let mut run = demo.run(arguments)?;
    run = run.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint).env("OTEL_BSP_SCHEDULE_DELAY", "20");
    // A receiver that takes a connection and says nothing is not to be waited for.
    run = run.env("OTEL_EXPORTER_OTLP_TIMEOUT", "200");
    if let Some(value) = disabled {
        run = run.env("OTEL_SDK_DISABLED", value);
    }
    let mut running = run.start()?;
    let mut threads = BTreeSet::new();
    // Looks until the program is gone, which ends the wait with an error of no interest.
    let _ = running.wait_for("its end", WITHIN, |running| {
        threads.extend(running.process()?.thread_names());
        threads.extend(running.children().iter().flat_map(|stage| stage.thread_names()));
        Ok(None::<()>)
    });
    let ended = running.end(WITHIN)?;
    let connected = match receiver.accept() {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => return Err(error).context("accept"),
    };
    Ok(Seen { ended, threads, connected })
}

fn check_off(seen: &Seen) -> anyhow::Result<()> {
    let Seen { ended, threads, connected } = seen;
    ensure!(ended.status.success(), "{}: {}", ended.status, ended.stderr);
    ensure!(!connected, "it connected to the receiver");
    ensure!(threads.iter().any(|name| name.starts_with("tokio")), "these are not its threads: {threads:?}");
    ensure!(!threads.contains(EXPORTER_THREAD), "{threads:?}");
    ensure!(!ended.directory.path().join("stagespan-demo.json").exists(), "a trace file");
    ended.check_nothing_left()
}

#[test]
fn no_trace_is_no_trace() -> anyhow::Result<()> {
    check_off(&watch(&["--no-trace"], None)?)
}

#[test]
fn a_disabled_sdk_is_off() -> anyhow::Result<()> {
    // The figures are there all the same, and say that nothing was traced.
    let seen = watch(&["--json"], Some("TRUE"))?;
    check_off(&seen)?;
    let printed = seen.ended.json()?;
    let request = &printed["scenarios"][0]["requests"][0];
    ensure!(request.get("trace_id").is_none_or(serde_json::Value::is_null), "{request}");
    ensure!(request["stages"][1]["queued_ns"].is_u64(), "{request}");
    Ok(())
}

#[test]
fn the_same_run_with_tracing_on_connects_from_the_exporter_thread() -> anyhow::Result<()> {
    let seen = watch(&[], None)?;
    ensure!(seen.connected, "it did not connect: {}", seen.ended.stderr);
    ensure!(seen.threads.contains(EXPORTER_THREAD), "{:?}", seen.threads);
    seen.ended.check_nothing_left()
}
