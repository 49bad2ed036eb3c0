use std::time::Duration;

use super::*;
use crate::config::{Config, Output, Propagator, RootSampler, Sampler};
use crate::export::Opening;
use crate::export::testing::{Collected, collecting};
use crate::join::{Join, check_join};
use opentelemetry::trace::SpanKind;
use opentelemetry_sdk::trace::SpanData;
use stagespan_model::{Clock as _, ManualClock, StageResource};

mod caller;
mod scope;

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const CALLER_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

struct Bench {
    layer: Layer,
    clock: Arc<ManualClock>,
    collected: Collected,
}

impl Bench {
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let domain = ClockDomain::from_id("boot").unwrap();
        let clock = Arc::new(ManualClock::in_domain(domain, 1_000_000_000));
        let resource = StageResource { host_id: "machine".to_owned(), ..StageResource::default() };
        let mut config = Config::new(Output::Console, "svc", resource);
        change(&mut config);
        let collected = Collected::default();
        let opening: Opening = collecting(&collected);
        let layer = Layer::with_opening(config, opening, Arc::<ManualClock>::clone(&clock));
        Self { layer, clock, collected }
    }

    fn open(&self, headers: &[(&'static str, &'static str)]) -> RequestSpan {
        self.layer.open_request(RequestOpening {
            request_id: "r1",
            headers: headers.to_vec(),
            door: Door::Call,
        })
    }

    fn spans(&self) -> Vec<SpanData> {
        self.layer.flush(Duration::from_secs(10)).unwrap();
        self.collected.spans()
    }
}

fn stage(name: &str) -> StageName {
    StageName::new(name).unwrap()
}

fn target<'a>(
    name: &'a StageName,
    clock: Option<&'a ClockDomain>,
    upstreams: &'a [StageName],
) -> StageTarget<'a> {
    StageTarget { name, clock, upstreams, companion_role: None }
}

fn attribute(span: &SpanData, key: &str) -> Option<String> {
    span.attributes.iter().find(|kv| kv.key.as_str() == key).map(|kv| kv.value.to_string())
}

fn unix_ns(time: std::time::SystemTime) -> u64 {
    time.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64
}

#[test]
fn off_is_off() {
    let mut request = Layer::off().open_request(RequestOpening {
        request_id: "r1",
        headers: [("traceparent", CALLER)],
        door: Door::Http,
    });
    assert_eq!(request.assign(target(&stage("talker"), None, &[])), Assigned::default());
    assert_eq!((request.anchor(), request.trace_id(), request.is_sampled()), (None, None, false));
    request.fail(ErrorType::StageLost, "x");
    request.end();
    assert_eq!(Layer::off().stats(), crate::Account::default());
}

#[test]
fn the_limits_hold_for_live_spans() {
    let bench = Bench::new(|config| {
        config.span_limits.attributes = 2;
        config.span_limits.attribute_value_chars = Some(3);
    });
    let request = bench.layer.open_request(RequestOpening {
        request_id: "a long id",
        headers: [("traceparent", CALLER)],
        door: Door::Call,
    });
    request.usage(1, 2);
    request.end();
    let [span] = &bench.spans()[..] else { panic!("one span") };
    assert_eq!((span.attributes.len(), span.dropped_attributes_count), (2, 1));
    assert_eq!(attribute(span, "stagespan.request.id").as_deref(), Some("a l"));
}

#[test]
fn baggage_stays_in_the_requests_own_context() {
    use opentelemetry::baggage::BaggageExt as _;
    let bench = Bench::new(|_| {});
    let mut request = bench.open(&[("traceparent", CALLER), ("Baggage", "user=u1,tier=gold")]);
    let user = request.in_scope(|| Context::current().baggage().get("user").map(ToString::to_string));
    assert_eq!(user.as_deref(), Some("u1"));
    let assigned = request.assign(target(&stage("talker"), None, &[]));
    assert!(assigned.headers.iter().all(|(name, _)| name != "baggage"), "{assigned:?}");
}

