//! Mutations that a plausible mistake would make, each with the one test that must fail.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use crate::command;
use crate::plan::Context;

/// A change of one place in one file.
struct Mutation {
    /// What it does wrong.
    wrong: &'static str,
    file: &'static str,
    /// Stands in the file once.
    from: &'static str,
    to: &'static str,
    package: &'static str,
    /// `--lib`, or `--test` with a name.
    target: &'static [&'static str],
    /// The test that fails.
    test: &'static str,
}

const MUTATIONS: [Mutation; 5] = [
    Mutation {
        wrong: "stamping only `waiting` and not `kv_holding_waiting`",
        file: "crates/scheduler/src/stamp.rs",
        from: "Place::Waiting(_) | Place::WaitingAside(_))",
        to: "Place::Waiting(crate::request::QueueId::Fresh) | Place::WaitingAside(crate::request::QueueId::Fresh))",
        package: "stagespan-scheduler",
        target: &["--test", "stamp"],
        test: "a_request_that_holds_kv_blocks_is_stamped_too",
    },
    Mutation {
        wrong: "sending the stamp on outputs without events",
        file: "crates/scheduler/src/state.rs",
        from: "if events.is_empty() { None } else { request.input_ready.take() }",
        to: "request.input_ready.take()",
        package: "stagespan-scheduler",
        target: &["--test", "stamp"],
        test: "a_stamp_never_travels_without_events",
    },
    Mutation {
        wrong: "treating a sender-only stage as gated",
        file: "crates/model/src/stage.rs",
        from: "(_, Gate::AsyncChunk) if sender_only => Self::Ungated,",
        to: "(_, Gate::AsyncChunk) if sender_only => Self::Gated,",
        package: "stagespan-scheduler",
        target: &["--test", "gates"],
        test: "a_sender_only_stage_holds_and_stamps_nothing",
    },
    Mutation {
        wrong: "the last SCHEDULED instead of the first",
        file: "crates/model/src/timeline.rs",
        from: "if self.first_scheduled_ns == 0 {\n                    self.first_scheduled_ns = at.as_ns();\n",
        to: "{\n                    self.first_scheduled_ns = at.as_ns();\n",
        package: "stagespan-model",
        target: &["--lib"],
        test: "timeline::tests::vllm_13169_only_the_first_scheduled_counts",
    },
    Mutation {
        wrong: "clamping an out-of-interval stamp",
        file: "crates/model/src/split.rs",
        from: "let input_wait_ns = ready.checked_sub(",
        to: "let ready = ready.max(interval.queued_ns).min(scheduled);\nlet input_wait_ns = ready.checked_sub(",
        package: "stagespan-model",
        target: &["--lib"],
        test: "timeline::tests::a_stamp_outside_the_interval_splits_nothing",
    },
];

/// Makes each mutation in a copy of the tree, and has its test fail. Says how many there are.
///
/// # Errors
/// If a test passes with its mutation, or fails without.
pub(super) fn check(context: &Context, folder: &Path) -> anyhow::Result<usize> {
    let tree = folder.join("tree");
    copy_tree(&context.root, &tree)?;
    // The copies of earlier runs are what this one builds on.
    let target = folder.join("target");
    for mutation in &MUTATIONS {
        let path = tree.join(mutation.file);
        let original =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mutated = mutated(&original, mutation)?;
        let write =
            |text: &str| fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()));
        let Ended::Passed = run_test(&tree, &target, mutation)? else {
            bail!("`{}` fails without any mutation", mutation.test);
        };
        write(&mutated)?;
        let ended = run_test(&tree, &target, mutation)?;
        write(&original)?;
        match ended {
            Ended::Failed => println!("seen by `{}`: {}", mutation.test, mutation.wrong),
            Ended::Passed => bail!("`{}` does not see {}", mutation.test, mutation.wrong),
        }
    }
    fs::remove_dir_all(&tree).with_context(|| format!("cannot remove {}", tree.display()))?;
    Ok(MUTATIONS.len())
}

fn mutated(text: &str, mutation: &Mutation) -> anyhow::Result<String> {
    let places = text.matches(mutation.from).count();
    ensure!(
        places == 1,
        "{}: `{}` is there {places} times; say in xtask/src/mutants/by_name.rs how the code now does {}",
        mutation.file,
        mutation.from,
        mutation.wrong
    );
    Ok(text.replace(mutation.from, mutation.to))
}

/// Copies every file that git has or would take.
fn copy_tree(root: &Path, tree: &Path) -> anyhow::Result<()> {
    if tree.exists() {
        fs::remove_dir_all(tree).with_context(|| format!("cannot remove {}", tree.display()))?;
    }
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    for name in command::output(&mut git)?.split_terminator('\0') {
        let (from, to) = (root.join(name), tree.join(name));
        // Listed, but deleted and not committed yet.
        if !from.is_file() {
            continue;
        }
        let folder = to.parent().unwrap_or(tree);
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        fs::copy(&from, &to).with_context(|| format!("cannot copy {name}"))?;
    }
    Ok(())
}

/// How a test ended that ran.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Passed,
    Failed,
}

fn run_test(tree: &Path, target: &Path, mutation: &Mutation) -> anyhow::Result<Ended> {
    let mut cargo = command::cargo(tree);
    command::without_tracing_variables(&mut cargo).env("CARGO_TARGET_DIR", target);
    cargo.args(["test", "--package", mutation.package]).args(mutation.target);
    let output = cargo
        .args(["--", "--exact", mutation.test])
        .stdin(Stdio::null())
        .output()
        .context("cargo did not start")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ended(output.status.success(), &text, mutation.test)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Only a test that ran has seen anything: a mutation that does not compile proves nothing.
fn ended(success: bool, stdout: &str, test: &str) -> anyhow::Result<Ended> {
    let said = |ending: &str| stdout.lines().any(|line| line == format!("test {test} ... {ending}"));
    match success {
        true if said("ok") => Ok(Ended::Passed),
        false if said("FAILED") => Ok(Ended::Failed),
        _ => bail!("`{test}` did not run: {stdout}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_finds_its_place_and_its_test() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        for mutation in &MUTATIONS {
            let text = fs::read_to_string(root.join(mutation.file)).expect(mutation.file);
            assert_ne!(mutated(&text, mutation).expect(mutation.wrong), text);
        }
    }

    #[test]
    fn code_that_has_changed_is_said_and_not_passed_over() {
        let error = mutated("fn other() {}", &MUTATIONS[0]).expect_err("nothing to mutate");
        assert!(error.to_string().contains("is there 0 times"), "{error}");
    }

    #[test]
    fn only_a_test_that_ran_counts() {
        assert_eq!(ended(true, "test a::b ... ok\n", "a::b").expect("it ran"), Ended::Passed);
        assert_eq!(ended(false, "test a::b ... FAILED\n", "a::b").expect("it ran"), Ended::Failed);
        assert!(ended(false, "error: could not compile\n", "a::b").is_err());
        assert!(ended(true, "running 0 tests\n", "a::b").is_err(), "it has another name now");
    }
}
