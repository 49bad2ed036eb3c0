//! End-to-end tests against real back ends.
