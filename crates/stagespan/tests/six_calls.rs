//! The six calls, by what they export.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use stagespan::{
    Clock, Config, Door, End, Environment, Gate, Layer, ManualClock, StageOptions, TimelineEvent, Tracing,
};
use stagespan_otel::Activation;

/// Tracing into a file, on a clock moved by hand.
struct Run {
    clock: Arc<ManualClock>,
    tracing: Tracing,
    directory: tempfile::TempDir,
}

/// A span as its file has it: name, length in nanoseconds, attributes.
#[derive(Debug)]
struct Span {
    name: String,
    trace_id: String,
    length_ns: u64,
    attributes: BTreeMap<String, Value>,
}

impl Run {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let environment = Environment::default();
        let reading = Config::to_json_file(directory.path().join("trace.json"), &environment);
        let Activation::On(config) = reading.activation.unwrap() else { panic!("a file is on") };
        let clock = Arc::new(ManualClock::new(5_000));
        let layer = Layer::start(*config, Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
        let tracing = Tracing::new(layer, Arc::clone(&clock) as Arc<dyn Clock>, environment);
        Self { clock, tracing, directory }
    }

    fn spans(self) -> Vec<Span> {
        self.tracing.shutdown(Duration::from_secs(60)).unwrap();
        assert!(self.tracing.stats().is_complete(), "{}", self.tracing.stats());
        let text = std::fs::read_to_string(self.directory.path().join("trace.json")).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        let list = |value: &Value, key: &str| value[key].as_array().unwrap().clone();
        let spans = list(&file, "resourceSpans").into_iter().flat_map(|r| list(&r, "scopeSpans"));
        spans.flat_map(|scope| list(&scope, "spans")).map(|span| Span::read(&span)).collect()
    }
}

impl Span {
    fn read(span: &Value) -> Self {
        let ns = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        let attributes = span["attributes"].as_array().unwrap().iter();
        Self {
            name: span["name"].as_str().unwrap().to_owned(),
            trace_id: span["traceId"].as_str().unwrap().to_owned(),
            length_ns: ns("endTimeUnixNano") - ns("startTimeUnixNano"),
            attributes: attributes
                .map(|a| {
                    let value = a["value"].as_object().unwrap().values().next().unwrap().clone();
                    (a["key"].as_str().unwrap().to_owned(), value)
                })
                .collect(),
        }
    }

    fn text(&self, key: &str) -> &str {
        self.attributes.get(key).and_then(Value::as_str).unwrap_or("-")
    }
}

fn span<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name} in {spans:?}");
    found[0]
}

#[test]
fn a_request_through_two_stages() {
    let run = Run::new();
    let thinker = run.tracing.stage(StageOptions::new(0, "thinker")).unwrap();
    let talker = run.tracing.stage(StageOptions::new(1, "talker").gate(Gate::AsyncChunk)).unwrap();
    let mut request = run.tracing.request("r1", [], Door::Http);
    let for_thinker = thinker.assign(&mut request, &[]);
    let for_talker = talker.assign(&mut request, &[thinker.name()]);

    let mut first = thinker.enqueue("r1", &for_thinker);
    let mut second = talker.enqueue("r1", &for_talker);
    first.input_tokens(374);
    run.clock.advance_ns(10);
    first.scheduled();
    run.clock.advance_ns(90);
    first.tokens(1);
    second.input_ready_within(Duration::from_nanos(7));
    run.clock.advance_ns(30);
    second.scheduled();
    second.preempted();
    second.scheduled();
    run.clock.advance_ns(70);
    second.tokens(4);
    second.finish(End::Stop);
    first.finish(End::Length);
    request.end();

    let spans = run.spans();
    assert_eq!(span(&spans, "input_wait").length_ns, 100);
    assert_eq!(span(&spans, "input_wait").text("stagespan.input_wait.resolution_ns"), "7");
    assert_eq!(span(&spans, "ready_queued").length_ns, 30);
    assert_eq!(span(&spans, "queued").length_ns, 10);
    let talker = span(&spans, "stage talker");
    assert_eq!(talker.length_ns, 200);
    let expected = [
        ("stagespan.queued_ns", "130"),
        ("stagespan.prefill_ns", "70"),
        ("stagespan.preemption.count", "1"),
        ("stagespan.split", "measured"),
        ("stagespan.end", "stop"),
        ("stagespan.clock.source", "hook"),
        ("stagespan.tokens.output", "4"),
    ];
    for (key, value) in expected {
        assert_eq!(talker.text(key), value, "{key}");
    }
    assert_eq!(span(&spans, "stage thinker").text("stagespan.tokens.input"), "374");
    // One clock, one trace.
    assert!(spans.iter().all(|s| s.trace_id == talker.trace_id), "{spans:?}");
}

