//! W3C Trace Context, strictly.

mod traceparent;
mod tracestate;

pub use traceparent::TraceparentError;
pub(crate) use traceparent::{format_traceparent, parse_traceparent};
pub(crate) use tracestate::{OtMember, TraceState};
