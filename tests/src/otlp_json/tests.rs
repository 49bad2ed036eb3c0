use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::*;

/// As a real Jaeger answered, shortened.
const FROM_JAEGER: &str = r#"{"resourceSpans": [{
    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "svc"}}]},
    "scopeSpans": [{"scope": {"name": "stagespan", "version": "0.1"}, "spans": [
        {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "traceState": "ot=rv:1",
         "flags": 257, "name": "a", "kind": 1, "startTimeUnixNano": "1700000000123456789",
         "endTimeUnixNano": "1700000000987654321",
         "attributes": [{"key": "i", "value": {"intValue": "5"}}, {"key": "d", "value": {"doubleValue": 5}}],
         "links": [{"traceId": "1af7651916cd43dd8448eb211c80319c", "spanId": "c7ad6b7169203331",
                    "attributes": [{"key": "stagespan.link", "value": {"stringValue": "request"}}]}],
         "status": {"message": "m", "code": 2}},
        {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203332",
         "parentSpanId": "b7ad6b7169203331", "name": "z", "kind": 1, "startTimeUnixNano": "1700000000123456789",
         "endTimeUnixNano": "1700000000123456790", "status": {},
         "attributes": [{"key": "@jaeger@warnings", "value": {"arrayValue": {"values": [{"stringValue": "w"}]}}}]}
    ]}]}]}"#;

fn parse_text(text: &str) -> anyhow::Result<Vec<Span>> {
    parse(&serde_json::from_str(text).expect("JSON"))
}

#[test]
fn reads_what_a_real_jaeger_answers() {
    let spans = parse_text(FROM_JAEGER).expect("OTLP");
    let [first, second] = &spans[..] else { panic!("two spans, not {}", spans.len()) };
    assert_eq!((first.start_ns, first.end_ns), (1_700_000_000_123_456_789, 1_700_000_000_987_654_321));
    assert_eq!(first.duration_ns(), Some(864_197_532));
    assert_eq!((first.parent.as_deref(), first.flags, first.kind), (None, 257, SpanKind::Internal));
    assert_eq!(first.status, Status::Error("m".to_owned()));
    assert_eq!((first.int("i"), first.int("d")), (Some(5), None), "an integer is not a double");
    assert_eq!(first.attributes["d"], Value::Double(5.0));
    assert_eq!((first.resource_str("service.name"), first.scope.as_str()), (Some("svc"), "stagespan"));
    assert_eq!(first.links[0].span_id, "c7ad6b7169203331");
    assert_eq!(first.links[0].attributes["stagespan.link"], Value::from("request"));
    assert_eq!(second.parent.as_deref(), Some("b7ad6b7169203331"));
    assert_eq!((second.warnings.as_slice(), second.attributes.len()), (&["w".to_owned()][..], 0));
    assert_eq!(second.status, Status::Unset);
}

#[test]
fn what_is_not_otlp_is_an_error_that_shows_it() {
    let cases = [
        (
            r#""0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331""#,
            r#""0AF", "spanId": "b""#,
            "\"0AF\"",
        ),
        (r#""kind": 1"#, r#""kind": 9"#, "kind 9"),
        (r#""1700000000123456789""#, r#""soon""#, "startTimeUnixNano is soon"),
        (r#"{"intValue": "5"}"#, r#"{"intValue": "9223372036854775808"}"#, "9223372036854775808"),
        (r#"{"intValue": "5"}"#, r#"{"kvlistValue": {}}"#, "does not know"),
        (r#"{"key": "d""#, r#"{"key": "i""#, "twice"),
        (r#""code": 2"#, r#""code": 3"#, "status code 3"),
    ];
    for (from, to, expected) in cases {
        assert!(FROM_JAEGER.contains(from), "{from}");
        let error = parse_text(&FROM_JAEGER.replacen(from, to, 1)).expect_err(expected);
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    }
}

#[test]
fn nothing_at_all_is_no_span() {
    assert_eq!(parse_text("{}").expect("an empty answer"), []);
}

fn any_value() -> impl Strategy<Value = Value> {
    let simple = prop_oneof![
        "[a-z \"é]{0,8}".prop_map(Value::Str),
        any::<i64>().prop_map(Value::Int),
        // Few enough digits that serde_json reads them exactly.
        any::<i32>().prop_map(|eighths| Value::Double(f64::from(eighths) / 8.0)),
        any::<bool>().prop_map(Value::Bool),
    ];
    prop_oneof![4 => simple.clone(), 1 => vec(simple, 0..3).prop_map(Value::Array)]
}

fn any_attributes() -> impl Strategy<Value = BTreeMap<String, Value>> {
    btree_map("[a-z.]{1,12}", any_value(), 0..4)
}

prop_compose! {
    fn any_link()(
        trace_id in "[0-9a-f]{32}",
        span_id in "[0-9a-f]{16}",
        trace_state in "(ot=rv:[0-9a-f]{14})?",
        flags in any::<u32>(),
        attributes in any_attributes(),
    ) -> Link {
        Link { trace_id, span_id, trace_state, flags, attributes }
    }
}

prop_compose! {
    fn any_span()(
        (trace_id, span_id, parent) in ("[0-9a-f]{32}", "[0-9a-f]{16}", option::of("[0-9a-f]{16}")),
        (trace_state, flags, name, scope) in ("(ot=rv:[0-9a-f]{14})?", any::<u32>(), "[a-z ]{0,9}", "[a-z]{0,9}"),
        kind in prop::sample::select(vec![
            SpanKind::Unspecified, SpanKind::Internal, SpanKind::Server,
            SpanKind::Client, SpanKind::Producer, SpanKind::Consumer,
        ]),
        (start_ns, end_ns) in any::<(u64, u64)>(),
        status in prop_oneof![
            Just(Status::Unset), Just(Status::Ok), "[a-z]{0,5}".prop_map(Status::Error),
        ],
        (attributes, resource) in (any_attributes(), any_attributes()),
        links in vec(any_link(), 0..3),
    ) -> Span {
        let warnings = Vec::new();
        Span {
            trace_id, span_id, parent, trace_state, flags, name, kind, start_ns, end_ns, status, attributes,
            links, resource, scope, warnings,
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back_equal(spans in vec(any_span(), 0..4)) {
        let text = export_request(&spans).to_string();
        prop_assert_eq!(parse_text(&text).expect("OTLP"), spans);
    }
}