#[test]
fn a_dropped_request_ends_as_aborted() {
    let run = Run::new();
    let talker = run.tracing.stage(StageOptions::new(1, "talker").gate(Gate::FullPayload)).unwrap();
    let held = talker.enqueue("r1", &[]);
    run.clock.advance_ns(40);
    drop(held);
    let spans = run.spans();
    assert_eq!(span(&spans, "stage talker").text("error.type"), "aborted");
    assert_eq!(span(&spans, "input_wait").length_ns, 40);
    assert_eq!(span(&spans, "input_wait").attributes.get("stagespan.truncated"), Some(&Value::Bool(true)));
}

#[test]
fn calls_that_do_not_fit_are_counted_and_change_nothing() {
    let run = Run::new();
    let talker = run.tracing.stage(StageOptions::new(1, "talker").gate(Gate::AsyncChunk)).unwrap();
    let mut request = talker.enqueue("r1", &[]);
    request.preempted();
    request.tokens(1);
    request.input_ready();
    request.input_ready();
    request.scheduled();
    let bad = [("stagespan-span".to_owned(), "nonsense".to_owned())];
    talker.enqueue("r2", &bad).finish(End::Stop);
    request.finish(End::Stop);
    assert_eq!(talker.ignored(), 4);
    let stages = run.spans().iter().filter(|s| s.name == "stage talker").count();
    assert_eq!(stages, 2);
}

#[test]
fn an_engine_may_bring_its_own_instants() {
    let run = Run::new();
    let talker = run.tracing.stage(StageOptions::new(1, "talker").gate(Gate::AsyncChunk)).unwrap();
    let mut request = talker.enqueue("r1", &[]);
    let start = run.clock.now();
    request.apply(TimelineEvent::InputReady { at: start.plus_ns(5).unwrap(), resolution_ns: None });
    request.apply(TimelineEvent::Scheduled(start.plus_ns(9).unwrap()));
    run.clock.advance_ns(20);
    request.finish(End::Stop);
    let spans = run.spans();
    assert_eq!(span(&spans, "ready_queued").length_ns, 4);
    assert_eq!(span(&spans, "stage talker").text("stagespan.clock.source"), "events");
}

#[test]
fn requests_cross_threads() {
    let run = Run::new();
    let talker = run.tracing.stage(StageOptions::new(1, "talker").gate(Gate::AsyncChunk)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (talker, mut moved) = (talker.clone(), talker.enqueue(&format!("moved-{thread}"), &[]));
            scope.spawn(move || {
                moved.input_ready();
                moved.scheduled();
                moved.finish(End::Stop);
                for n in 0..50 {
                    talker.enqueue(&format!("{thread}-{n}"), &[]).finish(End::Stop);
                }
            });
        }
    });
    let stages = run.spans().iter().filter(|s| s.name == "stage talker").count();
    assert_eq!(stages, 4 * 51);
}

#[test]
fn off_costs_a_pointer_and_no_clock() {
    let tracing = Tracing::off();
    let talker = tracing.stage(StageOptions::new(1, "talker")).unwrap();
    let mut request = tracing.request("r1", [], Door::Call);
    assert_eq!(talker.assign(&mut request, &[]), []);
    let mut on_talker = talker.enqueue("r1", &[]);
    assert_eq!(size_of_val(&on_talker), size_of::<usize>());
    on_talker.scheduled();
    on_talker.finish(End::Stop);
    assert_eq!(tracing.stats().produced, 0);
    assert!(!tracing.is_on());
    assert!(tracing.stage(StageOptions::new(1, "No Name")).is_err());
}
