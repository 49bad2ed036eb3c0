//! A span as a back end holds it.

use std::collections::BTreeMap;

/// One span with the resource and scope it came with. Ids are lower-case hex, instants are unix nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// 32 hex digits.
    pub trace_id: String,
    /// 16 hex digits.
    pub span_id: String,
    /// The parent's span id; `None` for a root.
    pub parent: Option<String>,
    /// W3C tracestate, empty if there is none.
    pub trace_state: String,
    /// The low 8 bits are the W3C trace flags, bit 8 says that bit 9 (the parent is remote) is known.
    pub flags: u32,
    /// Name of the span.
    pub name: String,
    /// Kind of the span.
    pub kind: SpanKind,
    /// Start, in unix nanoseconds.
    pub start_ns: u64,
    /// End, in unix nanoseconds.
    pub end_ns: u64,
    /// Status and its message.
    pub status: Status,
    /// The span's own attributes, without the back end's warnings.
    pub attributes: BTreeMap<String, Value>,
    /// Links, in the order in which they were sent.
    pub links: Vec<Link>,
    /// Attributes of the resource, i.e. of the process that made the span.
    pub resource: BTreeMap<String, Value>,
    /// Name of the instrumentation scope.
    pub scope: String,
    /// What Jaeger found wrong with the span (it stores that as an attribute).
    pub warnings: Vec<String>,
}

impl Span {
    /// Length in nanoseconds; `None` if the span ends before it starts.
    #[must_use]
    pub fn duration_ns(&self) -> Option<u64> {
        self.end_ns.checked_sub(self.start_ns)
    }

    /// The attribute as an integer; `None` if it is absent or of another type.
    #[must_use]
    pub fn int(&self, key: &str) -> Option<i64> {
        match self.attributes.get(key) {
            Some(Value::Int(value)) => Some(*value),
            _ => None,
        }
    }

    /// The attribute as a string; `None` if it is absent or of another type.
    #[must_use]
    pub fn str(&self, key: &str) -> Option<&str> {
        self.attributes.get(key).and_then(Value::as_str)
    }

    /// The resource attribute as a string; `None` if it is absent or of another type.
    #[must_use]
    pub fn resource_str(&self, key: &str) -> Option<&str> {
        self.resource.get(key).and_then(Value::as_str)
    }
}

/// A link to another span.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// 32 hex digits.
    pub trace_id: String,
    /// 16 hex digits.
    pub span_id: String,
    /// W3C tracestate, empty if there is none.
    pub trace_state: String,
    /// As [`Span::flags`].
    pub flags: u32,
    /// The link's attributes.
    pub attributes: BTreeMap<String, Value>,
}

/// Kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// The sender did not say.
    Unspecified,
    /// An operation inside one program.
    Internal,
    /// Handles a request from outside.
    Server,
    /// Makes a request to the outside.
    Client,
    /// Creates a message.
    Producer,
    /// Handles a message.
    Consumer,
}

/// Status of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Nothing was said, which is what success looks like.
    Unset,
    /// Declared a success.
    Ok,
    /// Failed, with a message that may be empty.
    Error(String),
}

/// Value of an attribute. An integer is never equal to a double, which matters to collectors' sampling policies.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// UTF-8 text.
    Str(String),
    /// 64-bit signed integer.
    Int(i64),
    /// Double.
    Double(f64),
    /// True or false.
    Bool(bool),
    /// Several values.
    Array(Vec<Value>),
}

impl Value {
    /// The text, if it is text.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Str(text.to_owned())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}
