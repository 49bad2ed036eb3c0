//! The trace file: one OTLP JSON object at any time.

#![allow(clippy::unwrap_used, reason = "what can't be read fails the test")]

mod support;

use std::fs;
use std::time::Duration;

use serde_json::Value;
use stagespan_otel::{Config, Environment, Layer, Output, StartError, TraceOutput, resource};
use support::{Pipeline, SPANS_PER_REQUEST, start};

const AMPLE: Duration = Duration::from_secs(60);

fn config(path: &std::path::Path) -> Config {
    let own = resource::detect_process(&Environment::default());
    Config::new(Output::OtlpJsonFile(path.to_owned()), "stagespan-test", own)
}

fn read(path: &std::path::Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn spans(file: &Value) -> Vec<&Value> {
    let resources = file["resourceSpans"].as_array().unwrap();
    let scopes = resources.iter().flat_map(|resource| resource["scopeSpans"].as_array().unwrap());
    scopes.flat_map(|scope| scope["spans"].as_array().unwrap()).collect()
}

#[test]
fn it_is_whole_at_any_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.json");
    fs::write(&path, "something longer that was there before").unwrap();
    let layer = start(config(&path));
    assert_eq!(layer.output(), TraceOutput::File(path.clone()));
    assert_eq!(spans(&read(&path)).len(), 0, "before the first span");
    let pipeline = Pipeline::new(&layer);
    for round in 1..=3 {
        pipeline.run_requests(7);
        layer.flush(AMPLE).unwrap();
        // No shutdown has been asked for: this is what a killed program leaves.
        assert_eq!(spans(&read(&path)).len() as u64, round * 7 * SPANS_PER_REQUEST);
    }
    layer.shutdown(AMPLE).unwrap();
    assert!(layer.stats().is_complete());
}

#[test]
fn its_fields_are_those_of_otlp_json() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.json");
    let layer = start(config(&path));
    Pipeline::new(&layer).run_request("r1");
    layer.shutdown(AMPLE).unwrap();
    let file = read(&path);
    let hex = |value: &Value, len: usize| {
        let text = value.as_str().unwrap();
        text.len() == len && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let spans = spans(&file);
    assert_eq!(spans.len() as u64, SPANS_PER_REQUEST);
    for span in &spans {
        assert!(hex(&span["traceId"], 32) && hex(&span["spanId"], 16), "{span}");
        let ns = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        assert!(ns("startTimeUnixNano") > 1_700_000_000_000_000_000, "{span}");
        assert!(ns("endTimeUnixNano") > ns("startTimeUnixNano"), "{span}");
        let kind = if span["name"] == "request" { 2 } else { 1 };
        assert_eq!(span["kind"].as_u64(), Some(kind), "{span}");
        for attribute in span["attributes"].as_array().unwrap() {
            if let Some(int) = attribute["value"].get("intValue") {
                assert!(int.is_string(), "64-bit integers are strings: {attribute}");
            }
        }
    }
    let request = spans.iter().find(|span| span["name"] == "request").unwrap();
    let talker = spans.iter().find(|span| span["name"] == "stage talker").unwrap();
    assert_eq!(talker["parentSpanId"], request["spanId"]);
    let thinker = spans.iter().find(|span| span["name"] == "stage thinker").unwrap();
    assert_eq!(talker["links"][0]["spanId"], thinker["spanId"]);
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let path = std::path::Path::new("/nonexistent-directory/trace.json");
    let clock = std::sync::Arc::new(stagespan_model::SystemClock::new());
    let error = Layer::start(config(path), clock).unwrap_err();
    assert!(matches!(error, StartError::Output(_)));
    assert!(error.to_string().contains("/nonexistent-directory/trace.json"), "{error}");
}
