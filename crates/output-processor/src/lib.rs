//! Engine-core outputs in, statistics and stage records out.
