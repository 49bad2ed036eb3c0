//! Why bytes are not a message.

use std::fmt;

/// Bytes that can't be decoded: which field, where, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The field, as `outputs.events.timestamp`.
    pub field: &'static str,
    /// Where its value begins, in bytes from the start of the message.
    pub offset: usize,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The message ends in the middle of the value.
    Truncated,
    /// The value is of another type; its MessagePack marker byte.
    Type {
        /// What the field takes.
        expected: &'static str,
        /// The marker byte that was there.
        marker: u8,
    },
    /// An integer that the field can't hold.
    OutOfRange {
        /// What the field takes.
        expected: &'static str,
    },
    /// A text that is not UTF-8.
    NotUtf8,
    /// A number that names no known value.
    Unknown {
        /// What is numbered.
        what: &'static str,
        /// The number.
        code: u64,
    },
    /// A field that must be there is not.
    Missing,
    /// More entries than a message may have.
    TooMany {
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// The message is longer than a frame may be.
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The most it may be.
        max: usize,
    },
    /// Bytes are left over after the message.
    Trailing {
        /// How many.
        bytes: usize,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the message ends in the middle of it"),
            Self::Type { expected, marker } => {
                write!(f, "expected {expected}, found MessagePack marker 0x{marker:02x}")
            }
            Self::OutOfRange { expected } => write!(f, "the integer is not {expected}"),
            Self::NotUtf8 => f.write_str("the text is not UTF-8"),
            Self::Unknown { what, code } => write!(f, "{code} is no known {what}"),
            Self::Missing => f.write_str("it is missing"),
            Self::TooMany { count, max } => write!(f, "{count} entries are more than the {max} allowed"),
            Self::TooLong { bytes, max } => write!(f, "{bytes} bytes are more than the {max} of a frame"),
            Self::Trailing { bytes } => write!(f, "{bytes} bytes are left over after it"),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "field {} at byte {}: {}", self.field, self.offset, self.problem)
    }
}

impl std::error::Error for DecodeError {}
