//! Real stage processes, driven from the test's own process, so that what the orchestrator returns can be held against
//! what a back end holds.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use stagespan_model::{Clock, SystemClock};
use stagespan_otel::{Account, Activation, Config, Environment, Layer};
use stagespan_pipeline::orchestrator::{NewRequest, Orchestrator, OrchestratorOptions, StageFacts};
use stagespan_pipeline::outcome::RequestOutcome;
use stagespan_pipeline::pipeline_file::Pipeline;

use crate::caller::Caller;
use crate::jaeger::Jaeger;
use crate::span::Span;
use crate::stagespan_binary;

/// The `service.name` of every run.
pub const SERVICE: &str = "stagespan-e2e";

/// How long the worker may take to deliver what it has.
const FLUSH_WITHIN: Duration = Duration::from_secs(30);

/// Thinker → talker → code2wav with steps of a fraction of a millisecond. The talker has few slots, so that both of its
/// waits occur; code2wav has many, so that it schedules what has just arrived in the same step and measures zeros.
pub const SPEECH: &str = r#"
[[stage]]
name = "thinker"
scheduler = "ar"
max_num_seqs = 16
chunk_tokens = 4
step_us = 200

[[stage]]
name = "talker"
scheduler = "ar"
gate = "async_chunk"
max_num_seqs = 8
chunk_tokens = 8
tokens_per_input_token = 2
step_us = 200

[[stage]]
name = "code2wav"
scheduler = "generation"
gate = "async_chunk"
max_num_seqs = 256
step_us = 100
"#;

/// The pipeline of most tests; change its fields for others.
///
/// # Errors
/// None, unless the file's format has changed.
pub fn speech() -> anyhow::Result<Pipeline> {
    Pipeline::parse(SPEECH, "the tests' pipeline").context("the tests' pipeline")
}

/// The stages that feed a stage of [`speech`].
#[must_use]
pub fn upstream_of(stage: &str) -> Vec<&'static str> {
    match stage {
        "talker" => vec!["thinker"],
        "code2wav" => vec!["talker"],
        _ => Vec::new(),
    }
}

/// Requests to be sent, each by its caller, all at once.
#[derive(Debug)]
pub struct Calls {
    /// The callers, in order; request `n` has the id `request-<n>`.
    pub callers: Vec<Caller>,
    /// Output tokens of the first stage; the prompt is as long.
    pub tokens: NonZeroU32,
}

/// What came of a run.
#[derive(Debug)]
pub struct Finished {
    /// What the orchestrator returned of each request, in the order of the callers.
    pub outcomes: Vec<RequestOutcome>,
    /// Each caller's own span, in the same order.
    pub caller_spans: Vec<Span>,
    /// The stages.
    pub stages: Vec<StageFacts>,
    /// The account after everything was delivered.
    pub account: Account,
    /// From before the first request to after the last.
    pub took: Duration,
}

impl Calls {
    /// So many sampled calls, eight tokens each.
    #[must_use]
    pub fn sampled(count: u64) -> Self {
        Self::of((0..count).map(Caller::new).collect())
    }

    /// These calls, eight tokens each.
    #[must_use]
    pub fn of(callers: Vec<Caller>) -> Self {
        Self { callers, tokens: TOKENS }
    }
}

/// Two chunks of the thinker's.
const TOKENS: NonZeroU32 = match NonZeroU32::new(8) {
    Some(tokens) => tokens,
    None => NonZeroU32::MIN,
};

/// The id of request `number`.
#[must_use]
pub fn request_id(number: usize) -> String {
    format!("request-{number:04}")
}

/// Runs these calls through this pipeline, traced into this Jaeger, with `variables` beside what leads there, and ends it.
///
/// # Errors
/// If anything on the way fails.
pub fn run(
    jaeger: &Jaeger,
    pipeline: Pipeline,
    calls: Calls,
    variables: &[(&str, &str)],
) -> anyhow::Result<Finished> {
    let Calls { callers, tokens } = calls;
    let (driven, account) = run_with(
        jaeger,
        pipeline,
        variables,
        |_| (),
        async |orchestrator| {
            let started = Instant::now();
            let mut tickets = Vec::new();
            for (number, caller) in callers.iter().enumerate() {
                let request = NewRequest {
                    request_id: request_id(number),
                    prompt_tokens: tokens.get(),
                    output_tokens: tokens.get(),
                };
                tickets.push(orchestrator.submit(request, &caller.headers()).await.context("submit")?);
            }
            let (mut outcomes, mut caller_spans) = (Vec::new(), Vec::new());
            for (ticket, caller) in tickets.into_iter().zip(&callers) {
                outcomes.push(ticket.outcome().await.context("outcome")?);
                caller_spans.push(caller.end());
            }
            Ok((outcomes, caller_spans, orchestrator.stages().to_vec(), started.elapsed()))
        },
    )?;
    let (outcomes, caller_spans, stages, took) = driven;
    Ok(Finished { outcomes, caller_spans, stages, account, took })
}

/// Starts this pipeline, traced into this Jaeger, with `options` changed, lets `drive` have it, shuts it down with whatever is
/// still in flight, and delivers every span.
///
/// # Errors
/// If anything on the way fails.
pub fn run_with<T>(
    jaeger: &Jaeger,
    pipeline: Pipeline,
    variables: &[(&str, &str)],
    options: impl FnOnce(&mut OrchestratorOptions),
    drive: impl AsyncFnOnce(&Orchestrator) -> anyhow::Result<T>,
) -> anyhow::Result<(T, Account)> {
    let endpoint = jaeger.otlp_http_endpoint();
    let own = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_SERVICE_NAME", SERVICE)];
    let environment = Environment::from_pairs(own.into_iter().chain(variables.iter().copied()));
    let config = match Config::from_environment(&environment).activation {
        Ok(Activation::On(config)) => *config,
        Ok(Activation::Off(reason)) => bail!("tracing is off: {reason}"),
        Err(error) => bail!("{error}"),
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let layer = Layer::start(config, Arc::clone(&clock)).context("the layer does not start")?;
    let stage_command = vec![stagespan_binary()?.into(), "stage".into()];
    let mut changed = OrchestratorOptions::new(pipeline, clock, stage_command);
    changed.layer = layer.clone();
    options(&mut changed);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("tokio")?;
    let driven = runtime.block_on(async {
        let orchestrator = Orchestrator::start(changed).await.context("the pipeline does not start")?;
        let driven = drive(&orchestrator).await?;
        orchestrator.shut_down().await.context("shut down")?;
        anyhow::Ok(driven)
    })?;
    layer.flush(FLUSH_WITHIN).context("flush")?;
    let account = layer.stats();
    layer.shutdown(FLUSH_WITHIN).context("shutdown")?;
    Ok((driven, account))
}

/// What the back end holds of a run: our spans with exact times. Waits until all that the account says were exported
/// are there, and fails if there are more.
///
/// # Errors
/// If Jaeger holds another number of them.
pub fn spans_of(jaeger: &Jaeger, account: &Account) -> anyhow::Result<Vec<Span>> {
    let expected = usize::try_from(account.exported)?;
    // A trace comes whole, and so with the caller's span where that was exported too.
    let found = jaeger.wait_for_service(SERVICE, TRACES_MAX, expected, FLUSH_WITHIN)?;
    let ours: Vec<Span> =
        found.into_iter().filter(|span| span.resource_str("service.name") == Some(SERVICE)).collect();
    if ours.len() != expected {
        bail!("Jaeger holds {} spans, and {expected} were exported", ours.len());
    }
    Ok(ours)
}

/// More traces than any run here has.
const TRACES_MAX: usize = 10_000;
