//! The native part of the Python package `stagespan`: one state machine, one split and one export
//! for Python's schedulers, the same as for Rust's.
//!
//! | module | holds |
//! |---|---|
//! | [`process`] | what a process has once: layer, clock and figures, made at first use and anew after a fork |
//! | [`stage`] | `Stage`: the six calls of a stage's scheduler, behind integer handles |
//! | [`in_flight`] | a stage's requests in flight, in one process |
//! | [`request`] | `RequestSpan`: the live `request` span, and the headers that it gives each stage |
//! | [`arguments`] | Python's arguments as the model's types, and what is refused |
//! | [`guard`] | a panic becomes an ordinary Python exception |
//! | [`signals`] | threads of ours take no signal from the interpreter |
//!
//! The hot calls take the interpreter's lock as given, take no other that anyone could hold, and
//! end with a push into the bounded queue of `stagespan-otel`. What may wait (flush, shutdown)
//! releases the interpreter.

mod arguments;
mod guard;
mod in_flight;
mod process;
mod request;
mod signals;
mod stage;

use pyo3::prelude::*;

/// The native module of the package `stagespan`; use the package, not this module.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::process::{clock_domain, configure, count_unknown, flush, is_on, output, shutdown, stats};
    #[pymodule_export]
    use crate::request::{RequestSpan, open_request};
    #[pymodule_export]
    use crate::stage::{Stage, end_of};

    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
