//! Files that are loaded by the very program that they are for, without any environment: users start them as they are.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::plan::Context;
use crate::report::Verdict;

/// Files of one start, given one after the other: later ones are merged over the first.
type Start = &'static [&'static str];

const JAEGER: &[Start] =
    &[&["jaeger.yaml"], &["jaeger-badger.yaml"], &["jaeger-to-kafka.yaml"], &["jaeger-from-kafka.yaml"]];

const COLLECTOR: &[Start] = &[
    &["agent.yaml"],
    &["gateway-lb.yaml"],
    &["gateway-sampler.yaml"],
    &["gateway-sampler.yaml", "to-tempo.yaml"],
];

/// Has each program load its files; `note` is what was found before.
///
/// # Errors
/// If a program refuses one.
pub(super) fn check(context: &Context, note: String) -> anyhow::Result<Verdict> {
    let mut skipped = Vec::new();
    let mut loaders = Vec::new();
    for (name, program, starts) in
        [("Jaeger", context.jaeger()?, JAEGER), ("the collector", context.collector()?, COLLECTOR)]
    {
        match program {
            Ok(program) => {
                starts.iter().try_for_each(|files| validate(context, &program, files))?;
                loaders.push(name);
            }
            Err(reason) => skipped.push((format!("loaded by {name}"), reason)),
        }
    }
    if command::exists("promtool", "--version") {
        let mut promtool = Command::new("promtool");
        let file = path("prometheus.yaml");
        command::run(promtool.current_dir(&context.root).args(["check", "config"]).arg(file))?;
        loaders.push("Prometheus");
    } else {
        let reason = "`promtool` does not start (package prometheus)";
        skipped.push(("loaded by Prometheus".to_owned(), reason.to_owned()));
    }
    let note = match loaders.as_slice() {
        [] => note,
        loaders => format!("{note}; {} load theirs", loaders.join(", ")),
    };
    Ok(if skipped.is_empty() { Verdict::Passed { note } } else { Verdict::Partly { note, skipped } })
}

fn validate(context: &Context, program: &Path, files: Start) -> anyhow::Result<()> {
    let mut validate = Command::new(program);
    validate.current_dir(&context.root).env_clear().arg("validate");
    for file in files {
        validate.arg("--config").arg(path(file));
    }
    command::run(&mut validate)
}

/// Relative to the workspace's root, so that what is shown can be typed.
fn path(file: &str) -> PathBuf {
    Path::new("collector-config").join(file)
}
