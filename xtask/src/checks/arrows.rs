//! Which crate may depend on which: the table below is docs/architecture.md in a form that can fail.
//!
//! Only normal and build dependencies count: what a crate's own tests use says nothing about what it ships with.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::DependencyKind;

use super::verdict;
use crate::plan::Context;
use crate::report::Verdict;

/// What a crate may use of our own crates.
#[derive(Clone, Copy)]
enum Own {
    /// These and no others, each of them really used.
    Exactly(&'static [&'static str]),
    /// Nothing depends on this one, so it may use everything.
    Any,
}

/// Every package of the workspace.
const TABLE: &[(&str, Own)] = &[
    ("stagespan-model", Own::Exactly(&[])),
    ("stagespan-scheduler", Own::Exactly(&["stagespan-model"])),
    ("stagespan-wire", Own::Exactly(&["stagespan-model"])),
    ("stagespan-output-processor", Own::Exactly(&["stagespan-model", "stagespan-wire"])),
    ("stagespan-otel", Own::Exactly(&["stagespan-model"])),
    (
        "stagespan-pipeline",
        Own::Exactly(&[
            "stagespan-model",
            "stagespan-otel",
            "stagespan-output-processor",
            "stagespan-scheduler",
            "stagespan-wire",
        ]),
    ),
    ("stagespan", Own::Exactly(&["stagespan-model", "stagespan-otel"])),
    ("stagespan-python", Own::Exactly(&["stagespan-model", "stagespan-otel"])),
    ("stagespan-cli", Own::Any),
    ("stagespan-tests", Own::Any),
    ("stagespan-examples", Own::Any),
    ("stagespan-benches", Own::Any),
    ("xtask", Own::Exactly(&[])),
];

/// Crates from outside, by how their names begin, that only some of ours may name: so OpenTelemetry can be replaced in
/// one crate, and the pure crates stay free of a runtime.
const RESERVED: &[(&str, &[&str])] = &[
    ("opentelemetry", &["stagespan-otel", "stagespan-tests", "stagespan-examples", "stagespan-benches"]),
    (
        "tracing-opentelemetry",
        &["stagespan-otel", "stagespan-tests", "stagespan-examples", "stagespan-benches"],
    ),
    (
        "tokio",
        &[
            "stagespan-otel",
            "stagespan-pipeline",
            "stagespan-cli",
            "stagespan-tests",
            "stagespan-examples",
            "stagespan-benches",
        ],
    ),
];

/// Crates that embedders build whatever else they use, and the few foreign crates these may cost.
const LEAN: &[(&str, &[&str])] = &[("stagespan-model", &["libc", "serde"])];

/// Compares the crates' dependencies with the table.
///
/// # Errors
/// If they differ, in either direction.
pub(crate) fn check(context: &Context) -> anyhow::Result<Verdict> {
    let actual: BTreeMap<String, BTreeSet<String>> = context
        .metadata
        .workspace_packages()
        .iter()
        .map(|package| {
            let shipped = package.dependencies.iter().filter(|dependency| {
                matches!(dependency.kind, DependencyKind::Normal | DependencyKind::Build)
            });
            (package.name.to_string(), shipped.map(|dependency| dependency.name.clone()).collect())
        })
        .collect();
    verdict(&compare(TABLE, RESERVED, LEAN, &actual), format!("{} crates", actual.len()))
}

fn compare(
    table: &[(&str, Own)],
    reserved: &[(&str, &[&str])],
    lean: &[(&str, &[&str])],
    actual: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let mut findings = Vec::new();
    for (package, dependencies) in actual {
        match table.iter().find(|(name, _)| name == package) {
            None => findings.push(format!("{package} is not in the table of xtask/src/checks/arrows.rs")),
            Some((_, Own::Any)) => {}
            Some((_, Own::Exactly(allowed))) => {
                let own = dependencies.iter().filter(|name| actual.contains_key(*name));
                for extra in own.filter(|name| !allowed.contains(&name.as_str())) {
                    findings.push(format!("{package} depends on {extra}, which the table does not allow"));
                }
                for missing in allowed.iter().filter(|name| !dependencies.contains(**name)) {
                    findings
                        .push(format!("{package} does not depend on {missing}, though the table says so"));
                }
            }
        }
        for (prefix, users) in reserved.iter().filter(|(_, users)| !users.contains(&package.as_str())) {
            for name in dependencies.iter().filter(|name| name.starts_with(prefix)) {
                findings.push(format!("{package} depends on {name}, reserved for {}", users.join(", ")));
            }
        }
    }
    for (package, allowed) in lean {
        let foreign = actual.get(*package).into_iter().flatten().filter(|name| !actual.contains_key(*name));
        for name in foreign.filter(|name| !allowed.contains(&name.as_str())) {
            findings.push(format!("{package} depends on {name}; it stays lean: {}", allowed.join(", ")));
        }
    }
    for (name, _) in table.iter().filter(|(name, _)| !actual.contains_key(*name)) {
        findings.push(format!("{name} is in the table, but not in the workspace"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &[(&str, Own)] =
        &[("model", Own::Exactly(&[])), ("otel", Own::Exactly(&["model"])), ("cli", Own::Any)];
    const KEPT: &[(&str, &[&str])] = &[("opentelemetry", &["otel"])];
    const FEW: &[(&str, &[&str])] = &[("model", &["serde"])];

    fn actual(packages: &[(&str, &[&str])]) -> BTreeMap<String, BTreeSet<String>> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        packages.iter().map(|(package, names)| ((*package).to_owned(), owned(names))).collect()
    }

    #[test]
    fn equal_to_the_table_passes_and_foreign_crates_are_free_unless_reserved() {
        let crates = actual(&[
            ("model", &["serde"]),
            ("otel", &["model", "opentelemetry-otlp"]),
            ("cli", &["model", "otel", "clap"]),
        ]);
        assert_eq!(compare(SMALL, KEPT, FEW, &crates), Vec::<String>::new());
    }

    #[test]
    fn every_difference_is_found() {
        let crates = actual(&[("model", &["otel", "anyhow"]), ("otel", &[]), ("extra", &["opentelemetry"])]);
        assert_eq!(
            compare(SMALL, KEPT, FEW, &crates),
            [
                "extra is not in the table of xtask/src/checks/arrows.rs",
                "extra depends on opentelemetry, reserved for otel",
                "model depends on otel, which the table does not allow",
                "otel does not depend on model, though the table says so",
                "model depends on anyhow; it stays lean: serde",
                "cli is in the table, but not in the workspace",
            ]
        );
    }
}
