//! The real vLLM-Omni that our schedulers, wire and plug-in are held to: a Python environment without GPU or model.
//!
//! vLLM's own wheels are built for CUDA and bring gigabytes that no test uses. So only their Python sources are
//! unpacked, torch comes without its CUDA libraries, and small stand-ins take their place (`tests/python/setup`).

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

use crate::cache::{self, Tool};
use crate::command;

/// A version of vLLM-Omni with the version of vLLM that it goes with. Others of the two do not import together.
#[derive(Debug)]
struct Pair {
    omni: &'static str,
    vllm: &'static str,
    tool: Tool,
}

/// The interpreter, in every environment.
const PYTHON: &str = "venv/bin/python";

const fn pair(omni: &'static str, vllm: &'static str) -> Pair {
    Pair { omni, vllm, tool: Tool { name: "vllm-omni", version: omni, program: PYTHON } }
}

/// The first is the one that the tests are written against.
const PAIRS: &[Pair] = &[pair("0.32.0rc1", "0.32.0"), pair("0.31.0rc1", "0.31.0"), pair("0.30.0", "0.30.0")];

/// The versions there are, for the command line.
pub(crate) fn versions() -> Vec<&'static str> {
    PAIRS.iter().map(|pair| pair.omni).collect()
}

/// The release of torch that all of them run with.
const TORCH: &str = "torch==2.13.0";

/// The interpreter of the environment that the tests are written against, built first if need be; why not, if it can't
/// be built here.
///
/// # Errors
/// If everything for it is there and the build fails all the same.
pub(crate) fn find_or_build(root: &Path, cache_root: &Path) -> anyhow::Result<Result<PathBuf, String>> {
    build_pair(root, cache_root, &PAIRS[0])
}

/// Prints the path of the interpreter of this version's environment, built first if need be.
///
/// # Errors
/// If it can't be had.
pub(crate) fn print_path(root: &Path, version: &str) -> anyhow::Result<ExitCode> {
    let pair = PAIRS.iter().find(|pair| pair.omni == version);
    let pair = pair.with_context(|| format!("no version {version}; there are {}", versions().join(", ")))?;
    match build_pair(root, &cache::root()?, pair)? {
        Ok(python) => println!("{}", python.display()),
        Err(reason) => bail!("no vLLM-Omni: {reason}"),
    }
    Ok(ExitCode::SUCCESS)
}

fn build_pair(root: &Path, cache_root: &Path, pair: &Pair) -> anyhow::Result<Result<PathBuf, String>> {
    if let Some(python) = cache::find(cache_root, &pair.tool) {
        return Ok(Ok(python));
    }
    if let Some(reason) = missing() {
        return Ok(Err(reason));
    }
    cache::ensure_built(cache_root, &pair.tool, |folder| build(root, pair, folder)).map(Ok)
}

/// What is not here that an environment is built with.
fn missing() -> Option<String> {
    if !cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
        return Some("vLLM's wheels are for Linux on x86-64 and arm64".to_owned());
    }
    let mut python = Command::new("python3");
    // `ensurepip` is a package of its own on Debian, and no environment can be made without it.
    python.args(["-c", "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"]);
    match python.output() {
        Err(error) => return Some(format!("`python3` does not start: {error}")),
        Ok(output) if !output.status.success() => {
            return Some("`python3` has no ensurepip (Debian: install python3-venv)".to_owned());
        }
        Ok(output) => {
            let version = String::from_utf8_lossy(&output.stdout);
            if !is_new_enough(version.trim()) {
                return Some(format!("`python3` is {}, and vLLM needs 3.10 or later", version.trim()));
            }
        }
    }
    ["cc", "objdump"].into_iter().find(|program| !command::exists(program, "--version")).map(|program| {
        format!("`{program}` is not installed, and stand-ins for CUDA libraries are built with it")
    })
}

