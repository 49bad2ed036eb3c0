//! A Kafka broker of one node (KRaft, no ZooKeeper) for one test.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use tempfile::TempDir;

use crate::path_from_environment;

/// How long Java may take; the rest is for a busy machine.
const WITHIN: Duration = Duration::from_secs(120);

/// Pause between two looks at something that is about to happen.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// A running broker; killed when dropped.
#[derive(Debug)]
pub struct Kafka {
    child: Child,
    address: Ipv4Addr,
    jars: PathBuf,
    _directory: TempDir,
}

impl Kafka {
    /// Formats its storage, and starts it at this address.
    ///
    /// # Errors
    /// If STAGESPAN_KAFKA names no folder of jars, there is no Java, or the broker does not start.
    pub fn start(address: Ipv4Addr) -> anyhow::Result<Self> {
        let jars = path_from_environment("STAGESPAN_KAFKA")?;
        let directory = TempDir::new().context("no directory for Kafka")?;
        let properties = directory.path().join("server.properties");
        std::fs::write(&properties, settings(address, &directory.path().join("data")))
            .context("server.properties")?;
        let mut format = java(&jars, "kafka.tools.StorageTool");
        // Any id will do: 16 bytes in base64.
        format.args(["format", "--cluster-id", "c3RhZ2VzcGFuLXRlc3Rz"]);
        run(format.arg("--config").arg(&properties))?;
        let log = std::fs::File::create(directory.path().join("log")).context("no file for Kafka's log")?;
        let mut broker = java(&jars, "kafka.Kafka");
        broker.arg(&properties).stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log);
        let child = broker.spawn().context("java does not start")?;
        let mut kafka = Self { child, address, jars, _directory: directory };
        kafka.wait_until_ready()?;
        Ok(kafka)
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + WITHIN;
        while TcpStream::connect((self.address, 9092)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                let log = std::fs::read_to_string(self._directory.path().join("log"))?;
                bail!("Kafka ended while starting, with {status}:\n{log}");
            }
            ensure!(Instant::now() < deadline, "Kafka was not ready within {} s", WITHIN.as_secs());
            thread::sleep(POLL_EVERY);
        }
        Ok(())
    }

    /// Where clients find it.
    #[must_use]
    pub fn broker(&self) -> String {
        format!("{}:9092", self.address)
    }

    /// Creates a topic.
    ///
    /// # Errors
    /// If it is there, or the broker does not answer.
    pub fn create_topic(&self, name: &str, partitions: u32) -> anyhow::Result<()> {
        let mut create = java(&self.jars, "org.apache.kafka.tools.TopicCommand");
        create.args(["--create", "--topic", name, "--bootstrap-server", &self.broker()]);
        run(create.args(["--partitions", &partitions.to_string()]))
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn settings(address: Ipv4Addr, data: &Path) -> String {
    let data = data.display();
    let lines = [
        "process.roles=broker,controller".to_owned(),
        "node.id=1".to_owned(),
        format!("controller.quorum.voters=1@{address}:9093"),
        "controller.listener.names=CONTROLLER".to_owned(),
        format!("listeners=PLAINTEXT://{address}:9092,CONTROLLER://{address}:9093"),
        format!("log.dirs={data}"),
        "offsets.topic.replication.factor=1".to_owned(),
        "group.initial.rebalance.delay.ms=0".to_owned(),
        "auto.create.topics.enable=false".to_owned(),
    ];
    lines.iter().fold(String::new(), |mut text, line| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line}");
        text
    })
}

fn java(jars: &Path, class: &str) -> Command {
    let mut command = Command::new("java");
    command.arg("-Xmx512m").arg("-cp").arg(jars.join("*")).arg(class);
    command
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).output().context("java does not start")?;
    let text =
        || format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command:?} ended with {}:\n{}", output.status, text());
    Ok(())
}
