//! How a caller's context is read.

/// How a caller's context is read at the door: `OTEL_PROPAGATORS`.
///
/// Of several whose headers are there, the one named last decides. Between stages the context is
/// always W3C's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagator {
    /// W3C `traceparent` and `tracestate`.
    TraceContext,
    /// W3C `baggage`.
    Baggage,
    /// The single `b3` header of Zipkin.
    B3,
    /// Zipkin's several `x-b3-*` headers.
    B3Multi,
}

impl Propagator {
    /// Its name in the variable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TraceContext => "tracecontext",
            Self::Baggage => "baggage",
            Self::B3 => "b3",
            Self::B3Multi => "b3multi",
        }
    }
}
