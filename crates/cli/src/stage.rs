//! `stagespan stage`: one stage of a pipeline, started by its orchestrator.

use std::io::{IsTerminal, Read, stdin};
use std::sync::Arc;

use stagespan_model::SystemClock;
use stagespan_otel::{Environment, resource};
use stagespan_pipeline::StageSpec;

use crate::exit::{End, Failure};

/// The longest orders a stage takes.
const SPEC_BYTES_MAX: u64 = 1 << 20;

/// Reads the stage's orders from standard input and runs it until its orchestrator ends it.
///
/// # Errors
/// No orders, sockets that can't be had, a configuration that the scheduler refuses.
pub(crate) fn run() -> Result<End, Failure> {
    if stdin().is_terminal() {
        let message = "a stage is started by its orchestrator, which writes its orders to standard input; \
                       see `stagespan demo --help`";
        return Err(Failure::bad_input(message));
    }
    let mut text = String::new();
    stdin().take(SPEC_BYTES_MAX).read_to_string(&mut text).map_err(|error| no_orders(&error))?;
    let spec: StageSpec = serde_json::from_str(&text).map_err(|error| no_orders(&error))?;
    let resource = resource::detect(&Environment::of_this_process(), spec.stage_id, spec.replica_id);
    stagespan_pipeline::stage::run(spec, resource, Arc::new(SystemClock::new())).map_err(Failure::failed)?;
    Ok(End::Done)
}

/// The text itself is not shown: it has the run's token.
fn no_orders(error: &dyn std::fmt::Display) -> Failure {
    Failure::bad_input(format!("standard input has no stage's orders: {error}"))
}
