//! The headers that carry a stage's context inside the submit message.
//!
//! | header | value |
//! |---|---|
//! | `traceparent`, `tracestate` | the `request` span's context |
//! | `stagespan-span` | `<trace>-<span>-<flags>;own\|same\|forced` |
//! | `stagespan-upstream` | `<stage>=<trace>-<span>[,…]` |
//! | `stagespan-clock` | `d=<domain>;a=<mono>,<wall>,<uncertainty>;p=<mono>,<wall>;h=<host.id>` |
//!
//! Times in `stagespan-clock` are integers in nanoseconds, since no float is exact there. `p` is left out where no pair
//! certain enough could be read, `h` where the host is unknown.

use std::sync::Arc;

use stagespan_model::{
    ClockAnchor, ClockDomain, ClockPair, Placement, SpanRef, StageContext, StageName, Upstream,
};

use crate::context::{TraceState, TraceparentError, format_traceparent, parse_traceparent};
use crate::id_source;
use crate::join::Join;

mod clock_claim;
mod fields;

pub use clock_claim::ClockClaim;
pub use fields::FieldError;

pub(crate) const TRACEPARENT: &str = "traceparent";
pub(crate) const TRACESTATE: &str = "tracestate";
const SPAN: &str = "stagespan-span";
const UPSTREAM: &str = "stagespan-upstream";
const CLOCK: &str = "stagespan-clock";
/// What begins every header of ours.
const RESERVED_PREFIX: &str = "stagespan-";

/// Whether this header is for our own use between orchestrator and stages, in any case of letters.
pub fn is_reserved(name: &str) -> bool {
    name.get(..RESERVED_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(RESERVED_PREFIX))
}

/// Drops a client's `stagespan-*` headers. Every door does this: a stage takes such headers only
/// from its orchestrator.
pub fn strip_reserved(headers: &mut Vec<(String, String)>) {
    headers.retain(|(name, _)| !is_reserved(name));
}

/// The context of one request on one stage, as its orchestrator sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageHeaders {
    pub(crate) request: SpanRef,
    pub(crate) tracestate: Option<Arc<str>>,
    pub(crate) span: SpanRef,
    pub(crate) placement: Placement,
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) clock: Option<ClockClaim>,
}

/// Why a stage's headers are refused. The request then goes on untraced by its orchestrator's
/// ids: its stage span is the root of a trace of its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// `traceparent` is missing or malformed.
    #[error("header traceparent: {0}")]
    Traceparent(TraceparentError),
    /// `traceparent` is missing beside `stagespan-span`.
    #[error("header traceparent is missing beside stagespan-span")]
    NoTraceparent,
    /// One of ours is malformed.
    #[error("header {header}: {error}")]
    Field {
        /// The header.
        header: &'static str,
        /// What is wrong.
        error: FieldError,
    },
    /// The stage is to join the request's trace, but its span's trace is another.
    #[error("header stagespan-span: the trace of a joined stage is not that of traceparent")]
    OtherTrace,
}

/// The headers of interest, each at most once.
#[derive(Default)]
struct Given<'h> {
    traceparent: Option<&'h str>,
    tracestate: Vec<&'h str>,
    span: Option<&'h str>,
    upstream: Option<&'h str>,
    clock: Option<&'h str>,
}

impl<'h> Given<'h> {
    fn of(headers: impl IntoIterator<Item = (&'h str, &'h str)>) -> Result<Self, HeaderError> {
        let mut given = Self::default();
        for (name, value) in headers {
            let (header, place) = if name.eq_ignore_ascii_case(TRACESTATE) {
                given.tracestate.push(value);
                continue;
            } else if name.eq_ignore_ascii_case(TRACEPARENT) {
                if given.traceparent.replace(value).is_some() {
                    return Err(HeaderError::Traceparent(TraceparentError::Repeated));
                }
                continue;
            } else if name.eq_ignore_ascii_case(SPAN) {
                (SPAN, &mut given.span)
            } else if name.eq_ignore_ascii_case(UPSTREAM) {
                (UPSTREAM, &mut given.upstream)
            } else if name.eq_ignore_ascii_case(CLOCK) {
                (CLOCK, &mut given.clock)
            } else {
                continue;
            };
            if place.replace(value).is_some() {
                return Err(HeaderError::Field { header, error: FieldError::Repeated });
            }
        }
        Ok(given)
    }
}

