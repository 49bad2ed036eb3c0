//! A caller's context, as `OTEL_PROPAGATORS` allows it in.

use std::str::FromStr as _;

use opentelemetry::Context;
use opentelemetry::baggage::{BaggageExt as _, KeyValueMetadata};
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{TraceContextExt as _, TraceState as SdkTraceState};
use opentelemetry_sdk::propagation::BaggagePropagator;
use stagespan_model::SpanRef;

use crate::account::{LiveCounters, count};
use crate::config::Propagator;
use crate::context::{TraceState, TraceparentError, parse_traceparent};
use crate::span::sdk_span_context;
use crate::stage_headers::{TRACEPARENT, TRACESTATE};

mod b3;
mod carrier;

use carrier::{BAGGAGE, Carrier};

/// Whose child the request is.
pub(crate) struct Caller {
    /// The parent's context; without a span where the request is a root.
    pub(crate) context: Context,
    /// Whether the parent is a caller outside this process.
    pub(crate) is_remote: bool,
    /// Whether the trace id is known to be random (W3C level 2): ours, or said so by the caller.
    pub(crate) has_random_ids: bool,
}

/// What the headers of one format say.
enum Said {
    /// They aren't there.
    Nothing,
    /// They are malformed.
    Malformed,
    /// The caller's span.
    Parent(SpanRef),
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
        match carrier.joined(BAGGAGE) {
            Some(baggage) if propagators.contains(&Propagator::Baggage) => add_baggage(context, &baggage),
            _ => context,
        }
    };
    if current.span().span_context().is_valid() {
        let has_random_ids = current.span().span_context().trace_flags().to_u8() & SpanRef::RANDOM != 0;
        let is_remote = current.span().span_context().is_remote();
        return Caller { context: with_baggage(current), is_remote, has_random_ids };
    }
    let Some((parent, format)) = parent(&carrier, propagators, counters) else {
        return Caller { context: with_baggage(Context::new()), is_remote: false, has_random_ids: true };
    };
    let tracestate = match format {
        Propagator::TraceContext => tracestate(&carrier, counters),
        _ => SdkTraceState::NONE,
    };
    let parent_context = sdk_span_context(&parent, true, tracestate);
    Caller {
        context: with_baggage(Context::new().with_remote_span_context(parent_context)),
        is_remote: true,
        has_random_ids: parent.flags & SpanRef::RANDOM != 0,
    }
}

/// The caller's span, and the format that told it: of several, the one that is named last, as
/// where propagators run one after the other. What is missing or malformed is counted, once for a
/// request that becomes a root.
fn parent(
    carrier: &Carrier<'_>,
    propagators: &[Propagator],
    counters: &LiveCounters,
) -> Option<(SpanRef, Propagator)> {
    let mut says_nothing = None;
    for &propagator in propagators.iter().rev() {
        let said = match propagator {
            Propagator::TraceContext => said_by_w3c(carrier),
            Propagator::B3 => said_by_b3(b3::single(carrier)),
            Propagator::B3Multi => said_by_b3(b3::multi(carrier)),
            Propagator::Baggage => continue,
        };
        match said {
            Said::Parent(parent) => return Some((parent, propagator)),
            Said::Malformed => says_nothing = Some(&counters.bad_context),
            Said::Nothing => says_nothing = says_nothing.or(Some(&counters.missing_context)),
        }
    }
    if let Some(counter) = says_nothing {
        count(counter);
    }
    None
}

fn said_by_w3c(carrier: &Carrier<'_>) -> Said {
    let parsed = match carrier.one(TRACEPARENT) {
        Ok(None) => return Said::Nothing,
        Ok(Some(text)) => parse_traceparent(text),
        Err(carrier::Repeated) => Err(TraceparentError::Repeated),
    };
    match parsed {
        Ok(parent) => Said::Parent(parent),
        Err(error) => {
            tracing::debug!(target: "stagespan", "a caller's traceparent is refused: {error}");
            Said::Malformed
        }
    }
}

fn said_by_b3(read: Result<Option<SpanRef>, b3::Malformed>) -> Said {
    match read {
        Ok(None) => Said::Nothing,
        Ok(Some(parent)) => Said::Parent(parent),
        Err(b3::Malformed) => {
            tracing::debug!(target: "stagespan", "a caller's b3 headers are refused");
            Said::Malformed
        }
    }
}

/// A bad tracestate is dropped alone.
fn tracestate(carrier: &Carrier<'_>, counters: &LiveCounters) -> SdkTraceState {
    match TraceState::parse(&carrier.joined(TRACESTATE).unwrap_or_default()) {
        Ok(state) => state.and_then(|state| SdkTraceState::from_str(state.as_arc()).ok()).unwrap_or_default(),
        Err(_) => {
            count(&counters.bad_tracestate);
            SdkTraceState::NONE
        }
    }
}

fn add_baggage(context: Context, text: &str) -> Context {
    let read = BaggagePropagator::new().extract_with_context(&Context::new(), &OneHeader(text));
    let entries: Vec<_> = read
        .baggage()
        .iter()
        .map(|(key, (value, metadata))| KeyValueMetadata::new(key.clone(), value.clone(), metadata.clone()))
        .collect();
    context.with_baggage(entries)
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
