//! kill -9 of a stage in mid-run: the run ends with a message, what was measured is exported, and nothing is made up.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use stagespan_tests::demo_run::{Demo, STAGES, printed_account, stage_process};
use stagespan_tests::jaeger::Jaeger;
use stagespan_tests::pipeline_run::upstream_of;
use stagespan_tests::request_trace::{RequestTrace, StageTrace, group};
use stagespan_tests::rules::{check_links, check_request};
use stagespan_tests::span::{Span, Status, Value};

const SERVICE: &str = "killed";
const WITHIN: Duration = Duration::from_secs(60);
/// From the kill to the end of the run.
const ENDED_WITHIN: Duration = Duration::from_secs(5);
/// So many requests are to be over before the kill.
const FINISHED_BEFORE: usize = 3;

#[test]
fn the_talker_is_killed() -> anyhow::Result<()> {
    killed("talker", "unix")
}

#[test]
fn the_thinker_is_killed() -> anyhow::Result<()> {
    killed("thinker", "tcp")
}

#[test]
fn code2wav_is_killed() -> anyhow::Result<()> {
    killed("code2wav", "unix")
}

fn killed(lost: &str, connector: &str) -> anyhow::Result<()> {
    let jaeger = Jaeger::start()?;
    // Two slots and 20 steps of 5 ms each: a hundred requests take five seconds.
    let demo = Demo { connector, requests: 100, talker_step_us: 5000 };
    let run = demo.run(&[])?;
    let mut running = run
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &jaeger.otlp_http_endpoint())
        .env("OTEL_SERVICE_NAME", SERVICE)
        .env("OTEL_BSP_SCHEDULE_DELAY", "20")
        .start()?;
    let process = stage_process(&mut running, lost, WITHIN)?;
    running.wait_for("finished requests", WITHIN, |_| {
        let finished = of_service(&jaeger)?.iter().filter(|span| span.name == "request").count();
        Ok((finished >= FINISHED_BEFORE).then_some(()))
    })?;
    let killed_at = Instant::now();
    process.signal("KILL")?;
    let ended = running.end(WITHIN)?;
    let took = killed_at.elapsed();

    ensure!(ended.status.code() == Some(1), "{}: {}", ended.status, ended.stderr);
    ensure!(took < ENDED_WITHIN, "it took {took:?} from the kill to the end");
    let named = ended.stderr.contains(lost) && ended.stderr.contains(&process.pid.to_string());
    ensure!(named, "neither stage nor pid {} in: {}", process.pid, ended.stderr);
    ended.check_nothing_left()?;

    let spans = of_service(&jaeger)?;
    let (produced, delivered, dropped) = printed_account(&ended)?;
    ensure!(
        (produced, delivered, dropped) == (spans.len(), spans.len(), 0),
        "{} spans: {}",
        spans.len(),
        ended.stderr
    );
    let requests = group(&spans)?;
    let in_flight = requests.iter().filter(|request| request.request.status != Status::Unset).count();
    println!(
        "{lost}: {took:.2?} from the kill to the end, {in_flight} of {} requests in flight",
        requests.len()
    );
    check_requests(&requests, lost, process.pid)
}

fn of_service(jaeger: &Jaeger) -> anyhow::Result<Vec<Span>> {
    stagespan_tests::otlp_json::parse(&jaeger.search_v3(SERVICE, 1000)?)
}

fn check_requests(requests: &[RequestTrace], lost: &str, pid: u32) -> anyhow::Result<()> {
    let (mut whole, mut in_flight) = (0, 0);
    for request in requests {
        check_request(request)?;
        check_links(request, upstream_of)?;
        let checked = match &request.request.status {
            Status::Unset => {
                whole += 1;
                complete(request)
            }
            Status::Error(message) => {
                in_flight += usize::from(!request.stages.is_empty());
                cut_short(request, lost, message, pid)
            }
            Status::Ok => Err(anyhow::anyhow!("success is Unset")),
        };
        checked.with_context(|| format!("request {}: {:?}", request.id, request.request))?;
    }
    ensure!(whole >= FINISHED_BEFORE, "only {whole} were over");
    // The talker has two slots, and all had arrived or were arriving.
    ensure!(in_flight >= 3, "only {in_flight} were in flight");
    Ok(())
}

fn complete(request: &RequestTrace) -> anyhow::Result<()> {
    let names: Vec<&str> = request.stages.iter().map(StageTrace::name).collect();
    ensure!(names == STAGES, "{names:?}");
    for span in request.spans() {
        ensure!(span.status == Status::Unset && !span.attributes.contains_key("error.type"), "{span:?}");
    }
    Ok(())
}

fn cut_short(request: &RequestTrace, lost: &str, message: &str, pid: u32) -> anyhow::Result<()> {
    ensure!(request.request.str("error.type") == Some("stage_lost"), "not stage_lost");
    ensure!(message.contains(lost) && message.contains(&pid.to_string()), "neither stage nor pid: {message}");
    if request.stages.is_empty() {
        // It came to the door after the loss and was turned away.
        return Ok(());
    }
    let names: BTreeSet<&str> = request.stages.iter().map(StageTrace::name).collect();
    for stage in STAGES.into_iter().filter(|stage| *stage != lost) {
        ensure!(names.contains(stage), "{stage} has no span");
    }
    for stage in &request.stages {
        let end = stage.span.str("stagespan.end").unwrap_or_default();
        if matches!(end, "stop" | "length") {
            // Over on this stage before anything was lost.
            continue;
        }
        ensure!(stage.name() != lost, "made up: {:?}", stage.span);
        ensure!(end == "aborted", "{} ended by {end}", stage.name());
        aborted(stage).with_context(|| format!("{}: {:?}", stage.name(), stage.span))?;
    }
    Ok(())
}

/// Before its first SCHEDULED an abort is a failure, of the stage and of the wait that it cut short. After it, it is not.
fn aborted(stage: &StageTrace) -> anyhow::Result<()> {
    let truncated: Vec<&Span> = stage
        .children
        .iter()
        .filter(|child| child.attributes.get("stagespan.truncated") == Some(&Value::Bool(true)))
        .collect();
    if stage.span.int("stagespan.queued_ns").is_some() {
        ensure!(stage.span.status == Status::Unset && truncated.is_empty(), "{truncated:?}");
        return Ok(());
    }
    ensure!(stage.span.str("error.type") == Some("aborted"), "not an error");
    let [wait] = truncated[..] else { anyhow::bail!("{} truncated children", truncated.len()) };
    ensure!(stage.children.last() == Some(wait), "something began after {wait:?}");
    for span in [&stage.span, wait] {
        ensure!(matches!(span.status, Status::Error(_)), "{span:?}");
        ensure!(span.str("error.type") == Some("aborted"), "{span:?}");
    }
    ensure!(wait.end_ns == stage.span.end_ns, "{wait:?} does not end with its stage");
    Ok(())
}
