//! Request ids and stage names, made safe for logs and attributes.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// The longest request id that is kept, in bytes.
pub const REQUEST_ID_MAX_BYTES: usize = 256;
/// The longest stage name, in bytes.
pub const STAGE_NAME_MAX_BYTES: usize = 64;

/// A request id as it may stand in logs and attributes: at most 256 bytes, no control characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// The id, and whether it had to be changed: control characters are escaped as `\u{…}`, and
    /// what is over 256 bytes is cut off. The caller counts the changed ones.
    pub fn sanitized(raw: &str) -> (Self, bool) {
        if raw.len() <= REQUEST_ID_MAX_BYTES && !raw.chars().any(char::is_control) {
            return (Self(Arc::from(raw)), false);
        }
        let mut safe = String::with_capacity(REQUEST_ID_MAX_BYTES);
        for c in raw.chars() {
            let escaped = if c.is_control() { c.escape_unicode().to_string() } else { c.to_string() };
            if safe.len() + escaped.len() > REQUEST_ID_MAX_BYTES {
                break;
            }
            safe.push_str(&escaped);
        }
        (Self(Arc::from(safe)), true)
    }

    /// The id's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for RequestId {
    /// As [`RequestId::sanitized`], for callers that have nothing to count.
    fn from(raw: &str) -> Self {
        Self::sanitized(raw).0
    }
}

impl Borrow<str> for RequestId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a stage: 1 to 64 bytes of `[a-z0-9_.-]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StageName(Arc<str>);

/// A text that is no stage name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageNameError {
    refused: String,
}

impl fmt::Display for StageNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a stage name: use 1 to {STAGE_NAME_MAX_BYTES} of the characters a-z 0-9 _ . -",
            self.refused
        )
    }
}

impl std::error::Error for StageNameError {}

impl StageName {
    /// The stage's name.
    ///
    /// # Errors
    /// Empty, longer than 64 bytes, or with another character than `[a-z0-9_.-]`.
    pub fn new(name: &str) -> Result<Self, StageNameError> {
        let allowed = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-');
        if name.is_empty() || name.len() > STAGE_NAME_MAX_BYTES || !name.bytes().all(allowed) {
            return Err(StageNameError { refused: name.chars().take(STAGE_NAME_MAX_BYTES + 1).collect() });
        }
        Ok(Self(Arc::from(name)))
    }

    /// The name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_are_cut_and_escaped() {
        assert_eq!(RequestId::sanitized("req-1"), (RequestId::from("req-1"), false));
        let (id, changed) = RequestId::sanitized("a\nb\u{1b}[31m");
        assert!(changed);
        assert_eq!(id.as_str(), "a\\u{a}b\\u{1b}[31m");
        let (id, changed) = RequestId::sanitized(&"é".repeat(200));
        assert!(changed);
        assert_eq!(id.as_str().len(), 256);
    }

    #[test]
    fn stage_names_are_plain() {
        assert_eq!(StageName::new("code2wav_v1.0-b").unwrap().as_str(), "code2wav_v1.0-b");
        for bad in ["", "Talker", "a b", "a=b", "a,b", "é", &"x".repeat(65)] {
            let error = StageName::new(bad).unwrap_err().to_string();
            assert!(error.contains("not a stage name"), "{error}");
        }
    }
}
