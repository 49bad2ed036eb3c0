use proptest::prelude::*;
use stagespan_otel::{Config, Environment, ProbeOutcome};

use super::*;
use crate::doctor::examine;

fn report(pairs: &[(&str, &str)]) -> Report {
    let pairs = pairs.iter().map(|&(name, value)| (name, value));
    examine(Config::from_environment(&Environment::from_pairs(pairs)))
}

fn plain_text(report: &Report) -> String {
    anstream::adapter::strip_str(&text(report)).to_string()
}

#[test]
fn off() {
    let report = report(&[]);
    assert_eq!(report.state(), State::Off);
    let text = plain_text(&report);
    assert!(text.starts_with("tracing           off (none of OTEL_TRACES_EXPORTER,"), "{text}");
    assert!(text.ends_with("\ncontact           not tried: nothing is traced\n"), "{text}");
}

#[test]
fn errors_and_warnings_say_what_to_do() {
    let report = report(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"),
        ("STAGESPAN_TRACE_SHAPE", "knotted\u{1b}[31m"),
    ]);
    assert_eq!(report.state(), State::Misconfigured);
    let text = plain_text(&report);
    for part in [
        "error             OTEL_EXPORTER_OTLP_ENDPOINT=\"localhost:4318\" is not",
        "warning           STAGESPAN_TRACE_SHAPE=",
        "  so              using auto",
        "not tried, for the errors above",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn a_warning_changes_no_state() {
    let report = report(&[("OTEL_TRACES_EXPORTER", "console"), ("STAGESPAN_TRACE_SHAPE", "knotted")]);
    assert_eq!((report.warnings.len(), report.state()), (1, State::Ok));
}

#[test]
fn the_gravest_state_counts() {
    let mut report = report(&[("OTEL_TRACES_EXPORTER", "console")]);
    let table = [
        (ProbeCause::Ok, State::Ok),
        (ProbeCause::Refused, State::Unreachable),
        (ProbeCause::Unauthorized, State::Unreachable),
        (ProbeCause::Unusable, State::Misconfigured),
    ];
    for (cause, state) in table {
        report.contact = Some(ProbeOutcome { cause, detail: "what".to_owned(), remedy: "do".to_owned() });
        assert_eq!(report.state(), state, "{cause:?}");
        let text = plain_text(&report);
        let is_good = cause == ProbeCause::Ok;
        assert!(text.contains(if is_good {
            "contact           ok: what"
        } else {
            "contact           failed: what"
        }));
        assert_eq!(text.contains("try               do"), !is_good, "{text}");
    }
}

proptest! {
    #[test]
    fn nothing_is_wider_than_the_screen(
        service in "\\PC{0,300}",
        shape in ".{0,200}",
        detail in "(\\PC{0,30} ){0,20}\\PC{0,200}",
    ) {
        let mut report = report(&[
            ("OTEL_TRACES_EXPORTER", "console"),
            ("OTEL_SERVICE_NAME", &service),
            ("STAGESPAN_TRACE_SHAPE", &shape),
        ]);
        report.contact = Some(ProbeOutcome { cause: ProbeCause::Answered, detail, remedy: shape });
        for line in plain_text(&report).split('\n') {
            prop_assert!(line.chars().count() <= COLUMNS_MAX, "{line:?}");
            prop_assert!(!line.contains(char::is_control), "{line:?}");
        }
    }
}
