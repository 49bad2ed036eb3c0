use super::*;
use proptest::prelude::*;
use stagespan_model::{Instant, SpanId, TraceId};

const T: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const S: &str = "00f067aa0ba902b7";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn reserved_names_in_any_case() {
    let mut headers: Vec<(String, String)> = [
        "Traceparent",
        "STAGESPAN-span",
        "stagespan-clock",
        "x-stagespan-span",
        "stagespan",
        "Stagespan-New",
    ]
    .map(|name| (name.to_owned(), "v".to_owned()))
    .into();
    strip_reserved(&mut headers);
    let left: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(left, ["Traceparent", "x-stagespan-span", "stagespan"]);
}

#[test]
fn nothing_assigned_is_no_error() {
    assert_eq!(StageHeaders::parse([]), Ok(None));
    assert_eq!(StageHeaders::parse([("traceparent", PARENT)]), Ok(None));
    assert_eq!(StageHeaders::parse([("traceparent", "rubbish")]), Ok(None));
}

#[test]
fn malformed_headers_are_named() {
    let span = format!("{T}-{S}-01;same");
    let own = format!("{T}-{S}-01;own");
    let zero = "0".repeat(16);
    let field = |header, error| Err::<Option<StageHeaders>, _>(HeaderError::Field { header, error });
    let parse = |name: &str, value: &str| {
        StageHeaders::parse([("traceparent", PARENT), ("stagespan-span", &*own), (name, value)])
    };
    use FieldError::*;
    for (value, error) in [
        (format!("{T}-{S};own"), Shape),
        (format!("{T}-{S}-01"), Shape),
        (format!("{T}-{S}-1;own"), Shape),
        (format!("{T}-{S}-+1;own"), Shape),
        (format!("{T}-{S}-04;own"), Shape),
        (format!("{T}-{S}-01;Own"), Placement),
        (format!("{T}-{S}-01;own;same"), Placement),
        (format!("{T}-{zero}-01;own"), Id(stagespan_model::IdError::Zero)),
        (format!("{}-{S}-01;own", T.to_uppercase()), Id(stagespan_model::IdError::NotHex)),
    ] {
        let given = StageHeaders::parse([("traceparent", PARENT), ("stagespan-span", &*value)]);
        assert_eq!(given, field("stagespan-span", error), "{value}");
    }
    for (value, error) in [
        (String::new(), Shape),
        (format!("a={T}-{S},"), Shape),
        (format!("a={T}-{S}-01"), Shape),
        (format!("a={T}"), Shape),
        (format!("a={T}-{zero}"), Id(stagespan_model::IdError::Zero)),
        (vec![format!("a={T}-{S}"); 33].join(","), TooMany),
    ] {
        assert_eq!(parse("stagespan-upstream", &value), field("stagespan-upstream", error), "{value}");
    }
    assert!(matches!(
        parse("stagespan-upstream", &format!("A b={T}-{S}")),
        Err(HeaderError::Field { error: StageName(_), .. })
    ));
    for (value, error) in [
        ("d=x", Shape),
        ("a=1,2,3;d=x", Shape),
        ("d=x;a=1,2", Shape),
        ("d=x;a=1,2,3,4", Shape),
        ("d=x;a=1,2,3;p=1", Shape),
        ("d=x;a=1,2,3;h=h;p=1,2", Shape),
        ("d=x;a=1,2,3;z=1", Shape),
        ("d=x;a=0,2,3", Number),
        ("d=x;a=+1,2,3", Number),
        ("d=x;a=1.5,2,3", Number),
        ("d=x;a=,2,3", Number),
        ("d=x;a=1000000000000000001,2,3", Number),
        ("d=x;a=1,99999999999999999999,3", Number),
        ("d=;a=1,2,3", Identity),
        ("d=a b;a=1,2,3", Identity),
        ("d=x;a=1,2,3;h=", Identity),
        ("d=x;a=1,2,3;h=%0A", Identity),
        ("d=x;a=1,2,3;h=%FF", Identity),
    ] {
        assert_eq!(parse("stagespan-clock", value), field("stagespan-clock", error), "{value}");
    }
    assert_eq!(StageHeaders::parse([("stagespan-span", &*span)]), Err(HeaderError::NoTraceparent));
    assert_eq!(
        StageHeaders::parse([("traceparent", "x"), ("stagespan-span", &*span)]),
        Err(HeaderError::Traceparent(TraceparentError::Shape))
    );
    assert_eq!(
        StageHeaders::parse([("traceparent", PARENT), ("Traceparent", PARENT), ("stagespan-span", &*span)]),
        Err(HeaderError::Traceparent(TraceparentError::Repeated))
    );
    assert_eq!(parse("STAGESPAN-SPAN", &own), field("stagespan-span", Repeated));
    let elsewhere = format!("5{}-{S}-01;same", &T[1..]);
    let given = StageHeaders::parse([("traceparent", PARENT), ("stagespan-span", &*elsewhere)]);
    assert_eq!(given, Err(HeaderError::OtherTrace));
}

