//! Which requests are traced.

use std::fmt;

/// Which requests are traced: `OTEL_TRACES_SAMPLER`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// The decision where no caller has decided.
    pub root: RootSampler,
    /// Whether a caller's decision is followed.
    pub parent_based: bool,
}

/// The decision where no caller has decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RootSampler {
    /// All are traced.
    AlwaysOn,
    /// None is.
    AlwaysOff,
    /// This share, in 0..=1, by trace id.
    TraceIdRatio(f64),
}

impl Default for Sampler {
    fn default() -> Self {
        Self { root: RootSampler::AlwaysOn, parent_based: true }
    }
}

impl fmt::Display for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parent_based {
            f.write_str("parentbased_")?;
        }
        match self.root {
            RootSampler::AlwaysOn => f.write_str("always_on"),
            RootSampler::AlwaysOff => f.write_str("always_off"),
            RootSampler::TraceIdRatio(ratio) => write!(f, "traceidratio {ratio}"),
        }
    }
}
