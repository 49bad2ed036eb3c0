//! End-to-end tests: which of the tools that they need are there, and the one test run with all of those that are.
//!
//! Tests that need a tool sit in `stagespan-tests` behind a feature. This module finds the tool, turns the feature on
//! and tells the tests where the tool is.

use std::ffi::OsString;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use cargo_metadata::Message;

use crate::plan::Context;
use crate::report::Verdict;
use crate::{command, kafka};

/// Whether what a feature's tests need is there.
enum Need {
    /// It is; these environment variables tell the tests where.
    Met(Vec<(&'static str, OsString)>),
    /// It is not, for this reason.
    Unmet(String),
}

/// A feature of `stagespan-tests`, and how to find what it needs.
struct Feature {
    name: &'static str,
    find: fn(&Context) -> anyhow::Result<Need>,
}

const FEATURES: &[Feature] = &[
    Feature { name: "binary", find: build_program },
    Feature { name: "jaeger", find: find_jaeger },
    Feature { name: "collector", find: find_collector },
    Feature { name: "prometheus", find: find_prometheus },
    Feature { name: "kafka", find: find_kafka },
    Feature { name: "netns", find: find_time_namespaces },
    Feature { name: "strace", find: find_strace },
    Feature { name: "vllm-omni", find: find_vllm_omni },
];

/// The program of this checkout, whose processes the tests start.
fn build_program(context: &Context) -> anyhow::Result<Need> {
    Ok(Need::Met(vec![("STAGESPAN_BIN", build_binary(context)?.into_os_string())]))
}

fn find_jaeger(context: &Context) -> anyhow::Result<Need> {
    Ok(match context.jaeger()? {
        Ok(program) => Need::Met(vec![("STAGESPAN_JAEGER", program.into_os_string())]),
        Err(reason) => Need::Unmet(reason),
    })
}

fn find_collector(context: &Context) -> anyhow::Result<Need> {
    Ok(match context.collector()? {
        Ok(program) => Need::Met(vec![("STAGESPAN_COLLECTOR", program.into_os_string())]),
        Err(reason) => Need::Unmet(reason),
    })
}

/// The dashboard's queries are answered by a real server.
fn find_prometheus(_: &Context) -> anyhow::Result<Need> {
    probe(Command::new("prometheus").arg("--version"), "prometheus", "prometheus")
}

fn find_kafka(context: &Context) -> anyhow::Result<Need> {
    Ok(match kafka::find_or_fetch(&context.cache_root)? {
        Ok(folder) => Need::Met(vec![("STAGESPAN_KAFKA", folder.into_os_string())]),
        Err(reason) => Need::Unmet(reason),
    })
}

fn find_vllm_omni(context: &Context) -> anyhow::Result<Need> {
    Ok(match context.vllm_omni()? {
        Ok(python) => Need::Met(vec![("STAGESPAN_VLLM_OMNI_PYTHON", python.into_os_string())]),
        Err(reason) => Need::Unmet(reason),
    })
}

/// What a run does is looked at from outside, down to its system calls.
fn find_strace(_: &Context) -> anyhow::Result<Need> {
    probe(Command::new("strace").args(["--follow-forks", "--trace=socket", "true"]), "strace", "strace")
}

/// Stages on another clock than their request are started in a time namespace of their own.
fn find_time_namespaces(_: &Context) -> anyhow::Result<Need> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--time", "--fork", "--monotonic", "100000", "true"]);
    probe(&mut unshare, "unshare --time", "util-linux")
}

/// Whether something works that may be there and yet not be allowed, as in many containers.
fn probe(command: &mut Command, what: &str, package: &str) -> anyhow::Result<Need> {
    Ok(match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Need::Met(Vec::new()),
        Ok(output) => {
            let message = String::from_utf8_lossy(&output.stderr);
            Need::Unmet(format!("`{what}` does not work here: {}", message.trim()))
        }
        Err(error) => Need::Unmet(format!("`{what}` does not start (package {package}): {error}")),
    })
}

