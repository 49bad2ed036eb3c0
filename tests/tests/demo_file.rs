//! The demo's own trace file: one OTLP JSON object that Jaeger's UI takes by upload, whenever it is looked at.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value as Json;
use stagespan_tests::demo_run::{Demo, printed_account, stage_process};
use stagespan_tests::jaeger::Jaeger;
use stagespan_tests::otlp_json;
use stagespan_tests::pipeline_run::upstream_of;
use stagespan_tests::request_trace::group;
use stagespan_tests::rules::{check_links, check_request, check_resolve};
use stagespan_tests::span::Span;

const WITHIN: Duration = Duration::from_secs(60);
const FILE: &str = "stagespan-demo.json";

/// Its spans, if all of it is one object.
fn read(path: &Path) -> anyhow::Result<Vec<Span>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("no {}", path.display()))?;
    otlp_json::parse(&serde_json::from_str::<Json>(&text).with_context(|| format!("not one object: {text}"))?)
}

/// Uploads it as the UI does, and compares what the UI gets.
fn check_upload(path: &Path, spans: &[Span]) -> anyhow::Result<()> {
    let transformed = Jaeger::start()?.transform(&std::fs::read_to_string(path)?)?;
    let traces = transformed["data"].as_array().with_context(|| format!("no data: {transformed}"))?;
    let shown: usize = traces.iter().filter_map(|trace| trace["spans"].as_array()).map(Vec::len).sum();
    ensure!(shown == spans.len(), "Jaeger shows {shown} of {} spans", spans.len());
    Ok(())
}

#[test]
fn a_whole_run_is_one_object_that_jaeger_loads() -> anyhow::Result<()> {
    let ended = Demo::default().run(&[])?.end(WITHIN)?;
    ensure!(ended.status.success(), "{}", ended.stderr);
    let path = ended.directory.path().join(FILE);
    let spans = read(&path)?;
    let requests = group(&spans)?;
    ensure!(requests.len() == 20, "{} requests", requests.len());
    for request in &requests {
        check_request(request)?;
        check_links(request, upstream_of)?;
    }
    check_resolve(&spans)?;
    assert_eq!(printed_account(&ended)?, (spans.len(), spans.len(), 0));
    ensure!(ended.stdout.contains(FILE), "the file is not named:\n{}", ended.stdout);
    check_upload(&path, &spans)?;
    ended.check_nothing_left()
}

#[test]
fn a_name_of_ones_own_is_used() -> anyhow::Result<()> {
    let ended = Demo::default().run(&["--out", "mine.json", "--json"])?.end(WITHIN)?;
    let printed = ended.json()?;
    ensure!(printed["trace_output"].to_string().contains("mine.json"), "{printed}");
    let spans = read(&ended.directory.path().join("mine.json"))?;
    assert_eq!(printed["account"]["exported"].as_u64(), Some(spans.len() as u64));
    ensure!(!ended.directory.path().join(FILE).exists(), "a file nobody asked for");
    Ok(())
}

/// Ctrl-C in mid-run: the file is whole, the stages and their sockets are gone.
#[test]
fn an_interrupted_run_leaves_a_whole_file_and_nothing_else() -> anyhow::Result<()> {
    let demo = Demo { requests: 100, talker_step_us: 5000, ..Demo::default() };
    let mut running = demo.run(&[])?.env("OTEL_BSP_SCHEDULE_DELAY", "20").start()?;
    let stage = stage_process(&mut running, "thinker", WITHIN)?;
    running.wait_for("spans in the file", WITHIN, |running| {
        let path = running.path().join(FILE);
        // Not there yet, or about to be; once there are spans, it must be whole at every look.
        let some = std::fs::metadata(&path).is_ok_and(|file| file.len() > 2);
        Ok(if some { Some(read(&path)?).filter(|spans| !spans.is_empty()) } else { None })
    })?;
    running.process()?.signal("INT")?;
    let ended = running.end(WITHIN)?;
    ensure!(ended.status.code() == Some(130), "{}: {}", ended.status, ended.stderr);
    ended.check_nothing_left()?;
    ensure!(stage.is_gone(), "{stage:?}");
    let path = ended.directory.path().join(FILE);
    let spans = read(&path)?;
    ensure!(spans.iter().any(|span| span.name == "request"), "no request is over");
    for request in group(&spans)? {
        check_request(&request)?;
    }
    let (produced, delivered, dropped) = printed_account(&ended)?;
    ensure!(
        (produced, delivered, dropped) == (spans.len(), spans.len(), 0),
        "{} spans: {}",
        spans.len(),
        ended.stderr
    );
    check_upload(&path, &spans)
}

/// A stage exits when its orchestrator's connection ends, however that ended.
#[test]
fn a_killed_orchestrator_leaves_no_stage() -> anyhow::Result<()> {
    let demo = Demo { requests: 100, talker_step_us: 5000, ..Demo::default() };
    let mut running = demo.run(&[])?.start()?;
    let mut stages = Vec::new();
    for stage in stagespan_tests::demo_run::STAGES {
        stages.push(stage_process(&mut running, stage, WITHIN)?);
    }
    running.process()?.signal("KILL")?;
    let ended = running.end(WITHIN)?;
    let deadline = std::time::Instant::now() + WITHIN;
    while !stages.iter().all(stagespan_tests::process::Process::is_gone) {
        ensure!(
            std::time::Instant::now() < deadline,
            "{stages:?} outlive their orchestrator: {}",
            ended.stderr
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
