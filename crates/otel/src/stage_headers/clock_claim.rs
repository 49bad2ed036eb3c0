//! The value of `stagespan-clock`: what a stage needs to check that its clock is the request's.

use std::fmt;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use stagespan_model::{ClockAnchor, ClockDomain, ClockPair, Instant};

use super::fields::FieldError;

/// The longest host id, decoded, in bytes.
const HOST_ID_MAX_BYTES: usize = 256;
/// Characters of a host id that stand for themselves.
const HOST_ID: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b':');

/// The clock behind a request's times, as claimed by its orchestrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockClaim {
    /// The domain.
    pub(crate) domain: ClockDomain,
    /// The request's anchor.
    pub(crate) anchor: ClockAnchor,
    /// The pair read at submission; `None` where none was certain enough.
    pub(crate) pair: Option<ClockPair>,
    /// The orchestrator's `host.id`.
    pub(crate) host_id: Option<Arc<str>>,
}

impl ClockClaim {
    /// `d=<domain>;a=<mono>,<wall>,<uncertainty>[;p=<mono>,<wall>][;h=<host.id>]`, in this order.
    pub(crate) fn parse(text: &str) -> Result<Self, FieldError> {
        let mut fields = text.split(';').peekable();
        let mut field = |key: &str| fields.next_if(|f| f.starts_with(key)).map(|f| &f[key.len()..]);
        let domain = field("d=").ok_or(FieldError::Shape)?;
        let domain = ClockDomain::from_id(domain).ok_or(FieldError::Identity)?;
        let [monotonic, wall_unix_ns, uncertainty_ns] = numbers(field("a=").ok_or(FieldError::Shape)?)?;
        let monotonic = Instant::from_ns(monotonic, domain.tag()).map_err(|_| FieldError::Number)?;
        let pair = match field("p=") {
            Some(pair) => {
                let [monotonic_ns, wall_unix_ns] = numbers(pair)?;
                Some(ClockPair { monotonic_ns, wall_unix_ns })
            }
            None => None,
        };
        let host_id = field("h=").map(decode_host_id).transpose()?;
        if fields.next().is_some() {
            return Err(FieldError::Shape);
        }
        let anchor = ClockAnchor::new(monotonic, wall_unix_ns, uncertainty_ns);
        Ok(Self { domain, anchor, pair, host_id })
    }
}

impl fmt::Display for ClockClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let anchor = &self.anchor;
        let (monotonic, wall) = (anchor.monotonic().as_ns(), anchor.wall_unix_ns());
        write!(f, "d={};a={monotonic},{wall},{}", self.domain, anchor.uncertainty_ns())?;
        if let Some(pair) = self.pair {
            write!(f, ";p={},{}", pair.monotonic_ns, pair.wall_unix_ns)?;
        }
        if let Some(host_id) = &self.host_id {
            write!(f, ";h={}", utf8_percent_encode(host_id, HOST_ID))?;
        }
        Ok(())
    }
}

/// Exactly `N` numbers in plain decimal digits, with commas between.
fn numbers<const N: usize>(text: &str) -> Result<[u64; N], FieldError> {
    let mut numbers = [0; N];
    let mut items = text.split(',');
    for number in &mut numbers {
        let item = items.next().ok_or(FieldError::Shape)?;
        // `parse` alone would take a leading `+`.
        if !item.bytes().all(|b| b.is_ascii_digit()) {
            return Err(FieldError::Number);
        }
        *number = item.parse().map_err(|_| FieldError::Number)?;
    }
    if items.next().is_some() { Err(FieldError::Shape) } else { Ok(numbers) }
}

fn decode_host_id(text: &str) -> Result<Arc<str>, FieldError> {
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| FieldError::Identity)?;
    let sound = (1..=HOST_ID_MAX_BYTES).contains(&decoded.len()) && !decoded.chars().any(char::is_control);
    if sound { Ok(Arc::from(decoded)) } else { Err(FieldError::Identity) }
}
