//! The report for people, on one screen.

use anstyle::Style;
use stagespan_otel::{Finding, ProbeCause, Setting};

use super::report::{Report, State};
use crate::render::{BAD, COLUMNS_MAX, DIM, GOOD, STRONG, WARNING, paint};

/// Where the second column begins.
const LABEL_COLUMNS: usize = 18;
const TEXT_COLUMNS: usize = COLUMNS_MAX - LABEL_COLUMNS;
/// The widest column of values; a longer one has its source below.
const VALUE_COLUMNS: usize = 40;

/// The whole report.
pub(super) fn text(report: &Report) -> String {
    let mut out = String::new();
    match &report.off {
        Some(reason) => block(&mut out, "tracing", STRONG, &format!("off ({reason})")),
        None if report.errors.is_empty() => block(&mut out, "tracing", STRONG, "on"),
        None => block(&mut out, "tracing", BAD, "off: the configuration can't be used"),
    }
    settings(&mut out, &report.settings);
    block(
        &mut out,
        "clock",
        Style::new(),
        &format!("domain {}, this process and its local stages", report.clock_domain),
    );
    for (findings, label, style) in [(&report.errors, "error", BAD), (&report.warnings, "warning", WARNING)] {
        for finding in findings {
            out.push('\n');
            block(&mut out, label, style, &found(finding));
            block(&mut out, "  so", Style::new(), &finding.remedy);
        }
    }
    out.push('\n');
    contact(&mut out, report);
    out
}

fn contact(out: &mut String, report: &Report) {
    let Some(contact) = &report.contact else {
        let why = match report.state() {
            State::Misconfigured => "not tried, for the errors above",
            State::Off => "not tried: nothing is traced",
            State::Ok | State::Unreachable => "none needed: the spans go to no receiver",
        };
        return block(out, "contact", Style::new(), why);
    };
    if contact.cause == ProbeCause::Ok {
        return block(out, "contact", GOOD, &format!("ok: {}", contact.detail));
    }
    block(out, "contact", BAD, &format!("failed: {}", contact.detail));
    if !contact.remedy.is_empty() {
        block(out, "try", STRONG, &contact.remedy);
    }
}

fn found(finding: &Finding) -> String {
    let Finding { variable, value, problem, remedy: _ } = finding;
    match value {
        Some(value) => format!("{variable}={value:?} {problem}"),
        None => format!("{variable} {problem}"),
    }
}

fn settings(out: &mut String, settings: &[Setting]) {
    let shown: Vec<_> = settings.iter().map(|s| (s.name, plain(&s.value), s.source.to_string())).collect();
    let widths = shown.iter().map(|(_, value, _)| value.chars().count());
    let width = widths.filter(|&width| width <= VALUE_COLUMNS).max().unwrap_or(0);
    for (name, value, source) in &shown {
        let source = cut(source, TEXT_COLUMNS - VALUE_COLUMNS - 2);
        let source = paint(DIM, source);
        let name = cut(name, LABEL_COLUMNS - 1);
        if value.chars().count() <= width {
            *out += &format!("{name:<LABEL_COLUMNS$}{value:<width$}  {source}\n");
        } else {
            let value = cut(value, TEXT_COLUMNS);
            *out += &format!("{name:<LABEL_COLUMNS$}{value}\n{:<LABEL_COLUMNS$}{source}\n", "");
        }
    }
}

/// A label, and a text beside it on as many lines as it needs.
fn block(out: &mut String, label: &str, style: Style, text: &str) {
    let mut label = label;
    for line in wrapped(&plain(text)) {
        *out += &format!("{label:<LABEL_COLUMNS$}{}\n", paint(style, line));
        label = "";
    }
}

/// Lines of whole words; a word that is too long for one is cut, since it is some value.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let word = cut(word, TEXT_COLUMNS);
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= TEXT_COLUMNS => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

fn cut(text: &str, columns: usize) -> String {
    match text.char_indices().nth(columns) {
        Some(_) => text.chars().take(columns - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// Without control characters: a value must not move the cursor.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests;