#[test]
fn times_are_the_monotonic_clocks_placed_by_the_anchor() {
    let bench = Bench::new(|_| {});
    let request = bench.open(&[]);
    let wall = bench.clock.wall_unix_ns();
    bench.clock.advance_ns(86_000_000_123);
    bench.clock.step_wall_ns(-3_600_000_000_000);
    request.end();
    let span = &bench.spans()[0];
    assert_eq!(unix_ns(span.start_time), wall);
    assert_eq!(
        unix_ns(span.end_time) - unix_ns(span.start_time),
        86_000_000_123,
        "a wall step changes nothing"
    );
}

#[test]
fn a_stage_on_the_same_clock_joins() {
    let bench = Bench::new(|_| {});
    let mut request = bench.open(&[("traceparent", CALLER), ("tracestate", "a=1")]);
    let (thinker, talker) = (stage("thinker"), stage("talker"));
    let clock = bench.clock.domain().clone();
    let first = request.assign(target(&thinker, Some(&clock), &[])).context.unwrap();
    let upstreams = [thinker.clone(), stage("never-assigned")];
    let second = request.assign(target(&talker, Some(&clock), &upstreams));
    let context = second.context.unwrap();
    assert_eq!(context.placement, Placement::Same);
    assert_eq!(context.request, request.span_ref().unwrap());
    assert_eq!(context.span.trace_id, context.request.trace_id);
    assert_eq!(context.upstreams, [Upstream { stage: thinker, span: first.span }]);

    let given = second.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let headers = StageHeaders::parse(given).unwrap().unwrap();
    assert_eq!(headers.request_anchor(), request.anchor());
    assert_eq!(check_join(&headers, &*bench.clock), Join::Accepted);
    assert_eq!(headers.into_context(&Join::Accepted), *context);

    request.end();
    let [span] = &bench.spans()[..] else { panic!() };
    assert_eq!(span.links.iter().count(), 0, "Jaeger shows a blank page for links inside a trace");
    assert_eq!(span.span_context.span_id().to_string(), context.request.span_id.to_string());
}

/// Shape and clock → placement.
#[test]
fn shapes() {
    use Placement::*;
    let elsewhere = ClockDomain::from_id("other").unwrap();
    for (shape, own_clock, foreign, unknown) in [
        (TraceShape::Auto, Same, Own, Own),
        (TraceShape::Linked, Own, Own, Own),
        (TraceShape::Joined, Same, Forced, Forced),
    ] {
        let bench = Bench::new(|config| config.shape = shape);
        let mut request = bench.open(&[("traceparent", CALLER)]);
        let name = stage("talker");
        let own = bench.clock.domain().clone();
        for (clock, expected) in [(Some(&own), own_clock), (Some(&elsewhere), foreign), (None, unknown)] {
            let context = request.assign(target(&name, clock, &[])).context.unwrap();
            assert_eq!(context.placement, expected, "{shape:?} {clock:?}");
            let in_request = context.span.trace_id == context.request.trace_id;
            assert_eq!(in_request, expected != Own);
            // Our own trace ids are random; the caller did not say so of its own.
            assert_eq!(context.span.flags, if expected == Own { 3 } else { 1 });
        }
    }
}

#[test]
fn own_traces_are_linked_from_the_request() {
    let bench = Bench::new(|config| config.shape = TraceShape::Linked);
    let mut request = bench.open(&[]);
    let talker = stage("talker");
    let context = request.assign(target(&talker, None, &[])).context.unwrap();
    let role = StageTarget { companion_role: Some("cfg"), ..target(&talker, None, &[]) };
    let companion = request.assign(role).context.unwrap();
    request.end();
    let span = &bench.spans()[0];
    let links: Vec<_> = span.links.iter().map(|link| link.span_context.trace_id().to_string()).collect();
    assert_eq!(links, [context.span.trace_id.to_string(), companion.span.trace_id.to_string()]);
    let kinds: Vec<_> = span.links.iter().map(|link| link.attributes[0].value.to_string()).collect();
    assert_eq!(kinds, ["stage", "stage"]);
    assert_eq!(attribute(span, "stagespan.link.talker"), Some(context.span.trace_id.to_string()));
}

