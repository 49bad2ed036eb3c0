//! Files that are loaded by the very program that they are for, without any environment: users start them as they are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

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
    if let Ok(collector) = context.collector()? {
        validate_resolvers(context, &collector)?;
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

/// The alternatives that the load balancer's file shows as comments are loaded too.
fn validate_resolvers(context: &Context, collector: &Path) -> anyhow::Result<()> {
    let text =
        std::fs::read_to_string(context.root.join(path("gateway-lb.yaml"))).context("gateway-lb.yaml")?;
    for resolver in ["dns", "k8s"] {
        let text = with_resolver(&text, resolver)
            .with_context(|| format!("gateway-lb.yaml shows no resolver `{resolver}` as a comment"))?;
        println!("$ otelcol validate --config <gateway-lb.yaml with the resolver `{resolver}`>");
        let mut validate = Command::new(collector);
        let output =
            validate.env_clear().arg("validate").arg("--config").arg(format!("yaml:{text}")).output();
        let output = output.context("the collector does not start")?;
        let message = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "gateway-lb.yaml with the resolver `{resolver}`: {}",
            message.trim()
        );
    }
    Ok(())
}

/// The load balancer's file with its static list replaced by one of the alternatives in its comments.
fn with_resolver(text: &str, resolver: &str) -> Option<String> {
    let (before, rest) = text.split_once("      static:\n")?;
    let (block, after) = rest.split_once("\nservice:")?;
    let shown: Vec<&str> = block.lines().filter_map(|line| line.strip_prefix("      #   ")).collect();
    let start = shown.iter().position(|line| line.strip_suffix(':') == Some(resolver))?;
    let length = 1 + shown[start + 1..].iter().take_while(|line| line.starts_with(' ')).count();
    let chosen: String = shown[start..start + length].iter().map(|line| format!("      {line}\n")).collect();
    Some(format!("{before}{chosen}\nservice:{after}"))
}

/// Relative to the workspace's root, so that what is shown can be typed.
fn path(file: &str) -> PathBuf {
    Path::new("collector-config").join(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolver_in_a_comment_takes_the_place_of_the_list() {
        let text = "resolver:\n      static:\n        hostnames: [a]\n      # Take:\n      #   dns:\n      #     hostname: b\n      \
                    # or:\n      #   k8s:\n      #     service: c\n\nservice:\n  x: y\n";
        let expected = "resolver:\n      dns:\n        hostname: b\n\nservice:\n  x: y\n";
        assert_eq!(with_resolver(text, "dns").as_deref(), Some(expected));
        assert!(
            with_resolver(text, "k8s").is_some_and(|text| text.contains("      k8s:\n        service: c\n"))
        );
        assert_eq!(with_resolver(text, "aws_cloud_map"), None);
    }
}
