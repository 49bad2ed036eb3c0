//! Texts that are never printed.

use std::fmt;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that sends it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

/// What stands in messages in a secret's place.
pub(crate) const MASK: &str = "•••";

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}
