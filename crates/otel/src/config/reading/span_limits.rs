//! The `OTEL_SPAN_*`, `OTEL_EVENT_*`, `OTEL_LINK_*` and `OTEL_ATTRIBUTE_*` limits.

use super::Reader;
use crate::config::SpanLimits;

/// Span-specific ones before those for attributes of every signal.
const ATTRIBUTES: [&str; 2] = ["OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT"];
const VALUE_CHARS: [&str; 2] =
    ["OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"];
const EVENTS: &str = "OTEL_SPAN_EVENT_COUNT_LIMIT";
const EVENT_ATTRIBUTES: &str = "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT";
const LINKS: &str = "OTEL_SPAN_LINK_COUNT_LIMIT";
const LINK_ATTRIBUTES: &str = "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT";

const MOST: u64 = u32::MAX as u64;

pub(super) fn read(reader: &mut Reader<'_>) -> SpanLimits {
    let default = SpanLimits::default();
    let attributes = reader.first(ATTRIBUTES).map_or(ATTRIBUTES[1], |(variable, _)| variable);
    SpanLimits {
        attributes: count(reader, attributes, "span attributes", default.attributes),
        attribute_value_chars: value_chars(reader),
        events: count(reader, EVENTS, "span events", default.events),
        event_attributes: count(reader, EVENT_ATTRIBUTES, "event attributes", default.event_attributes),
        links: count(reader, LINKS, "span links", default.links),
        link_attributes: count(reader, LINK_ATTRIBUTES, "link attributes", default.link_attributes),
    }
}

/// A count, shown only where somebody has set it: six more lines would bury what people look for.
fn count(reader: &mut Reader<'_>, variable: &str, setting: &'static str, default: usize) -> usize {
    let count = reader.number(variable, default as u64, 0..=MOST);
    if reader.text(variable).is_some() {
        reader.set(setting, &count.to_string(), reader.source(variable));
    }
    count as usize
}

fn value_chars(reader: &mut Reader<'_>) -> Option<usize> {
    let (variable, text) = reader.first(VALUE_CHARS)?;
    match text.parse::<u64>() {
        Ok(chars) if chars <= MOST => {
            reader.set("attribute length", &chars.to_string(), reader.source(variable));
            Some(chars as usize)
        }
        _ => {
            let problem = format!("is not a whole number from 0 to {MOST}");
            reader.warn(variable, &problem, "using no limit");
            None
        }
    }
}
