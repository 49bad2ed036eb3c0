//! Our schedulers held to the real ones of vLLM-Omni, step by step.
//!
//! [`generate`] makes a workload of a seed; [`ours::run`] puts it through our scheduler, and
//! [`real::Driver`] through the real one, on a CPU and without a model; [`differences`] says where
//! they part. Time is the step number on both sides, and deliveries happen at given steps, so
//! nothing depends on speed.
//!
//! | module | holds |
//! |---|---|
//! | [`script`] | a workload, as JSON |
//! | [`generator`] | a workload of a seed |
//! | [`ours`], [`real`] | what each scheduler makes of it |
//! | [`outcome`] | that, per request |
//! | [`compare`] | where the two differ |
//! | [`report`] | a run over many workloads; a workload recorded with what the real scheduler did |
//!
//! What we choose not to copy is listed in `docs/conformance.md`.

pub mod compare;
pub mod generator;
pub mod ours;
pub mod outcome;
pub mod real;
pub mod report;
pub mod script;

pub use compare::{Difference, differences};
pub use generator::generate;
pub use real::Driver;
pub use report::{Recording, Report};
