use anstream::adapter::strip_str;
use stagespan_model::{Absent, End, Split};

use super::*;
use crate::figures::samples;

/// As piped, checked for what holds of everything shown.
fn plain(styled: &str) -> String {
    let plain = strip_str(styled).to_string();
    for line in plain.lines() {
        let columns = line.chars().count();
        assert!(columns <= COLUMNS_MAX, "{columns} columns: {line}");
        assert_eq!(line, line.trim_end());
    }
    plain
}

#[test]
fn the_comparison() {
    let scenarios = [samples::cold_start(), samples::backlog()];
    insta::assert_snapshot!(plain(&comparison(&scenarios)));
}

#[test]
fn the_headline_claims_only_what_is_true() {
    let line = |scenarios: &[crate::figures::ScenarioFigures]| {
        plain(&comparison(scenarios)).lines().next().unwrap_or_default().to_owned()
    };
    let (cold, backlog) = (samples::cold_start(), samples::backlog());
    assert!(line(&[cold.clone(), backlog.clone()]).contains("about as long, for opposite reasons"));
    assert_eq!(line(&[cold.clone(), cold.clone()]), "The slowest talker request of each scenario.");
    let mut short = backlog;
    short.requests.truncate(5);
    assert!(line(&[cold.clone(), short]).ends_with("scenario: queued for opposite reasons."));
    assert_eq!(line(std::slice::from_ref(&cold)), "The slowest talker request.");
    let mut none = cold;
    none.requests.clear();
    assert_eq!(comparison(&[none]), "");
}

#[test]
fn the_stage_tables() {
    insta::assert_snapshot!("stage_table_cold_start", plain(&stage_table(&samples::cold_start())));
    insta::assert_snapshot!("stage_table_backlog", plain(&stage_table(&samples::backlog())));
}

#[test]
fn the_waterfalls() {
    for scenario in [samples::cold_start(), samples::backlog()] {
        let slowest = scenario.slowest_on(1).unwrap();
        let name = format!("waterfall_{}", scenario.name.replace('-', "_"));
        insta::assert_snapshot!(name, plain(&waterfall(&scenario, slowest)));
    }
}

#[test]
fn requests_that_did_not_go_well() {
    let mut scenario = samples::cold_start();
    scenario.stages[0].name = "a-stage-name-as-long-as-sixty-four-characters-make-it-to-be-sure".to_owned();
    let request = &mut scenario.requests[0];
    request.id = "a-request-id-that-is-very-long-indeed".to_owned();
    request.error = Some("input_timeout");
    let on_talker = &mut request.stages[1];
    on_talker.end = End::Timeout;
    let times = on_talker.times.as_mut().unwrap();
    times.queued_ns = None;
    times.split = Split::Absent(Absent::NotObserved);
    request.stages.pop();
    scenario.requests[1].stages[0].times = None;
    let (first, second) = (&scenario.requests[0], &scenario.requests[1]);
    let shown = [
        comparison(std::slice::from_ref(&scenario)),
        stage_table(&scenario),
        waterfall(&scenario, first),
        waterfall(&scenario, second),
    ];
    insta::assert_snapshot!(plain(&shown.join("\n")));
}

#[test]
fn a_run_without_requests_still_has_its_table() {
    let mut scenario = samples::backlog();
    scenario.requests.clear();
    insta::assert_snapshot!(plain(&stage_table(&scenario)));
}
