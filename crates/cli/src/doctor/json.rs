//! `doctor --json`, for programs.
//!
//! The schema's number changes when a field changes its meaning or goes; new fields may come.

use serde::Serialize;
use stagespan_otel::{Finding, ProbeOutcome, Setting, Source};

use super::report::Report;

const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    /// `off`, `ok`, `unreachable` or `misconfigured`.
    state: &'static str,
    /// Why nothing is traced; else `null`.
    off_reason: Option<&'a str>,
    settings: Vec<SettingJson<'a>>,
    errors: Vec<FindingJson<'a>>,
    warnings: Vec<FindingJson<'a>>,
    clock_domain: &'a str,
    /// `null` if no receiver was contacted.
    contact: Option<ContactJson<'a>>,
}

#[derive(Serialize)]
struct SettingJson<'a> {
    name: &'a str,
    value: &'a str,
    /// The variable that it comes from; `null` for a default.
    variable: Option<&'a str>,
}

#[derive(Serialize)]
struct FindingJson<'a> {
    variable: &'a str,
    /// `null` where it may be secret.
    value: Option<&'a str>,
    problem: &'a str,
    remedy: &'a str,
}

#[derive(Serialize)]
struct ContactJson<'a> {
    cause: &'static str,
    detail: &'a str,
    remedy: &'a str,
}

/// The report as one JSON object.
pub(super) fn of(report: &Report) -> String {
    let document = Document {
        schema: SCHEMA,
        state: report.state().as_str(),
        off_reason: report.off.as_deref(),
        settings: report.settings.iter().map(setting).collect(),
        errors: report.errors.iter().map(finding).collect(),
        warnings: report.warnings.iter().map(finding).collect(),
        clock_domain: &report.clock_domain,
        contact: report.contact.as_ref().map(|ProbeOutcome { cause, detail, remedy }| ContactJson {
            cause: cause.as_str(),
            detail,
            remedy,
        }),
    };
    // Texts and lists only: there is nothing in it that JSON can't hold.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

fn setting(setting: &Setting) -> SettingJson<'_> {
    let variable = match &setting.source {
        Source::Default => None,
        Source::Variable(name) => Some(name.as_str()),
    };
    SettingJson { name: setting.name, value: &setting.value, variable }
}

fn finding(finding: &Finding) -> FindingJson<'_> {
    let Finding { variable, value, problem, remedy } = finding;
    FindingJson { variable, value: value.as_deref(), problem, remedy }
}
