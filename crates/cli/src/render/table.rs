//! The table of a scenario's stages.

use std::fmt::Write as _;

use super::bar::{Segment, bar};
use super::number::{CELL_WIDTH, duration_cell, percent};
use super::style::{DIM, INPUT_WAIT, READY_QUEUED, STRONG, paint};
use super::{cut, name_width};
use crate::figures::{Quantiles, ScenarioFigures, StageSummary};

/// Cells of the bar that shows a wait's share.
const SHARE_WIDTH: usize = 26;
/// The width of the longest name of a wait.
const WAIT_WIDTH: usize = "ready_queued".len();

/// Queued time and its two waits for each stage, each with what to make of it.
pub(crate) fn stage_table(scenario: &ScenarioFigures) -> String {
    let summaries = scenario.summaries();
    let width = name_width(summaries.iter().map(|s| s.stage.name.as_str())).max("stage".len());
    let mut out = String::new();
    let head = format!(
        "  {:<width$}  {:<WAIT_WIDTH$}  {:<CELL_WIDTH$}  {:<CELL_WIDTH$}  {:<CELL_WIDTH$}  {}",
        "stage", "", " p50", " p95", " max", "of all its queueing"
    );
    push_line(&mut out, &paint(DIM, head));
    for summary in &summaries {
        stage_lines(&mut out, summary, width);
    }
    out
}

fn stage_lines(out: &mut String, summary: &StageSummary<'_>, width: usize) {
    let name = format!("{:<width$}", cut(&summary.stage.name));
    push_line(out, &format!("  {}  {}", paint(STRONG, name), wait_cells("queued", summary.queued)));
    if let (Some(input), Some(ready)) = (summary.input_wait, summary.ready_queued) {
        let share = summary.verdict.input_share;
        let waits = [
            ("input_wait", input, share, '░', INPUT_WAIT),
            ("ready_queued", ready, share.map(|s| 1.0 - s), '▒', READY_QUEUED),
        ];
        for (wait, quantiles, share, fill, style) in waits {
            let share = share.map(|share| {
                // A share is 0 to 1, so this is 0 to 10⁹; what there is at all has some length.
                let length = (share * 1e9).ceil() as u64;
                let rest =
                    Segment { length: 1_000_000_000_u64.saturating_sub(length), fill: ' ', style: DIM };
                let bar = bar(&[Segment { length, fill, style }, rest], SHARE_WIDTH);
                format!("{:>7}  {bar}", percent(share))
            });
            push_line(
                out,
                &format!(
                    "  {:width$}  {}  {}",
                    "",
                    wait_cells(wait, Some(quantiles)),
                    share.unwrap_or_default()
                ),
            );
        }
    }
    let verdict = &summary.verdict;
    push_line(out, &format!("  {:width$}  {} {verdict}", "", paint(STRONG, "→")));
    if verdict.partly_unsplit() && verdict.input_share.is_some() {
        let (unsplit, all) = verdict.unsplit;
        let note = format!("{unsplit} of {all} requests ended before they could be split");
        push_line(out, &format!("  {:width$}    {}", "", paint(DIM, note)));
    }
}

fn wait_cells(wait: &str, quantiles: Option<Quantiles>) -> String {
    let cell = |part: fn(Quantiles) -> u64| duration_cell(quantiles.map(part));
    format!("{wait:<WAIT_WIDTH$}  {}  {}  {}", cell(|q| q.p50_ns), cell(|q| q.p95_ns), cell(|q| q.max_ns))
}

/// Appends a line without blanks at its end.
pub(super) fn push_line(out: &mut String, line: &str) {
    // Writing to a String can't fail.
    let _ = writeln!(out, "{}", line.trim_end());
}
