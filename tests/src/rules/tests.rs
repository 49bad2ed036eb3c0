//! The rules themselves: a correct request passes, and each thing that could be wrong is found.

use std::collections::BTreeMap;

use super::*;
use crate::request_trace::{RequestTrace, group};
use crate::span::{Link, Span, SpanKind, Status, Value};

const START_NS: u64 = 1_700_000_000_000_000_000;
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn map(pairs: &[(&str, Value)]) -> BTreeMap<String, Value> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

/// Of a stage where `stage` is its number, else of the `request` span.
fn span(name: &str, id: &str, parent: Option<&str>, stage: Option<i64>, at: (u64, u64)) -> Span {
    let mut attributes = map(&[("stagespan.request.id", Value::from("r1"))]);
    if let Some(stage) = stage {
        attributes.insert("stagespan.stage.id".to_owned(), Value::from(stage));
        attributes.insert("stagespan.stage.replica_id".to_owned(), Value::from(0));
        let name = ["thinker", "talker"][stage as usize];
        attributes.insert("stagespan.stage.name".to_owned(), Value::from(name));
    }
    Span {
        trace_id: TRACE.to_owned(),
        span_id: id.to_owned(),
        parent: parent.map(str::to_owned),
        trace_state: String::new(),
        flags: 0x103,
        name: name.to_owned(),
        kind: SpanKind::Internal,
        start_ns: START_NS + at.0,
        end_ns: START_NS + at.1,
        status: Status::Unset,
        attributes,
        links: Vec::new(),
        resource: map(&[("host.id", Value::from("h")), ("ip", Value::from("h"))]),
        scope: "stagespan".to_owned(),
        warnings: Vec::new(),
    }
}

fn link(role: &str, to: &Span) -> Link {
    Link {
        trace_id: to.trace_id.clone(),
        span_id: to.span_id.clone(),
        trace_state: String::new(),
        flags: 0,
        attributes: map(&[("stagespan.link", Value::from(role))]),
    }
}

fn set(span: &mut Span, key: &str, value: impl Into<Value>) {
    span.attributes.insert(key.to_owned(), value.into());
}

/// A request on two stages of one clock: the talker waits 30 ns for its input, and is then scheduled at once.
fn joined() -> Vec<Span> {
    let request = span("request", "0000000000000001", None, None, (0, 100));
    let mut thinker = span("stage thinker", "0000000000000002", Some("0000000000000001"), Some(0), (5, 60));
    set(&mut thinker, "stagespan.split", "first_stage");
    set(&mut thinker, "stagespan.queued_ns", 7);
    let mut queued = span("queued", "0000000000000003", Some("0000000000000002"), Some(0), (5, 12));
    set(&mut queued, "stagespan.duration_ns", 7);
    let mut talker = span("stage talker", "0000000000000004", Some("0000000000000001"), Some(1), (6, 90));
    set(&mut talker, "stagespan.split", "measured");
    set(&mut talker, "stagespan.queued_ns", 30);
    set(&mut talker, "stagespan.input_wait_ns", 30);
    set(&mut talker, "stagespan.ready_queued_ns", 0);
    set(&mut talker, "stagespan.link.thinker", TRACE);
    talker.links = vec![link("upstream", &thinker)];
    let mut input_wait = span("input_wait", "0000000000000005", Some("0000000000000004"), Some(1), (6, 36));
    set(&mut input_wait, "stagespan.duration_ns", 30);
    let mut ready_queued =
        span("ready_queued", "0000000000000006", Some("0000000000000004"), Some(1), (36, 37));
    set(&mut ready_queued, "stagespan.duration_ns", 0);
    vec![request, thinker, queued, talker, input_wait, ready_queued]
}

/// The same with the talker in a trace of its own.
fn linked() -> Vec<Span> {
    let mut spans = joined();
    let own_trace = "1af7651916cd43dd8448eb211c80319c";
    for span in &mut spans[3..] {
        span.trace_id = own_trace.to_owned();
    }
    spans[3].parent = None;
    let to_request = link("request", &spans[0]);
    spans[3].links.push(to_request);
    set(&mut spans[3], "stagespan.link.request", TRACE);
    let to_talker = link("stage", &spans[3]);
    spans[0].links.push(to_talker);
    set(&mut spans[0], "stagespan.link.talker", own_trace);
    spans
}

fn upstream_of(stage: &str) -> Vec<&'static str> {
    if stage == "talker" { vec!["thinker"] } else { Vec::new() }
}

