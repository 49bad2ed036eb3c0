use super::*;
use stagespan_model::{ClockDomain, ManualClock};

const S: u64 = 1_000_000_000;

struct Bench {
    clock: Arc<ManualClock>,
    in_flight: InFlight,
}

impl Bench {
    fn new(long_wait_s: Option<u64>) -> Self {
        let clock = Arc::new(ManualClock::new(100 * S));
        let long_wait = long_wait_s.map(Duration::from_secs);
        let in_flight = InFlight::new(Arc::<ManualClock>::clone(&clock), long_wait, LogLevel::Off);
        Self { clock, in_flight }
    }

    fn stage(&self, name: &str, gate: Gate, position: Position, upstreams: &[&str]) -> StageWatch {
        let stage = |name: &str| StageName::new(name).unwrap();
        self.in_flight.stage(StageFacts {
            name: stage(name),
            gate,
            position,
            upstreams: upstreams.iter().map(|name| stage(name)).collect(),
        })
    }

    fn talker(&self) -> StageWatch {
        self.stage("talker", Gate::AsyncChunk, Position::Gated, &["thinker"])
    }

    /// What is newly warned of.
    fn warnings(&self) -> Vec<String> {
        self.in_flight.shared.as_ref().unwrap().new_long_waits()
    }
}

#[test]
fn every_wait_says_what_is_missing() {
    let bench = Bench::new(None);
    let at = |watch: &StageWatch| watch.queued("r", bench.clock.now());
    let first = bench.stage("thinker", Gate::None, Position::First, &[]);
    let ungated = bench.stage("vocoder", Gate::None, Position::Ungated, &["talker"]);
    let payload = bench.stage("mix", Gate::FullPayload, Position::Gated, &["a", "b"]);
    let unknown = bench.stage("x", Gate::FullPayload, Position::Gated, &[]);
    let requests = [
        at(&bench.talker()),
        at(&bench.talker()),
        at(&bench.talker()),
        at(&payload),
        at(&unknown),
        at(&first),
        at(&ungated),
    ];
    requests[1].waits_for_stream_slot();
    bench.clock.advance_ns(10 * S);
    requests[2].input_ready(bench.clock.now());
    bench.clock.advance_ns(20 * S);
    let said: Vec<_> = bench.in_flight.oldest(10).iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "request r on stage talker has waited 30 s for its input (async_chunk gate; no chunk from thinker yet)",
            "request r on stage talker has waited 30 s for its input (async_chunk gate; no free place in its \
             active_stream_window yet)",
            "request r on stage talker has waited 30 s, the last 20 s of it with its input ready, to be scheduled \
             (look at this stage's slots, token budget and KV space)",
            "request r on stage mix has waited 30 s for its input (full_payload gate; no payload from a or b yet)",
            "request r on stage x has waited 30 s for its input (full_payload gate; no payload yet)",
            "request r on stage thinker has waited 30 s to be scheduled \
             (look at this stage's slots, token budget and KV space)",
            "request r on stage vocoder has waited 30 s to be scheduled (no gate tells whether its input is there; \
             look at this stage's slots, token budget and KV space)",
        ]
    );
    requests[1].waits_for_input();
    assert_eq!(bench.in_flight.oldest(2)[1].wait, Wait::Input);
}

#[test]
fn the_oldest_come_first_and_the_finished_not_at_all() {
    let bench = Bench::new(None);
    let talker = bench.talker();
    let mut requests = Vec::new();
    for id in ["a", "b", "c"] {
        requests.push(talker.queued(id, bench.clock.now()));
        bench.clock.advance_ns(S);
    }
    requests[0].scheduled(bench.clock.now());
    let listed: Vec<_> = bench
        .in_flight
        .oldest(2)
        .into_iter()
        .map(|r| (r.request_id, r.wait, r.queued_for.as_secs()))
        .collect();
    assert_eq!(listed, [("a".to_owned(), Wait::Over, 3), ("b".to_owned(), Wait::Input, 2)]);
    drop(requests.remove(0));
    assert_eq!(bench.in_flight.oldest(9).len(), 2);
    requests.clear();
    assert!(bench.in_flight.is_empty());
}

