//! Kafka between the collectors and the store: generator → Jaeger's Kafka exporter → Kafka → Jaeger's Kafka receiver → Badger.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use stagespan_otel::TraceShape;
use stagespan_tests::caller::Caller;
use stagespan_tests::chain::{Server, Store, different, jaeger, ready};
use stagespan_tests::generator::{Generator, SPANS_OF_A_REQUEST, Talker};
use stagespan_tests::kafka::Kafka;
use stagespan_tests::loopback::Loopback;
use tempfile::TempDir;

const SERVICE: &str = "kafka";

const WITHIN: Duration = Duration::from_secs(120);

const REQUESTS: u64 = 100;

#[test]
fn nothing_acknowledged_is_lost_while_the_reader_is_down() -> anyhow::Result<()> {
    let loopback = Loopback::claim()?;
    let directory = TempDir::new()?;
    let kafka = Kafka::start(loopback.host(1))?;
    kafka.create_topic("stagespan-spans", 4)?;
    let broker = kafka.broker();
    let mut writer = jaeger("jaeger-to-kafka.yaml", loopback.host(2))?;
    writer.env("KAFKA_BROKER", &broker);
    let mut writer = Server::start("Jaeger as Kafka's writer", writer, ready(loopback.host(2)))?;
    let mut reader = Store::start_from(
        "jaeger-from-kafka.yaml",
        loopback.host(3),
        &directory.path().join("badger"),
        &[("KAFKA_BROKER", &broker)],
    )?;

    let generator =
        Generator::new(&format!("http://{}:4318", loopback.host(2)), SERVICE, TraceShape::Linked)?;
    let send = |requests: std::ops::Range<u64>| -> anyhow::Result<usize> {
        for n in requests {
            generator.send(&format!("r{n}"), &Caller::new(n), Talker::default())?;
        }
        Ok(usize::try_from(generator.flush(WITHIN)?.exported)?)
    };
    let acknowledged = send(0..REQUESTS)?;
    // Killed somewhere in the middle of reading, and away while more comes; the writer is killed right after its last word.
    reader.server.kill()?;
    ensure!(send(REQUESTS..2 * REQUESTS)? == 2 * acknowledged);
    writer.kill()?;
    reader.server.start_again()?;
    let spans = reader.wait_for(SERVICE, 2 * acknowledged, WITHIN).context("after the reader's return")?;
    ensure!(2 * acknowledged == 2 * REQUESTS as usize * SPANS_OF_A_REQUEST);
    println!(
        "{} spans acknowledged and found; {} came twice",
        2 * acknowledged,
        spans.len() - different(&spans)
    );
    Ok(())
}
