//! The `traceparent` header.

use stagespan_model::{IdError, SpanId, SpanRef, TraceId};

/// Flags with a meaning; the others are dropped, as the specification asks.
const KNOWN_FLAGS: u8 = SpanRef::SAMPLED | SpanRef::RANDOM;

/// Why a text is no `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceparentError {
    /// Not `version-traceid-spanid-flags` in its fixed lengths.
    #[error("it is not of the form version-traceid-spanid-flags")]
    Shape,
    /// A version that isn't two lower-case hex digits, or is the forbidden `ff`.
    #[error("its version is not two lower-case hex digits, or is ff")]
    Version,
    /// An id that isn't lower-case hex, or is all zero.
    #[error("one of its ids is refused: {0}")]
    Id(#[from] IdError),
    /// Flags that aren't two lower-case hex digits.
    #[error("its flags are not two lower-case hex digits")]
    Flags,
    /// The header is there more than once.
    #[error("it is there more than once")]
    Repeated,
}

/// Two lower-case hex digits.
fn hex_byte(text: &str) -> Option<u8> {
    let lower = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    if text.len() == 2 && text.bytes().all(lower) { u8::from_str_radix(text, 16).ok() } else { None }
}

/// Reads a `traceparent`. Versions after 00 are read by their first four fields.
pub(crate) fn parse_traceparent(text: &str) -> Result<SpanRef, TraceparentError> {
    let mut fields = text.splitn(5, '-');
    let mut field = || fields.next().ok_or(TraceparentError::Shape);
    let (version, trace_id, span_id, flags) = (field()?, field()?, field()?, field()?);
    let rest = fields.next();
    let version = hex_byte(version).filter(|v| *v != 0xff).ok_or(TraceparentError::Version)?;
    if version == 0 && rest.is_some() {
        return Err(TraceparentError::Shape);
    }
    Ok(SpanRef {
        trace_id: TraceId::from_hex(trace_id)?,
        span_id: SpanId::from_hex(span_id)?,
        flags: hex_byte(flags).ok_or(TraceparentError::Flags)? & KNOWN_FLAGS,
    })
}

/// Writes a `traceparent` of version 00.
pub(crate) fn format_traceparent(span: &SpanRef) -> String {
    format!("00-{}-{}-{:02x}", span.trace_id, span.span_id, span.flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const T: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const S: &str = "00f067aa0ba902b7";

    #[test]
    fn known_cases() {
        let flags = |text: &str| parse_traceparent(text).map(|span| span.flags);
        use TraceparentError::*;
        let table: &[(String, Result<u8, TraceparentError>)] = &[
            (format!("00-{T}-{S}-01"), Ok(1)),
            (format!("00-{T}-{S}-00"), Ok(0)),
            (format!("00-{T}-{S}-03"), Ok(3)),
            (format!("00-{T}-{S}-ff"), Ok(3)),
            // Later versions: by the first four fields, whatever follows.
            (format!("01-{T}-{S}-01"), Ok(1)),
            (format!("cc-{T}-{S}-01-what-the-future-will-be-like"), Ok(1)),
            (format!("01-{T}-{S}-01-"), Ok(1)),
            (format!("01-{T}-{S}-01.what"), Err(Flags)),
            (format!("ff-{T}-{S}-01"), Err(Version)),
            (format!("0-{T}-{S}-01"), Err(Version)),
            (format!("0A-{T}-{S}-01"), Err(Version)),
            (format!("00-{T}-{S}-01-"), Err(Shape)),
            (format!("00-{T}-{S}-01-x"), Err(Shape)),
            (format!("00-{T}-{S}"), Err(Shape)),
            ("00-1-1-01".to_owned(), Err(Id(IdError::NotHex))),
            (format!("00-{T}-{S}-1"), Err(Flags)),
            (format!("00-{T}-{S}-0G"), Err(Flags)),
            (format!("00-{T}-{S}-+1"), Err(Flags)),
            (format!("00-+{}-{S}-01", &T[1..]), Err(Id(IdError::NotHex))),
            (format!("00-{}-{S}-01", T.to_uppercase()), Err(Id(IdError::NotHex))),
            (format!("00-{}-{S}-01", "0".repeat(32)), Err(Id(IdError::Zero))),
            (format!("00-{T}-{}-01", "0".repeat(16)), Err(Id(IdError::Zero))),
            (format!(" 00-{T}-{S}-01"), Err(Version)),
            (String::new(), Err(Shape)),
            ("é-é-é-é".to_owned(), Err(Version)),
        ];
        for (text, expected) in table {
            assert_eq!(&flags(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(t in any::<[u8; 16]>(), s in any::<[u8; 8]>(), flags in 0u8..4) {
            prop_assume!(t != [0; 16] && s != [0; 8]);
            let span = SpanRef {
                trace_id: TraceId::from_bytes(t).unwrap(),
                span_id: SpanId::from_bytes(s).unwrap(),
                flags,
            };
            prop_assert_eq!(parse_traceparent(&format_traceparent(&span)), Ok(span));
        }

        #[test]
        fn no_text_panics(text in ".{0,80}") {
            let _ = parse_traceparent(&text);
        }
    }
}
