//! A request that is stuck is warned of while it is stuck. Alone in its file, since it takes the
//! process's subscriber.

#![allow(clippy::unwrap_used, reason = "what can't be set up fails the test")]

mod support;

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use stagespan_model::{Clock as _, Gate, Position, StageName, SystemClock};
use stagespan_otel::{StageFacts, Wait};
use support::receiver::{Answer, Receiver, Speaks};
use support::{Pipeline, config_for, start};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer as _, SubscriberExt as _};

/// Keeps the text of every event of ours.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> tracing_subscriber::Layer<S> for Said {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, _field: &Field, value: &dyn Debug) {
                self.0 = format!("{value:?}");
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push(message.0);
    }
}

#[test]
fn a_stuck_request_is_warned_of_once_though_the_receiver_is_stuck_too() {
    let said = Said::default();
    let ours = tracing_subscriber::filter::filter_fn(|metadata| metadata.target() == "stagespan");
    tracing::subscriber::set_global_default(
        tracing_subscriber::registry().with(said.clone().with_filter(ours)),
    )
    .unwrap();
    let warnings = || {
        let said = said.0.lock().unwrap();
        said.iter().filter(|text| text.contains("has waited")).cloned().collect::<Vec<_>>()
    };

    let receiver = Receiver::always(Speaks::Http, Answer::Hang);
    let mut output = receiver.output();
    output.timeout = Some(Duration::from_millis(100));
    let mut config = config_for(output);
    config.long_wait = Some(Duration::from_millis(200));
    config.batch.schedule_delay = Duration::from_millis(10);
    let layer = start(config);
    let clock = SystemClock::new();
    let stage = |name: &str| StageName::new(name).unwrap();
    let talker = layer.watch(StageFacts {
        name: stage("talker"),
        gate: Gate::AsyncChunk,
        position: Position::Gated,
        upstreams: vec![stage("thinker")],
    });
    // No span has been produced yet, and none of this request ever will be.
    let stuck = talker.queued("7f3c", clock.now());
    let quick = talker.queued("0001", clock.now());
    quick.scheduled(clock.now());
    drop(quick);

    let deadline = Instant::now() + Duration::from_secs(60);
    while warnings().is_empty() {
        assert!(Instant::now() < deadline, "no warning came");
        // Exports that fail for their timeout go on beside it.
        Pipeline::new(&layer).run_requests(1);
        thread::sleep(Duration::from_millis(10));
    }
    let [warning] = &warnings()[..] else { panic!("{:?}", warnings()) };
    assert!(warning.starts_with("request 7f3c on stage talker has waited "), "{warning}");
    assert!(warning.ends_with(" s for its input (async_chunk gate; no chunk from thinker yet)"), "{warning}");
    let [listed] = &layer.in_flight(10)[..] else { panic!("{:?}", layer.in_flight(10)) };
    assert_eq!((&*listed.request_id, listed.wait), ("7f3c", Wait::Input));

    stuck.input_ready(clock.now());
    let _ = layer.shutdown(Duration::from_millis(100));
    drop(stuck);
    assert!(layer.in_flight(10).is_empty());
    assert_eq!(warnings().len(), 1, "once");
}
