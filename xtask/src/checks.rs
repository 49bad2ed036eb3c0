//! Steps written here: each is a pure function over what it reads, so that the rule itself is tested.

pub(crate) mod arrows;
pub(crate) mod config_files;
pub(crate) mod layout;
pub(crate) mod toolchain;

use anyhow::bail;

use crate::report::Verdict;

/// Passes with `note` if nothing was found; otherwise shows each finding and fails with their number.
fn verdict(findings: &[String], note: String) -> anyhow::Result<Verdict> {
    for finding in findings {
        println!("{finding}");
    }
    match findings {
        [] => Ok(Verdict::Passed { note }),
        [one] => bail!("{one}"),
        [first, rest @ ..] => bail!("{first} (and {} more)", rest.len()),
    }
}
