//! The point of the demo: two queued times that look alike, with opposite causes.

use stagespan_model::Split;

use super::bar::{Segment, bar};
use super::number::{duration, percent};
use super::style::{DIM, INPUT_WAIT, QUEUED, READY_QUEUED, STRONG, paint};
use super::table::push_line;
use super::{cut, name_width};
use crate::figures::{ScenarioFigures, Times};

/// Cells of a bar.
const BAR_WIDTH: usize = 34;
/// Queued times look alike if the shorter is at least this part of the longer, in percent.
const ALIKE_PERCENT: u128 = 75;

/// The slowest request of each scenario on the stage it is about.
pub(crate) fn comparison(scenarios: &[ScenarioFigures]) -> String {
    let mut out = String::new();
    let rows: Vec<_> = scenarios.iter().filter_map(|s| slowest(s).map(|row| (s, row))).collect();
    let Some((first, _)) = rows.first() else { return out };
    let stage = first.focus().map_or("", |(_, stage)| &stage.name);
    push_line(
        &mut out,
        &paint(STRONG, headline(stage, &rows.iter().map(|(_, (_, t))| *t).collect::<Vec<_>>())),
    );
    out.push('\n');
    let width = name_width(scenarios.iter().map(|s| s.name.as_str()));
    let longest_ns = rows.iter().filter_map(|(_, (_, times))| times.queued_ns).max().unwrap_or(0);
    for (scenario, (id, times)) in &rows {
        let name = paint(STRONG, format!("{:<width$}", cut(&scenario.name)));
        let queued = paint(STRONG, duration(times.queued_ns.unwrap_or(0)));
        push_line(&mut out, &format!("  {name}  request {} queued {queued}: {}", cut(id), scenario.cause));
        push_line(&mut out, &format!("  {:width$}  {}", "", waits(times, longest_ns)));
    }
    out
}

/// The waits of a request as a bar, on one scale with the longest of the scenarios: lengths may be
/// compared, whatever clock each was measured on.
fn waits(times: &Times, longest_ns: u64) -> String {
    let queued_ns = times.queued_ns.unwrap_or(0);
    let rest = Segment { length: longest_ns.saturating_sub(queued_ns), fill: ' ', style: DIM };
    match times.split {
        Split::Measured { input_wait_ns, ready_queued_ns } => {
            let segments = [
                Segment { length: input_wait_ns, fill: '░', style: INPUT_WAIT },
                Segment { length: ready_queued_ns, fill: '▒', style: READY_QUEUED },
                rest,
            ];
            let share =
                |part: u64| percent(if queued_ns == 0 { 0.0 } else { part as f64 / queued_ns as f64 });
            let input = format!("input_wait {:>7}", share(input_wait_ns));
            let ready = format!("ready_queued {:>7}", share(ready_queued_ns));
            format!(
                "{}  {}   {}",
                bar(&segments, BAR_WIDTH),
                paint(INPUT_WAIT, input),
                paint(READY_QUEUED, ready)
            )
        }
        Split::Absent(reason) => {
            let whole = Segment { length: queued_ns, fill: '▓', style: QUEUED };
            format!("{}  not split: {}", bar(&[whole, rest], BAR_WIDTH), reason.as_str())
        }
    }
}

fn slowest(scenario: &ScenarioFigures) -> Option<(&str, Times)> {
    let (stage_id, _) = scenario.focus()?;
    let request = scenario.slowest_on(stage_id)?;
    Some((&request.id, request.on_stage(stage_id)?.times?))
}

/// Says of the rows only what is true of them.
fn headline(stage: &str, rows: &[Times]) -> String {
    let [a, b] = rows else {
        return format!("The slowest {stage} request.");
    };
    let alike = |a: Option<u64>, b: Option<u64>| {
        let (Some(a), Some(b)) = (a, b) else { return false };
        u128::from(a.min(b)) * 100 >= u128::from(a.max(b)) * ALIKE_PERCENT
    };
    let mostly_input = |t: &Times| match t.split {
        Split::Measured { input_wait_ns, ready_queued_ns } => Some(input_wait_ns > ready_queued_ns),
        Split::Absent(_) => None,
    };
    let opposite = matches!((mostly_input(a), mostly_input(b)), (Some(a), Some(b)) if a != b);
    match (alike(a.queued_ns, b.queued_ns), opposite) {
        (true, true) => format!(
            "The slowest {stage} request of each scenario: queued about as long, for opposite reasons."
        ),
        (false, true) => {
            format!("The slowest {stage} request of each scenario: queued for opposite reasons.")
        }
        (_, false) => format!("The slowest {stage} request of each scenario."),
    }
}
