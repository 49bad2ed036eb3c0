use std::fmt::Write as _;

use super::*;
use proptest::prelude::*;
use stagespan_model::{
    ClockAnchor, ClockDomain, ClockSource, Detail, End, Gate, Instant, Position, StageName, StageResource,
    StageTimeline, TimelineEvent, TraceId, Upstream,
};

const MS: u64 = 1_000_000;
const WALL_NS: u64 = 1_767_225_600_000_000_000;
const REQUEST_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn domain() -> ClockDomain {
    ClockDomain::from_id("boot").unwrap()
}

/// An instant, in ms on the stage's clock.
fn at(ms: u64) -> Instant {
    Instant::from_ns(ms * MS, domain().tag()).unwrap()
}

fn stage() -> Arc<StageIdentity> {
    let resource = StageResource { host_id: "h1".to_owned(), ..StageResource::default() };
    Arc::new(StageIdentity {
        stage_id: 1,
        name: StageName::new("talker").unwrap(),
        replica_id: 0,
        gate: Gate::AsyncChunk,
        position: Position::Gated,
        clock_domain: domain(),
        resource: Arc::new(resource),
    })
}

fn record(events: &[TimelineEvent], ended: Instant, end: End, context: Option<StageContext>) -> StageRecord {
    let mut timeline = StageTimeline::new(Position::Gated, at(100));
    for event in events {
        timeline.apply(*event).unwrap();
    }
    StageRecord {
        request_id: "r1".into(),
        internal_id: None,
        stage: stage(),
        timeline: timeline.finish(ended, end),
        anchor: ClockAnchor::new(at(90), WALL_NS, 40),
        context: context.map(Box::new),
        clock_source: ClockSource::Events,
        companion_role: None,
        tokens_input: 7,
        detail: Detail::Waits,
    }
}

fn ready(ms: u64) -> TimelineEvent {
    TimelineEvent::InputReady { at: at(ms), resolution_ns: Some(2 * MS) }
}

fn scheduled(ms: u64) -> TimelineEvent {
    TimelineEvent::Scheduled(at(ms))
}

fn tokens(ms: u64, count: u32) -> TimelineEvent {
    TimelineEvent::Tokens { at: at(ms), count }
}

fn span_ref(trace: &str, span: u64, flags: u8) -> SpanRef {
    SpanRef {
        trace_id: TraceId::from_hex(trace).unwrap(),
        span_id: SpanId::from_bytes(span.to_be_bytes()).unwrap(),
        flags,
    }
}

fn context(placement: Placement) -> StageContext {
    let trace = if placement == Placement::Own { "a0000000000000000000000000000001" } else { REQUEST_TRACE };
    StageContext {
        span: span_ref(trace, 0x51, 3),
        placement,
        request: span_ref(REQUEST_TRACE, 0x11, 1),
        tracestate: Some("vendor=x".into()),
        upstreams: vec![Upstream {
            stage: StageName::new("thinker").unwrap(),
            span: span_ref(REQUEST_TRACE, 0x41, 1),
        }],
        request_host_id: Some("machine".into()),
        joined_refused: false,
    }
}

fn build(record: StageRecord) -> StageSpans {
    spans_of(record, &scope()).unwrap()
}

/// Nanoseconds since the anchor's wall time.
fn ns_of(time: SystemTime) -> u64 {
    let ns = time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    ns - WALL_NS
}

/// One line per span, `name [start..end) status`, in ms since the anchor; then what is in its trace
/// and its attributes, those on every span aside.
fn picture(spans: &StageSpans) -> String {
    let common = [name::REQUEST_ID, name::STAGE_ID, name::STAGE_NAME, name::STAGE_REPLICA_ID];
    let ms = |time| format!("{}", ns_of(time) as f64 / MS as f64);
    let mut text = String::new();
    for (i, span) in spans.spans.iter().enumerate() {
        let indent = if i == 0 { "" } else { "  " };
        let status = match &span.status {
            Status::Unset => String::new(),
            status => format!(" {status:?}"),
        };
        let (from, to) = (ms(span.start_time), ms(span.end_time));
        writeln!(text, "{indent}{} [{from}..{to}){status}", span.name).unwrap();
        for kv in span.attributes.iter().filter(|kv| !common.contains(&kv.key.as_str())) {
            writeln!(text, "{indent}  {}={}", kv.key, kv.value).unwrap();
        }
        for link in span.links.iter() {
            let attributes: Vec<_> =
                link.attributes.iter().map(|kv| format!("{}={}", kv.key, kv.value)).collect();
            let to = &link.span_context;
            writeln!(text, "{indent}  -> {}-{} {}", to.trace_id(), to.span_id(), attributes.join(" "))
                .unwrap();
        }
    }
    text
}