#[test]
fn a_bad_tracestate_is_left_out_alone() {
    let own = format!("{T}-{S}-01;own");
    let with = |tracestate| {
        let all = [("traceparent", PARENT), ("tracestate", tracestate), ("stagespan-span", &*own)];
        StageHeaders::parse(all).unwrap().unwrap().tracestate
    };
    assert_eq!(with("a=1").as_deref(), Some("a=1"));
    assert_eq!(with("A"), None);
}

fn span_ref() -> impl Strategy<Value = SpanRef> {
    (1u128.., 1u64.., 0u8..4).prop_map(|(trace, span, flags)| SpanRef {
        trace_id: TraceId::from_bytes(trace.to_be_bytes()).unwrap(),
        span_id: SpanId::from_bytes(span.to_be_bytes()).unwrap(),
        flags,
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        request in span_ref(),
        stage in span_ref(),
        placement in prop_oneof![Just(Placement::Own), Just(Placement::Same), Just(Placement::Forced)],
        upstreams in proptest::collection::vec(("[a-z0-9_.-]{1,64}", span_ref()), 0..4),
        tracestate in proptest::option::of(Just(Arc::<str>::from("a=1,ot=rv:00000000000001"))),
        anchor in (1u64..1_000_000_000_000_000_000, any::<u64>(), any::<u64>()),
        pair in proptest::option::of((any::<u64>(), any::<u64>())),
        host_id in proptest::option::of("[^\\p{C}]{1,60}"),
    ) {
        let span = if placement == Placement::Own { stage } else { SpanRef { trace_id: request.trace_id, ..stage } };
        let upstreams: Vec<_> = upstreams
            .into_iter()
            .map(|(name, up)| Upstream {
                stage: StageName::new(&name).unwrap(),
                span: SpanRef { flags: span.flags, ..up },
            })
            .collect();
        let domain = ClockDomain::from_id("boot.1-x_Y").unwrap();
        let claim = ClockClaim {
            anchor: ClockAnchor::new(Instant::from_ns(anchor.0, domain.tag()).unwrap(), anchor.1, anchor.2),
            domain,
            pair: pair.map(|(monotonic_ns, wall_unix_ns)| ClockPair { monotonic_ns, wall_unix_ns }),
            host_id: host_id.as_deref().map(Arc::from),
        };
        let context = StageContext {
            span, placement, request, tracestate, upstreams,
            request_host_id: claim.host_id.clone(),
            joined_refused: false,
        };
        let headers = StageHeaders::write(&context, &claim);
        let given = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let read = StageHeaders::parse(given).unwrap().unwrap();
        prop_assert_eq!(read.clock.as_ref(), Some(&claim));
        prop_assert_eq!(read.into_context(&Join::NotClaimed), context);
        prop_assert!(headers.iter().all(|(_, value)| value.bytes().all(|b| (0x20..0x7f).contains(&b))));
    }

    #[test]
    fn no_text_panics(span in ".{0,60}", upstream in ".{0,60}", clock in ".{0,60}") {
        let own = format!("{T}-{S}-01;own");
        let _ = StageHeaders::parse([("traceparent", PARENT), ("stagespan-span", &*span)]);
        for (name, value) in [("stagespan-upstream", &upstream), ("stagespan-clock", &clock)] {
            let _ = StageHeaders::parse([("traceparent", PARENT), ("stagespan-span", &*own), (name, value)]);
        }
    }
}
