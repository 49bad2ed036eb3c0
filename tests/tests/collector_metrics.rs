//! What the samplers count, as a real Prometheus sees it, and the dashboard's queries on that.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use stagespan_otel::TraceShape;
use stagespan_tests::caller::Caller;
use stagespan_tests::chain::{Chain, Options};
use stagespan_tests::dashboard::prometheus_queries;
use stagespan_tests::generator::{Generator, Talker};
use stagespan_tests::prometheus::{Prometheus, unix_seconds};
use tempfile::TempDir;

const SERVICE: &str = "metrics";

const WITHIN: Duration = Duration::from_secs(120);

/// Requests that run to their end: talker and code2wav measure both waits, code2wav's second is zero.
const WHOLE: u64 = 200;

/// Requests whose input never reaches the talker: its wait is cut short, and nothing is split.
const TIMED_OUT: u64 = 30;

struct Setup {
    chain: Chain,
    prometheus: Prometheus,
    generator: Generator,
    sent: std::cell::Cell<u64>,
    _directory: TempDir,
}

impl Setup {
    fn start() -> anyhow::Result<Self> {
        let chain = Chain::start(Options::default())?;
        let directory = TempDir::new()?;
        let (span_metrics, own_metrics) = (chain.span_metrics(), chain.own_metrics());
        let prometheus =
            Prometheus::start(chain.spare_host(), directory.path(), &span_metrics, &own_metrics)?;
        let generator = Generator::new(&chain.otlp_http_endpoint(), SERVICE, TraceShape::Auto)?;
        Ok(Self { chain, prometheus, generator, sent: Default::default(), _directory: directory })
    }

    fn send(&self, count: u64, talker: Talker) -> anyhow::Result<()> {
        for _ in 0..count {
            let number = self.sent.replace(self.sent.get() + 1);
            self.generator.send(&format!("r{number}"), &Caller::new(number), talker)?;
        }
        self.generator.flush(WITHIN)?;
        Ok(())
    }
}

#[test]
fn counts_are_exact_measured_zeros_included() -> anyhow::Result<()> {
    let setup = Setup::start()?;
    setup.send(WHOLE, Talker::default())?;
    setup.send(TIMED_OUT, Talker { timed_out: true, ..Talker::default() })?;
    let all = WHOLE + TIMED_OUT;
    let is = |query: &str, value: u64| setup.prometheus.wait_for(query, value as f64, WITHIN);
    // `request` ends last, and every other figure below belongs to a request that has ended.
    is(r#"sum(stagespan_duration_seconds_count{span_name="request"})"#, all)?;
    let count = |span: &str, stage: &str, truncated: bool| {
        format!(
            "sum(stagespan_duration_seconds_count{{span_name={span:?}, stagespan_stage_name={stage:?}, \
             stagespan_truncated=\"{truncated}\"}})"
        )
    };
    let calls = |labels: &str| format!("sum(stagespan_calls_total{{{labels}}})");
    for stage in ["talker", "code2wav"] {
        is(&count("input_wait", stage, false), WHOLE)?;
        is(&count("ready_queued", stage, false), WHOLE)?;
        // The histogram's count of a wait is the number of split requests, which the stage's own span says as well.
        is(&calls(&format!(r#"span_name="stage {stage}", stagespan_split="measured""#)), WHOLE)?;
    }
    is(&count("input_wait", "talker", true), TIMED_OUT)?;
    is(&count("queued", "thinker", false), all)?;
    is(&calls(r#"stagespan_split="first_stage""#), all)?;
    is(&calls(r#"stagespan_split="not_observed", error_type="input_timeout""#), TIMED_OUT)?;
    // The first bucket holds the measured zeros and nothing else: the talker's waits are 1.5 ms and longer.
    let zeros = |stage: &str| {
        format!(
            "sum(stagespan_duration_seconds_bucket{{span_name=\"ready_queued\", stagespan_stage_name={stage:?}, \
             le=\"1e-06\"}})"
        )
    };
    is(&zeros("code2wav"), WHOLE)?;
    is(&zeros("talker"), 0)?;
    println!(
        "{WHOLE} split requests on each of two stages, counted {WHOLE} times each; {WHOLE} measured zeros"
    );
    an_exemplar_leads_to_its_trace(&setup)
}

/// The trace ids beside the histograms are those of traces that the store has.
fn an_exemplar_leads_to_its_trace(setup: &Setup) -> anyhow::Result<()> {
    let deadline = Instant::now() + WITHIN;
    let traces = loop {
        let query = r#"stagespan_duration_seconds_bucket{span_name="input_wait"}"#;
        let traces: BTreeSet<String> = setup.prometheus.exemplar_traces(query)?.into_iter().collect();
        if !traces.is_empty() {
            break traces;
        }
        ensure!(Instant::now() < deadline, "no exemplar in Prometheus");
        setup.send(10, Talker::default())?;
        thread::sleep(Duration::from_millis(500));
    };
    let exported = usize::try_from(setup.generator.account().exported)?;
    let spans = setup.chain.store.wait_for(SERVICE, exported, WITHIN)?;
    let stored: HashSet<&str> = spans.iter().map(|span| span.trace_id.as_str()).collect();
    let lost: Vec<&String> = traces.iter().filter(|trace| !stored.contains(trace.as_str())).collect();
    ensure!(lost.is_empty(), "exemplars name traces that the store does not have: {lost:?}");
    Ok(())
}

/// Every panel's query is understood by Prometheus, and answered with something once all that it shows has happened.
#[test]
fn every_query_of_the_dashboard_is_answered() -> anyhow::Result<()> {
    let setup = Setup::start()?;
    let queries = prometheus_queries()?;
    ensure!(queries.len() >= 15, "the dashboard has only {} Prometheus queries", queries.len());
    // rate() wants two scrapes with counts between them, so requests keep coming until every panel shows something.
    let deadline = Instant::now() + WITHIN;
    let answers = loop {
        setup.send(20, Talker::default())?;
        setup.send(2, Talker { timed_out: true, ..Talker::default() })?;
        // All queries as of one moment, whose scrapes are over.
        let at = unix_seconds() - 3;
        let mut answers = BTreeMap::new();
        for panel in &queries {
            let answer = setup.prometheus.query_at(&panel.query, at).with_context(|| panel.panel.clone())?;
            let shows = answer.iter().any(|sample| sample.value.is_finite());
            answers.insert((&panel.panel, &panel.query), (shows, answer));
        }
        let empty: Vec<_> =
            answers.iter().filter(|(_, (shows, _))| !shows).map(|(panel, _)| *panel).collect();
        if empty.is_empty() {
            break answers;
        }
        ensure!(Instant::now() < deadline, "panels without data: {empty:#?}");
        thread::sleep(Duration::from_millis(500));
    };
    // The three shares of a stage's queued time are all of it.
    let mut shares: BTreeMap<String, f64> = BTreeMap::new();
    for ((_, _), (_, answer)) in answers.iter().filter(|((panel, _), _)| *panel == "Share of queued time") {
        for sample in answer {
            let stage = sample.labels.get("stagespan_stage_name").context("a share without a stage")?;
            *shares.entry(stage.clone()).or_default() += sample.value;
        }
    }
    let stages: Vec<&str> = shares.keys().map(String::as_str).collect();
    ensure!(stages == ["code2wav", "talker", "thinker"], "shares of {stages:?}");
    for (stage, share) in shares {
        ensure!((share - 1.0).abs() < 1e-9, "the shares of {stage} add up to {share}");
    }
    println!("{} queries of the dashboard answered", queries.len());
    Ok(())
}
