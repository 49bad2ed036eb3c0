//! `rust-version` is a promise that only a build with that very version can prove: the toolchain in use, every crate's
//! `rust-version` and the version that `.ci/run` asks for must be the same.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, bail};

use super::verdict;
use crate::command;
use crate::plan::Context;
use crate::report::Verdict;

/// Major and minor version.
type Release = (u64, u64);

/// Compares the toolchain in use with what the crates promise and what CI pins.
///
/// # Errors
/// If they contradict each other. A newer toolchain proves nothing about the promise: a skip.
pub(crate) fn check(context: &Context) -> anyhow::Result<Verdict> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let in_use = release_of_rustc(&command::output(Command::new(rustc).arg("--version"))?)?;
    let promised: Vec<(String, Option<Release>)> = context
        .metadata
        .workspace_packages()
        .iter()
        .map(|package| {
            let release = package.rust_version.as_ref().map(|version| (version.major, version.minor));
            (package.name.to_string(), release)
        })
        .collect();
    let script = context.root.join(".ci/run");
    let script = fs::read_to_string(&script).with_context(|| format!("cannot read {}", script.display()))?;
    judge(in_use, &promised, pinned_by_ci(&script))
}

fn judge(
    in_use: Release,
    promised: &[(String, Option<Release>)],
    ci: Option<Release>,
) -> anyhow::Result<Verdict> {
    let mut findings = Vec::new();
    let Some(ci) = ci else { bail!(".ci/run has no line `RUST_VERSION=<major>.<minor>`") };
    for (package, release) in promised {
        match release {
            Some(release) if *release == ci => {}
            Some(release) => findings.push(format!(
                "{package}: rust-version is {}, but .ci/run tests {}",
                shown(*release),
                shown(ci)
            )),
            None => {
                findings.push(format!("{package}: no rust-version; write `rust-version.workspace = true`"))
            }
        }
    }
    if findings.is_empty() && in_use > ci {
        return Ok(Verdict::Skipped {
            reason: format!(
                "rustc {} is newer than rust-version {}, so it cannot prove it",
                shown(in_use),
                shown(ci)
            ),
        });
    }
    if in_use < ci {
        findings.push(format!("rustc {} is older than rust-version {}", shown(in_use), shown(ci)));
    }
    verdict(&findings, format!("rustc {}", shown(in_use)))
}

/// From `rustc 1.95.0 (...)`.
fn release_of_rustc(output: &str) -> anyhow::Result<Release> {
    output
        .strip_prefix("rustc ")
        .and_then(release)
        .with_context(|| format!("`rustc --version` says {output:?}, which has no version"))
}

/// From the line `RUST_VERSION=1.95` of the script.
fn pinned_by_ci(script: &str) -> Option<Release> {
    script.lines().find_map(|line| release(line.strip_prefix("RUST_VERSION=")?))
}

/// The first two numbers of `1.95.0-nightly` and the like.
fn release(text: &str) -> Option<Release> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn shown((major, minor): Release) -> String {
    format!("{major}.{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(release: Option<Release>) -> Vec<(String, Option<Release>)> {
        vec![("model".to_owned(), Some((1, 95))), ("wire".to_owned(), release)]
    }

    #[test]
    fn reads_versions_as_the_tools_print_them() {
        assert_eq!(release_of_rustc("rustc 1.95.0 (59807616e 2026-04-14)\n").expect("a version"), (1, 95));
        assert_eq!(release_of_rustc("rustc 1.97.0-nightly (abc 2026-05-01)").expect("a version"), (1, 97));
        assert!(release_of_rustc("cargo 1.95.0").is_err());
        assert_eq!(pinned_by_ci("#!/bin/bash\nset -e\nRUST_VERSION=1.95\n"), Some((1, 95)));
        assert_eq!(pinned_by_ci("echo RUST_VERSION=1.95\n"), None);
    }

    #[test]
    fn equal_everywhere_passes() {
        let verdict = judge((1, 95), &promise(Some((1, 95))), Some((1, 95))).expect("passes");
        assert_eq!(verdict, Verdict::Passed { note: "rustc 1.95".to_owned() });
    }

    #[test]
    fn a_newer_toolchain_is_a_skip_and_an_older_one_a_failure() {
        let newer = judge((1, 96), &promise(Some((1, 95))), Some((1, 95))).expect("no failure");
        assert!(matches!(newer, Verdict::Skipped { .. }), "{newer:?}");
        let older = judge((1, 94), &promise(Some((1, 95))), Some((1, 95))).expect_err("too old");
        assert!(older.to_string().contains("rustc 1.94 is older"), "{older}");
    }

    #[test]
    fn a_crate_or_a_script_that_differs_fails_even_on_a_newer_toolchain() {
        for (promised, ci, expected) in [
            (Some((1, 90)), Some((1, 95)), "wire: rust-version is 1.90"),
            (None, Some((1, 95)), "wire: no rust-version"),
            (Some((1, 95)), None, ".ci/run has no line"),
        ] {
            let error = judge((1, 99), &promise(promised), ci).expect_err(expected);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
