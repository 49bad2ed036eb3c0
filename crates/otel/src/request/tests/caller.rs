//! Whose child a request is.

use super::*;

/// Headers → parent, kind, tracestate, flags, and what is counted.
#[test]
fn whose_child_a_request_is() {
    type Row =
        (&'static [(&'static str, &'static str)], Option<&'static str>, &'static str, u8, &'static str);
    let table: &[Row] = &[
        (&[], None, "", 3, "missing_context"),
        (&[("traceparent", CALLER)], Some(CALLER_TRACE), "", 1, ""),
        (&[("Traceparent", CALLER)], Some(CALLER_TRACE), "", 1, ""),
        (
            &[("TRACEPARENT", " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03 ")],
            Some(CALLER_TRACE),
            "",
            3,
            "",
        ),
        (&[("traceparent", CALLER), ("TraceState", "a=1,b=2")], Some(CALLER_TRACE), "a=1,b=2", 1, ""),
        (
            &[("traceparent", CALLER), ("tracestate", "a=1"), ("tracestate", "b=2")],
            Some(CALLER_TRACE),
            "a=1,b=2",
            1,
            "",
        ),
        (&[("traceparent", CALLER), ("tracestate", "A")], Some(CALLER_TRACE), "", 1, "bad_tracestate"),
        // No tracestate without its traceparent.
        (&[("tracestate", "a=1")], None, "", 3, "missing_context"),
        (&[("traceparent", CALLER), ("traceparent", CALLER)], None, "", 3, "bad_context"),
        (&[("traceparent", "00-1-1-01")], None, "", 3, "bad_context"),
        (
            &[("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-")],
            None,
            "",
            3,
            "bad_context",
        ),
        // Header names that are not asked for are no context.
        (&[("b3", "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1")], None, "", 3, "missing_context"),
    ];
    for (headers, parent, tracestate, flags, counted) in table {
        let bench = Bench::new(|_| {});
        bench.open(headers).end();
        let [span] = &bench.spans()[..] else { panic!("one span: {headers:?}") };
        let trace = span.span_context.trace_id().to_string();
        match parent {
            Some(trace_id) => {
                assert_eq!(&trace, trace_id, "{headers:?}");
                assert_eq!(span.parent_span_id.to_string(), "00f067aa0ba902b7");
                assert_eq!(span.span_kind, SpanKind::Server, "a remote caller");
            }
            None => {
                assert_ne!(trace, CALLER_TRACE, "{headers:?}");
                assert_eq!(span.parent_span_id, opentelemetry::SpanId::INVALID);
                assert_eq!(span.span_kind, SpanKind::Internal);
            }
        }
        assert_eq!(span.span_context.trace_state().header(), *tracestate, "{headers:?}");
        assert_eq!(span.span_context.trace_flags().to_u8(), *flags, "{headers:?}");
        let counters = serde_json::to_value(bench.layer.stats().counters).unwrap();
        for (name, n) in counters.as_object().unwrap() {
            assert_eq!(n.as_u64(), Some(u64::from(name == counted)), "{name} {headers:?}");
        }
    }
}

#[test]
fn zipkins_headers_are_read_where_they_are_asked_for() {
    const B3: &str = "a3ce929d0e0e47364bf92f3577b34da6-00f067aa0ba902b7-1";
    const BOTH: [Propagator; 2] = [Propagator::TraceContext, Propagator::B3];
    const W3C_LAST: [Propagator; 3] = [Propagator::B3, Propagator::B3Multi, Propagator::TraceContext];
    type Row =
        (&'static [Propagator], &'static [(&'static str, &'static str)], Option<&'static str>, &'static str);
    const B3_TRACE: Option<&str> = Some("a3ce929d0e0e47364bf92f3577b34da6");
    let table: &[Row] = &[
        (&BOTH, &[("b3", B3)], B3_TRACE, ""),
        (&BOTH, &[("traceparent", CALLER)], Some(CALLER_TRACE), ""),
        // Of several, the one named last decides, if it is sound.
        (&BOTH, &[("traceparent", CALLER), ("B3", B3)], B3_TRACE, ""),
        (&W3C_LAST, &[("traceparent", CALLER), ("b3", B3)], Some(CALLER_TRACE), ""),
        (&BOTH, &[("traceparent", CALLER), ("b3", "x")], Some(CALLER_TRACE), ""),
        (&BOTH, &[("b3", "x")], None, "bad_context"),
        (&BOTH, &[("b3", "0")], None, "missing_context"),
        (&W3C_LAST, &[], None, "missing_context"),
        (
            &W3C_LAST,
            &[("x-b3-traceid", CALLER_TRACE), ("x-b3-spanid", "00f067aa0ba902b7")],
            Some(CALLER_TRACE),
            "",
        ),
        // A tracestate belongs to a traceparent.
        (&BOTH, &[("b3", B3), ("tracestate", "a=1")], B3_TRACE, ""),
        (&[Propagator::Baggage], &[("b3", B3), ("traceparent", CALLER)], None, ""),
    ];
    for (propagators, headers, trace, counted) in table {
        let bench = Bench::new(|config| config.propagators = propagators.to_vec());
        bench.open(headers).end();
        let [span] = &bench.spans()[..] else { panic!("one span: {headers:?}") };
        let parent = span.parent_span_id;
        match trace {
            Some(trace) => {
                assert_eq!(span.span_context.trace_id().to_string(), *trace, "{headers:?}");
                assert_eq!(parent.to_string(), "00f067aa0ba902b7");
                // Whether the caller's ids are random isn't said; it did sample.
                assert_eq!(span.span_context.trace_flags().to_u8(), 1, "{headers:?}");
            }
            None => assert_eq!(parent, opentelemetry::SpanId::INVALID, "{headers:?}"),
        }
        assert_eq!(span.span_context.trace_state().header(), "", "{headers:?}");
        let counters = serde_json::to_value(bench.layer.stats().counters).unwrap();
        for (name, n) in counters.as_object().unwrap() {
            assert_eq!(n.as_u64(), Some(u64::from(name == counted)), "{name} {headers:?}");
        }
    }
}

#[test]
fn the_door_says_what_is_read() {
    let bench = Bench::new(|config| config.propagators = vec![Propagator::Baggage]);
    bench.open(&[("traceparent", CALLER)]).end();
    assert_eq!(bench.spans()[0].parent_span_id, opentelemetry::SpanId::INVALID);

    let bench = Bench::new(|_| {});
    bench.layer.open_request(RequestOpening { request_id: "a\nb", headers: [], door: Door::Http }).end();
    let span = &bench.spans()[0];
    assert_eq!(span.span_kind, SpanKind::Server, "by HTTP, even without a caller");
    assert_eq!(attribute(span, name::REQUEST_ID).as_deref(), Some("a\\u{a}b"));
    assert_eq!(bench.layer.stats().counters.cut_request_ids, 1);
}
