//! cargo-deny, installed once into the cache: licences, banned crates and sources of dependencies (`deny.toml`).

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use crate::cache::{self, Tool};
use crate::command;
use crate::plan::Context;
use crate::report::Verdict;

/// The release that `deny.toml` is written for.
pub(crate) const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", program: "bin/cargo-deny" };

/// Checks every dependency against `deny.toml`.
///
/// # Errors
/// If a dependency breaks a rule. A tool that can't be installed (no network, say) is a skip.
pub(crate) fn check(context: &Context) -> anyhow::Result<Verdict> {
    let program =
        match cache::ensure_built(&context.cache_root, &CARGO_DENY, |folder| install(context, folder)) {
            Ok(program) => program,
            Err(error) => return Ok(Verdict::Skipped { reason: format!("cannot be installed: {error:#}") }),
        };
    let mut deny = Command::new(program);
    deny.current_dir(&context.root);
    command::run(deny.args(["--workspace", "check", "licenses", "bans", "sources"]))?;
    Ok(Verdict::passed())
}

fn install(context: &Context, folder: &Path) -> anyhow::Result<()> {
    let target = folder.join("target");
    let mut cargo = command::cargo(&context.root);
    // Its own target folder: a CARGO_TARGET_DIR of ours would keep hundreds of megabytes that nothing uses again.
    cargo.args(["install", "--quiet", "--locked", "--version", CARGO_DENY.version, CARGO_DENY.name]);
    cargo.arg("--root").arg(folder).arg("--target-dir").arg(&target);
    command::run(&mut cargo)?;
    std::fs::remove_dir_all(&target).with_context(|| format!("cannot remove {}", target.display()))
}
