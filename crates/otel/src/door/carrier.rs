//! The headers of a request that may carry a context.

use crate::stage_headers::{TRACEPARENT, TRACESTATE};

pub(super) const BAGGAGE: &str = "baggage";

/// Every header that some propagator reads, in lower case.
const NAMES: [&str; 9] = [
    TRACEPARENT,
    TRACESTATE,
    BAGGAGE,
    "b3",
    "x-b3-traceid",
    "x-b3-spanid",
    "x-b3-parentspanid",
    "x-b3-sampled",
    "x-b3-flags",
];

/// A header is there more than once: which of them is meant can't be told.
#[derive(Debug)]
pub(super) struct Repeated;

/// The headers of interest, names in lower case, values without blanks around them.
#[derive(Default)]
pub(super) struct Carrier<'h>(Vec<(&'static str, &'h str)>);

impl<'h> Carrier<'h> {
    pub(super) fn of(headers: impl IntoIterator<Item = (&'h str, &'h str)>) -> Self {
        let of_interest = headers.into_iter().filter_map(|(name, value)| {
            let known = NAMES.into_iter().find(|known| name.eq_ignore_ascii_case(known))?;
            Some((known, value.trim_matches([' ', '\t'])))
        });
        Self(of_interest.collect())
    }

    /// Every value of a header.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &'h str> {
        self.0.iter().filter(move |(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// The value of a header that may be there once.
    pub(super) fn one(&self, name: &str) -> Result<Option<&'h str>, Repeated> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (value, None) => Ok(value),
            (_, Some(_)) => Err(Repeated),
        }
    }

    /// The values of a header that is a list, as one; `None` if it isn't there.
    pub(super) fn joined(&self, name: &str) -> Option<String> {
        let values: Vec<_> = self.all(name).collect();
        (!values.is_empty()).then(|| values.join(","))
    }
}
