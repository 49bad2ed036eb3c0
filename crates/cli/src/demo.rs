//! `stagespan demo`: real arrivals through real stage processes, and where their time went.
//!
//! Everything that could be wrong with the request is found before a process is started
//! ([`plan`]); then each scenario is run ([`run`]), and all is shown at the end ([`show`]).

use std::sync::Arc;
use std::time::Duration;

use stagespan_model::{Clock, SystemClock};
use stagespan_otel::{Config, Layer, TraceOutput};

use crate::arguments::DemoArguments;
use crate::exit::{End, Failure};
use crate::log;

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
/// Bad input, before anything is started; a lost stage, or a trace file that could not be written,
/// after everything that was measured has been shown. A receiver that doesn't take the spans is
/// told of and is no failure: tracing never changes how its host ends.
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
    let exported = exported.map_err(|error| {
        let account = layer.stats();
        let missing = account.produced - account.exported.min(account.produced);
        format!("{missing} of {} spans were not exported: {error}", account.produced)
    });
    match layer.output() {
        TraceOutput::Receiver(_) => {
            if let Err(message) = exported {
                log::notice(&message);
            }
            end(ran, Ok(()), shown)
        }
        TraceOutput::Off | TraceOutput::Console | TraceOutput::File(_) => end(ran, exported, shown),
    }
}

/// What the command comes to: the gravest of what happened.
fn end(ran: run::Ran, written: Result<(), String>, shown: std::io::Result<()>) -> Result<End, Failure> {
    let lost = match ran.stopped {
        Some(run::Stopped::Failed(message)) => Some(message),
        Some(run::Stopped::Signalled(signal)) => return Ok(End::Signalled(signal)),
        None => None,
    };
    let unshown = shown.err().map(|error| format!("can't write to standard output: {error}"));
    let messages: Vec<String> = [lost, written.err(), unshown].into_iter().flatten().collect();
    if messages.is_empty() { Ok(End::Done) } else { Err(Failure::failed(messages.join("\n"))) }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::run::{Ran, Stopped};
    use super::*;
    use crate::exit::Signal;

    fn ended(stopped: Option<Stopped>, written: bool, shown: bool) -> Result<End, Failure> {
        let written = if written { Ok(()) } else { Err("4 of 9 spans were not exported: why".to_owned()) };
        let shown = if shown { Ok(()) } else { Err(io::Error::other("no space")) };
        end(Ran { scenarios: Vec::new(), stopped }, written, shown)
    }

    #[test]
    fn every_trouble_is_told() {
        assert_eq!(ended(None, true, true), Ok(End::Done));
        let Err(Failure::Failed(message)) = ended(Some(Stopped::Failed("lost".into())), false, false) else {
            panic!("it failed");
        };
        assert!(message.starts_with("lost\n4 of 9 spans were not exported: "), "{message}");
        assert!(message.ends_with("\ncan't write to standard output: no space"), "{message}");
        assert!(matches!(ended(None, false, true), Err(Failure::Failed(_))));
        assert!(matches!(ended(None, true, false), Err(Failure::Failed(_))));
    }

    #[test]
    fn whoever_interrupts_knows_that_spans_may_be_missing() {
        let stopped = Some(Stopped::Signalled(Signal::Terminate));
        assert_eq!(ended(stopped, false, true), Ok(End::Signalled(Signal::Terminate)));
    }
}
