//! `key=value,key=value` with percent-encoding, as in OTEL_RESOURCE_ATTRIBUTES and the headers.

use percent_encoding::percent_decode_str;

/// Why an item of a list can't be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemError {
    /// No `=`, or nothing before it.
    NoKey,
    /// A `%` without two hex digits, or bytes that aren't UTF-8.
    Encoding,
}

/// The items in their order; blank ones are skipped.
pub(super) fn items(text: &str) -> impl Iterator<Item = Result<(String, String), ItemError>> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(|item| {
        let (key, value) = item.split_once('=').ok_or(ItemError::NoKey)?;
        let (key, value) = (decode(key.trim())?, decode(value.trim())?);
        if key.is_empty() { Err(ItemError::NoKey) } else { Ok((key, value)) }
    })
}

fn decode(text: &str) -> Result<String, ItemError> {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let digits = rest.as_bytes().get(at + 1..at + 3).ok_or(ItemError::Encoding)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(ItemError::Encoding);
        }
        rest = &rest[at + 3..];
    }
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| ItemError::Encoding)?;
    Ok(decoded.into_owned())
}
