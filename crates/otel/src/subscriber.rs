//! The `tracing` layers that turn spans into OpenTelemetry spans.

use opentelemetry_sdk::trace::SdkTracer;
use tracing::{Metadata, Subscriber};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::filter::{FilterFn, Filtered};
use tracing_subscriber::layer::Layer as _;
use tracing_subscriber::registry::LookupSpan;

/// Crates whose spans and events come from exporting itself.
const EXPORTING: [&str; 10] = [
    "hyper",
    "hyper_util",
    "h2",
    "tonic",
    "tower",
    "reqwest",
    "rustls",
    "opentelemetry",
    "opentelemetry_sdk",
    "opentelemetry_otlp",
];

/// Without attributes that nobody asked for, each of which costs an allocation.
pub(crate) fn trimmed<S>(tracer: SdkTracer) -> OpenTelemetryLayer<S, SdkTracer>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    OpenTelemetryLayer::new(tracer)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
}

type Embedded<S> = Filtered<OpenTelemetryLayer<S, SdkTracer>, FilterFn<fn(&Metadata<'_>) -> bool>, S>;

/// For an embedder's subscriber: without the spans of exporting itself.
pub(crate) fn for_embedders<S>(tracer: SdkTracer) -> Embedded<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let of_others: fn(&Metadata<'_>) -> bool = |metadata| !is_exporting(metadata.target());
    trimmed(tracer).with_filter(FilterFn::new(of_others))
}

fn is_exporting(target: &str) -> bool {
    let krate = target.split("::").next().unwrap_or(target);
    EXPORTING.contains(&krate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exporting_crates_are_left_out() {
        for target in ["hyper::client", "h2", "opentelemetry_sdk", "reqwest::connect"] {
            assert!(is_exporting(target), "{target}");
        }
        for target in ["my_hyper", "hyperion::x", "app", "stagespan", ""] {
            assert!(!is_exporting(target), "{target}");
        }
    }
}