impl StageHeaders {
    /// Reads the headers of a submit message; names in any case of letters. `Ok(None)` where the
    /// orchestrator has assigned nothing.
    ///
    /// A malformed `tracestate` is left out alone.
    ///
    /// # Errors
    /// Anything else that is malformed, repeated or contradicts itself.
    pub fn parse<'h>(
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    ) -> Result<Option<Self>, HeaderError> {
        let given = Given::of(headers)?;
        let Some(span) = given.span else { return Ok(None) };
        let request = given.traceparent.ok_or(HeaderError::NoTraceparent)?;
        let request = parse_traceparent(request).map_err(HeaderError::Traceparent)?;
        let in_header = |header| move |error| HeaderError::Field { header, error };
        let (span, placement) = fields::parse_span(span).map_err(in_header(SPAN))?;
        if placement != Placement::Own && span.trace_id != request.trace_id {
            return Err(HeaderError::OtherTrace);
        }
        let upstreams = match given.upstream {
            Some(text) => fields::parse_upstreams(text, span.flags).map_err(in_header(UPSTREAM))?,
            None => Vec::new(),
        };
        let clock = given.clock.map(ClockClaim::parse).transpose().map_err(in_header(CLOCK))?;
        let tracestate = TraceState::parse(&given.tracestate.join(",")).ok().flatten();
        Ok(Some(Self {
            request,
            tracestate: tracestate.map(|state| Arc::clone(state.as_arc())),
            span,
            placement,
            upstreams,
            clock,
        }))
    }

    /// The headers of a context, with the clock's claim.
    pub(crate) fn write(context: &StageContext, clock: &ClockClaim) -> Vec<(String, String)> {
        let mut headers = Vec::with_capacity(5);
        let mut push = |name: &str, value: String| headers.push((name.to_owned(), value));
        push(TRACEPARENT, format_traceparent(&context.request));
        if let Some(tracestate) = &context.tracestate {
            push(TRACESTATE, tracestate.to_string());
        }
        push(SPAN, fields::format_span(&context.span, context.placement));
        if !context.upstreams.is_empty() {
            push(UPSTREAM, fields::format_upstreams(&context.upstreams));
        }
        push(CLOCK, clock.to_string());
        headers
    }

    /// Where the orchestrator wants the stage's span.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// The `request` span.
    pub fn request(&self) -> SpanRef {
        self.request
    }

    /// The upstream stages whose spans are to be linked.
    pub fn upstreams(&self) -> impl Iterator<Item = &StageName> {
        self.upstreams.iter().map(|upstream| &upstream.stage)
    }

    /// The request's anchor: it places the instants of a stage that [`Join::Accepted`] says may
    /// use it.
    pub fn request_anchor(&self) -> Option<ClockAnchor> {
        self.clock.as_ref().map(|clock| clock.anchor)
    }

    /// The clock domain that the request's times are on.
    pub fn request_domain(&self) -> Option<&ClockDomain> {
        self.clock.as_ref().map(|clock| &clock.domain)
    }

    /// The pair that was read at submission.
    pub(crate) fn sent_pair(&self) -> Option<ClockPair> {
        self.clock.as_ref().and_then(|clock| clock.pair)
    }

    /// The context of the stage's span, after [`check_join`](crate::check_join): a stage that
    /// refused to join has a trace of its own, with fresh ids.
    pub fn into_context(self, join: &Join) -> StageContext {
        let context = StageContext {
            span: self.span,
            placement: self.placement,
            request: self.request,
            tracestate: self.tracestate,
            upstreams: self.upstreams,
            request_host_id: self.clock.and_then(|clock| clock.host_id),
            joined_refused: false,
        };
        match join {
            Join::NotClaimed | Join::Accepted => context,
            Join::Refused(_) => refused(context),
        }
    }
}

/// The context of a stage that refuses to join: a trace of its own, linked all the same.
pub(crate) fn refused(context: StageContext) -> StageContext {
    StageContext {
        span: SpanRef {
            trace_id: id_source::trace_id(),
            span_id: id_source::span_id(),
            flags: (context.span.flags & SpanRef::SAMPLED) | SpanRef::RANDOM,
        },
        placement: Placement::Own,
        joined_refused: true,
        ..context
    }
}

#[cfg(test)]
mod tests;
