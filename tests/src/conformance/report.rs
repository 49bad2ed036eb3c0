//! What a run over many workloads found.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::compare::{Difference, differences};
use super::outcome::Outcome;
use super::real::Driver;
use super::script::Script;
use super::{generate, ours};

/// A workload on which the two part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// Its family.
    pub family: String,
    /// On what they part.
    pub differences: Vec<Difference>,
    /// The traceback, if the real scheduler raised.
    pub raised: Option<String>,
}

/// Workloads and failures of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Workloads run.
    pub workloads: u64,
    /// Requests in them.
    pub requests: u64,
    /// Workloads on which the two part.
    pub failures: u64,
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Version of this form.
    pub schema: u32,
    /// Seed of the first workload; the others follow.
    pub seed: u64,
    /// Workloads run.
    pub workloads: u64,
    /// By family.
    pub families: BTreeMap<String, Tally>,
    /// Where the two part.
    pub failures: Vec<Failure>,
}

impl Report {
    /// Puts `workloads` workloads, beginning with that of `seed`, through both schedulers.
    ///
    /// # Errors
    /// If the driver fails, or our scheduler refuses a generated configuration.
    pub fn run(driver: &mut Driver, seed: u64, workloads: u64) -> anyhow::Result<Self> {
        let mut report = Self { schema: 1, seed, workloads, families: BTreeMap::new(), failures: Vec::new() };
        for seed in seed..seed.saturating_add(workloads) {
            let script = generate(seed);
            let ours = ours::run(&script).with_context(|| format!("seed {seed}"))?;
            let (differences, raised) = match driver.run(&script).with_context(|| format!("seed {seed}"))? {
                Ok(real) => (differences(&script, &ours, &real), None),
                Err(traceback) => (Vec::new(), Some(traceback)),
            };
            let tally = report.families.entry(script.family.clone()).or_default();
            tally.workloads += 1;
            tally.requests += ours.requests.len() as u64;
            if !differences.is_empty() || raised.is_some() {
                tally.failures += 1;
                report.failures.push(Failure { seed, family: script.family, differences, raised });
            }
        }
        Ok(report)
    }
}

/// A workload with what the real scheduler made of it, so that it can be replayed without one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// The version of vLLM-Omni that was asked.
    pub vllm_omni: String,
    /// The workload.
    pub script: Script,
    /// What became of it there.
    pub real: Outcome,
}

impl Recording {
    /// Asks the real scheduler.
    ///
    /// # Errors
    /// If the driver fails, or the scheduler raises.
    pub fn of_seed(driver: &mut Driver, seed: u64) -> anyhow::Result<Self> {
        let script = generate(seed);
        let real = driver.run(&script)?.map_err(anyhow::Error::msg)?;
        Ok(Self { vllm_omni: "0.32.0rc1".to_owned(), script, real })
    }

    /// Writes it as one JSON file into `folder`.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn save(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(format!("{}-{}.json", self.script.family, self.script.seed));
        std::fs::write(&path, serde_json::to_string(self)? + "\n")
            .with_context(|| format!("can't write {}", path.display()))
    }

    /// On what our scheduler parts from the recording.
    ///
    /// # Errors
    /// If our scheduler refuses the configuration.
    pub fn replay(&self) -> anyhow::Result<Vec<Difference>> {
        Ok(differences(&self.script, &ours::run(&self.script)?, &self.real))
    }
}
