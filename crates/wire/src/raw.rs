//! Values that are passed on without being looked into.

use std::fmt;

use crate::error::DecodeError;
use crate::reader::Reader;

/// MessagePack's nil.
const NIL: &[u8] = &[0xc0];

/// One MessagePack value as its bytes. Whoever decodes a message and encodes it again gives such
/// a field back byte for byte, whatever is in it. The default is nil.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RawValue {
    // Empty is nil, by far the most frequent value: it takes no allocation.
    bytes: Box<[u8]>,
}

impl RawValue {
    /// Takes the bytes of exactly one value; the reader has made sure of that.
    pub(crate) fn from_checked(bytes: &[u8]) -> Self {
        if bytes == NIL { Self::default() } else { Self { bytes: Box::from(bytes) } }
    }

    /// The value with these MessagePack bytes.
    ///
    /// # Errors
    /// If they are not exactly one value.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        const VALUE: &str = "value";
        let mut reader = Reader::new(bytes, VALUE)?;
        let value = reader.raw(VALUE)?;
        reader.end(VALUE)?;
        Ok(value)
    }

    /// The value's MessagePack bytes.
    pub fn as_bytes(&self) -> &[u8] {
        if self.bytes.is_empty() { NIL } else { &self.bytes }
    }

    /// Whether the value is nil.
    pub fn is_nil(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl fmt::Debug for RawValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Prompts and payloads travel in these fields: only their size is for logs.
        match self.bytes.len() {
            0 => f.write_str("nil"),
            n => write!(f, "<{n} bytes>"),
        }
    }
}