/// Runs the tests of every back end that is there.
///
/// # Errors
/// If a test fails, or a back end that should be there can't be made.
pub(crate) fn check(context: &Context) -> anyhow::Result<Verdict> {
    let mut needs = Vec::new();
    for feature in FEATURES {
        needs.push((
            feature.name,
            (feature.find)(context).with_context(|| format!("for `{}`", feature.name))?,
        ));
    }
    let selection = select(needs);
    for (name, reason) in &selection.skipped {
        println!("without `{name}`: {reason}");
    }
    let features = selection.features.join(",");
    let mut cargo = command::cargo(&context.root);
    cargo.args(["test", "--package", "stagespan-tests", "--no-fail-fast", "--features", &features]);
    command::without_tracing_variables(&mut cargo);
    cargo.envs(selection.environment);
    command::run(&mut cargo)?;
    Ok(if selection.skipped.is_empty() {
        Verdict::Passed { note: features }
    } else {
        Verdict::Partly { note: features, skipped: selection.skipped }
    })
}

/// What to run, with what environment, and what is left out.
#[derive(Default, Debug, PartialEq, Eq)]
struct Selection {
    features: Vec<&'static str>,
    environment: Vec<(&'static str, OsString)>,
    skipped: Vec<(String, String)>,
}

fn select(needs: Vec<(&'static str, Need)>) -> Selection {
    let mut selection = Selection::default();
    for (name, need) in needs {
        match need {
            Need::Met(environment) => {
                selection.features.push(name);
                selection.environment.extend(environment);
            }
            Need::Unmet(reason) => selection.skipped.push((name.to_owned(), reason)),
        }
    }
    selection
}

/// Builds the `stagespan` program and returns its path.
fn build_binary(context: &Context) -> anyhow::Result<PathBuf> {
    let mut cargo = command::cargo(&context.root);
    cargo.args(["build", "--package", "stagespan-cli", "--bin", "stagespan"]);
    cargo.arg("--message-format=json-render-diagnostics");
    println!("$ cargo build --package stagespan-cli --bin stagespan");
    let mut build =
        cargo.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cargo did not start")?;
    let mut program = None;
    if let Some(stdout) = build.stdout.take() {
        for message in Message::parse_stream(BufReader::new(stdout)) {
            if let Message::CompilerArtifact(artifact) = message.context("cannot read cargo's messages")? {
                program = artifact.executable.or(program);
            }
        }
    }
    let status = build.wait().context("cargo cannot be waited for")?;
    ensure!(status.success(), "building `stagespan` ended with {status}");
    let Some(program) = program else { bail!("cargo built no program `stagespan`") };
    Ok(program.into_std_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_runs_and_what_is_not_is_named() {
        let selection = select(vec![
            ("jaeger", Need::Met(vec![("STAGESPAN_JAEGER", OsString::from("/j"))])),
            ("netns", Need::Unmet("not permitted".to_owned())),
            ("collector", Need::Met(Vec::new())),
        ]);
        assert_eq!(
            selection,
            Selection {
                features: vec!["jaeger", "collector"],
                environment: vec![("STAGESPAN_JAEGER", OsString::from("/j"))],
                skipped: vec![("netns".to_owned(), "not permitted".to_owned())],
            }
        );
    }

    #[test]
    fn what_is_there_and_not_allowed_is_told_from_what_is_not_there() {
        let need = |program: &str| match probe(&mut Command::new(program), program, "p").expect("no error") {
            Need::Met(_) => None,
            Need::Unmet(reason) => Some(reason),
        };
        assert_eq!(need("true"), None);
        assert!(need("false").is_some_and(|reason| reason.contains("`false` does not work here")));
        assert!(need("no-such-program").is_some_and(|reason| reason.contains("package p")));
    }
}
