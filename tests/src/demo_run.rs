//! Pipelines and arrivals for runs of `stagespan demo` that take seconds, or as long as the test wants.

use std::time::Duration;

use anyhow::Context as _;

use crate::command_run::{Ended, Run, Running};
use crate::process::Process;
use crate::rows::{azure, even};

/// Names of the stages, first to last.
pub const STAGES: [&str; 3] = ["thinker", "talker", "code2wav"];

/// The variable by which a stage's process is known.
const STAGE: &str = "E2E_STAGE";

/// How the runs differ.
#[derive(Debug, Clone, Copy)]
pub struct Demo<'a> {
    /// `unix` or `tcp`.
    pub connector: &'a str,
    /// Requests, all arriving within a fraction of a second.
    pub requests: u64,
    /// What a talker step costs. With 10 tokens each and two slots, `requests` take `10 × requests` such steps.
    pub talker_step_us: u32,
}

impl Default for Demo<'_> {
    fn default() -> Self {
        Self { connector: "unix", requests: 20, talker_step_us: 200 }
    }
}

impl Demo<'_> {
    /// `stagespan demo` with this pipeline and these arrivals, and `arguments` beside.
    ///
    /// # Errors
    /// If the program or a place for its files is not there.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<Run> {
        let given = ["demo", "--pipeline", "pipeline.toml", "--trace", "rows.csv", "--speed", "1"];
        let run = Run::stagespan(given.iter().chain(arguments))?;
        run.file("pipeline.toml", &self.pipeline())?.file("rows.csv", &azure(&even(self.requests, 5, 20, 10)))
    }

    /// Each stage is started by `env`, which becomes the stage, in the same process, and leaves its name in the
    /// environment, where the test finds it.
    fn pipeline(&self) -> String {
        let Self { connector, talker_step_us, .. } = *self;
        let stage = |name: &str, rest: &str| {
            format!("[[stage]]\nname = {name:?}\nlaunch = [\"env\", \"{STAGE}={name}\"]\n{rest}\n")
        };
        [
            format!("[pipeline]\nconnector = {connector:?}\n"),
            stage("thinker", "scheduler = \"ar\"\nchunk_tokens = 5\nstep_us = 200"),
            stage(
                "talker",
                &format!(
                    "scheduler = \"ar\"\ngate = \"async_chunk\"\nmax_num_seqs = 2\nchunk_tokens = 5\n\
                     tokens_per_input_token = 2\nstep_us = {talker_step_us}"
                ),
            ),
            stage(
                "code2wav",
                "scheduler = \"generation\"\ngate = \"async_chunk\"\nmax_num_seqs = 64\nstep_us = 100",
            ),
        ]
        .join("\n")
    }
}

/// The process of a stage, once it is there.
///
/// # Errors
/// If the run ends before.
pub fn stage_process(running: &mut Running, stage: &str, within: Duration) -> anyhow::Result<Process> {
    running.wait_for(stage, within, |running| {
        let mut children = running.children().into_iter();
        Ok(children.find(|process| process.variable(STAGE).as_deref() == Some(stage)))
    })
}

/// The account that a run prints: produced, delivered, dropped, in spans.
///
/// # Errors
/// If it prints none.
pub fn printed_account(ended: &Ended) -> anyhow::Result<(usize, usize, usize)> {
    let printed = format!("{}{}", ended.stdout, ended.stderr);
    let line = printed.lines().find(|line| line.contains(" produced, "));
    let line = line.with_context(|| format!("no account is printed:\n{printed}"))?;
    let before = |words: &[&str]| {
        line.split(", ").find_map(|part| {
            let word = words.iter().find(|word| part.contains(**word))?;
            part.split(word).next()?.split_whitespace().next_back()?.parse().ok()
        })
    };
    let figure = |words: &[&str]| before(words).with_context(|| format!("no {words:?} in {line:?}"));
    Ok((figure(&["produced"])?, figure(&["exported", "written"])?, figure(&["dropped"])?))
}