fn check(spans: &[Span]) -> anyhow::Result<Vec<RequestTrace>> {
    let requests = group(spans)?;
    for request in &requests {
        check_request(request)?;
        check_links(request, upstream_of)?;
    }
    check_resolve(spans)?;
    Ok(requests)
}

#[test]
fn a_correct_request_passes_in_either_shape() {
    for spans in [joined(), linked()] {
        let requests = check(&spans).expect("correct");
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].stages.len(), 2);
        assert_eq!(requests[0].spans().count(), 6);
        assert_eq!(
            requests[0].stage("talker").and_then(|talker| talker.child("ready_queued")),
            Some(&spans[5])
        );
    }
}

#[test]
fn each_thing_that_could_be_wrong_is_found() {
    type Break = fn(&mut Vec<Span>);
    let cases: &[(&str, Break)] = &[
        ("not inside", |spans| spans[3].end_ns = START_NS + 101),
        ("not inside", |spans| spans[2].start_ns -= 1),
        ("31 ns long, measured 30", |spans| spans[4].end_ns += 1),
        ("2 ns long, measured 0", |spans| spans[5].end_ns += 1),
        ("`ready_queued` begins at", |spans| {
            spans[5].start_ns += 1;
            spans[5].end_ns += 1;
        }),
        ("is not 31", |spans| set(&mut spans[3], "stagespan.queued_ns", 31)),
        ("no `ready_queued`", |spans| drop(spans.remove(5))),
        ("no `queued` child", |spans| drop(spans.remove(2))),
        ("no stagespan.input_wait_ns", |spans| drop(spans[3].attributes.remove("stagespan.input_wait_ns"))),
        ("not split, and yet", |spans| set(&mut spans[1], "stagespan.input_wait_ns", 0)),
        ("no stage is the parent", |spans| spans[5].parent = None),
        ("not exactly one", |spans| drop(spans.remove(0))),
        ("the parent is None", |spans| spans[1].parent = None),
        ("a stage has two spans", |spans| {
            let again = Span { span_id: "0000000000000009".to_owned(), ..spans[1].clone() };
            spans.push(again);
        }),
        ("another process", |spans| {
            spans[5].resource.insert("process.pid".to_owned(), Value::from(9));
        }),
        ("ip is not host.id", |spans| {
            for span in &mut spans[3..] {
                span.resource.insert("ip".to_owned(), Value::from("other"));
            }
        }),
        ("its own parent", |spans| {
            let to_parent = link("request", &spans[0]);
            spans[1].links.push(to_parent);
        }),
        ("`request` has 1 links, and 0", |spans| {
            let to_child = link("stage", &spans[1]);
            spans[0].links.push(to_child);
        }),
        ("links to upstream", |spans| spans[3].links.clear()),
        ("stagespan.link.thinker is", |spans| drop(spans[3].attributes.remove("stagespan.link.thinker"))),
        ("billed twice", |spans| set(&mut spans[1], "gen_ai.usage.input_tokens", 3)),
        ("has no stagespan.stage.name", |spans| drop(spans[4].attributes.remove("stagespan.stage.name"))),
        ("no request id", |spans| drop(spans[4].attributes.remove("stagespan.request.id"))),
    ];
    for (expected, break_it) in cases {
        let mut spans = joined();
        break_it(&mut spans);
        let error = check(&spans).expect_err(expected);
        assert!(format!("{error:#}").contains(expected), "expected {expected:?}, got {error:#}");
    }
}

#[test]
fn a_link_that_is_missing_or_leads_nowhere_is_found() {
    type Break = fn(&mut Vec<Span>);
    let cases: &[(&str, Break)] = &[
        ("`request` has 0 links, and 1", |spans| spans[0].links.clear()),
        ("links to `request`: []", |spans| drop(spans[3].links.pop())),
        ("leads to no stage", |spans| spans[0].links[0].span_id = "00000000000000ff".to_owned()),
        ("no link to thinker", |spans| spans[3].links[0].span_id = "00000000000000ff".to_owned()),
        ("stagespan.link.request is", |spans| drop(spans[3].attributes.remove("stagespan.link.request"))),
    ];
    for (expected, break_it) in cases {
        let mut spans = linked();
        break_it(&mut spans);
        let error = check(&spans).expect_err(expected);
        assert!(format!("{error:#}").contains(expected), "expected {expected:?}, got {error:#}");
    }
    let mut spans = linked();
    let nowhere = Link { span_id: "00000000000000ff".to_owned(), ..spans[0].links[0].clone() };
    spans[2].links.push(nowhere);
    assert!(check_resolve(&spans).expect_err("nowhere").to_string().contains("leads nowhere"));
}
