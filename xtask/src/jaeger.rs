//! The real Jaeger that the end-to-end tests speak to, built from its Go module.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context as _;

use crate::cache::{self, Tool};
use crate::command;

/// The release that the tests are written against.
pub(crate) const JAEGER: Tool = Tool { name: "jaeger", version: "1.76.0", program: "jaeger" };

const PACKAGE: &str = "github.com/jaegertracing/jaeger/cmd/jaeger";

/// The path of the Jaeger binary, built first if need be; why not, if it can't be built here.
///
/// # Errors
/// If Go is there and the build fails all the same.
pub(crate) fn find_or_build(cache_root: &Path) -> anyhow::Result<Result<PathBuf, String>> {
    if let Some(program) = cache::find(cache_root, &JAEGER) {
        return Ok(Ok(program));
    }
    if !command::exists("go", "version") {
        return Ok(Err("`go` is not installed, and Jaeger is built with it".to_owned()));
    }
    cache::ensure_built(cache_root, &JAEGER, build).map(Ok)
}

/// Prints the path of the binary, for those who want to run it by hand.
///
/// # Errors
/// If it can't be had.
pub(crate) fn print_path() -> anyhow::Result<ExitCode> {
    match find_or_build(&cache::root()?)? {
        Ok(program) => println!("{}", program.display()),
        Err(reason) => anyhow::bail!("no Jaeger: {reason}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds Jaeger in a module of its own. `go install package@version` would refuse, since Jaeger's go.mod has
/// `replace` lines; as a dependency of an otherwise empty module it is built with exactly the versions it asks for.
fn build(folder: &Path) -> anyhow::Result<()> {
    let source = folder.join("source");
    std::fs::create_dir(&source).with_context(|| format!("cannot create {}", source.display()))?;
    let go = |arguments: &[&str]| {
        let mut go = Command::new("go");
        // A workspace file further up, a C compiler's presence or somebody's flags shall not change what is built.
        go.current_dir(&source).env("GOWORK", "off").env("CGO_ENABLED", "0").env("GOFLAGS", "");
        command::run_quietly(go.args(arguments))
    };
    go(&["mod", "init", "stagespan-jaeger"])?;
    go(&["get", "-tool", &format!("{PACKAGE}@v{}", JAEGER.version)])?;
    go(&["build", "-trimpath", "-ldflags=-s -w", "-o", "../jaeger", PACKAGE])
}
