//! How many finished requests a second two cores carry: generator → layer → agent → Jaeger, all on this machine.
//!
//! Run by `cargo xtask deep`, optimized and alone: its figures mean nothing beside other work.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use stagespan_otel::{Account, TraceShape};
use stagespan_tests::chain::{Server, collector, get, jaeger, ready};
use stagespan_tests::generator::{Generator, STAGES, Talker};
use stagespan_tests::loopback::Loopback;
use stagespan_tests::process::cpu_time;
use tempfile::TempDir;

/// Finished requests on a stage, per second, that must get through for a minute without a loss.
const SUSTAINED: u32 = 10_000;

/// How often the generator sends.
const TICK: Duration = Duration::from_millis(5);

const WITHIN: Duration = Duration::from_secs(120);

/// The agent and a Jaeger whose memory holds the last 50,000 traces; older ones are evicted, so what arrived is counted by the
/// agent and not in the store.
struct Receiver {
    agent: Server,
    store: Server,
    loopback: Loopback,
    _directory: TempDir,
}

impl Receiver {
    fn start() -> anyhow::Result<Self> {
        let loopback = Loopback::claim()?;
        let directory = TempDir::new()?;
        let (agent_host, store_host) = (loopback.host(1), loopback.host(2));
        let mut store = jaeger("jaeger.yaml", store_host)?;
        store.env("JAEGER_MAX_TRACES", "50000");
        let store = Server::start("Jaeger", store, ready(store_host))?;
        let mut agent = collector(&["agent.yaml"])?;
        agent.env("AGENT_LISTEN_HOST", agent_host.to_string());
        agent.env("AGENT_NEXT", format!("{store_host}:4317"));
        agent.env("AGENT_QUEUE_DIRECTORY", directory.path().join("queue"));
        let agent = Server::start("agent", agent, format!("http://{agent_host}:13133/"))?;
        Ok(Self { agent, store, loopback, _directory: directory })
    }

    fn generator(&self) -> anyhow::Result<Generator> {
        Generator::new(&format!("http://{}:4318", self.loopback.host(1)), "rate", TraceShape::Auto)
    }

    /// Spans that Jaeger has acknowledged to the agent, and those that still wait in its queue.
    fn passed_on(&self) -> anyhow::Result<(u64, u64)> {
        let (_, metrics) = get(&format!("http://{}:8888/metrics", self.loopback.host(1)))?;
        let figure = |name: &str| {
            let line = metrics.lines().find(|line| line.starts_with(name) && !line.starts_with('#'));
            let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            value.map_or(0, |value| value as u64)
        };
        Ok((figure("otelcol_exporter_sent_spans{"), figure("otelcol_exporter_queue_size{")))
    }
}

/// What came of a load.
struct Load {
    account: Account,
    /// Request-stages that were really sent, per second.
    rate: f64,
    /// Busy cores: generator with its layer, agent, Jaeger.
    cores: [f64; 3],
}

/// Sends `rate` request-stages a second for so long, in even steps, from one thread.
fn load(receiver: &Receiver, generator: &Generator, rate: u32, lasting: Duration) -> anyhow::Result<Load> {
    let pids = [std::process::id(), receiver.agent.pid()?, receiver.store.pid()?];
    let cpu = |pid: u32| cpu_time(pid).context("a process is gone");
    let before = pids.map(cpu);
    let produced_before = generator.account().produced;
    let stages = STAGES.len() as u32;
    let (start, mut sent) = (Instant::now(), 0_u64);
    while start.elapsed() < lasting {
        let due = (start.elapsed().as_secs_f64() * f64::from(rate / stages)) as u64;
        while sent < due {
            generator.send_with(&format!("r{sent}"), [], Talker::default())?;
            sent += 1;
        }
        thread::sleep(TICK);
    }
    let took = start.elapsed();
    let after = pids.map(cpu);
    // Whatever is in the layer's queue now is still to be acknowledged; losing it counts.
    let flushed = generator.flush(WITHIN);
    let account = generator.account();
    if account.dropped.total() == 0 {
        flushed?;
    }
    ensure!(account.produced > produced_before, "nothing was sent");
    let mut cores = [0.0; 3];
    for (cores, (before, after)) in cores.iter_mut().zip(before.into_iter().zip(after)) {
        *cores = (after? - before?).as_secs_f64() / took.as_secs_f64();
    }
    Ok(Load { account, rate: sent as f64 * f64::from(stages) / took.as_secs_f64(), cores })
}

#[test]
fn ten_thousand_request_stages_a_second_for_a_minute() -> anyhow::Result<()> {
    let receiver = Receiver::start()?;
    let generator = receiver.generator()?;
    let Load { account, rate, cores: [layer, agent, store] } =
        load(&receiver, &generator, SUSTAINED, Duration::from_secs(60))?;
    println!("{rate:.0} request-stages/s for 60 s: {account}");
    println!("busy cores: generator and layer {layer:.2}, agent {agent:.2}, Jaeger {store:.2}");
    ensure!(account.dropped.total() == 0 && account.rejected == 0, "{account}");
    ensure!(rate > 0.97 * f64::from(SUSTAINED), "the generator itself came to {rate:.0}/s only");
    let deadline = Instant::now() + WITHIN;
    loop {
        let (sent, waiting) = receiver.passed_on()?;
        if sent == account.exported && waiting == 0 {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "{} acknowledged, {sent} passed on, {waiting} wait",
            account.exported
        );
        thread::sleep(Duration::from_millis(250));
    }
}

/// Doubles the rate until something is lost. Prints, and fails only if even the first rate loses.
#[test]
fn where_drops_begin() -> anyhow::Result<()> {
    let receiver = Receiver::start()?;
    let mut rate = SUSTAINED;
    loop {
        let generator = receiver.generator()?;
        let Load { account, rate: real, cores: [layer, agent, store] } =
            load(&receiver, &generator, rate, Duration::from_secs(10))?;
        let (_, waiting) = receiver.passed_on()?;
        println!(
            "asked {rate}/s, sent {real:.0}/s: {account}; agent's queue {waiting} spans; \
             busy cores: generator and layer {layer:.2}, agent {agent:.2}, Jaeger {store:.2}"
        );
        if account.dropped.total() > 0 || real < 0.8 * f64::from(rate) {
            ensure!(rate > SUSTAINED, "lost at {rate}/s: {account}");
            return Ok(());
        }
        rate += rate / 2;
    }
}
