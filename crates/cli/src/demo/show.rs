//! What the demo prints at its end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use stagespan_otel::{Account, Layer};

use super::destination;
use super::plan::Plan;
use crate::arguments::DemoArguments;
use crate::figures::ScenarioFigures;
use crate::json::{Report, TraceDestination};
use crate::render::{DIM, STRONG, comparison, cut, paint, stage_table, waterfall};
use crate::replay::Replay;

/// The longest list of stage names in the first line.
const STAGES_WIDTH_MAX: usize = 52;

/// Prints everything: JSON or text.
///
/// # Errors
/// Standard output can't be written to; that nobody reads any more is none.
pub(super) fn all(
    arguments: &DemoArguments,
    plan: &Plan,
    layer: &Layer,
    scenarios: &[ScenarioFigures],
) -> io::Result<()> {
    let account = layer.is_on().then(|| layer.stats());
    let destination = destination::of(layer, &plan.tracing);
    let text = if arguments.json {
        let report = Report::new(scenarios, account.as_ref(), &destination);
        serde_json::to_string(&report).map_err(io::Error::other)? + "\n"
    } else {
        text(&plan.replay, scenarios, account.as_ref(), &destination)
    };
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn text(
    replay: &Replay,
    scenarios: &[ScenarioFigures],
    account: Option<&Account>,
    destination: &TraceDestination,
) -> String {
    let mut out = first_line(replay, scenarios);
    let comparison = comparison(scenarios);
    if !comparison.is_empty() {
        out += &format!("\n{comparison}");
    }
    for scenario in scenarios {
        out.push('\n');
        out += &scenario_text(scenario);
    }
    out.push('\n');
    if let Some(account) = account {
        out += &format!("spans    {account}\n");
    }
    out += &destination_text(destination, scenarios);
    out
}

fn first_line(replay: &Replay, scenarios: &[ScenarioFigures]) -> String {
    let Some(scenario) = scenarios.first() else { return String::new() };
    let count = scenario.stages.len();
    let names = scenario.stages.iter().map(|s| cut(&s.name)).collect::<Vec<_>>().join(" → ");
    let names = if names.chars().count() > STAGES_WIDTH_MAX { String::new() } else { format!("   {names}") };
    let requests = replay.arrivals.len();
    let speed = speed(replay.speed);
    format!(
        "{}{names}   {requests} arrivals ×{speed}   {count} stage processes\n",
        paint(STRONG, "stagespan demo")
    )
}

/// A speed with at most three significant digits.
fn speed(speed: f64) -> String {
    // 2 from 1 to 9.99, one more for each power of ten below, one less above; `as` saturates.
    let decimals = (2.0 - speed.log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{speed:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn scenario_text(scenario: &ScenarioFigures) -> String {
    let mut out = String::new();
    let slowest = scenario.focus().and_then(|(stage_id, _)| scenario.slowest_on(stage_id));
    let name = paint(STRONG, cut(&scenario.name));
    if let Some(request) = slowest {
        // Writing to a String can't fail.
        let _ = writeln!(out, "{name}, request {} on each stage", cut(&request.id));
        out += &waterfall(scenario, request);
        out.push('\n');
    }
    let _ = writeln!(out, "{name}, {} requests", scenario.requests.len());
    out += &stage_table(scenario);
    let mut errors = BTreeMap::new();
    for error in scenario.requests.iter().filter_map(|r| r.error) {
        *errors.entry(error).or_insert(0) += 1;
    }
    if !errors.is_empty() {
        let errors: Vec<String> = errors.into_iter().map(|(error, n)| format!("{n} {error}")).collect();
        let _ = writeln!(out, "  {}", paint(STRONG, format!("failed: {}", errors.join(", "))));
    }
    out
}

fn destination_text(destination: &TraceDestination, scenarios: &[ScenarioFigures]) -> String {
    match destination {
        TraceDestination::Off { reason } => format!("trace    none: {reason}\n"),
        TraceDestination::Console => "trace    above, on standard output\n".to_owned(),
        TraceDestination::File { path } => {
            let hint = "Jaeger's UI shows it by Upload. Or set OTEL_EXPORTER_OTLP_ENDPOINT and run again.";
            format!("trace    {}\n         {}\n", paint(STRONG, path), paint(DIM, hint))
        }
        TraceDestination::Receiver { endpoint, service, jaeger_ui_guess } => {
            let mut out = format!("trace    sent to {}\n", paint(STRONG, endpoint));
            if let Some(ui) = jaeger_ui_guess {
                out += &jaeger_text(ui, service, scenarios);
            }
            out
        }
    }
}

/// Where to look, if there is a Jaeger.
fn jaeger_text(ui: &str, service: &str, scenarios: &[ScenarioFigures]) -> String {
    let guess = "A guess, for a Jaeger there with its usual ports: the slowest requests, and all.";
    let mut out = format!("         {}\n", paint(DIM, guess));
    for scenario in scenarios {
        let slowest = scenario.focus().and_then(|(stage_id, _)| scenario.slowest_on(stage_id));
        if let Some(trace_id) = slowest.and_then(|request| request.trace_id.as_deref()) {
            let _ = writeln!(out, "         {ui}/trace/{trace_id}   {}", cut(&scenario.name));
        }
    }
    // Any other name would have to be encoded, and nobody can read that.
    if service.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b)) {
        let _ = writeln!(out, "         {ui}/search?service={service}");
    }
    out
}

#[cfg(test)]
mod tests;
