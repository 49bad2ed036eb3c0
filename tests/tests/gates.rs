//! Every kind of stage in real processes: both gates, none, a sender, a window, too few KV blocks; and the spans of the
//! running phases.

use anyhow::{Context as _, ensure};
use stagespan_pipeline::pipeline_file::Pipeline;
use stagespan_tests::jaeger::Jaeger;
use stagespan_tests::pipeline_run::{self, Calls, speech, upstream_of};
use stagespan_tests::request_trace::{RequestTrace, StageTrace, group};
use stagespan_tests::rules::{check_links, check_request, check_resolve};

const REQUESTS: u64 = 40;

fn run(pipeline: Pipeline, variables: &[(&str, &str)]) -> anyhow::Result<Vec<RequestTrace>> {
    let jaeger = Jaeger::start()?;
    let finished = pipeline_run::run(&jaeger, pipeline, Calls::sampled(REQUESTS), variables)?;
    ensure!(finished.account.is_complete(), "{}", finished.account);
    let spans = pipeline_run::spans_of(&jaeger, &finished.account)?;
    let requests = group(&spans)?;
    ensure!(requests.len() as u64 == REQUESTS, "{} requests", requests.len());
    for request in &requests {
        check_request(request)?;
        check_links(request, upstream_of)?;
        ensure!(request.stages.len() == 3, "{} stages", request.stages.len());
    }
    check_resolve(&spans)?;
    Ok(requests)
}

fn edited(from: &str, to: &str) -> anyhow::Result<Pipeline> {
    ensure!(pipeline_run::SPEECH.contains(from), "the pipeline has no {from:?}");
    Pipeline::parse(&pipeline_run::SPEECH.replace(from, to), "edited").context("the edited pipeline")
}

fn stages<'a>(requests: &'a [RequestTrace], name: &'a str) -> impl Iterator<Item = &'a StageTrace> {
    requests.iter().filter_map(move |request| request.stage(name))
}

/// Submitted only when the stage before is done, so the payload may be there at once: both waits are measured all the same.
#[test]
fn a_full_payload_is_waited_for() -> anyhow::Result<()> {
    let requests = run(edited("gate = \"async_chunk\"", "gate = \"full_payload\"")?, &[])?;
    for name in ["talker", "code2wav"] {
        for stage in stages(&requests, name) {
            ensure!(stage.span.str("stagespan.gate") == Some("full_payload"), "{:?}", stage.span);
            ensure!(stage.span.str("stagespan.split") == Some("measured"), "{:?}", stage.span);
        }
    }
    Ok(())
}

/// A stage without a gate has one wait, and no split that would call it something else.
#[test]
fn a_stage_without_gate_is_not_split() -> anyhow::Result<()> {
    let requests = run(edited("gate = \"async_chunk\"\nmax_num_seqs = 8", "max_num_seqs = 8")?, &[])?;
    for stage in stages(&requests, "talker") {
        ensure!(stage.span.str("stagespan.gate") == Some("none"), "{:?}", stage.span);
        ensure!(stage.span.str("stagespan.split") == Some("ungated"), "{:?}", stage.span);
        ensure!(stage.child("queued").is_some() && stage.children.len() == 1, "{:?}", stage.children);
    }
    Ok(())
}

/// A sender has the gate's name and no input to hold anything for.
#[test]
fn a_sender_is_not_gated() -> anyhow::Result<()> {
    let sender = "gate = \"async_chunk\"\nrole = \"sender\"\nmax_num_seqs = 8";
    let requests = run(edited("gate = \"async_chunk\"\nmax_num_seqs = 8", sender)?, &[])?;
    for stage in stages(&requests, "talker") {
        ensure!(stage.span.str("stagespan.split") == Some("ungated"), "{:?}", stage.span);
        ensure!(stage.child("queued").is_some() && stage.children.len() == 1, "{:?}", stage.children);
    }
    Ok(())
}

/// Waiting for a place in the window is waiting for input: with a window of 1 and slots to spare, nothing else is long.
#[test]
fn a_request_outside_the_window_waits_for_input() -> anyhow::Result<()> {
    let window = "gate = \"async_chunk\"\nactive_stream_window = 1\nmax_num_seqs = 64";
    let requests = run(edited("gate = \"async_chunk\"\nmax_num_seqs = 8", window)?, &[])?;
    let slowest = stages(&requests, "talker").max_by_key(|stage| stage.span.int("stagespan.queued_ns"));
    let span = &slowest.context("no talker")?.span;
    let (waits, queued) = (span.int("stagespan.input_wait_ns"), span.int("stagespan.queued_ns"));
    let (waits, queued) = (waits.context("no wait")?, queued.context("not queued")?);
    ensure!(waits * 10 >= queued * 9, "{waits} of {queued} ns is input wait");
    Ok(())
}

/// Preempted and resumed: the waits are those of the first time, and the count says what happened after.
#[test]
fn preemption_changes_neither_wait() -> anyhow::Result<()> {
    // Prompts of four to eight tokens that grow by sixteen: all eight start, and not all can go on.
    let few = "max_num_seqs = 8\nkv_blocks = 24\nblock_size = 2";
    let requests = run(edited("max_num_seqs = 8", few)?, &[])?;
    let preempted = stages(&requests, "talker")
        .filter(|stage| stage.span.int("stagespan.preemption.count").is_some_and(|count| count > 0));
    let mut seen = 0;
    for stage in preempted {
        ensure!(stage.span.str("stagespan.split") == Some("measured"), "{:?}", stage.span);
        ensure!(stage.children.len() == 2, "{:?}", stage.children);
        seen += 1;
    }
    ensure!(seen > 0, "nothing was preempted, so this proves nothing");
    Ok(())
}

#[test]
fn the_running_phases_on_demand() -> anyhow::Result<()> {
    let requests = run(speech()?, &[("STAGESPAN_SPANS", "phases")])?;
    for name in ["thinker", "talker"] {
        for stage in stages(&requests, name) {
            // Where they begin and how long they are is a rule that was checked above.
            ensure!(
                stage.child("prefill").is_some() && stage.child("decode").is_some(),
                "{:?}",
                stage.children
            );
        }
    }
    Ok(())
}
