//! The first command of the README, as a newcomer runs it: optimized, with no back end about.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value as Json;

use crate::command;
use crate::plan::Context;
use crate::report::Verdict;

/// What the README promises, once everything is built.
const WITHIN: Duration = Duration::from_secs(60);

/// The trace that the demo leaves where it is run.
const TRACE: &str = "stagespan-demo.json";

/// Runs `cargo run --release -- demo` in an empty folder, and looks at the file that it leaves.
///
/// # Errors
/// If it fails, takes longer than promised, or leaves something else than one OTLP object with spans.
pub(crate) fn check(context: &Context) -> anyhow::Result<Verdict> {
    command::run(command::cargo(&context.root).args(["build", "--release"]))?;
    // The folder of this process is under `target`, so that a run that is killed leaves nothing in the checkout.
    let folder = context.metadata.target_directory.as_std_path().join(format!("demo-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let checked = run_in(context, &folder);
    std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    checked
}

fn run_in(context: &Context, folder: &Path) -> anyhow::Result<Verdict> {
    let mut demo = command::cargo(folder);
    demo.args(["run", "--release", "--quiet", "--manifest-path"]).arg(context.root.join("Cargo.toml"));
    let started = Instant::now();
    command::run(command::without_tracing_variables(&mut demo).args(["--", "demo"]))?;
    let took = started.elapsed();
    ensure!(took <= WITHIN, "the demo took {} s, and {} are promised", took.as_secs(), WITHIN.as_secs());
    let text = std::fs::read_to_string(folder.join(TRACE)).with_context(|| format!("no {TRACE}"))?;
    let spans = spans(&text).with_context(|| format!("in {TRACE}"))?;
    Ok(Verdict::Passed { note: format!("{spans} spans after {:.0} s", took.as_secs_f64()) })
}

/// How many spans there are in a file that is one OTLP object.
fn spans(text: &str) -> anyhow::Result<usize> {
    let object: Json = serde_json::from_str(text).context("not one JSON object")?;
    let lists = |owner: &Json, field: &str| owner[field].as_array().cloned().unwrap_or_default();
    let scopes = lists(&object, "resourceSpans").into_iter().flat_map(|one| lists(&one, "scopeSpans"));
    let spans = scopes.map(|scope| lists(&scope, "spans").len()).sum();
    ensure!(spans > 0, "no spans");
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_counted_over_resources_and_scopes() {
        let text = r#"{"resourceSpans": [
            {"scopeSpans": [{"spans": [{}, {}]}, {"spans": [{}]}]},
            {"scopeSpans": [{"spans": [{}]}]}]}"#;
        assert_eq!(spans(text).expect("OTLP"), 4);
        for bad in ["", "{}", "{}{}", r#"{"resourceSpans": [{"scopeSpans": [{"spans": []}]}]}"#] {
            assert!(spans(bad).is_err(), "{bad}");
        }
    }
}
