//! What the demo claims, from its own figures: two scenarios whose queued times look alike and have opposite causes, on
//! whatever rows are replayed.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value as Json;
use stagespan_tests::command_run::Run;
use stagespan_tests::rows::{Row, azure, even};
use stagespan_tests::workspace_root;

/// The promise is a minute; in a debug build it holds too, since nearly all of it is the replay.
const WITHIN: Duration = Duration::from_secs(60);

fn demo(arguments: &[&str], rows: Option<&str>) -> anyhow::Result<Json> {
    let mut run = Run::stagespan(["demo", "--json"].iter().chain(arguments))?;
    if let Some(rows) = rows {
        run = run.file("rows.csv", rows)?;
    }
    let ended = run.end(WITHIN)?;
    ended.check_nothing_left()?;
    ended.json()
}

/// The slowest talker request of a scenario: queued, input wait and ready wait in nanoseconds.
fn slowest_talker(printed: &Json, scenario: &str) -> anyhow::Result<(f64, f64, f64)> {
    let scenarios = printed["scenarios"].as_array().context("no scenarios")?;
    let found = scenarios.iter().find(|one| one["name"] == scenario);
    let requests =
        found.and_then(|one| one["requests"].as_array()).with_context(|| format!("no {scenario}"))?;
    ensure!(!requests.is_empty(), "no requests in {scenario}");
    let talkers = requests.iter().flat_map(|request| request["stages"].as_array()).flatten();
    let talkers = talkers.filter(|stage| stage["name"] == "talker");
    let slowest = talkers.max_by_key(|stage| stage["queued_ns"].as_u64()).context("no talker")?;
    let figure = |key: &str| slowest[key].as_f64().with_context(|| format!("no {key} in {slowest}"));
    Ok((figure("queued_ns")?, figure("input_wait_ns")?, figure("ready_queued_ns")?))
}

fn check_claims(printed: &Json) -> anyhow::Result<()> {
    let (queued, input_wait, _) = slowest_talker(printed, "cold-start")?;
    let share = input_wait / queued;
    println!("cold start: {:.2} s queued, {:.2} % of it input wait", queued / 1e9, 100.0 * share);
    ensure!(share >= 0.9, "cold start: only {share} of {queued} ns is input wait");
    let (queued, _, ready_queued) = slowest_talker(printed, "backlog")?;
    let share = ready_queued / queued;
    println!("backlog: {:.2} s queued, {:.2} % of it ready", queued / 1e9, 100.0 * share);
    ensure!(share >= 0.9, "backlog: only {share} of {queued} ns is ready");
    let account = &printed["account"];
    ensure!(account["produced"] == account["exported"] && account["produced"] != 0, "{account}");
    Ok(())
}

#[test]
fn on_the_rows_that_it_carries() -> anyhow::Result<()> {
    let printed = demo(&[], None)?;
    check_claims(&printed)?;
    let requests = printed["scenarios"][0]["requests"].as_array().map(Vec::len);
    ensure!(requests == Some(120), "{requests:?} requests");
    Ok(())
}

#[test]
fn on_rows_of_another_service() -> anyhow::Result<()> {
    let file = workspace_root().join("../shared/data/AzureLLMInferenceTrace_code.csv");
    let Ok(text) = fs::read_to_string(&file) else {
        println!("skipped: there is no {}", file.display());
        return Ok(());
    };
    check_claims(&demo(&["--trace", "rows.csv"], Some(&text))?)
}

#[test]
fn on_rows_that_are_all_alike() -> anyhow::Result<()> {
    check_claims(&demo(&["--trace", "rows.csv"], Some(&azure(&even(60, 250, 500, 40))))?)
}

/// Pauses, bursts, single tokens and long answers.
#[test]
fn on_rows_that_are_all_different() -> anyhow::Result<()> {
    let rows: Vec<Row> = (0..150_u32)
        .map(|n| (u64::from(n / 10) * 4000 + u64::from(n % 10), 1 + n * 37 % 4000, 1 + n * n % 600))
        .collect();
    check_claims(&demo(&["--trace", "rows.csv"], Some(&azure(&rows)))?)
}
