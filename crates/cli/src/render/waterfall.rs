//! One request, stage by stage, each stage on an axis of its own.

use stagespan_model::{End, Split};

use super::bar::{Segment, bar};
use super::number::duration;
use super::style::{DIM, INPUT_WAIT, QUEUED, READY_QUEUED, RUNNING, STRONG, paint};
use super::table::push_line;
use super::{cut, name_width};
use crate::figures::{RequestFigures, ScenarioFigures, StageFacts, StageFigures, Times};

/// Cells of a stage's axis.
const AXIS_WIDTH: usize = 60;

/// The wait whose end is a scheduler step's observation.
const INPUT: &str = "input_wait";
/// What must be said below axes of different clocks.
const NOTE: [&str; 2] = [
    "Each axis starts when its stage queued the request, on that stage's clock, at a scale of its own.",
    "The axes are not aligned with each other.",
];

/// A part of a request's time on a stage.
struct Part {
    name: &'static str,
    length_ns: u64,
    segment: Segment,
}

/// The request on each of its stages.
pub(crate) fn waterfall(scenario: &ScenarioFigures, request: &RequestFigures) -> String {
    let width = name_width(scenario.stages.iter().map(|s| s.name.as_str()));
    let mut out = String::new();
    for (stage_id, stage) in (0..).zip(&scenario.stages) {
        let name = paint(STRONG, format!("{:<width$}", cut(&stage.name)));
        match request.on_stage(stage_id) {
            Some(StageFigures { times: Some(times), end, .. }) => {
                let parts = parts(times);
                let segments: Vec<Segment> = parts.iter().map(|p| p.segment).collect();
                let axis = bar(&segments, AXIS_WIDTH);
                let blank = if axis.is_empty() { AXIS_WIDTH } else { 0 };
                let ordinary = matches!(end, End::Stop | End::Length);
                let end = if ordinary { String::new() } else { format!(", {}", paint(STRONG, end.as_str())) };
                push_line(
                    &mut out,
                    &format!("  {name}  {axis}{:blank$}  {}{end}", "", duration(times.total_ns)),
                );
                push_line(&mut out, &format!("  {:width$}  {}", "", legend(&parts, times, stage)));
            }
            Some(_) => push_line(&mut out, &format!("  {name}  {}", paint(DIM, "never queued here"))),
            None => push_line(&mut out, &format!("  {name}  {}", paint(DIM, "nothing was heard of it here"))),
        }
    }
    push_line(&mut out, &format!("  {}", paint(DIM, NOTE[0])));
    push_line(&mut out, &format!("  {}", paint(DIM, NOTE[1])));
    out
}

/// The parts of a request's time on a stage, in order.
fn parts(times: &Times) -> Vec<Part> {
    let part = |name, length_ns, fill, style| Part {
        name,
        length_ns,
        segment: Segment { length: length_ns, fill, style },
    };
    let mut parts = match (times.split, times.queued_ns) {
        (Split::Measured { input_wait_ns, ready_queued_ns }, _) => vec![
            part(INPUT, input_wait_ns, '░', INPUT_WAIT),
            part("ready_queued", ready_queued_ns, '▒', READY_QUEUED),
        ],
        (Split::Absent(_), Some(queued_ns)) => vec![part("queued", queued_ns, '▓', QUEUED)],
        // Never scheduled: all of its time was queueing.
        (Split::Absent(_), None) => vec![part("queued, never scheduled", times.total_ns, '▓', QUEUED)],
    };
    if let Some(queued_ns) = times.queued_ns {
        parts.push(part("running", times.total_ns.saturating_sub(queued_ns), '█', RUNNING));
    }
    parts
}

fn legend(parts: &[Part], times: &Times, stage: &StageFacts) -> String {
    let text = |part: &Part| {
        let sign = paint(part.segment.style, part.segment.fill);
        let text = format!("{sign} {} {}", part.name, duration(part.length_ns));
        match times.resolution_ns {
            // Only the AR gate's stamp has a bound, and only a longer wait has a use for it.
            Some(resolution_ns) if stage.is_ar && part.name == INPUT && resolution_ns < part.length_ns => {
                format!("{text} (≤ {} late)", duration(resolution_ns))
            }
            _ => text,
        }
    };
    parts.iter().map(text).collect::<Vec<_>>().join("  ")
}
