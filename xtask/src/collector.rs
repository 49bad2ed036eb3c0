//! The OpenTelemetry Collector that the end-to-end tests speak to, built from `collector-config/builder.yaml`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context as _;

use crate::cache::{self, Tool};
use crate::command;

/// The release that builder.yaml names, and its builder's.
const VERSION: &str = "0.161.0";

/// The builder, a Go module.
const BUILDER: &str = "go.opentelemetry.io/collector/cmd/builder";

/// The Go release that this collector needs; Go fetches it by itself, as it does any module.
const GO_TOOLCHAIN: &str = "go1.27.3";

/// The path of the collector, built first if need be; why not, if it can't be built here.
///
/// # Errors
/// If Go is there and the build fails all the same, or the builder's file cannot be read.
pub(crate) fn find_or_build(
    workspace_root: &Path,
    cache_root: &Path,
) -> anyhow::Result<Result<PathBuf, String>> {
    let file = workspace_root.join("collector-config/builder.yaml");
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let tool = tool(&text);
    if let Some(program) = cache::find(cache_root, &tool) {
        return Ok(Ok(program));
    }
    if !command::exists("go", "version") {
        return Ok(Err("`go` is not installed, and the collector is built with it".to_owned()));
    }
    cache::ensure_built(cache_root, &tool, |folder| build(folder, &text)).map(Ok)
}

/// Prints the path of the program, for those who want to run it by hand.
///
/// # Errors
/// If it can't be had.
pub(crate) fn print_path(workspace_root: &Path) -> anyhow::Result<ExitCode> {
    match find_or_build(workspace_root, &cache::root()?)? {
        Ok(program) => println!("{}", program.display()),
        Err(reason) => anyhow::bail!("no collector: {reason}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Another list of components is another tool; comments and blank lines change nothing.
fn tool(builder_file: &str) -> Tool {
    let mut hasher = DefaultHasher::new();
    let meaning =
        builder_file.lines().filter(|line| !line.trim().is_empty() && !line.trim().starts_with('#'));
    meaning.for_each(|line| line.hash(&mut hasher));
    Tool {
        name: "otelcol",
        // Leaked once in a run of xtask.
        version: Box::leak(format!("{VERSION}-{:08x}", hasher.finish() >> 32).into_boxed_str()),
        program: "otelcol",
    }
}

fn build(folder: &Path, builder_file: &str) -> anyhow::Result<()> {
    let source = folder.join("source");
    std::fs::create_dir(&source).with_context(|| format!("cannot create {}", source.display()))?;
    let file = source.join("builder.yaml");
    std::fs::write(&file, builder_file).with_context(|| format!("cannot write {}", file.display()))?;
    let go = |place: &Path, arguments: &[&str]| {
        let mut go = Command::new("go");
        // A workspace file further up, a C compiler's presence or somebody's flags shall not change what is built.
        go.current_dir(place).env("GOWORK", "off").env("CGO_ENABLED", "0").env("GOFLAGS", "");
        go.env("GOTOOLCHAIN", GO_TOOLCHAIN);
        command::run_quietly(go.args(arguments))
    };
    let builder = format!("{BUILDER}@v{VERSION}");
    go(&source, &["run", &builder, "--config", "builder.yaml", "--skip-compilation"])?;
    go(&source.join("build"), &["build", "-trimpath", "-ldflags=-s -w", "-o", "../../otelcol", "."])?;
    std::fs::remove_dir_all(&source).with_context(|| format!("cannot remove {}", source.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_component_is_another_tool_and_a_comment_is_not() {
        let one = "# a comment\nexporters:\n  - gomod: a v1\n";
        assert_eq!(tool(one).folder(), tool("exporters:\n\n  - gomod: a v1\n").folder());
        assert_ne!(tool(one).folder(), tool("exporters:\n  - gomod: a v2\n").folder());
        assert!(tool(one).folder().starts_with("otelcol-0.161.0-"));
    }
}
