//! Our pipeline through the whole chain, while its programs are killed: whatever was acknowledged arrives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use stagespan_model::SystemClock;
use stagespan_otel::{Activation, Config, Environment, Layer};
use stagespan_pipeline::orchestrator::{NewRequest, Orchestrator, OrchestratorOptions};
use stagespan_tests::chain::{Chain, Options, different};
use stagespan_tests::span::Span;
use stagespan_tests::{pipeline_run, stagespan_binary};

const SERVICE: &str = "chain";

/// Requests of each phase; five phases make 300.
const REQUESTS: usize = 60;

/// How long the worker may take to have everything acknowledged, or the chain to deliver it.
const WITHIN: Duration = Duration::from_secs(120);

/// Longer than a trace is under way where nothing holds it up.
const QUIET: Duration = Duration::from_secs(3);

/// How long Jaeger stays down.
const JAEGER_DOWN: Duration = Duration::from_secs(5);

/// Of each request, in and out: two chunks of the thinker's.
const TOKENS: u32 = 8;

/// The pipeline, its layer, and how many requests it has had.
struct Source {
    layer: Layer,
    orchestrator: Orchestrator,
    sent: usize,
}

impl Source {
    async fn start(endpoint: &str) -> anyhow::Result<Self> {
        let environment = Environment::from_pairs([
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
            ("OTEL_SERVICE_NAME", SERVICE),
        ]);
        let Ok(Activation::On(config)) = Config::from_environment(&environment).activation else {
            anyhow::bail!("tracing is off");
        };
        let clock = Arc::new(SystemClock::new());
        let layer = Layer::start(*config, Arc::<SystemClock>::clone(&clock))?;
        let stage = vec![stagespan_binary()?.into(), "stage".into()];
        let options = OrchestratorOptions {
            layer: layer.clone(),
            ..OrchestratorOptions::new(pipeline_run::speech()?, clock, stage)
        };
        Ok(Self { layer, orchestrator: Orchestrator::start(options).await?, sent: 0 })
    }

    /// Runs the next requests, and waits until all of their spans are acknowledged. Returns how many spans are by now.
    async fn phase(&mut self) -> anyhow::Result<usize> {
        let mut tickets = Vec::new();
        for number in self.sent..self.sent + REQUESTS {
            let request =
                NewRequest { request_id: format!("r{number}"), prompt_tokens: TOKENS, output_tokens: TOKENS };
            tickets.push(self.orchestrator.submit(request, &[]).await?);
        }
        for ticket in tickets {
            ticket.outcome().await?;
        }
        self.sent += REQUESTS;
        let layer = self.layer.clone();
        tokio::task::spawn_blocking(move || layer.flush(WITHIN)).await?.context("flush")?;
        let account = self.layer.stats();
        ensure!(account.is_complete(), "not all spans were acknowledged: {account}");
        Ok(usize::try_from(account.exported)?)
    }
}

#[test]
fn nothing_acknowledged_is_lost_whatever_is_killed() -> anyhow::Result<()> {
    let mut chain = Chain::start(Options::default())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut source = runtime.block_on(Source::start(&chain.otlp_http_endpoint()))?;
    let mut phase = || runtime.block_on(source.phase());

    let all_up = phase()?;
    chain.store.wait_for(SERVICE, all_up, WITHIN).context("with all programs up")?;

    // Jaeger down: the samplers' queues hold what they have decided.
    chain.store.server.kill()?;
    let down_since = Instant::now();
    let acknowledged = phase()?;
    // How long it is down is part of what is tested, so this is no wait for something to happen.
    thread::sleep(JAEGER_DOWN.saturating_sub(down_since.elapsed()));
    chain.store.server.start_again()?;
    chain.store.wait_for(SERVICE, acknowledged, WITHIN).context("after Jaeger was killed")?;

    // The load balancer down, so that the agent holds everything when it is killed itself.
    chain.balancer.kill()?;
    let acknowledged = phase()?;
    chain.agent.kill()?;
    ensure!(
        different(&chain.store.spans(SERVICE)?) < acknowledged,
        "the agent held nothing when it was killed, so this proves nothing"
    );
    chain.agent.start_again()?;
    chain.balancer.start_again()?;
    chain
        .store
        .wait_for(SERVICE, acknowledged, WITHIN)
        .context("after load balancer and agent were killed")?;

    // The load balancer killed again and again while spans are on their way through it.
    let balancer = &mut chain.balancer;
    let acknowledged = thread::scope(|scope| {
        let flow = scope.spawn(&mut phase);
        loop {
            balancer.kill()?;
            balancer.start_again()?;
            if flow.is_finished() {
                break flow.join().map_err(|_| anyhow!("the flow of requests panicked"))?;
            }
        }
    })?;
    chain
        .store
        .wait_for(SERVICE, acknowledged, WITHIN)
        .context("with the load balancer killed in the flow")?;

    // A sampler asked to end with undecided traces in memory: the other's traces go on, its own wait for its return. They wait
    // in the agent and not in the load balancer, which is killed meanwhile.
    let status = chain.samplers[0].terminate()?;
    ensure!(status.success(), "the sampler ended with {status}");
    let acknowledged = phase()?;
    let arrived = different(&chain.store.settled(SERVICE, QUIET, WITHIN)?);
    ensure!(arrived < acknowledged, "nothing waits for the sampler, so this proves nothing");
    chain.balancer.kill()?;
    chain.balancer.start_again()?;
    chain.samplers[0].start_again()?;
    let spans =
        chain.store.wait_for(SERVICE, acknowledged, WITHIN).context("after a sampler was terminated")?;

    runtime.block_on(source.orchestrator.shut_down())?;
    let twice = spans.len() - different(&spans);
    println!("{} requests, {acknowledged} spans acknowledged, all found; {twice} came twice", source.sent);
    every_request_is_whole(&spans, source.sent)
}

/// Each request has its own span and one for each stage, and nothing else carries the service's name.
fn every_request_is_whole(spans: &[Span], requests: usize) -> anyhow::Result<()> {
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for span in spans {
        let id = span.str("stagespan.request.id").context("a span without a request")?;
        names.entry(id).or_default().insert(&span.name);
    }
    ensure!(names.len() == requests, "spans of {} requests, not {requests}", names.len());
    for (id, names) in names {
        for name in ["request", "stage thinker", "stage talker", "stage code2wav"] {
            ensure!(names.contains(name), "{id} has no span {name:?}: {names:?}");
        }
    }
    Ok(())
}
