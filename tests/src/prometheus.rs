//! A real Prometheus server that scrapes the chain, started from the file that users get.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value as Json;

use crate::chain::{Server, config, get_with};

/// Pause between two queries.
const POLL_EVERY: Duration = Duration::from_millis(250);

/// Prometheus with `prometheus.yaml`; killed when dropped.
#[derive(Debug)]
pub struct Prometheus {
    server: Server,
    address: Ipv4Addr,
}

/// One series of an answer: its labels and its value now.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Labels, the metric's name (`__name__`) included.
    pub labels: BTreeMap<String, String>,
    /// The value.
    pub value: f64,
}

impl Prometheus {
    /// Starts it at this address with its data in `directory`, scraping `span_metrics` and `own_metrics` in place of the
    /// file's two targets, every second.
    ///
    /// # Errors
    /// If the file no longer has those targets, or Prometheus does not start.
    pub fn start(
        address: Ipv4Addr,
        directory: &Path,
        span_metrics: &[String],
        own_metrics: &[String],
    ) -> anyhow::Result<Self> {
        let mut text = std::fs::read_to_string(config("prometheus.yaml")).context("prometheus.yaml")?;
        let changes = [
            ("targets: [collector:9464]", format!("targets: [{}]", span_metrics.join(", "))),
            ("targets: [collector:8888]", format!("targets: [{}]", own_metrics.join(", "))),
            ("scrape_interval: 15s", "scrape_interval: 1s".to_owned()),
        ];
        for (from, to) in changes {
            ensure!(text.matches(from).count() == 1, "prometheus.yaml has not one {from:?}");
            text = text.replace(from, &to);
        }
        let file = directory.join("prometheus.yaml");
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = Command::new("prometheus");
        command.env_clear().arg("--enable-feature=exemplar-storage");
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", directory.join("data").display()));
        command.arg(format!("--web.listen-address={address}:9090"));
        let server = Server::start("Prometheus", command, format!("http://{address}:9090/-/ready"))?;
        Ok(Self { server, address })
    }

    /// What it answers to a query now.
    ///
    /// # Errors
    /// If it does not answer, or refuses the query.
    pub fn query(&self, query: &str) -> anyhow::Result<Vec<Sample>> {
        self.query_with(query, &[("query", query)])
    }

    /// What it answers to a query as of `at`, in unix seconds.
    ///
    /// # Errors
    /// If it does not answer, or refuses the query.
    pub fn query_at(&self, query: &str, at: u64) -> anyhow::Result<Vec<Sample>> {
        self.query_with(query, &[("query", query), ("time", &at.to_string())])
    }

    fn query_with(&self, query: &str, parameters: &[(&str, &str)]) -> anyhow::Result<Vec<Sample>> {
        let data = self.get("query", parameters)?;
        let series = data["result"].as_array().with_context(|| format!("{query}: no result in {data}"))?;
        series.iter().map(|series| sample(series).with_context(|| format!("{query}: {series}"))).collect()
    }

    /// The trace ids of all exemplars of the last hour on series that a query selects.
    ///
    /// # Errors
    /// If it does not answer, or refuses the query.
    pub fn exemplar_traces(&self, query: &str) -> anyhow::Result<Vec<String>> {
        let now = unix_seconds();
        let (start, end) = ((now - 3600).to_string(), (now + 60).to_string());
        let data = self.get("query_exemplars", &[("query", query), ("start", &start), ("end", &end)])?;
        let exemplars = data.as_array().into_iter().flatten();
        let exemplars = exemplars.filter_map(|series| series["exemplars"].as_array()).flatten();
        Ok(exemplars
            .filter_map(|exemplar| Some(exemplar["labels"]["trace_id"].as_str()?.to_owned()))
            .collect())
    }

    /// Waits until a query that yields one number yields this one.
    ///
    /// # Errors
    /// If it yields another when the time is up.
    pub fn wait_for(&self, query: &str, value: f64, within: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + within;
        loop {
            let found = self.query(query)?;
            if matches!(found.as_slice(), [one] if one.value == value) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{query} is {found:?}, not {value}\n{}", self.server.log());
            thread::sleep(POLL_EVERY);
        }
    }

    fn get(&self, what: &str, parameters: &[(&str, &str)]) -> anyhow::Result<Json> {
        let url = format!("http://{}:9090/api/v1/{what}", self.address);
        let (_, body) = get_with(&url, parameters)?;
        let mut answer: Json = serde_json::from_str(&body).with_context(|| format!("{url}: {body}"))?;
        if answer["status"] != "success" {
            bail!("{parameters:?}: {}", answer["error"]);
        }
        Ok(answer["data"].take())
    }
}

/// Seconds since 1970, now.
#[must_use]
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn sample(series: &Json) -> Option<Sample> {
    let labels = series["metric"].as_object()?.iter();
    let labels = labels.map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    Some(Sample { labels: labels.collect::<Option<_>>()?, value: series["value"][1].as_str()?.parse().ok()? })
}
