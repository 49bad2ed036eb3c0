//! The demo with an endpoint: what it prints is what Jaeger holds.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value as Json;
use stagespan_tests::demo_run::{Demo, printed_account};
use stagespan_tests::jaeger::Jaeger;
use stagespan_tests::otlp_json;
use stagespan_tests::pipeline_run::upstream_of;
use stagespan_tests::request_trace::{RequestTrace, group};
use stagespan_tests::rules::{check_links, check_request, check_resolve};

const WITHIN: Duration = Duration::from_secs(60);

fn run(
    jaeger: &Jaeger,
    connector: &str,
    arguments: &[&str],
) -> anyhow::Result<stagespan_tests::command_run::Ended> {
    let run = Demo { connector, ..Demo::default() }.run(arguments)?;
    run.env("OTEL_EXPORTER_OTLP_ENDPOINT", &jaeger.otlp_http_endpoint())
        .env("OTEL_SERVICE_NAME", "demo-e2e")
        .end(WITHIN)
}

fn requests(jaeger: &Jaeger) -> anyhow::Result<(Vec<RequestTrace>, usize)> {
    let spans = otlp_json::parse(&jaeger.search_v3("demo-e2e", 1000)?)?;
    let requests = group(&spans)?;
    for request in &requests {
        check_request(request)?;
        check_links(request, upstream_of)?;
    }
    check_resolve(&spans)?;
    Ok((requests, spans.len()))
}

#[test]
fn the_figures_of_json_are_those_of_the_spans() -> anyhow::Result<()> {
    for connector in ["unix", "tcp"] {
        let jaeger = Jaeger::start()?;
        let ended = run(&jaeger, connector, &["--json"])?;
        let printed = ended.json()?;
        ended.check_nothing_left()?;
        let (requests, spans) = requests(&jaeger)?;
        ensure!(requests.len() == 20, "{} requests by {connector}", requests.len());
        assert_eq!(printed["schema"], 1);
        let account = &printed["account"];
        assert_eq!(
            (account["produced"].as_u64(), account["exported"].as_u64()),
            (Some(spans as u64), Some(spans as u64))
        );
        let by_trace: BTreeMap<&str, &RequestTrace> =
            requests.iter().map(|request| (request.request.trace_id.as_str(), request)).collect();
        let told = printed["scenarios"][0]["requests"].as_array().context("no requests")?;
        ensure!(told.len() == 20, "{} requests in {printed}", told.len());
        for request in told {
            let trace_id = request["trace_id"].as_str().context("no trace id")?;
            let trace = by_trace.get(trace_id).with_context(|| format!("Jaeger has no trace {trace_id}"))?;
            same_figures(request, trace)?;
        }
    }
    Ok(())
}

fn same_figures(told: &Json, trace: &RequestTrace) -> anyhow::Result<()> {
    ensure!(told["id"] == trace.id.as_str(), "{told} is not {}", trace.id);
    let stages = told["stages"].as_array().context("no stages")?;
    ensure!(stages.len() == trace.stages.len(), "{told}");
    for (told, stage) in stages.iter().zip(&trace.stages) {
        ensure!(told["name"] == stage.name(), "{told}");
        ensure!(told["split"].as_str() == stage.span.str("stagespan.split"), "{told}: {:?}", stage.span);
        for figure in ["queued_ns", "input_wait_ns", "ready_queued_ns"] {
            ensure!(told.get(figure).is_some(), "no key {figure} in {told}: absent and null differ");
            let ns = stage.span.int(&format!("stagespan.{figure}"));
            ensure!(told[figure].as_i64() == ns, "{figure} of {told} is {ns:?} in Jaeger");
        }
        for (printed, attribute) in
            [("tokens_in", "stagespan.tokens.input"), ("tokens_out", "stagespan.tokens.output")]
        {
            ensure!(
                told[printed].as_i64() == stage.span.int(attribute),
                "{printed} of {told}: {:?}",
                stage.span
            );
        }
    }
    Ok(())
}

#[test]
fn people_are_told_where_the_trace_is() -> anyhow::Result<()> {
    let jaeger = Jaeger::start()?;
    let ended = run(&jaeger, "unix", &[])?;
    ensure!(ended.status.success(), "{}", ended.stderr);
    let (requests, spans) = requests(&jaeger)?;
    assert_eq!(printed_account(&ended)?, (spans, spans, 0));
    let printed = format!("{}{}", ended.stdout, ended.stderr);
    let linked =
        requests.iter().any(|request| printed.contains(&format!("/trace/{}", request.request.trace_id)));
    ensure!(linked, "no link to a trace that Jaeger has:\n{printed}");
    ensure!(!ended.directory.path().join("stagespan-demo.json").exists(), "a file nobody asked for");
    ensure!(!printed.contains('\u{1b}'), "colours, though it is no terminal");
    ensure!(
        ended.stdout.lines().all(|line| line.chars().count() <= 100),
        "wider than 100 columns:\n{}",
        ended.stdout
    );
    Ok(())
}

/// The receiver is gone: the figures are there all the same, and the account says what became of the spans.
#[test]
fn a_receiver_that_is_gone_costs_spans_and_nothing_else() -> anyhow::Result<()> {
    let endpoint = Jaeger::start()?.otlp_http_endpoint();
    let run = Demo::default().run(&[])?.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
    let ended = run.end(WITHIN)?;
    let (produced, delivered, dropped) = printed_account(&ended)?;
    ensure!((delivered, dropped) == (0, produced) && produced == 20 * 9, "{}{}", ended.stdout, ended.stderr);
    // Tracing never changes how its host ends; that the spans are lost is said.
    ensure!(ended.status.success(), "{}: {}", ended.status, ended.stderr);
    ensure!(
        ended.stderr.contains("180") && ended.stderr.contains("lost"),
        "no word of it:\n{}",
        ended.stderr
    );
    ensure!(ended.stdout.contains("ready_queued"), "no figures:\n{}", ended.stdout);
    ended.check_nothing_left()
}
