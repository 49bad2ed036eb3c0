use std::path::PathBuf;

use super::simulation::simulate;
use super::*;
use crate::arrivals;
use crate::figures::ScenarioFigures;

const S: u64 = 1_000_000_000;

/// `count` rows from `skip` on, as the demo replays them.
fn window(rows: &[Arrival], skip: usize, count: usize) -> Vec<Arrival> {
    crate::replay::take(&rows[skip..skip + count], Some(count), None).unwrap().arrivals
}

/// The slowest talker request's queued time, and the share of its input wait.
fn slowest(figures: &ScenarioFigures) -> (u64, f64) {
    let talker = figures.slowest_on(TALKER as u32).unwrap().on_stage(TALKER as u32).unwrap().times.unwrap();
    let queued_ns = talker.queued_ns.unwrap();
    (queued_ns, talker.split.input_wait_ns().unwrap() as f64 / queued_ns as f64)
}

fn both(arrivals: &[Arrival]) -> [(u64, f64); 2] {
    BuiltIn::ALL.map(|built_in| slowest(&simulate(&built_in.for_arrivals(arrivals).unwrap(), arrivals)))
}

/// The published trace `name`, if the data folder lies beside the checkout.
fn published(name: &str) -> Option<Vec<Arrival>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if !path.exists() {
        eprintln!("skipped: {} isn't there", path.display());
        return None;
    }
    Some(arrivals::read(&path).unwrap())
}

/// The scenarios show what they are for, with room to spare.
fn check(arrivals: &[Arrival], alike: f64, what: &str) {
    let [(cold_ns, cold_input), (backlog_ns, backlog_input)] = both(arrivals);
    assert!(cold_input >= 0.97, "{what}: cold start waits for input to {cold_input}");
    assert!(backlog_input <= 0.03, "{what}: backlog waits for input to {backlog_input}");
    let ratio = cold_ns.min(backlog_ns) as f64 / cold_ns.max(backlog_ns) as f64;
    assert!(ratio >= alike, "{what}: {cold_ns} ns and {backlog_ns} ns");
}

#[test]
fn the_embedded_rows_show_two_causes_of_one_queued_time() {
    let rows = arrivals::embedded().unwrap();
    for count in [60, 120, 300] {
        check(&window(&rows, 0, count), 0.75, &format!("{count} rows"));
    }
    let [(cold_ns, _), (backlog_ns, _)] = both(&window(&rows, 0, 120));
    assert!((6 * S..7 * S).contains(&cold_ns), "{cold_ns}");
    assert!((5 * S..7 * S).contains(&backlog_ns), "{backlog_ns}");
}

#[test]
fn so_do_other_published_rows() {
    for name in ["AzureLLMInferenceTrace_conv.csv", "AzureLLMInferenceTrace_code.csv"] {
        let Some(rows) = published(name) else { return };
        for skip in (0..rows.len() - 120).step_by(rows.len() / 10) {
            check(&window(&rows, skip, 120), 0.75, &format!("{name}, 120 rows from {skip}"));
        }
    }
}

#[test]
fn so_do_rows_of_odd_shapes() {
    let rows = |gap_ns: u64, prompt: u32, output: u32| -> Vec<Arrival> {
        let row = |n: u64| Arrival { at_ns: n * gap_ns, prompt_tokens: prompt, output_tokens: output };
        (0..120).map(row).collect()
    };
    // The last ones are more work than steps of the shortest length get done in the time.
    let table = [
        ("all at once", rows(0, 1_000, 200), 0.75),
        ("ten minutes apart", rows(600 * S, 1_000, 200), 0.75),
        ("one token each", rows(S / 10, 100, 1), 0.75),
        ("long prompts, short answers", rows(S / 2, 14_000, 8), 0.75),
        ("long answers", rows(S / 2, 10, 1_500), 0.25),
    ];
    for (what, rows, alike) in table {
        check(&window(&rows, 0, 120), alike, what);
    }
}

#[test]
fn the_simulation_tells_of_every_request_on_every_stage() {
    let rows = window(&arrivals::embedded().unwrap(), 0, 120);
    for built_in in BuiltIn::ALL {
        let figures = simulate(&built_in.for_arrivals(&rows).unwrap(), &rows);
        assert_eq!(figures.requests.len(), 120);
        for request in &figures.requests {
            assert_eq!(request.stages.len(), 3, "{}", request.id);
            for stage in &request.stages {
                let times = stage.times.unwrap();
                let waits = times.split.input_wait_ns().zip(times.split.ready_queued_ns());
                assert_eq!(waits.is_some(), stage.stage_id > 0);
                assert!(waits.is_none_or(|(input, ready)| Some(input + ready) == times.queued_ns));
            }
        }
    }
}

#[test]
fn the_two_pipelines_differ_in_start_and_slots_alone() {
    let rows = window(&arrivals::embedded().unwrap(), 0, 120);
    let [mut cold, backlog] = BuiltIn::ALL.map(|built_in| built_in.for_arrivals(&rows).unwrap().pipeline);
    assert_eq!((cold.stages[0].start_cost_ms, cold.stages[TALKER].max_num_seqs.get()), (6_000, 256));
    assert_eq!((backlog.stages[0].start_cost_ms, backlog.stages[TALKER].max_num_seqs.get()), (0, 2));
    cold.stages[0].start_cost_ms = 0;
    cold.stages[TALKER].max_num_seqs = backlog.stages[TALKER].max_num_seqs;
    assert_eq!(cold, backlog);
}

#[test]
fn the_files_carry_the_size_for_the_embedded_rows() {
    let rows = window(&arrivals::embedded().unwrap(), 0, 120);
    for built_in in BuiltIn::ALL {
        let file = Pipeline::parse(built_in.text(), built_in.name()).unwrap();
        assert_eq!(built_in.for_arrivals(&rows).unwrap().pipeline, file, "{}.toml", built_in.name());
    }
}

#[test]
fn a_file_is_run_as_it_is() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/backlog.toml");
    let scenario = Scenario::read(&path).unwrap();
    assert_eq!(scenario.name, "backlog");
    assert_eq!(scenario.pipeline, Pipeline::parse(BuiltIn::Backlog.text(), "").unwrap());
    let error = Scenario::read(&path.with_file_name("none.toml")).unwrap_err().to_string();
    assert!(error.contains("none.toml"), "{error}");
}
