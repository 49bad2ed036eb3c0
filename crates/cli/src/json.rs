//! `--json`: every figure, for programs. Times are integers in nanoseconds; `null` is not measured,
//! 0 is measured.
//!
//! The schema's number changes when a field changes its meaning or goes; new fields may come.

use serde::Serialize;
use stagespan_otel::Account;

use crate::figures::{Quantiles, RequestFigures, ScenarioFigures, StageFigures, StageSummary};

/// The number of this schema.
const SCHEMA: u32 = 1;

/// The whole output.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    schema: u32,
    scenarios: Vec<Scenario<'a>>,
    /// What became of every span; `null` if nothing is traced.
    account: Option<&'a Account>,
    trace_output: &'a TraceDestination,
}

/// Where the trace went.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum TraceDestination {
    /// Nowhere.
    Off {
        /// Why.
        reason: String,
    },
    /// Into a file, as one OTLP JSON object.
    File {
        /// Its path.
        path: String,
    },
    /// To standard output.
    Console,
    /// To a receiver.
    Receiver {
        /// Its address, without user and password.
        endpoint: String,
        /// `service.name`.
        service: String,
        /// Where a Jaeger UI would be, if the receiver belongs to a Jaeger with its default ports.
        jaeger_ui_guess: Option<String>,
    },
}

#[derive(Debug, Serialize)]
struct Scenario<'a> {
    name: &'a str,
    cause: &'a str,
    requests: Vec<Request<'a>>,
    stages: Vec<Stage<'a>>,
}

#[derive(Debug, Serialize)]
struct Request<'a> {
    id: &'a str,
    trace_id: Option<&'a str>,
    error: Option<&'a str>,
    stages: Vec<RequestStage<'a>>,
}

#[derive(Debug, Serialize)]
struct RequestStage<'a> {
    name: &'a str,
    /// `measured`, or why there is no split.
    split: Option<&'a str>,
    queued_ns: Option<u64>,
    input_wait_ns: Option<u64>,
    ready_queued_ns: Option<u64>,
    /// QUEUED to the end.
    total_ns: Option<u64>,
    end: &'a str,
    tokens_in: u32,
    tokens_out: u32,
}

#[derive(Debug, Serialize)]
struct Stage<'a> {
    name: &'a str,
    queued: Option<Quantiles>,
    input_wait: Option<Quantiles>,
    ready_queued: Option<Quantiles>,
    /// The share of `input_wait` in all split queueing, 0 to 1.
    input_share: Option<f64>,
    /// Which wait dominates.
    verdict: &'static str,
    /// The same as a sentence, and where to look.
    advice: String,
}

impl<'a> Report<'a> {
    /// The report of a run.
    pub(crate) fn new(
        scenarios: &'a [ScenarioFigures],
        account: Option<&'a Account>,
        trace_output: &'a TraceDestination,
    ) -> Self {
        let scenarios = scenarios.iter().map(scenario).collect();
        Self { schema: SCHEMA, scenarios, account, trace_output }
    }
}

fn scenario(figures: &ScenarioFigures) -> Scenario<'_> {
    Scenario {
        name: &figures.name,
        cause: &figures.cause,
        requests: figures.requests.iter().map(|r| request(r, figures)).collect(),
        stages: figures.summaries().into_iter().map(stage).collect(),
    }
}

fn request<'a>(request: &'a RequestFigures, scenario: &'a ScenarioFigures) -> Request<'a> {
    Request {
        id: &request.id,
        trace_id: request.trace_id.as_deref(),
        error: request.error,
        stages: request.stages.iter().map(|s| request_stage(s, scenario)).collect(),
    }
}

fn request_stage<'a>(figures: &StageFigures, scenario: &'a ScenarioFigures) -> RequestStage<'a> {
    let StageFigures { stage_id, end, times, tokens_in, tokens_out } = *figures;
    RequestStage {
        name: scenario.stages.get(stage_id as usize).map_or("", |stage| &stage.name),
        split: times.map(|t| t.split.as_str()),
        queued_ns: times.and_then(|t| t.queued_ns),
        input_wait_ns: times.and_then(|t| t.split.input_wait_ns()),
        ready_queued_ns: times.and_then(|t| t.split.ready_queued_ns()),
        total_ns: times.map(|t| t.total_ns),
        end: end.as_str(),
        tokens_in,
        tokens_out,
    }
}

fn stage(summary: StageSummary<'_>) -> Stage<'_> {
    Stage {
        name: &summary.stage.name,
        queued: summary.queued,
        input_wait: summary.input_wait,
        ready_queued: summary.ready_queued,
        input_share: summary.verdict.input_share,
        verdict: summary.verdict.dominant.as_str(),
        advice: summary.verdict.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::figures::samples;

    fn value(scenarios: &[ScenarioFigures]) -> Value {
        let output = TraceDestination::File { path: "t.json".to_owned() };
        serde_json::to_value(Report::new(scenarios, Some(&Account::default()), &output)).unwrap()
    }

    #[test]
    fn the_schema() {
        let value = value(&[samples::cold_start(), samples::backlog()]);
        assert_eq!(value["schema"], 1);
        assert_eq!(value["trace_output"], json!({"kind": "file", "path": "t.json"}));
        assert_eq!(value["account"]["produced"], 0);
        let scenario = &value["scenarios"][0];
        assert_eq!(
            (&scenario["name"], scenario["requests"].as_array().unwrap().len()),
            (&json!("cold-start"), 20)
        );
        assert_eq!(
            scenario["requests"][0]["stages"][1],
            json!({
                "name": "talker", "split": "measured", "queued_ns": 6_080_030_000_u64, "input_wait_ns": 6_080_000_000_u64,
                "ready_queued_ns": 30_000, "total_ns": 6_900_030_000_u64, "end": "stop", "tokens_in": 374, "tokens_out": 44
            })
        );
        let thinker = &scenario["requests"][0]["stages"][0];
        assert_eq!((&thinker["split"], &thinker["input_wait_ns"]), (&json!("first_stage"), &Value::Null));
        let talker = &value["scenarios"][1]["stages"][1];
        assert_eq!((&talker["name"], &talker["verdict"]), (&json!("talker"), &json!("ready_queued")));
        for wait in ["queued", "input_wait", "ready_queued"] {
            for quantile in ["p50_ns", "p95_ns", "max_ns"] {
                assert!(talker[wait][quantile].is_u64(), "{wait}.{quantile}");
            }
        }
        assert_eq!(value["scenarios"][1]["stages"][0]["input_wait"], Value::Null);
    }

    #[test]
    fn an_unmeasured_time_is_null_and_a_measured_zero_is_zero() {
        let mut scenario = samples::backlog();
        scenario.requests[0].stages[0].times = None;
        let value = value(&[scenario]);
        let request = &value["scenarios"][0]["requests"][0];
        assert_eq!(
            (&request["stages"][0]["split"], &request["stages"][0]["queued_ns"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(request["stages"][2]["ready_queued_ns"], 0);
    }
}
