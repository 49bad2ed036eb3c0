//! Mutation testing of what the numbers hang on: timeline, split and stamp, and the gates and scheduler state that the
//! stamp is made of. First five mutations by hand, each with the test that must see it (`mutants/by_name.rs`); then all
//! that cargo-mutants finds to change, none of which may go unseen.

mod by_name;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value as Json;

use crate::cache::{self, Tool};
use crate::command;
use crate::plan::Context;
use crate::report::Verdict;

const CARGO_MUTANTS: Tool = Tool { name: "cargo-mutants", version: "27.1.0", program: "bin/cargo-mutants" };

/// What is mutated; each file is tested by its own package's tests.
const FILES: [&str; 9] = [
    "crates/model/src/timeline.rs",
    "crates/model/src/timeline/**",
    "crates/model/src/split.rs",
    "crates/model/src/stage.rs",
    "crates/scheduler/src/stamp.rs",
    "crates/scheduler/src/gate.rs",
    "crates/scheduler/src/gate/**",
    "crates/scheduler/src/state.rs",
    "crates/scheduler/src/step.rs",
];
const PACKAGES: [&str; 2] = ["stagespan-model", "stagespan-scheduler"];

/// A mutant that loops is stopped after so long, and counts as seen.
const TEST_TIMEOUT_MIN_S: &str = "60";

/// Makes every mutation.
///
/// # Errors
/// If a mutation goes unseen. cargo-mutants that can't be installed (no network, say) is a skipped part.
pub(crate) fn check(context: &Context) -> anyhow::Result<Verdict> {
    let folder = context.metadata.target_directory.as_std_path().join("mutants");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let named = by_name::check(context, &folder)?;
    let note = format!("{named} mutations by name");
    let program =
        match cache::ensure_built(&context.cache_root, &CARGO_MUTANTS, |folder| install(context, folder)) {
            Ok(program) => program,
            Err(error) => {
                let reason = format!("cannot be installed: {error:#}");
                return Ok(Verdict::Partly { note, skipped: vec![("cargo-mutants".to_owned(), reason)] });
            }
        };
    let mut mutants = Command::new(program);
    mutants.current_dir(&context.root).args(["mutants", "--no-config", "--jobs", "1"]);
    mutants.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    mutants.args(FILES.iter().flat_map(|file| ["--file", file]));
    mutants.args(["--minimum-test-timeout", TEST_TIMEOUT_MIN_S]).arg("--output").arg(&folder);
    // It copies the tree, and each copy has a target folder of its own.
    command::without_tracing_variables(&mut mutants).env_remove("CARGO_TARGET_DIR");
    let ran = command::run(mutants.args(["--", "--lib", "--tests"]));
    let path = folder.join("mutants.out/outcomes.json");
    let found = outcomes(&path).with_context(|| format!("in {}", path.display()));
    // What it found says more than how it ended.
    match (ran, found) {
        (Ok(()), Ok(found)) if found.seen > 0 => Ok(Verdict::Passed { note: format!("{note}; {found}") }),
        (Ok(()), Ok(found)) => bail!("{found}: nothing was mutated"),
        (Err(_), Ok(found)) if found.unseen > 0 => bail!("{found}; they are named above"),
        (Err(error), _) | (Ok(()), Err(error)) => Err(error),
    }
}

fn install(context: &Context, folder: &Path) -> anyhow::Result<()> {
    let target = folder.join("target");
    let mut cargo = command::cargo(&context.root);
    cargo.args(["install", "--quiet", "--locked", "--version", CARGO_MUTANTS.version, CARGO_MUTANTS.name]);
    cargo.arg("--root").arg(folder).arg("--target-dir").arg(&target);
    command::run(&mut cargo)?;
    fs::remove_dir_all(&target).with_context(|| format!("cannot remove {}", target.display()))
}

/// What became of the mutants.
#[derive(Debug, PartialEq, Eq)]
struct Outcomes {
    /// A test failed, or none came to an end.
    seen: u64,
    /// Every test passed.
    unseen: u64,
    /// No program: the compiler refused it.
    refused: u64,
}

impl std::fmt::Display for Outcomes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seen, unseen, refused } = self;
        write!(f, "{seen} mutants seen, {unseen} missed, {refused} refused by the compiler")
    }
}

fn outcomes(path: &Path) -> anyhow::Result<Outcomes> {
    outcomes_in(&fs::read_to_string(path).context("cannot read it")?)
}

fn outcomes_in(text: &str) -> anyhow::Result<Outcomes> {
    let json: Json = serde_json::from_str(text)?;
    let count = |name: &str| json[name].as_u64().with_context(|| format!("no number `{name}`"));
    Ok(Outcomes {
        seen: count("caught")? + count("timeout")?,
        unseen: count("missed")?,
        refused: count("unviable")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read_by_name() {
        let text =
            r#"{"total_mutants": 10, "missed": 1, "caught": 5, "timeout": 2, "unviable": 2, "outcomes": []}"#;
        assert_eq!(outcomes_in(text).expect("counts"), Outcomes { seen: 7, unseen: 1, refused: 2 });
        assert!(outcomes_in(r#"{"missed": 0}"#).is_err(), "a count that is not there is not 0");
    }

    #[test]
    fn every_file_to_mutate_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        for file in FILES {
            let path = root.join(file.trim_end_matches("/**"));
            assert!(path.exists(), "{file}");
        }
    }
}
