//! Spans inside and around a request.

use std::sync::Mutex;

use tracing_subscriber::layer::SubscriberExt as _;

use super::*;

#[test]
fn users_spans_are_children_and_the_active_span_is_the_parent() {
    let bench = Bench::new(|_| {});
    let subscriber = tracing_subscriber::registry().with(bench.layer.subscriber_layer());
    let (outer_id, request_ref) = tracing::subscriber::with_default(subscriber, || {
        let outer = tracing::info_span!("handler");
        let outer_id = outer.context().span().span_context().span_id();
        let request = outer.in_scope(|| bench.open(&[("traceparent", CALLER)]));
        request.in_scope(|| tracing::info_span!("tokenize").in_scope(|| {}));
        // Spans of exporting itself are left out.
        request.in_scope(|| tracing::info_span!(target: "hyper::client", "connect").in_scope(|| {}));
        (outer_id, request.span_ref().unwrap())
    });
    let spans = bench.spans();
    let mut names: Vec<_> = spans.iter().map(|span| span.name.to_string()).collect();
    names.sort();
    assert_eq!(names, ["handler", "request", "tokenize"]);
    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    assert_eq!(named("request").parent_span_id, outer_id, "not the caller's header");
    assert_eq!(named("tokenize").parent_span_id.to_string(), request_ref.span_id.to_string());
    assert_eq!(named("tokenize").span_context.trace_id().to_string(), request_ref.trace_id.to_string());
}

#[test]
fn a_request_needs_no_subscriber_and_may_end_on_another_thread() {
    let bench = Bench::new(|_| {});
    let seen = Arc::new(Mutex::new(0));
    /// Counts what reaches the program's own subscriber.
    struct Count(Arc<Mutex<u32>>);
    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Count {
        fn on_new_span(
            &self,
            _: &tracing::span::Attributes<'_>,
            _: &tracing::Id,
            _: tracing_subscriber::layer::Context<'_, S>,
        ) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let subscriber = tracing_subscriber::registry().with(Count(Arc::clone(&seen)));
    tracing::subscriber::with_default(subscriber, || {
        let request = bench.open(&[]);
        std::thread::scope(|scope| scope.spawn(move || request.end()).join().unwrap());
    });
    assert_eq!(bench.spans().len(), 1);
    assert_eq!(*seen.lock().unwrap(), 0, "the request is no span of the program's own");
}

#[test]
fn a_future_runs_inside_the_request() {
    let bench = Bench::new(|_| {});
    let request = bench.open(&[]);
    let seen = futures_executor::block_on(
        request.instrument(async { Context::current().span().span_context().span_id() }),
    );
    assert_eq!(seen.to_string(), request.span_ref().unwrap().span_id.to_string());
    assert!(!Context::current().span().span_context().is_valid());
}
