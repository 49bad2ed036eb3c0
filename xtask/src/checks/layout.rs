//! Files of one idea: no Rust file over 400 lines, and no module whose name says nothing about what is inside.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use super::verdict;
use crate::command;
use crate::plan::Context;
use crate::report::Verdict;

/// The longest a file may be.
const LINES_MAX: usize = 400;

/// Names that collect what nobody found a place for.
const CATCH_ALL: [&str; 6] = ["util", "utils", "helper", "helpers", "common", "misc"];

/// Checks every Rust file that git has or would take.
///
/// # Errors
/// If a file breaks a rule or can't be read.
pub(crate) fn check(context: &Context) -> anyhow::Result<Verdict> {
    if !command::exists("git", "--version") || !context.root.join(".git").exists() {
        return Ok(Verdict::Skipped {
            reason: "not a git checkout, so git cannot list the files".to_owned(),
        });
    }
    let mut git = Command::new("git");
    git.current_dir(&context.root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = command::output(git.args(["--", "*.rs"]))?;
    let (mut findings, mut files) = (Vec::new(), 0);
    for name in listed.split_terminator('\0') {
        let path = context.root.join(name);
        // Listed, but deleted and not committed yet.
        if !path.exists() {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))?;
        files += 1;
        findings.extend(complaint(name, text.lines().count()));
    }
    verdict(&findings, format!("{files} files"))
}

/// What is wrong with a file of this path and length.
fn complaint(name: &str, lines: usize) -> Option<String> {
    if lines > LINES_MAX {
        return Some(format!("{name}: {lines} lines; split it by what it holds (at most {LINES_MAX})"));
    }
    let mut parts = Path::new(name).components().map(|part| part.as_os_str().to_string_lossy());
    let catch_all = parts.find(|part| CATCH_ALL.contains(&part.trim_end_matches(".rs")))?;
    Some(format!("{name}: `{catch_all}` says nothing about what is inside; name it after that"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_cases() {
        let cases = [
            ("crates/model/src/split.rs", 400, None),
            ("crates/model/src/split.rs", 401, Some("401 lines")),
            ("crates/model/src/util.rs", 3, Some("`util.rs` says nothing")),
            ("crates/model/src/common/clock.rs", 3, Some("`common` says nothing")),
            ("crates/model/src/helpers.rs", 3, Some("`helpers.rs` says nothing")),
            ("crates/model/src/utility_meter.rs", 3, None),
        ];
        for (name, lines, expected) in cases {
            let found = complaint(name, lines);
            match expected {
                None => assert_eq!(found, None),
                Some(part) => {
                    assert!(found.as_ref().is_some_and(|text| text.contains(part)), "{name}: {found:?}")
                }
            }
        }
    }
}