#[test]
fn companions_keep_to_themselves() {
    let bench = Bench::new(|_| {});
    let mut request = bench.open(&[]);
    let (thinker, talker) = (stage("thinker"), stage("talker"));
    let mut assign = |name, upstreams, companion_role| {
        request.assign(StageTarget { name, clock: None, upstreams, companion_role }).context.unwrap()
    };
    let main = assign(&thinker, &[], None);
    let companion = assign(&thinker, &[], Some("cfg"));
    let upstreams = [thinker.clone()];
    assert_eq!(assign(&talker, &upstreams, None).upstreams[0].span, main.span);
    assert_eq!(assign(&talker, &upstreams, Some("cfg")).upstreams[0].span, companion.span);
    assert_eq!(assign(&talker, &upstreams, Some("other")).upstreams[0].span, main.span);
    let retry = assign(&thinker, &[], None);
    assert_ne!(retry.span, main.span, "a retry has new ids");
    assert_eq!(assign(&talker, &upstreams, None).upstreams[0].span, retry.span);
}

#[test]
fn a_refused_join_is_linked_and_counted() {
    let bench = Bench::new(|_| {});
    let mut request = bench.open(&[]);
    let (thinker, talker) = (stage("thinker"), stage("talker"));
    let clock = bench.clock.domain().clone();
    let mut context = request.assign(target(&thinker, Some(&clock), &[])).context.unwrap();
    let before = context.span;
    request.join_refused(&thinker, &mut context);
    assert!(context.joined_refused && context.placement == Placement::Own);
    assert_ne!(context.span.trace_id, before.trace_id);
    let upstreams = [thinker.clone()];
    let later = request.assign(target(&talker, Some(&clock), &upstreams)).context.unwrap();
    assert_eq!(later.upstreams[0].span, context.span, "later stages link to where it really is");
    request.end();
    let span = &bench.spans()[0];
    assert_eq!(span.links.iter().count(), 1);
    assert_eq!(attribute(span, "stagespan.link.thinker"), Some(context.span.trace_id.to_string()));
    assert_eq!(bench.layer.stats().counters.refused_joins, 1);
}

#[test]
fn sampling_is_decided_once_and_followed() {
    let unsampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02";
    let bench = Bench::new(|_| {});
    let mut request = bench.layer.open_request(RequestOpening {
        request_id: "r",
        headers: [("traceparent", unsampled)],
        door: Door::Call,
    });
    let own = request.assign(target(&stage("talker"), None, &[]));
    assert_eq!(own.context.unwrap().span.flags, 2, "not sampled, random");
    assert!(own.headers.contains(&("traceparent".to_owned(), {
        let span = request.span_ref().unwrap();
        format!("00-{CALLER_TRACE}-{}-02", span.span_id)
    })));
    request.end();
    assert!(bench.spans().is_empty());

    let off = Sampler { root: RootSampler::AlwaysOff, parent_based: true };
    let bench = Bench::new(|config| config.sampler = off);
    assert!(!bench.open(&[]).is_sampled());
    assert!(bench.open(&[("traceparent", CALLER)]).is_sampled(), "the caller has decided");
    let bench = Bench::new(|config| config.sampler = Sampler { parent_based: false, ..off });
    assert!(!bench.open(&[("traceparent", CALLER)]).is_sampled());
}

#[test]
fn failure_and_usage() {
    let bench = Bench::new(|_| {});
    let request = bench.open(&[]);
    request.usage(12, 34);
    request.fail(ErrorType::StageLost, "stage talker (pid 7) is gone");
    drop(request);
    let span = &bench.spans()[0];
    assert_eq!(span.status, Status::error("stage talker (pid 7) is gone"));
    assert_eq!(attribute(span, name::ERROR_TYPE).as_deref(), Some("stage_lost"));
    assert_eq!(attribute(span, name::GEN_AI_INPUT_TOKENS).as_deref(), Some("12"));
    assert_eq!(attribute(span, name::GEN_AI_OUTPUT_TOKENS).as_deref(), Some("34"));
    assert_eq!(span.events.iter().count(), 0);
}

#[test]
fn requests_of_one_id_stay_apart() {
    let bench = Bench::new(|_| {});
    let (a, b) = (bench.open(&[]), bench.open(&[]));
    assert_ne!(a.trace_id(), b.trace_id());
    bench.clock.advance_ns(5);
    drop(a);
    bench.clock.advance_ns(6);
    drop(b);
    let mut lengths: Vec<_> =
        bench.spans().iter().map(|s| unix_ns(s.end_time) - unix_ns(s.start_time)).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [5, 11]);
}
