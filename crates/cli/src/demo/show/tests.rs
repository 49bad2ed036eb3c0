use anstream::adapter::strip_str;

use super::*;
use crate::arrivals::Arrival;
use crate::figures::samples;

fn replay() -> Replay {
    Replay { arrivals: vec![Arrival { at_ns: 0, prompt_tokens: 1, output_tokens: 1 }; 20], speed: 8.0 }
}

fn shown(scenarios: &[ScenarioFigures], destination: &TraceDestination) -> String {
    let account = Account { produced: 320, exported: 320, ..Account::default() };
    let text = strip_str(&text(&replay(), scenarios, Some(&account), destination)).to_string();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    text
}

#[test]
fn a_whole_run() {
    let file = TraceDestination::File { path: "stagespan-demo.json".to_owned() };
    insta::assert_snapshot!(shown(&[samples::cold_start(), samples::backlog()], &file));
}

#[test]
fn where_the_trace_went() {
    let scenarios = [samples::cold_start(), samples::backlog()];
    let end = |destination: &TraceDestination| {
        let text = shown(&scenarios, destination);
        text.lines()
            .skip_while(|line| !line.starts_with("trace "))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let receiver = TraceDestination::Receiver {
        endpoint: "http://localhost:4318/v1/traces".to_owned(),
        service: "stagespan".to_owned(),
        jaeger_ui_guess: Some("http://localhost:16686".to_owned()),
    };
    let off = TraceDestination::Off { reason: "--no-trace".to_owned() };
    insta::assert_snapshot!([end(&receiver), end(&off), end(&TraceDestination::Console)].concat());
}

#[test]
fn failed_requests_are_counted_by_reason() {
    let mut scenario = samples::backlog();
    scenario.requests[3].error = Some("rejected");
    scenario.requests[5].error = Some("stage_lost");
    scenario.requests[7].error = Some("rejected");
    let text = shown(&[scenario], &TraceDestination::Console);
    assert!(text.contains("\n  failed: 2 rejected, 1 stage_lost\n"), "{text}");
}

#[test]
fn nothing_ran() {
    let off = TraceDestination::Off { reason: "--no-trace".to_owned() };
    assert_eq!(strip_str(&text(&replay(), &[], None, &off)).to_string(), "\ntrace    none: --no-trace\n");
    let mut many = samples::backlog();
    many.stages = (0..64).map(|_| many.stages[1].clone()).collect();
    many.requests.clear();
    assert!(shown(&[many], &off).starts_with("stagespan demo   20 arrivals ×8   64 stage processes\n"));
}

#[test]
fn speeds() {
    let table =
        [(8.0, "8"), (0.5, "0.5"), (12.34, "12.3"), (80.0, "80"), (1_234.5, "1234"), (0.0012345, "0.00123")];
    for (value, expected) in table {
        assert_eq!(speed(value), expected);
    }
}
