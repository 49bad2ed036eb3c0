//! Trace and span ids, and references to spans.

use std::fmt;

/// A W3C trace id: 16 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// A W3C span id: 8 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

/// Why a text or a byte string is not an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdError {
    /// The text is not of the id's length in lower-case hex digits.
    NotHex,
    /// All zero, which W3C Trace Context reserves for "invalid".
    Zero,
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotHex => "an id is written in lower-case hex digits: 32 of a trace, 16 of a span",
            Self::Zero => "an id of zeros is invalid",
        })
    }
}

impl std::error::Error for IdError {}

/// Decodes exactly `2 * N` lower-case hex digits.
fn decode_hex<const N: usize>(text: &str) -> Result<[u8; N], IdError> {
    let digit = |b: u8| match b {
        b'0'..=b'9' => Ok(b - b'0'),
        b'a'..=b'f' => Ok(b - b'a' + 10),
        _ => Err(IdError::NotHex),
    };
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return Err(IdError::NotHex);
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(bytes)
}

macro_rules! id {
    ($name:ident, $bytes:literal) => {
        impl $name {
            /// The id with these bytes.
            ///
            /// # Errors
            /// [`IdError::Zero`] if all are zero.
            pub fn from_bytes(bytes: [u8; $bytes]) -> Result<Self, IdError> {
                if bytes == [0; $bytes] { Err(IdError::Zero) } else { Ok(Self(bytes)) }
            }

            /// The id written in lower-case hex.
            ///
            /// # Errors
            /// Any other length, digit or case, and all zeros.
            pub fn from_hex(text: &str) -> Result<Self, IdError> {
                Self::from_bytes(decode_hex(text)?)
            }

            /// Its bytes.
            pub const fn to_bytes(self) -> [u8; $bytes] {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    };
}

id!(TraceId, 16);
id!(SpanId, 8);

/// Where a span is: its trace, its id, and the flags of its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanRef {
    /// The trace.
    pub trace_id: TraceId,
    /// The span in it.
    pub span_id: SpanId,
    /// W3C trace flags: bit 0 sampled, bit 1 random trace id.
    pub flags: u8,
}

impl SpanRef {
    /// The flag of a sampled trace.
    pub const SAMPLED: u8 = 0x01;
    /// The flag of a trace id whose low 56 bits are random (W3C Trace Context level 2).
    pub const RANDOM: u8 = 0x02;

    /// Whether its trace is sampled.
    pub const fn is_sampled(&self) -> bool {
        self.flags & Self::SAMPLED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_strict_lower_case_hex() {
        let text = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(TraceId::from_hex(text).unwrap().to_string(), text);
        assert_eq!(SpanId::from_hex("00f067aa0ba902b7").unwrap().to_string(), "00f067aa0ba902b7");
        for bad in
            ["", "4BF92F3577B34DA6A3CE929D0E0E4736", "+bf92f3577b34da6a3ce929d0e0e4736", &text[1..], "é"]
        {
            assert_eq!(TraceId::from_hex(bad), Err(IdError::NotHex), "{bad}");
        }
        assert_eq!(TraceId::from_hex(&"0".repeat(32)), Err(IdError::Zero));
        assert_eq!(SpanId::from_bytes([0; 8]), Err(IdError::Zero));
    }
}
