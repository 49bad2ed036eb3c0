//! Fresh trace and span ids.

use opentelemetry_sdk::trace::IdGenerator;
use stagespan_model::{SpanId, TraceId};

/// Draws ids from the operating system's entropy at every call.
///
/// No generator state lives in the process, so a forked child can't repeat its parent's ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OsIds;

/// Fills `bytes` with entropy.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() {
        // Only a system without any entropy device gets here (a broken chroot). std's hasher keys
        // are seeded from elsewhere and differ at each call: ids stay distinct.
        use std::hash::{BuildHasher, RandomState};
        for chunk in bytes.chunks_mut(8) {
            let word = RandomState::new().hash_one(std::process::id()).to_ne_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
    bytes
}

/// A new trace id.
pub(crate) fn trace_id() -> TraceId {
    loop {
        if let Ok(id) = TraceId::from_bytes(random_bytes()) {
            return id;
        }
    }
}

/// A new span id.
pub(crate) fn span_id() -> SpanId {
    loop {
        if let Ok(id) = SpanId::from_bytes(random_bytes()) {
            return id;
        }
    }
}

impl IdGenerator for OsIds {
    fn new_trace_id(&self) -> opentelemetry::TraceId {
        opentelemetry::TraceId::from_bytes(trace_id().to_bytes())
    }

    fn new_span_id(&self) -> opentelemetry::SpanId {
        opentelemetry::SpanId::from_bytes(span_id().to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_do_not_repeat() {
        let spans: std::collections::HashSet<_> = (0..1000).map(|_| span_id()).collect();
        assert_eq!(spans.len(), 1000);
        assert_ne!(trace_id(), trace_id());
    }
}