#[test]
fn a_split_stage_on_the_requests_clock() {
    let record = record(
        &[ready(186), scheduled(187), tokens(200, 1), tokens(300, 9)],
        at(300),
        End::Stop,
        Some(context(Placement::Same)),
    );
    let built = build(record);
    assert_eq!(
        picture(&built),
        "\
stage talker [10..210)
  stagespan.queued_ns=87000000
  stagespan.input_wait_ns=86000000
  stagespan.ready_queued_ns=1000000
  stagespan.prefill_ns=13000000
  stagespan.decode_ns=100000000
  stagespan.split=measured
  stagespan.end=stop
  stagespan.preemption.count=0
  stagespan.clock.domain=boot
  stagespan.clock.anchor_uncertainty_ns=40
  stagespan.clock.source=events
  stagespan.gate=async_chunk
  stagespan.tokens.input=7
  stagespan.tokens.output=10
  stagespan.link.thinker=4bf92f3577b34da6a3ce929d0e0e4736
  -> 4bf92f3577b34da6a3ce929d0e0e4736-0000000000000041 stagespan.link=upstream stagespan.stage.name=thinker
  input_wait [10..96)
    stagespan.duration_ns=86000000
    stagespan.input_wait.resolution_ns=2000000
  ready_queued [96..97)
    stagespan.duration_ns=1000000
"
    );
    let own = &built.spans[0];
    assert_eq!(own.span_context.span_id().to_string(), "0000000000000051");
    assert_eq!(own.span_context.trace_id().to_string(), REQUEST_TRACE);
    assert_eq!(own.span_context.trace_flags().to_u8(), 3);
    assert_eq!(own.span_context.trace_state().header(), "vendor=x");
    assert_eq!(own.parent_span_id.to_string(), "0000000000000011");
    assert_eq!(
        built.resource,
        ResourceKey::Stage { resource: Arc::clone(&stage().resource), host_id: Some("machine".into()) }
    );
    for span in &built.spans {
        assert_eq!(span.span_kind, SpanKind::Internal);
        let attribute = |key: &str| {
            span.attributes.iter().find(|kv| kv.key.as_str() == key).map(|kv| kv.value.to_string())
        };
        assert_eq!(attribute(name::REQUEST_ID).as_deref(), Some("r1"));
        assert_eq!(attribute(name::STAGE_ID).as_deref(), Some("1"));
        assert_eq!(attribute(name::STAGE_NAME).as_deref(), Some("talker"));
        assert_eq!(attribute(name::STAGE_REPLICA_ID).as_deref(), Some("0"));
    }
}

#[test]
fn a_stage_on_another_clock_has_its_own_trace() {
    let built =
        build(record(&[ready(186), scheduled(187)], at(300), End::Length, Some(context(Placement::Own))));
    let text = picture(&built);
    assert!(
        text.contains("-> 4bf92f3577b34da6a3ce929d0e0e4736-0000000000000011 stagespan.link=request\n"),
        "{text}"
    );
    assert!(text.contains("stagespan.link=upstream stagespan.stage.name=thinker"), "{text}");
    assert!(text.contains("stagespan.link.request=4bf92f3577b34da6a3ce929d0e0e4736"), "{text}");
    assert!(!text.contains("clock.shared"), "{text}");
    let own = &built.spans[0];
    assert_eq!(own.parent_span_id, opentelemetry::SpanId::INVALID);
    // The caller's vendors have no say in a trace of our own; only the sampling decision is shared.
    assert_eq!(own.span_context.trace_state().header(), "ot=rv:ce929d0e0e4736");
    assert_eq!(built.resource, ResourceKey::Stage { resource: Arc::clone(&stage().resource), host_id: None });
}

