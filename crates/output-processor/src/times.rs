//! From float seconds on the wire to instants on the stage's clock.

use stagespan_model::clock_domain::DomainTag;
use stagespan_model::{Instant, InstantError};

/// What one batch's times are read by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// The clock that the stage's times are on.
    domain: DomainTag,
    /// The reader's clock.
    now: Instant,
    /// The batch's timestamp as it came.
    pub(crate) batch_timestamp: f64,
    /// The same as an instant; `None` where it is no time.
    pub(crate) batch: Option<Instant>,
}

impl Times {
    pub(crate) fn new(domain: DomainTag, now: Instant, batch_timestamp: f64) -> Self {
        let batch = Instant::from_seconds(batch_timestamp, domain, Some(now)).ok();
        Self { domain, now, batch_timestamp, batch }
    }

    /// A time on the wire as an instant of the stage, if it is one. What lies in the reader's
    /// future is refused only where reader and stage read the same clock.
    pub(crate) fn instant(&self, seconds: f64) -> Result<Instant, InstantError> {
        Instant::from_seconds(seconds, self.domain, Some(self.now))
    }
}
