//! Child processes: their output is passed through untouched, and what was run is shown first.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, bail};

/// Runs a command to its end with our own standard output and error.
///
/// # Errors
/// If it cannot be started, or ends with anything but exit code 0.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = shown(command);
    println!("$ {shown}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("`{shown}` did not start"))?;
    if !status.success() {
        bail!("`{shown}` ended with {status}");
    }
    Ok(())
}

/// Runs a command whose output matters only if it fails: then all of it is shown.
///
/// # Errors
/// If it cannot be started, or ends with anything but exit code 0.
pub(crate) fn run_quietly(command: &mut Command) -> anyhow::Result<()> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("`{shown}` did not start"))?;
    if !output.status.success() {
        eprintln!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        bail!("`{shown}` ended with {}", output.status);
    }
    Ok(())
}

/// Runs a command for what it prints, which is all that stands on standard output, and ends as it does.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn run_for_its_output(command: &mut Command) -> anyhow::Result<ExitCode> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("`{shown}` did not start"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The standard output of a command that is expected to be short; its standard error is passed through.
///
/// # Errors
/// If it cannot be started, ends with anything but exit code 0, or prints something that is not UTF-8.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = shown(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("`{shown}` did not start"))?;
    if !output.status.success() {
        bail!("`{shown}` ended with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed something other than UTF-8"))
}

/// Whether a program of this name can be started at all. What it says to `argument` does not matter.
pub(crate) fn exists(program: &str, argument: &str) -> bool {
    let started = Command::new(program)
        .arg(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    !matches!(started, Err(error) if error.kind() == ErrorKind::NotFound)
}

/// Takes every variable from a command's environment that would switch on or change tracing: what a developer has set
/// for their own work shall not decide whether a test passes.
pub(crate) fn without_tracing_variables(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if is_tracing_variable(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    command
}

fn is_tracing_variable(name: &str) -> bool {
    name.starts_with("OTEL_") || (name.starts_with("STAGESPAN_") && name != "STAGESPAN_CACHE")
}

/// Cargo, the one that runs us where there is one, in the workspace's root.
pub(crate) fn cargo(root: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root);
    command
}

/// The command as a person would type it, without the program's folder.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args()).map(OsStr::to_string_lossy);
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_a_person_would_type() {
        let mut command = Command::new("/usr/lib/cargo");
        command.args(["test", "--workspace"]);
        assert_eq!(shown(&command), "cargo test --workspace");
    }

    #[test]
    fn an_exit_code_other_than_zero_is_an_error_that_names_the_command() {
        let error = run(Command::new("false").arg("x")).expect_err("false fails");
        assert!(error.to_string().starts_with("`false x` ended with exit status: 1"), "{error}");
        run(&mut Command::new("true")).expect("true succeeds");
    }

    #[test]
    fn a_quiet_command_fails_like_any_other() {
        let error = run_quietly(Command::new("false").arg("x")).expect_err("false fails");
        assert!(error.to_string().starts_with("`false x` ended with exit status: 1"), "{error}");
        run_quietly(&mut Command::new("true")).expect("true succeeds");
    }

    #[test]
    fn tracing_variables_are_known_by_their_names() {
        for name in ["OTEL_SDK_DISABLED", "OTEL_EXPORTER_OTLP_ENDPOINT", "STAGESPAN_TRACE_SHAPE"] {
            assert!(is_tracing_variable(name), "{name}");
        }
        for name in ["STAGESPAN_CACHE", "PATH", "CARGO_TARGET_DIR"] {
            assert!(!is_tracing_variable(name), "{name}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_told_from_one_that_fails() {
        assert!(!exists("no-program-has-this-name", "--version"));
        assert!(exists("false", "--version"));
        let error = run(&mut Command::new("no-program-has-this-name")).expect_err("it is not there");
        assert!(error.to_string().contains("did not start"), "{error}");
    }
}
