//! The caller of a request: a program with a span of its own, outside Stagespan.

use std::collections::BTreeMap;
use std::time::SystemTime;

use crate::span::{Span, SpanKind, Status, Value};

/// The caller's `service.name`.
pub const SERVICE: &str = "caller";

/// One call: its context, and when it began.
#[derive(Debug, Clone)]
pub struct Caller {
    trace_id: String,
    span_id: String,
    flags: u8,
    trace_state: String,
    start_ns: u64,
}

impl Caller {
    /// The `number`th call, beginning now. Sampled, with random ids (flags 03), without a tracestate.
    #[must_use]
    pub fn new(number: u64) -> Self {
        let (high, low, span) = (mixed(3 * number), mixed(3 * number + 1), mixed(3 * number + 2));
        Self {
            trace_id: format!("{high:016x}{low:016x}"),
            span_id: format!("{span:016x}"),
            flags: 3,
            trace_state: String::new(),
            start_ns: unix_ns(),
        }
    }

    /// The same with this tracestate.
    #[must_use]
    pub fn with_trace_state(self, trace_state: &str) -> Self {
        Self { trace_state: trace_state.to_owned(), ..self }
    }

    /// The same, not sampled: random ids, but nobody is to record anything.
    #[must_use]
    pub fn unsampled(self) -> Self {
        Self { flags: 2, ..self }
    }

    /// 32 hex digits.
    #[must_use]
    pub fn trace_id(&self) -> &str {
        &self.trace_id
    }

    /// 16 hex digits.
    #[must_use]
    pub fn span_id(&self) -> &str {
        &self.span_id
    }

    /// Its W3C tracestate, empty if it has none.
    #[must_use]
    pub fn trace_state(&self) -> &str {
        &self.trace_state
    }

    /// The headers that it sends.
    #[must_use]
    pub fn headers(&self) -> Vec<(String, String)> {
        let traceparent = format!("00-{}-{}-{:02x}", self.trace_id, self.span_id, self.flags);
        let mut headers = vec![("traceparent".to_owned(), traceparent)];
        if !self.trace_state.is_empty() {
            headers.push(("tracestate".to_owned(), self.trace_state.clone()));
        }
        headers
    }

    /// Its span, ending now. The caller is on a host of its own, as callers usually are.
    #[must_use]
    pub fn end(&self) -> Span {
        let texts =
            [("service.name", SERVICE), ("host.id", "host-of-the-caller"), ("ip", "host-of-the-caller")];
        Span {
            trace_id: self.trace_id.clone(),
            span_id: self.span_id.clone(),
            parent: None,
            trace_state: self.trace_state.clone(),
            flags: 0x100 | u32::from(self.flags),
            name: "call".to_owned(),
            kind: SpanKind::Client,
            start_ns: self.start_ns,
            end_ns: unix_ns(),
            status: Status::Unset,
            attributes: BTreeMap::new(),
            links: Vec::new(),
            resource: texts.into_iter().map(|(key, text)| (key.to_owned(), Value::from(text))).collect(),
            scope: SERVICE.to_owned(),
            warnings: Vec::new(),
        }
    }
}

/// Unix time in nanoseconds, as a program without Stagespan would take it.
#[must_use]
pub fn unix_ns() -> u64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}

/// Bits that look random and are the same in every run (SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_w3c_and_every_call_has_its_own_ids() {
        let caller = Caller::new(7).with_trace_state("vendor=1");
        let expected = format!("00-{}-{}-03", caller.trace_id(), caller.span_id());
        assert_eq!(caller.headers()[0], ("traceparent".to_owned(), expected));
        assert_eq!(caller.headers()[1], ("tracestate".to_owned(), "vendor=1".to_owned()));
        assert!(Caller::new(7).unsampled().headers()[0].1.ends_with("-02"));
        let ids: std::collections::HashSet<String> = (0..1000).map(|n| Caller::new(n).trace_id).collect();
        assert_eq!(ids.len(), 1000);
    }
}
