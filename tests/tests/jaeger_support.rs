//! The test support itself, against the real Jaeger: what goes in comes out equal to the nanosecond.

use std::collections::BTreeMap;
use std::time::Duration;

use stagespan_tests::jaeger::{Jaeger, Options};
use stagespan_tests::otlp_json::export_request;
use stagespan_tests::span::{Link, Span, SpanKind, Status, Value};

const WITHIN: Duration = Duration::from_secs(20);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const ROOT: &str = "b7ad6b7169203331";

fn map(pairs: &[(&str, Value)]) -> BTreeMap<String, Value> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

fn span(span_id: &str, parent: Option<&str>, start_ns: u64, end_ns: u64) -> Span {
    Span {
        trace_id: TRACE.to_owned(),
        span_id: span_id.to_owned(),
        parent: parent.map(str::to_owned),
        trace_state: "ot=rv:6e6d1a75832a2f".to_owned(),
        flags: 0x103,
        name: format!("span {span_id}"),
        kind: SpanKind::Internal,
        start_ns,
        end_ns,
        status: Status::Unset,
        attributes: map(&[
            ("stagespan.input_wait_ns", Value::Int(9_007_199_254_740_993)),
            ("ratio", Value::Double(0.25)),
            ("shared", Value::Bool(false)),
            ("list", Value::Array(vec![Value::from("a"), Value::Int(2)])),
        ]),
        links: vec![Link {
            trace_id: "1af7651916cd43dd8448eb211c80319c".to_owned(),
            span_id: "c7ad6b7169203331".to_owned(),
            trace_state: String::new(),
            flags: 0,
            attributes: map(&[("stagespan.link", Value::from("upstream"))]),
        }],
        resource: map(&[("service.name", Value::from("support")), ("host.id", Value::from("h"))]),
        scope: "stagespan".to_owned(),
        warnings: Vec::new(),
    }
}

#[test]
fn what_goes_in_comes_out_equal_to_the_nanosecond() -> anyhow::Result<()> {
    let jaeger = Jaeger::start()?;
    let sent = [
        span(ROOT, None, 1_700_000_000_123_456_789, 1_700_000_000_987_654_321),
        Span {
            status: Status::Error("input_timeout".to_owned()),
            ..span("b7ad6b7169203332", Some(ROOT), 1_700_000_000_123_456_789, 1_700_000_000_123_456_790)
        },
    ];
    assert_eq!(jaeger.spans(TRACE)?, []);
    jaeger.export(&export_request(&sent))?;
    let mut got = jaeger.wait_for_spans(TRACE, sent.len(), WITHIN)?;
    got.sort_by(|a, b| a.span_id.cmp(&b.span_id));
    assert_eq!(got, sent);

    let mut found = jaeger.wait_for_service("support", 10, sent.len(), WITHIN)?;
    found.sort_by(|a, b| a.span_id.cmp(&b.span_id));
    assert_eq!(found, sent);
    assert_eq!(jaeger.warnings(TRACE)?, Vec::<String>::new());
    assert!(jaeger.wait_for_spans(TRACE, 1, WITHIN).is_err(), "more spans than expected are an error");
    assert!(jaeger.wait_for_spans(TRACE, 3, Duration::ZERO).is_err(), "and so are fewer when the time is up");
    Ok(())
}

#[test]
fn a_span_without_length_is_warned_about_in_both_views() -> anyhow::Result<()> {
    let jaeger = Jaeger::start()?;
    let instant_ns = 1_700_000_000_123_456_789;
    jaeger.export(&export_request(&[span(ROOT, None, instant_ns, instant_ns)]))?;
    let spans = jaeger.wait_for_spans(TRACE, 1, WITHIN)?;
    assert_eq!(spans[0].duration_ns(), Some(1), "Jaeger makes it one nanosecond long");
    assert!(spans[0].warnings[0].contains("Negative duration"), "{:?}", spans[0].warnings);
    assert!(jaeger.warnings(TRACE)?[0].contains("Negative duration"));
    Ok(())
}

#[test]
fn an_uploaded_file_is_transformed() -> anyhow::Result<()> {
    let jaeger = Jaeger::start()?;
    let sent = span(ROOT, None, 1_700_000_000_123_456_789, 1_700_000_000_987_654_321);
    let trace = jaeger.transform(&export_request(&[sent]).to_string())?;
    assert_eq!(trace["data"][0]["traceID"], TRACE);
    assert_eq!(trace["data"][0]["spans"][0]["duration"], 864_197);
    assert!(jaeger.transform("no JSON").is_err());
    Ok(())
}

/// Two hosts, the child five seconds before its parent: at 0 s, the default, Jaeger only warns; above, it moves the child.
#[test]
fn the_skew_option_reaches_jaeger() -> anyhow::Result<()> {
    let (second, start_ns) = (1_000_000_000, 1_700_000_000_000_000_000);
    let parent = span(ROOT, None, start_ns, start_ns + second);
    let mut child =
        span("b7ad6b7169203332", Some(ROOT), start_ns - 5 * second, start_ns - 5 * second + second / 2);
    child.resource.insert("host.id".to_owned(), Value::from("another"));
    let request = export_request(&[parent, child]);

    for (adjust, moved) in [(Duration::ZERO, false), (Duration::from_secs(10), true)] {
        let jaeger = Jaeger::start_with(&Options { max_clock_skew_adjust: adjust, ..Options::default() })?;
        jaeger.export(&request)?;
        jaeger.wait_for_spans(TRACE, 2, WITHIN)?;
        let trace = jaeger.trace_v1(TRACE)?.expect("the trace is there");
        let starts: Vec<u64> = trace["spans"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|span| span["startTime"].as_u64())
            .collect();
        assert_eq!(starts.len(), 2);
        let before_parent = starts.iter().any(|start_us| *start_us < start_ns / 1000);
        assert_eq!(before_parent, !moved, "adjust {adjust:?}: {starts:?}");
    }
    Ok(())
}

#[test]
fn the_ui_gets_the_named_links_when_asked_for() -> anyhow::Result<()> {
    let with = Jaeger::start_with(&Options { ui_config: true, ..Options::default() })?;
    assert!(with.log().contains("collector-config/jaeger-ui.json"), "{}", with.log());
    let page = with.ui_page()?;
    assert!(page.contains("stagespan.link.request"), "{page}");
    assert!(!Jaeger::start()?.ui_page()?.contains("stagespan.link.request"));
    Ok(())
}

#[cfg(target_os = "linux")]
#[test]
fn a_dropped_jaeger_is_gone() -> anyhow::Result<()> {
    let jaeger = Jaeger::start()?;
    let process = format!("/proc/{}", jaeger.pid());
    assert!(std::path::Path::new(&process).exists());
    drop(jaeger);
    assert!(!std::path::Path::new(&process).exists(), "{process}");
    Ok(())
}
