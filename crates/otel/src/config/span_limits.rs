//! How much a span may hold.

/// Limits of one span: the `OTEL_SPAN_*`, `OTEL_LINK_*` and `OTEL_ATTRIBUTE_*` variables.
///
/// What is beyond a count is left out, and the span says how much that was. They concern users'
/// own spans in practice: ours hold some 25 attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanLimits {
    /// Attributes of a span.
    pub attributes: usize,
    /// Characters of an attribute's text, or of each text in its list; `None` is no limit.
    pub attribute_value_chars: Option<usize>,
    /// Events of a span.
    pub events: usize,
    /// Attributes of an event.
    pub event_attributes: usize,
    /// Links of a span.
    pub links: usize,
    /// Attributes of a link.
    pub link_attributes: usize,
}

impl Default for SpanLimits {
    fn default() -> Self {
        Self {
            attributes: 128,
            attribute_value_chars: None,
            events: 128,
            event_attributes: 128,
            links: 128,
            link_attributes: 128,
        }
    }
}