#[test]
fn randomness_and_threshold_are_inherited() {
    let with = |tracestate: Option<&str>, placement| {
        let context = StageContext { tracestate: tracestate.map(Arc::from), ..context(placement) };
        let built = build(record(&[], at(300), End::Stop, Some(context)));
        let headers: Vec<_> = built.spans.iter().map(|s| s.span_context.trace_state().header()).collect();
        assert!(headers.iter().all(|h| *h == headers[0]), "one trace, one tracestate");
        headers[0].clone()
    };
    assert_eq!(with(Some("a=1,ot=th:8;rv:0123456789abcd"), Placement::Own), "ot=rv:0123456789abcd;th:8");
    assert_eq!(with(Some("ot=th:8"), Placement::Own), "ot=rv:ce929d0e0e4736;th:8");
    assert_eq!(with(None, Placement::Own), "ot=rv:ce929d0e0e4736");
    assert_eq!(with(None, Placement::Same), "");
    assert_eq!(with(Some("a=1,ot=th:8"), Placement::Forced), "a=1,ot=th:8");
}

#[test]
fn forced_and_refusing_stages_say_so() {
    let forced = build(record(&[], at(300), End::Stop, Some(context(Placement::Forced))));
    let text = picture(&forced);
    assert!(text.contains("stagespan.clock.shared=false"), "{text}");
    assert!(!text.contains("stagespan.link=request"), "no span links to its own parent: {text}");
    assert_eq!(forced.spans[0].parent_span_id.to_string(), "0000000000000011");
    assert_eq!(
        forced.resource,
        ResourceKey::Stage { resource: Arc::clone(&stage().resource), host_id: None }
    );

    let context = StageContext { joined_refused: true, ..context(Placement::Own) };
    let text = picture(&build(record(&[], at(300), End::Stop, Some(context))));
    assert!(text.contains("stagespan.joined=refused"), "{text}");
}

#[test]
fn a_record_without_a_context_is_a_root() {
    let built = build(record(&[], at(300), End::Stop, None));
    let own = &built.spans[0];
    assert!(own.span_context.is_valid() && own.span_context.is_sampled());
    assert_eq!(own.parent_span_id, opentelemetry::SpanId::INVALID);
    assert_eq!(own.links.iter().count(), 0);
}

/// Status, truncation and phases for each kind of end.
#[test]
fn how_requests_end() {
    let table: [(&[TimelineEvent], End, &str); 6] = [
        // A timeout while held: the wait for the input is what was cut short.
        (
            &[],
            End::Timeout,
            "stage talker [10..210) input_timeout; input_wait [10..210) truncated input_timeout",
        ),
        // Aborted after the input was ready, never scheduled.
        (
            &[ready(150)],
            End::Aborted,
            "stage talker [10..210) aborted; input_wait [10..60); ready_queued [60..210) truncated aborted",
        ),
        // Aborted while running: a stop string found by the front end.
        (
            &[ready(150), scheduled(160), tokens(170, 1)],
            End::Aborted,
            "stage talker [10..210); input_wait [10..60); ready_queued [60..70)",
        ),
        (
            &[ready(150), scheduled(160), tokens(170, 1)],
            End::EngineError,
            "stage talker [10..210) engine_error; input_wait [10..60); ready_queued [60..70)",
        ),
        (&[], End::Rejected, "stage talker [10..210) rejected; input_wait [10..210) truncated rejected"),
        // A stamp after SCHEDULED splits nothing.
        (&[scheduled(140), ready(150)], End::Stop, "stage talker [10..210); queued [10..50)"),
    ];
    for (events, end, expected) in table {
        let built = build(record(events, at(300), end, None));
        let lines: Vec<String> = built
            .spans
            .iter()
            .map(|span| {
                let attribute = |key: &str| span.attributes.iter().find(|kv| kv.key.as_str() == key);
                let truncated = if attribute(name::TRUNCATED).is_some() { " truncated" } else { "" };
                let error =
                    attribute(name::ERROR_TYPE).map(|kv| format!(" {}", kv.value)).unwrap_or_default();
                assert_eq!(matches!(span.status, Status::Error { .. }), !error.is_empty());
                let (from, to) = (ns_of(span.start_time) / MS, ns_of(span.end_time) / MS);
                format!("{} [{from}..{to}){truncated}{error}", span.name)
            })
            .collect();
        assert_eq!(lines.join("; "), expected, "{end:?}");
    }
}

#[test]
fn phases_are_shown_when_asked_for() {
    let mut record =
        record(&[ready(150), scheduled(160), tokens(170, 1), tokens(250, 1)], at(260), End::Aborted, None);
    record.detail = Detail::Phases;
    let text = picture(&build(record));
    assert!(text.contains("  prefill [70..80)\n    stagespan.duration_ns=10000000\n"), "{text}");
    // Cut short, but no failure.
    assert!(
        text.contains(
            "  decode [80..170)\n    stagespan.duration_ns=90000000\n    stagespan.truncated=true\n"
        ),
        "{text}"
    );
}