/// Whether `major.minor` is 3.10 or later.
fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    matches!((parts.next(), parts.next()), (Some(Some(3)), Some(Some(minor))) if minor >= 10)
}

/// Builds the environment in `folder`, which is renamed when complete: so nothing in it may hold its own path. A script in
/// `venv/bin` would; the interpreter itself finds its environment by where it is.
fn build(root: &Path, pair: &Pair, folder: &Path) -> anyhow::Result<()> {
    let setup = root.join("tests/python/setup");
    let (venv, sources, wheels) = (folder.join("venv"), folder.join("src"), folder.join("wheels"));
    command::run_quietly(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let python = folder.join(PYTHON);
    let pip = |arguments: &[&str]| {
        let mut pip = Command::new(&python);
        // Everything is pinned, so there is nothing to resolve, and a resolver would want CUDA's libraries.
        pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", arguments[0], "--no-deps"]);
        pip.args(&arguments[1..]);
        pip
    };

    let [omni, vllm] = [format!("vllm-omni=={}", pair.omni), format!("vllm=={}", pair.vllm)];
    command::run_quietly(pip(&["download", &omni, &vllm]).arg("--dest").arg(&wheels))?;
    for wheel in std::fs::read_dir(&wheels).with_context(|| format!("cannot read {}", wheels.display()))? {
        let wheel = wheel.context("cannot list the wheels")?.path();
        let mut unpack = Command::new(&python);
        command::run_quietly(unpack.arg(setup.join("unpack_sources.py")).arg(wheel).arg(&sources))?;
    }
    std::fs::remove_dir_all(&wheels).with_context(|| format!("cannot remove {}", wheels.display()))?;

    command::run_quietly(&mut pip(&["install", TORCH]))?;
    let mut purelib = Command::new(&python);
    purelib.args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]);
    let site_packages = PathBuf::from(command::output(&mut purelib)?.trim());
    // Where torch's libraries look for those of CUDA 13, relative to themselves.
    let mut stand_ins = Command::new(&python);
    stand_ins.arg(setup.join("cuda_stand_ins.py")).arg(site_packages.join("torch"));
    command::run_quietly(stand_ins.arg(site_packages.join("nvidia/cu13/lib")))?;
    command::run_quietly(pip(&["install", "--requirement"]).arg(setup.join("requirements.txt")))?;

    // A relative line is taken from the folder of the file, so it holds when the whole is renamed.
    let depth =
        site_packages.strip_prefix(folder).context("the environment is elsewhere")?.components().count();
    let to_sources = "../".repeat(depth) + "src\n";
    let path_file = site_packages.join("vllm_omni_sources.pth");
    std::fs::write(&path_file, to_sources)
        .with_context(|| format!("cannot write {}", path_file.display()))?;
    check_imports(&python, pair)
}

/// Imports what the tests import, so that an environment that does not work is not kept.
fn check_imports(python: &Path, pair: &Pair) -> anyhow::Result<()> {
    let mut import = Command::new(python);
    import.args(["-c", "import sys, importlib.metadata as m, vllm_omni.core.sched.omni_ar_scheduler\nsys.exit(m.version('vllm-omni') != sys.argv[1])", pair.omni]);
    // What it cannot find, such as compiled kernels, it says at length; that matters only if it fails.
    command::run_quietly(import.envs([("VLLM_TARGET_DEVICE", "cpu"), ("HF_HUB_OFFLINE", "1")]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vllm_needs_a_python_of_the_last_years() {
        for (version, expected) in
            [("3.10", true), ("3.13", true), ("3.9", false), ("2.7", false), ("4.0", false), ("", false)]
        {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }

    #[test]
    fn every_pair_has_a_folder_of_its_own() {
        let folders: std::collections::BTreeSet<String> =
            PAIRS.iter().map(|pair| pair.tool.folder()).collect();
        assert_eq!(folders.len(), PAIRS.len());
        assert!(folders.contains("vllm-omni-0.32.0rc1"), "{folders:?}");
    }
}
