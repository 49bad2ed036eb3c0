//! OTEL_PROPAGATORS.

use super::Reader;
use crate::config::Propagator;
use crate::config::finding::Source;

const PROPAGATORS: &str = "OTEL_PROPAGATORS";

pub(super) fn read(reader: &mut Reader<'_>) -> Vec<Propagator> {
    let names = reader.list(PROPAGATORS);
    if names.is_empty() {
        let default = vec![Propagator::TraceContext, Propagator::Baggage];
        reader.set("propagators", "tracecontext,baggage", Source::Default);
        return default;
    }
    let mut propagators = Vec::new();
    for name in &names {
        match name.as_str() {
            "tracecontext" => propagators.push(Propagator::TraceContext),
            "baggage" => propagators.push(Propagator::Baggage),
            "b3" => propagators.push(Propagator::B3),
            "b3multi" => propagators.push(Propagator::B3Multi),
            "none" if names.len() == 1 => {}
            "none" => reader.warn(PROPAGATORS, "has none beside others", "none is left out"),
            "jaeger" | "xray" | "ottrace" => {
                reader.warn(
                    PROPAGATORS,
                    &format!("names {name}, which is not supported"),
                    "left out; use tracecontext, b3 or b3multi",
                );
            }
            _ => reader.warn(PROPAGATORS, &format!("names {name:?}, which is unknown"), "left out"),
        }
    }
    let in_force: Vec<_> = propagators.iter().map(|p| p.as_str()).collect();
    let in_force = if in_force.is_empty() { "none".to_owned() } else { in_force.join(",") };
    reader.set("propagators", &in_force, Source::Variable(PROPAGATORS.to_owned()));
    propagators
}
