//! What Jaeger would show a person: no warning on any span, and no span moved.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value as Json;

use crate::jaeger::{Jaeger, Options};
use crate::otlp_json::{self, export_request};
use crate::span::Span;

/// Shows these spans in a Jaeger that may move spans by up to `max_clock_skew_adjust`, and looks at every trace in both of
/// its query interfaces.
///
/// # Errors
/// A warning on any span, or a span that is drawn at another time than it was sent with.
pub fn check_shown_as_sent(spans: &[Span], max_clock_skew_adjust: Duration) -> anyhow::Result<()> {
    let jaeger = Jaeger::start_with(&Options { max_clock_skew_adjust, ..Options::default() })?;
    jaeger.export(&export_request(spans))?;
    let mut traces: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in spans {
        traces.entry(&span.trace_id).or_default().push(span);
    }
    for (trace_id, sent) in &traces {
        let trace = jaeger.trace_v1(trace_id)?.with_context(|| format!("Jaeger has no trace {trace_id}"))?;
        let warnings = Jaeger::warnings_of(&trace)?;
        ensure!(warnings.is_empty(), "trace {trace_id}: {warnings:?}");
        ensure!(drawn(&trace)? == in_microseconds(sent), "trace {trace_id} is drawn otherwise: {trace}");
    }
    // Once more in the other interface, after the views above had their chance to leave a warning in the store.
    let services: BTreeSet<&str> =
        spans.iter().filter_map(|span| span.resource_str("service.name")).collect();
    let mut unseen: BTreeSet<&str> = spans.iter().map(|span| span.span_id.as_str()).collect();
    for service in services {
        let stored = otlp_json::parse(&jaeger.search_v3(service, traces.len())?)?;
        let warned = stored.iter().find(|span| !span.warnings.is_empty());
        ensure!(warned.is_none(), "{warned:?}");
        for span in &stored {
            unseen.remove(span.span_id.as_str());
        }
    }
    ensure!(unseen.is_empty(), "Jaeger does not have {unseen:?}");
    Ok(())
}

/// Span, start and length, as the timeline has them.
type Drawn = BTreeSet<(String, u64, u64)>;

fn drawn(trace: &Json) -> anyhow::Result<Drawn> {
    let spans = trace["spans"].as_array().context("no spans")?;
    spans
        .iter()
        .map(|span| {
            let id = span["spanID"].as_str().context("no span id")?.to_owned();
            let start_us = span["startTime"].as_u64().context("no start")?;
            Ok((id, start_us, span["duration"].as_u64().context("no duration")?))
        })
        .collect()
}

fn in_microseconds(spans: &[&Span]) -> Drawn {
    spans
        .iter()
        .map(|span| (span.span_id.clone(), span.start_ns / 1000, (span.end_ns - span.start_ns) / 1000))
        .collect()
}