#[test]
fn a_long_wait_is_warned_of_once() {
    let bench = Bench::new(Some(30));
    let talker = bench.talker();
    assert_eq!(bench.warnings(), [""; 0], "nothing in flight");
    let request = talker.queued("r1", bench.clock.now());
    bench.clock.advance_ns(30 * S - 1);
    assert_eq!(bench.warnings(), [""; 0], "not yet");
    bench.clock.advance_ns(1);
    assert_eq!(bench.warnings(), [""; 0], "it looked a moment ago");
    bench.clock.advance_ns(S);
    let warnings = bench.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("request r1 on stage talker has waited 31 s for its input"));
    bench.clock.advance_ns(100 * S);
    assert_eq!(bench.warnings(), [""; 0], "once");
    request.input_ready(bench.clock.now());
    bench.clock.advance_ns(100 * S);
    assert_eq!(bench.warnings(), [""; 0], "once for a request, whatever it waits for later");

    // Who has been scheduled waits for nothing, however long it runs.
    let running = talker.queued("r2", bench.clock.now());
    running.scheduled(bench.clock.now());
    bench.clock.advance_ns(100 * S);
    assert_eq!(bench.warnings(), [""; 0]);
    // The slot's next owner is another request.
    drop(request);
    let _next = talker.queued("r3", bench.clock.now());
    bench.clock.advance_ns(30 * S);
    assert_eq!(bench.warnings().len(), 1);
}

#[test]
fn many_long_waits_are_few_lines() {
    let bench = Bench::new(Some(1));
    let talker = bench.talker();
    let requests: Vec<_> = (0..1_000).map(|n| talker.queued(&format!("r{n}"), bench.clock.now())).collect();
    bench.clock.advance_ns(5 * S);
    assert_eq!(bench.in_flight.look(), 1_000);
    bench.clock.advance_ns(5 * S);
    assert_eq!(bench.in_flight.look(), 0);
    drop(requests);
}

#[test]
fn another_clocks_instant_counts_from_now() {
    let bench = Bench::new(Some(30));
    let foreign = ManualClock::in_domain(ClockDomain::from_id("elsewhere").unwrap(), 5);
    let request = bench.talker().queued("r", foreign.now());
    assert_eq!(bench.in_flight.oldest(1)[0].queued_for, Duration::ZERO);
    bench.clock.advance_ns(7 * S);
    request.input_ready(foreign.now());
    let [seen] = &bench.in_flight.oldest(1)[..] else { panic!() };
    assert_eq!((seen.queued_for.as_secs(), seen.waits_for.as_secs()), (7, 0));
}

#[test]
fn a_stage_is_one_stage_however_often_it_is_asked_for() {
    let bench = Bench::new(None);
    assert_eq!(bench.talker().stage, bench.talker().stage);
    let other = bench.stage("other", Gate::None, Position::First, &[]);
    assert_ne!(other.stage, bench.talker().stage);
    for n in 0..STAGES_MAX {
        drop(bench.stage(&format!("s{n}"), Gate::None, Position::First, &[]));
    }
    let beyond = bench.stage("beyond", Gate::None, Position::First, &[]).queued("r", bench.clock.now());
    assert!(bench.in_flight.is_empty(), "not watched, and no harm done");
    drop(beyond);
}

#[test]
fn off_is_off() {
    let off = InFlight::off();
    let clock = ManualClock::new(1);
    let facts = StageFacts {
        name: StageName::new("talker").unwrap(),
        gate: Gate::AsyncChunk,
        position: Position::Gated,
        upstreams: Vec::new(),
    };
    let request = off.stage(facts).queued("r", clock.now());
    request.input_ready(clock.now());
    assert!(off.is_empty() && off.oldest(1).is_empty() && off.look() == 0);
    let request = StageWatch::off().queued("r", clock.now());
    request.scheduled(clock.now());
}
