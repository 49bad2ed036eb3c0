//! Keeps a span within `OTEL_SPAN_*`, `OTEL_EVENT_*`, `OTEL_LINK_*` and `OTEL_ATTRIBUTE_*`.

use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanLimits as SdkLimits};

use crate::config::SpanLimits;

/// The same counts for the SDK, which is then the one that says what it left out of a live span,
/// and holds no more of it than will be exported. Lengths it does not know.
pub(crate) fn for_sdk(limits: &SpanLimits) -> SdkLimits {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    SdkLimits {
        max_events_per_span: count(limits.events),
        max_attributes_per_span: count(limits.attributes),
        max_links_per_span: count(limits.links),
        max_attributes_per_event: count(limits.event_attributes),
        max_attributes_per_link: count(limits.link_attributes),
    }
}

/// Leaves out what is beyond the limits, and says in the span how much that was.
pub(crate) fn apply(limits: &SpanLimits, span: &mut SpanData) {
    let chars = limits.attribute_value_chars;
    keep(&mut span.attributes, limits.attributes, &mut span.dropped_attributes_count);
    shorten(&mut span.attributes, chars);
    keep(&mut span.events.events, limits.events, &mut span.events.dropped_count);
    for event in &mut span.events.events {
        keep(&mut event.attributes, limits.event_attributes, &mut event.dropped_attributes_count);
        shorten(&mut event.attributes, chars);
    }
    keep(&mut span.links.links, limits.links, &mut span.links.dropped_count);
    for link in &mut span.links.links {
        keep(&mut link.attributes, limits.link_attributes, &mut link.dropped_attributes_count);
        shorten(&mut link.attributes, chars);
    }
}

/// The first `most` items; the others are counted.
fn keep<T>(items: &mut Vec<T>, most: usize, dropped: &mut u32) {
    let beyond = items.len().saturating_sub(most);
    items.truncate(most);
    *dropped = dropped.saturating_add(u32::try_from(beyond).unwrap_or(u32::MAX));
}

fn shorten(attributes: &mut [KeyValue], chars: Option<usize>) {
    let Some(most) = chars else { return };
    for attribute in attributes {
        match &mut attribute.value {
            Value::String(text) => shorten_text(text, most),
            Value::Array(Array::String(texts)) => texts.iter_mut().for_each(|text| shorten_text(text, most)),
            _ => {}
        }
    }
}

/// In characters, so that no text is cut in the middle of one.
fn shorten_text(text: &mut StringValue, most: usize) {
    if let Some((end, _)) = text.as_str().char_indices().nth(most) {
        *text = text.as_str()[..end].to_owned().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;
    use std::time::SystemTime;

    use opentelemetry::trace::{Event, Link, SpanContext, SpanKind, Status};
    use opentelemetry_sdk::trace::{SpanEvents, SpanLinks};

    fn attributes(count: usize) -> Vec<KeyValue> {
        (0..count).map(|n| KeyValue::new(format!("k{n}"), "äbcdef")).collect()
    }

    fn span() -> SpanData {
        let mut events = SpanEvents::default();
        let event = || Event::new("e", SystemTime::UNIX_EPOCH, attributes(5), 1);
        events.events = (0..4).map(|_| event()).collect();
        let mut links = SpanLinks::default();
        links.links = (0..3).map(|_| Link::new(SpanContext::NONE, attributes(6), 0)).collect();
        SpanData {
            span_context: SpanContext::NONE,
            parent_span_id: opentelemetry::SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: Cow::Borrowed("s"),
            start_time: SystemTime::UNIX_EPOCH,
            end_time: SystemTime::UNIX_EPOCH,
            attributes: attributes(7),
            dropped_attributes_count: 2,
            events,
            links,
            status: Status::Unset,
            instrumentation_scope: crate::span::scope(),
        }
    }

    #[test]
    fn within_the_limits_nothing_changes() {
        let mut limited = span();
        apply(&SpanLimits::default(), &mut limited);
        assert_eq!(limited, span());
    }

    #[test]
    fn each_limit_counts_what_it_leaves_out() {
        let mut limited = span();
        let limits = SpanLimits {
            attributes: 3,
            attribute_value_chars: Some(2),
            events: 2,
            event_attributes: 1,
            links: 1,
            link_attributes: 0,
        };
        apply(&limits, &mut limited);
        assert_eq!((limited.attributes.len(), limited.dropped_attributes_count), (3, 2 + 4));
        assert_eq!(limited.attributes[0], KeyValue::new("k0", "äb"), "the first ones stay");
        assert_eq!((limited.events.len(), limited.events.dropped_count), (2, 2));
        let event = &limited.events[0];
        assert_eq!((event.attributes.len(), event.dropped_attributes_count), (1, 1 + 4));
        assert_eq!(event.attributes[0].value.as_str(), "äb");
        assert_eq!((limited.links.len(), limited.links.dropped_count), (1, 2));
        assert_eq!((limited.links[0].attributes.len(), limited.links[0].dropped_attributes_count), (0, 6));
    }

    #[test]
    fn only_texts_have_a_length() {
        let mut span = span();
        let texts = Value::Array(Array::String(vec!["abc".into(), "d".into()]));
        span.attributes =
            vec![KeyValue::new("n", 123_456_i64), KeyValue::new("b", true), KeyValue::new("texts", texts)];
        apply(&SpanLimits { attribute_value_chars: Some(0), ..SpanLimits::default() }, &mut span);
        let empty = Value::Array(Array::String(vec!["".into(), "".into()]));
        assert_eq!(
            span.attributes,
            [KeyValue::new("n", 123_456_i64), KeyValue::new("b", true), KeyValue::new("texts", empty)]
        );
    }
}
