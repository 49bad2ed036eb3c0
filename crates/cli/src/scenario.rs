//! What the demo runs: a pipeline, and why it is slow.
//!
//! The two built-in scenarios have the same stages. In *cold start* the first stage pays a one-time
//! cost and talker waits for its input; in *backlog* talker has two slots and ready requests queue.
//! talker's cost is sized to the rows, so that its queue grows as long in the second as its input
//! lets it wait in the first, whatever is replayed ([`sizing`]).

use std::path::Path;

use stagespan_pipeline::{Pipeline, PipelineFileError};

use crate::arrivals::Arrival;

mod sizing;

/// The position of the stage that both built-in scenarios slow down.
const TALKER: usize = 1;

/// A built-in scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuiltIn {
    /// The first stage pays a one-time cost: talker waits for its input.
    ColdStart,
    /// talker has too few slots: ready requests queue.
    Backlog,
}

/// A pipeline to run, and why it is slow.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// Its name on the command line, or of its file.
    pub(crate) name: String,
    /// In a few words, what makes it slow.
    pub(crate) cause: String,
    /// What is run.
    pub(crate) pipeline: Pipeline,
}

impl BuiltIn {
    /// Both, in the order in which they run.
    pub(crate) const ALL: [Self; 2] = [Self::ColdStart, Self::Backlog];

    /// Its name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ColdStart => "cold-start",
            Self::Backlog => "backlog",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::ColdStart => include_str!("../data/cold-start.toml"),
            Self::Backlog => include_str!("../data/backlog.toml"),
        }
    }

    /// The scenario for these arrivals, at the speed at which they are replayed.
    ///
    /// # Errors
    /// None in practice: a test reads both files.
    pub(crate) fn for_arrivals(self, arrivals: &[Arrival]) -> Result<Scenario, PipelineFileError> {
        let mut pipeline = Pipeline::parse(self.text(), &format!("{}.toml", self.name()))?;
        // Both scenarios get what the backlog needs: only slots and start differ.
        let backlog = Pipeline::parse(Self::Backlog.text(), "backlog.toml")?;
        let cold_start = Pipeline::parse(Self::ColdStart.text(), "cold-start.toml")?;
        let start_cost_ms = cold_start.stages.first().map_or(0, |stage| stage.start_cost_ms);
        if let (Some(talker), Some(narrow)) = (pipeline.stages.get_mut(TALKER), backlog.stages.get(TALKER)) {
            let wait_ns = u64::from(start_cost_ms) * 1_000_000;
            let size = sizing::talker_size(arrivals, narrow.max_num_seqs, wait_ns);
            talker.tokens_per_input_token = size.tokens_per_input_token;
            talker.step_us = size.step_us;
        }
        let stage_name = |id: usize| pipeline.stages.get(id).map_or("", |stage| stage.name.as_str());
        let cause = match self {
            Self::ColdStart => format!(
                "the first step of {} takes {} longer",
                stage_name(0),
                crate::render::duration(u64::from(start_cost_ms) * 1_000_000)
            ),
            Self::Backlog => format!(
                "{} has {} slots for {} requests",
                stage_name(TALKER),
                pipeline.stages.get(TALKER).map_or(0, |stage| stage.max_num_seqs.get()),
                arrivals.len()
            ),
        };
        Ok(Scenario { name: self.name().to_owned(), cause, pipeline })
    }
}

impl Scenario {
    /// The pipeline of a file, run as it is.
    ///
    /// # Errors
    /// An unreadable or malformed file, with line and column.
    pub(crate) fn read(path: &Path) -> Result<Self, PipelineFileError> {
        let pipeline = Pipeline::read(path)?;
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        let name: String = stem.to_string_lossy().chars().filter(|c| !c.is_control()).collect();
        Ok(Self { name, cause: "the pipeline of the file, as it is".to_owned(), pipeline })
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