#[test]
fn a_measured_zero_is_there_and_one_nanosecond_long() {
    let built = build(record(&[ready(100), scheduled(100)], at(100), End::Stop, None));
    let text = picture(&built);
    assert!(text.contains("stagespan.queued_ns=0") && text.contains("stagespan.ready_queued_ns=0"), "{text}");
    assert!(text.contains("  ready_queued [10..10.000001)\n    stagespan.duration_ns=0\n"), "{text}");
    assert!(
        text.starts_with("stage talker [10..10.000001)"),
        "the stage's end moves because it must: {text}"
    );
    let built = build(record(&[ready(100), scheduled(100)], at(101), End::Stop, None));
    assert!(picture(&built).starts_with("stage talker [10..11)"), "and only then");
}

#[test]
fn ids_roles_and_sources() {
    let mut record = record(&[], at(300), End::Stop, None);
    record.internal_id = Some("r1-7".into());
    record.companion_role = Some("cfg_text".into());
    record.clock_source = ClockSource::Hook;
    let text = picture(&build(record));
    for line in [
        "stagespan.request.internal_id=r1-7",
        "stagespan.companion.role=cfg_text",
        "stagespan.clock.source=hook",
    ] {
        assert_eq!(text.matches(line).count(), 1, "on the stage's span alone: {text}");
    }
}

#[test]
fn an_anchor_of_another_clock_is_refused() {
    let mut record = record(&[], at(300), End::Stop, None);
    let other = ClockDomain::from_id("other").unwrap();
    record.anchor = ClockAnchor::new(Instant::from_ns(5, other.tag()).unwrap(), WALL_NS, 0);
    assert!(matches!(spans_of(record, &scope()), Err(AnchorError::Foreign(_))));
}

fn event() -> impl Strategy<Value = TimelineEvent> {
    let ms = 100u64..200;
    prop_oneof![
        ms.clone().prop_map(ready),
        ms.clone().prop_map(scheduled),
        ms.clone().prop_map(|ms| TimelineEvent::Preempted(at(ms))),
        ms.clone().prop_map(|ms| TimelineEvent::Queued(at(ms))),
        (ms, 0u32..3).prop_map(|(ms, n)| tokens(ms, n)),
        Just(TimelineEvent::InvalidTime),
    ]
}

proptest! {
    #[test]
    fn what_is_built_is_what_was_counted(
        events in proptest::collection::vec(event(), 0..8),
        ended in 100u64..220,
        end in proptest::sample::select(End::ALL.to_vec()),
        position in prop_oneof![Just(Position::First), Just(Position::Ungated), Just(Position::Gated)],
        detail in prop_oneof![Just(Detail::Waits), Just(Detail::Phases)],
        placement in prop_oneof![Just(Placement::Own), Just(Placement::Same), Just(Placement::Forced)],
    ) {
        let mut record = record(&[], at(ended), end, Some(context(placement)));
        let mut timeline = StageTimeline::new(position, at(100));
        for event in events {
            let _ = timeline.apply(event);
        }
        record.timeline = timeline.finish(at(ended), end);
        record.detail = detail;
        let (count, timeline) = (record.span_count(), record.timeline.clone());
        let built = build(record);
        prop_assert_eq!(built.spans.len() as u32, count);
        let (own, children) = built.spans.split_first().unwrap();
        prop_assert_eq!(ns_of(own.start_time), timeline.queued().as_ns() - 90 * MS);
        let mut ids = std::collections::HashSet::new();
        for (child, phase) in children.iter().zip(timeline.phases(detail).iter()) {
            prop_assert!(own.start_time <= child.start_time && child.end_time <= own.end_time);
            prop_assert!(child.start_time < child.end_time);
            let length = ns_of(child.end_time) - ns_of(child.start_time);
            prop_assert_eq!(length, phase.duration_ns().max(1));
            prop_assert_eq!(child.parent_span_id, own.span_context.span_id());
            prop_assert_eq!(child.span_context.trace_id(), own.span_context.trace_id());
            prop_assert!(ids.insert(child.span_context.span_id()));
        }
        let failed = matches!(own.status, Status::Error { .. });
        prop_assert_eq!(failed, timeline.error_type().is_some());
    }
}
