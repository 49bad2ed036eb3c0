//! `stagespan demo`: real arrivals through real stage processes, and where their time went.
//!
//! Everything that could be wrong with the request is found before a process is started
//! ([`plan`]); then each scenario is run ([`run`]), and all is shown at the end ([`show`]).

use std::sync::Arc;
use std::time::Duration;

use stagespan_model::{Clock, SystemClock};
use stagespan_otel::{Config, FlushError, Layer};

use crate::arguments::DemoArguments;
use crate::exit::{End, Failure};

mod destination;
mod outcome;
mod plan;
mod progress;
mod run;
mod show;
mod signals;

use plan::{Plan, Tracing};

/// How long the end of the run waits for the last spans to be exported.
const EXPORT_WITHIN: Duration = Duration::from_secs(10);

/// Runs the demo.
///
/// # Errors
/// Bad input, before anything is started; a lost stage, or spans that were not exported, after
/// everything that was measured has been shown.
pub(crate) fn run(arguments: &DemoArguments) -> Result<End, Failure> {
    let plan = Plan::of(arguments)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let layer = match &plan.tracing {
        Tracing::Off(_) => Layer::off(),
        Tracing::On(config) => {
            Layer::start(Config::clone(config), Arc::clone(&clock)).map_err(Failure::bad_input)?
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("can't start the runtime: {error}")))?;
    let ran = runtime.block_on(run::all(&plan, &layer, &clock));
    // Whatever happened, what was measured is exported and shown.
    let exported = layer.shutdown(EXPORT_WITHIN);
    let shown = show::all(arguments, &plan, &layer, &ran.scenarios);
    end(ran, exported, shown)
}

/// What the command comes to: the gravest of what happened.
fn end(ran: run::Ran, exported: Result<(), FlushError>, shown: std::io::Result<()>) -> Result<End, Failure> {
    let lost = match ran.stopped {
        Some(run::Stopped::Failed(message)) => Some(message),
        Some(run::Stopped::Signalled(signal)) => return Ok(End::Signalled(signal)),
        None => None,
    };
    let unexported = exported.err().map(|error| format!("not every span was exported: {error}"));
    let unshown = shown.err().map(|error| format!("can't write to standard output: {error}"));
    let messages: Vec<String> = [lost, unexported, unshown].into_iter().flatten().collect();
    if messages.is_empty() { Ok(End::Done) } else { Err(Failure::failed(messages.join("\n"))) }
}
