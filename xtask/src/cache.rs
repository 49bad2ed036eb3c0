//! Tools that are built once and kept outside the checkout: `<root>/<tool>-<version>/`.
//!
//! A folder under its final name is complete: it is filled under another name and renamed when done. Whoever builds
//! holds a lock file, so two checkouts on one machine build a tool once, and a killed build leaves nothing that looks
//! finished.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

/// A tool by name and version, and the program inside its folder that proves it complete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    /// Name of the tool and of its folder.
    pub(crate) name: &'static str,
    /// Version without a leading `v`.
    pub(crate) version: &'static str,
    /// Path of the program, relative to the tool's folder.
    pub(crate) program: &'static str,
}

impl Tool {
    /// `<tool>-<version>`.
    pub(crate) fn folder(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

/// Where tools are kept: `STAGESPAN_CACHE`, else `$XDG_CACHE_HOME/stagespan`, else `~/.cache/stagespan`.
///
/// # Errors
/// If none of the three variables that can tell it is set.
pub(crate) fn root() -> anyhow::Result<PathBuf> {
    root_from(&|name| std::env::var_os(name))
}

fn root_from(variable: &dyn Fn(&str) -> Option<OsString>) -> anyhow::Result<PathBuf> {
    // Like the shell's `:-`, an empty variable is an unset one.
    let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(root) = path("STAGESPAN_CACHE") {
        // Children run in other folders, so a relative path would mean another place to each.
        return std::path::absolute(&root).with_context(|| format!("STAGESPAN_CACHE={}", root.display()));
    }
    let base = path("XDG_CACHE_HOME").or_else(|| Some(path("HOME")?.join(".cache")));
    match base {
        // The XDG specification has relative paths ignored; we would rather say so than build somewhere else.
        Some(base) if base.is_absolute() => Ok(base.join("stagespan")),
        Some(base) => {
            bail!("the cache folder {} is not an absolute path; set STAGESPAN_CACHE", base.display())
        }
        None => bail!("no folder for tools: set STAGESPAN_CACHE (HOME and XDG_CACHE_HOME are unset too)"),
    }
}

/// The path of a tool's program, if it was built before.
pub(crate) fn find(root: &Path, tool: &Tool) -> Option<PathBuf> {
    let program = root.join(tool.folder()).join(tool.program);
    program.is_file().then_some(program)
}

/// The path of a tool's program; if it is not there, `build` makes it in the folder it is given.
///
/// Waits while another process builds the same tool.
///
/// # Errors
/// What `build` returns, a build that leaves no program, or a cache folder that cannot be written.
pub(crate) fn ensure_built(
    root: &Path,
    tool: &Tool,
    build: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    if let Some(program) = find(root, tool) {
        return Ok(program);
    }
    fs::create_dir_all(root).with_context(|| format!("cannot create {}", root.display()))?;
    let folder = tool.folder();
    let lock_path = root.join(format!("{folder}.lock"));
    let lock = File::create(&lock_path).with_context(|| format!("cannot create {}", lock_path.display()))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("waiting for another process that builds {folder}");
            lock.lock().with_context(|| format!("cannot lock {}", lock_path.display()))?;
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", lock_path.display()));
        }
    }
    // Somebody else may have built it while we waited.
    if let Some(program) = find(root, tool) {
        return Ok(program);
    }
    let partial = root.join(format!("{folder}.partial"));
    // We hold the lock, so what is left under these names was left by a build that was killed, or by hand.
    for leftover in [&partial, &root.join(&folder)] {
        if leftover.exists() {
            fs::remove_dir_all(leftover).with_context(|| format!("cannot remove {}", leftover.display()))?;
        }
    }
    fs::create_dir(&partial).with_context(|| format!("cannot create {}", partial.display()))?;
    // Not on standard output: what asks for a tool prints its path there, and nothing else.
    eprintln!("building {folder} into {}", root.display());
    let built = build(&partial).with_context(|| format!("building {folder} failed"));
    if built.is_err() {
        // The error of the build is the one to report; a folder left behind is removed by the next build.
        let _ = fs::remove_dir_all(&partial);
    }
    built?;
    ensure!(partial.join(tool.program).is_file(), "building {folder} left no program `{}`", tool.program);
    let complete = root.join(&folder);
    fs::rename(&partial, &complete).with_context(|| format!("cannot rename to {}", complete.display()))?;
    Ok(complete.join(tool.program))
}

#[cfg(test)]
#[path = "cache/tests.rs"]
mod tests;
