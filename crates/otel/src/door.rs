//! A caller's context, as `OTEL_PROPAGATORS` allows it in.

use std::str::FromStr as _;

use opentelemetry::Context;
use opentelemetry::baggage::BaggageExt as _;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{TraceContextExt as _, TraceState as SdkTraceState};
use opentelemetry_sdk::propagation::BaggagePropagator;
use stagespan_model::SpanRef;

use crate::account::{LiveCounters, count};
use crate::config::Propagator;
use crate::context::{TraceState, TraceparentError, parse_traceparent};
use crate::span::sdk_span_context;
use crate::stage_headers::{TRACEPARENT, TRACESTATE};

const BAGGAGE: &str = "baggage";

/// Whose child the request is.
pub(crate) struct Caller {
    /// The parent's context; without a span where the request is a root.
    pub(crate) context: Context,
    /// Whether the parent is a caller outside this process.
    pub(crate) is_remote: bool,
    /// Whether the trace id is known to be random (W3C level 2): ours, or said so by the caller.
    pub(crate) has_random_ids: bool,
}

/// The headers of interest.
#[derive(Default)]
struct Carrier<'h> {
    traceparents: Vec<&'h str>,
    tracestates: Vec<&'h str>,
    baggage: Vec<&'h str>,
}

impl<'h> Carrier<'h> {
    fn of(headers: impl IntoIterator<Item = (&'h str, &'h str)>) -> Self {
        let mut carrier = Self::default();
        for (name, value) in headers {
            for (wanted, place) in [
                (TRACEPARENT, &mut carrier.traceparents),
                (TRACESTATE, &mut carrier.tracestates),
                (BAGGAGE, &mut carrier.baggage),
            ] {
                if name.eq_ignore_ascii_case(wanted) {
                    place.push(value.trim_matches([' ', '\t']));
                }
            }
        }
        carrier
    }

    fn traceparent(&self) -> Option<Result<SpanRef, TraceparentError>> {
        match self.traceparents[..] {
            [] => None,
            [one] => Some(parse_traceparent(one)),
            // Which of them is meant can't be told.
            [..] => Some(Err(TraceparentError::Repeated)),
        }
    }
}

/// The process's active span, else what the headers say. The process's own variables are never
/// looked at: they are not the request's.
pub(crate) fn caller<'h>(
    headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    propagators: &[Propagator],
    counters: &LiveCounters,
) -> Caller {
    let current = Context::current();
    let carrier = Carrier::of(headers);
    let with_baggage = |context: Context| {
        // Baggage stays in the request's own context; no stage is sent any.
        if propagators.contains(&Propagator::Baggage) && !carrier.baggage.is_empty() {
            let joined = carrier.baggage.join(",");
            let baggage = BaggagePropagator::new().extract_with_context(&Context::new(), &OneHeader(&joined));
            let entries: Vec<_> =
                baggage.baggage().iter().map(|(k, (v, m))| (k.clone(), v.clone(), m.clone())).collect();
            let entries =
                entries.into_iter().map(|(k, v, m)| opentelemetry::baggage::KeyValueMetadata::new(k, v, m));
            context.with_baggage(entries)
        } else {
            context
        }
    };
    if current.span().span_context().is_valid() {
        let has_random_ids = current.span().span_context().trace_flags().to_u8() & SpanRef::RANDOM != 0;
        let is_remote = current.span().span_context().is_remote();
        return Caller { context: with_baggage(current), is_remote, has_random_ids };
    }
    let root = |context| Caller { context: with_baggage(context), is_remote: false, has_random_ids: true };
    if !propagators.contains(&Propagator::TraceContext) {
        return root(Context::new());
    }
    let parent = match carrier.traceparent() {
        Some(Ok(parent)) => parent,
        Some(Err(error)) => {
            count(&counters.bad_context);
            tracing::debug!(target: "stagespan", "a caller's traceparent is refused: {error}");
            return root(Context::new());
        }
        None => {
            count(&counters.missing_context);
            return root(Context::new());
        }
    };
    let tracestate = match TraceState::parse(&carrier.tracestates.join(",")) {
        Ok(state) => state.and_then(|state| SdkTraceState::from_str(state.as_arc()).ok()).unwrap_or_default(),
        Err(_) => {
            count(&counters.bad_tracestate);
            SdkTraceState::NONE
        }
    };
    let parent_context = sdk_span_context(&parent, true, tracestate);
    Caller {
        context: with_baggage(Context::new().with_remote_span_context(parent_context)),
        is_remote: true,
        has_random_ids: parent.flags & SpanRef::RANDOM != 0,
    }
}

/// A carrier of one `baggage` header.
struct OneHeader<'a>(&'a str);

impl Extractor for OneHeader<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        key.eq_ignore_ascii_case(BAGGAGE).then_some(self.0)
    }

    fn keys(&self) -> Vec<&str> {
        vec![BAGGAGE]
    }
}
