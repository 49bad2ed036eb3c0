//! What a step can end as, and the summary of a run.

use std::fmt::Write as _;
use std::time::Duration;

/// How a step that did not fail came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything was checked. The note says what, where the step's name does not.
    Passed {
        /// Empty if the step's name says it all.
        note: String,
    },
    /// Nothing was checked.
    Skipped {
        /// Why, and what to do about it.
        reason: String,
    },
    /// Something was checked, and named parts could not be.
    Partly {
        /// What was checked.
        note: String,
        /// Each part that was not, with its reason.
        skipped: Vec<(String, String)>,
    },
}

impl Verdict {
    /// Passed, with nothing to add.
    pub(crate) fn passed() -> Self {
        Self::Passed { note: String::new() }
    }
}

/// How one line of the summary ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Ok,
    Failed,
    Skipped,
}

/// One line of the summary.
#[derive(Debug)]
struct Line {
    name: String,
    took: Duration,
    ending: Ending,
    why: String,
}

/// The results so far, in the order in which the steps ran.
#[derive(Debug, Default)]
pub(crate) struct Report {
    lines: Vec<Line>,
}

impl Report {
    /// Adds what became of a step.
    pub(crate) fn add(&mut self, name: &str, took: Duration, result: &anyhow::Result<Verdict>) {
        let (ending, why) = match result {
            Ok(Verdict::Passed { note } | Verdict::Partly { note, .. }) => (Ending::Ok, note.clone()),
            Ok(Verdict::Skipped { reason }) => (Ending::Skipped, reason.clone()),
            Err(error) => (Ending::Failed, format!("{error:#}")),
        };
        self.lines.push(Line { name: name.to_owned(), took, ending, why });
        if let Ok(Verdict::Partly { skipped, .. }) = result {
            for (part, reason) in skipped {
                self.lines.push(Line {
                    name: format!("{name}: {part}"),
                    took: Duration::ZERO,
                    ending: Ending::Skipped,
                    why: reason.clone(),
                });
            }
        }
    }

    /// Whether the run as a whole passed. With `all`, a skip counts as a failure. A run without steps has proved
    /// nothing and does not pass.
    pub(crate) fn success(&self, all: bool) -> bool {
        !self.lines.is_empty() && self.count(Ending::Failed) == 0 && !(all && self.count(Ending::Skipped) > 0)
    }

    /// The summary: one line per step, then the count.
    pub(crate) fn render(&self, all: bool) -> String {
        let width = self.lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
        let mut text = String::from("summary\n");
        for line in &self.lines {
            let ending = match line.ending {
                Ending::Ok => "ok",
                Ending::Failed => "FAILED",
                Ending::Skipped => "skipped",
            };
            let seconds = line.took.as_secs_f64();
            // An error may span lines; the summary keeps one line per step, the whole text stood above.
            let why = line.why.lines().next().unwrap_or_default();
            let row = format!("  {ending:<7}  {:<width$}  {seconds:>7.1} s  {why}", line.name);
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", row.trim_end());
        }
        let (failed, skipped) = (self.count(Ending::Failed), self.count(Ending::Skipped));
        let total: f64 = self.lines.iter().map(|line| line.took.as_secs_f64()).sum();
        let _ =
            write!(text, "{} ok, {failed} failed, {skipped} skipped in {total:.1} s", self.count(Ending::Ok));
        if skipped > 0 {
            text.push_str(if all {
                "; with --all a skipped step counts as failed"
            } else {
                "; --all would take the skipped as failed"
            });
        }
        text.push_str(if self.success(all) { "\nPASSED\n" } else { "\nFAILED\n" });
        text
    }

    fn count(&self, ending: Ending) -> usize {
        self.lines.iter().filter(|line| line.ending == ending).count()
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn skipped(reason: &str) -> anyhow::Result<Verdict> {
        Ok(Verdict::Skipped { reason: reason.to_owned() })
    }

    #[test]
    fn a_skip_fails_the_run_only_with_all() {
        let mut report = Report::default();
        report.add("fmt", Duration::ZERO, &Ok(Verdict::passed()));
        assert!(report.success(false) && report.success(true));
        report.add("e2e", Duration::ZERO, &skipped("no go"));
        assert!(report.success(false));
        assert!(!report.success(true));
    }

    #[test]
    fn a_part_left_out_counts_as_a_skip() {
        let mut report = Report::default();
        let partly = Verdict::Partly {
            note: "jaeger".to_owned(),
            skipped: vec![("netns".to_owned(), "not allowed".to_owned())],
        };
        report.add("e2e", Duration::ZERO, &Ok(partly));
        assert!(report.success(false));
        assert!(!report.success(true));
        assert!(report.render(false).contains("skipped  e2e: netns"), "{}", report.render(false));
    }

    #[test]
    fn a_failure_fails_the_run_whatever_follows() {
        let mut report = Report::default();
        report.add("clippy", Duration::ZERO, &Err(anyhow!("exit status 101")));
        report.add("docs", Duration::ZERO, &Ok(Verdict::passed()));
        assert!(!report.success(false));
    }

    #[test]
    fn a_run_without_steps_does_not_pass() {
        assert!(!Report::default().success(false));
    }

    #[test]
    fn the_summary_names_every_step_its_time_and_its_reason() {
        let mut report = Report::default();
        report.add("fmt", Duration::from_millis(420), &Ok(Verdict::passed()));
        report.add("clippy", Duration::from_millis(65_040), &Err(anyhow!("ended with 101\nand more")));
        report.add("jaeger", Duration::ZERO, &skipped("`go` is not installed"));
        assert_eq!(
            report.render(true),
            "summary\n\
             \u{20} ok       fmt         0.4 s\n\
             \u{20} FAILED   clippy     65.0 s  ended with 101\n\
             \u{20} skipped  jaeger      0.0 s  `go` is not installed\n\
             1 ok, 1 failed, 1 skipped in 65.5 s; with --all a skipped step counts as failed\n\
             FAILED\n"
        );
    }
}
