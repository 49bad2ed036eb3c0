//! Counting instructions: this program runs again under valgrind's callgrind, which counts only inside one function.

use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// Instructions that this program executes inside `function` and what it calls, when run with `arguments`.
///
/// # Errors
/// If valgrind cannot be run, the program fails, or nothing was counted.
pub(crate) fn count(function: &str, arguments: &[&str]) -> anyhow::Result<u64> {
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg(format!("--toggle-collect=*{function}*"))
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .context("valgrind did not start; it comes with the Debian package `valgrind`")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "valgrind ended with {}: {text}", output.status);
    let counted = collected(&text).with_context(|| format!("callgrind said no count: {text}"))?;
    ensure!(counted > 0, "callgrind never came into `{function}`");
    Ok(counted)
}

/// The number after `Collected :` in callgrind's closing words.
fn collected(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.split_once("Collected :"))?.1;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_the_closing_words() {
        let text = "==7== Events    : Ir\n==7== Collected : 123456\n==7== \n==7== I   refs:      123,456\n";
        assert_eq!(collected(text), Some(123_456));
        assert_eq!(collected("==7== Events    : Ir\n"), None);
    }
}
