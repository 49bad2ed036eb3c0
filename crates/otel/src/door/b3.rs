//! Zipkin's headers, as the kept crate reads them, but checked as strictly as a `traceparent`.

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_propagator_b3::{B3Encoding, Propagator};
use stagespan_model::{SpanId, SpanRef, TraceId};

use super::carrier::{Carrier, Repeated};

const SINGLE: &str = "b3";
const TRACE_ID: &str = "x-b3-traceid";
const SPAN_ID: &str = "x-b3-spanid";
const MULTI: [&str; 5] = [TRACE_ID, SPAN_ID, "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags"];

/// The crate's own flags: the sampling decision is left to the receiver, or debugging is asked for.
const DEFERRED: u8 = 0x02;
const DEBUG: u8 = 0x04;

/// The headers are there, but malformed.
#[derive(Debug)]
pub(super) struct Malformed;

impl From<Repeated> for Malformed {
    fn from(Repeated: Repeated) -> Self {
        Self
    }
}

/// What the single header says; `None` where it names no span (it may hold a bare decision, for
/// which there is no place in a W3C context).
pub(super) fn single(carrier: &Carrier<'_>) -> Result<Option<SpanRef>, Malformed> {
    let Some(value) = carrier.one(SINGLE)? else { return Ok(None) };
    if matches!(value, "0" | "1" | "d") {
        return Ok(None);
    }
    if !value.bytes().all(|b| is_lower_hex(b) || b == b'-') || value.ends_with('-') {
        return Err(Malformed);
    }
    extract(B3Encoding::SingleHeader, Headers(vec![(SINGLE, value)])).map(Some)
}

/// What the several headers say.
pub(super) fn multi(carrier: &Carrier<'_>) -> Result<Option<SpanRef>, Malformed> {
    let mut headers = Vec::new();
    for name in MULTI {
        headers.extend(carrier.one(name)?.map(|value| (name, value)));
    }
    let headers = Headers(headers);
    let ids = [headers.get(TRACE_ID), headers.get(SPAN_ID)];
    if ids == [None, None] {
        return Ok(None);
    }
    if !ids.iter().flatten().all(|id| id.bytes().all(is_lower_hex)) {
        return Err(Malformed);
    }
    extract(B3Encoding::MultipleHeader, headers).map(Some)
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn extract(encoding: B3Encoding, headers: Headers<'_>) -> Result<SpanRef, Malformed> {
    let context = Propagator::with_encoding(encoding).extract_with_context(&Context::new(), &headers);
    let span = context.span();
    let span = span.span_context();
    let flags = span.trace_flags().to_u8();
    // Its bits are not W3C's. A decision that is left to us is made as for a root: we trace what
    // we are asked for. Whether the trace id is random is not said.
    let is_sampled = span.is_sampled() || flags & (DEBUG | DEFERRED) != 0;
    Ok(SpanRef {
        trace_id: TraceId::from_bytes(span.trace_id().to_bytes()).map_err(|_| Malformed)?,
        span_id: SpanId::from_bytes(span.span_id().to_bytes()).map_err(|_| Malformed)?,
        flags: if is_sampled { SpanRef::SAMPLED } else { 0 },
    })
}

/// Only the headers of one encoding, since the crate would fall back to the other.
struct Headers<'h>(Vec<(&'static str, &'h str)>);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const S: &str = "00f067aa0ba902b7";

    /// Trace id and whether it is sampled.
    fn said(result: Result<Option<SpanRef>, Malformed>) -> Result<Option<(String, bool)>, ()> {
        let said = result.map_err(|Malformed| ())?;
        Ok(said.map(|span| {
            assert_eq!(span.span_id.to_string(), S);
            (span.trace_id.to_string(), span.is_sampled())
        }))
    }

    #[test]
    fn the_single_header() {
        let table = [
            (format!("{T}-{S}-1"), Ok(Some((T.to_owned(), true)))),
            (format!("{T}-{S}-0"), Ok(Some((T.to_owned(), false)))),
            (format!("{T}-{S}-d"), Ok(Some((T.to_owned(), true)))),
            (format!("{T}-{S}"), Ok(Some((T.to_owned(), true)))),
            (format!("{T}-{S}-1-{S}"), Ok(Some((T.to_owned(), true)))),
            (format!("{}-{S}-1", &T[16..]), Ok(Some((format!("{:0>32}", &T[16..]), true)))),
            ("0".to_owned(), Ok(None)),
            ("1".to_owned(), Ok(None)),
            (String::new(), Err(())),
            (T.to_owned(), Err(())),
            (format!("{T}-{S}-1-"), Err(())),
            (format!("{T}-{S}-2"), Err(())),
            (format!("{}-{S}-1", T.to_uppercase()), Err(())),
            (format!("+{}-{S}-1", &T[1..]), Err(())),
            (format!("{}-{S}-1", "0".repeat(32)), Err(())),
            (format!("{T}-{}-1", "0".repeat(16)), Err(())),
            (format!("{T}-{S}-1-{S}-1"), Err(())),
        ];
        for (value, expected) in table {
            assert_eq!(said(single(&Carrier::of([("B3", &*value)]))), expected, "{value:?}");
        }
        assert_eq!(said(single(&Carrier::of([]))), Ok(None));
        let value = format!("{T}-{S}-1");
        assert_eq!(said(single(&Carrier::of([("b3", &*value), ("B3", &*value)]))), Err(()), "repeated");
    }

    #[test]
    fn the_several_headers() {
        let (trace, span) = (("X-B3-TraceId", T), ("X-B3-SpanId", S));
        let table: [(&[(&str, &str)], _); 11] = [
            (&[trace, span, ("X-B3-Sampled", "1")], Ok(Some(true))),
            (&[trace, span, ("X-B3-Sampled", "0")], Ok(Some(false))),
            (&[trace, span, ("X-B3-Flags", "1")], Ok(Some(true))),
            (&[trace, span], Ok(Some(true))),
            (&[trace, span, ("X-B3-ParentSpanId", S), ("X-B3-Sampled", "1")], Ok(Some(true))),
            (&[("X-B3-Sampled", "0")], Ok(None)),
            (&[], Ok(None)),
            (&[trace], Err(())),
            (&[trace, ("X-B3-SpanId", "+0f067aa0ba902b7")], Err(())),
            (&[trace, span, ("X-B3-Sampled", "maybe")], Err(())),
            (&[trace, trace, span], Err(())),
        ];
        for (headers, expected) in table {
            let said = said(multi(&Carrier::of(headers.iter().copied())));
            assert_eq!(said.map(|said| said.map(|(_, sampled)| sampled)), expected, "{headers:?}");
        }
    }

    #[test]
    fn neither_reads_the_others_headers() {
        let value = format!("{T}-{S}-1");
        let carrier = Carrier::of([("b3", &*value)]);
        assert_eq!(said(multi(&carrier)), Ok(None));
        let carrier = Carrier::of([("x-b3-traceid", T), ("x-b3-spanid", S)]);
        assert_eq!(said(single(&carrier)), Ok(None));
    }
}
