//! One scenario after the other, each with stage processes of its own.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use stagespan_model::Clock;
use stagespan_otel::Layer;
use stagespan_pipeline::{NewRequest, Orchestrator, OrchestratorError, OrchestratorOptions, RequestOutcome};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::outcome::{request_figures, stage_facts};
use super::plan::Plan;
use super::progress;
use super::signals::Signals;
use crate::arrivals::Arrival;
use crate::exit::Signal;
use crate::figures::{RequestFigures, ScenarioFigures};
use crate::scenario::Scenario;

/// How long the requests of a lost stage may take to end on the others.
const LOST_WITHIN: Duration = Duration::from_secs(3);
/// How long stages may take to end.
const SHUT_DOWN_WITHIN: Duration = Duration::from_secs(10);

/// What was run.
pub(super) struct Ran {
    /// The figures of each scenario that was begun.
    pub(super) scenarios: Vec<ScenarioFigures>,
    /// Why not all were run to their end.
    pub(super) stopped: Option<Stopped>,
}

/// Why a run ended early.
pub(super) enum Stopped {
    /// It was asked to.
    Signalled(Signal),
    /// A stage could not be started, or was lost.
    Failed(String),
}

impl From<OrchestratorError> for Stopped {
    fn from(error: OrchestratorError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Runs the scenarios of a plan.
pub(super) async fn all(plan: &Plan, layer: &Layer, clock: &Arc<dyn Clock>) -> Ran {
    let mut ran = Ran { scenarios: Vec::new(), stopped: None };
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            ran.stopped = Some(Stopped::Failed(format!("can't listen for signals: {error}")));
            return ran;
        }
    };
    for scenario in &plan.scenarios {
        let mut requests = Requests::new(scenario, plan.replay.arrivals.len());
        let options = match options(scenario, plan, layer, clock) {
            Ok(options) => options,
            Err(stopped) => {
                ran.stopped = Some(stopped);
                return ran;
            }
        };
        let stopped = one(options, &plan.replay.arrivals, &mut requests, &mut signals).await;
        ran.scenarios.push(requests.figures(scenario));
        if stopped.is_some() {
            ran.stopped = stopped;
            break;
        }
    }
    ran
}

fn options(
    scenario: &Scenario,
    plan: &Plan,
    layer: &Layer,
    clock: &Arc<dyn Clock>,
) -> Result<OrchestratorOptions, Stopped> {
    let program = std::env::current_exe()
        .map_err(|error| Stopped::Failed(format!("can't find this program to start stages by: {error}")))?;
    let stage_command = vec![program.into_os_string(), OsString::from("stage")];
    Ok(OrchestratorOptions {
        layer: layer.clone(),
        input_wait_timeout_ns: plan.input_wait_timeout_ns,
        ..OrchestratorOptions::new(scenario.pipeline.clone(), Arc::clone(clock), stage_command)
    })
}

/// Runs one scenario to its end, or until a stage is lost or a signal comes. In any case every
/// stage process has ended then.
async fn one(
    options: OrchestratorOptions,
    arrivals: &[Arrival],
    requests: &mut Requests,
    signals: &mut Signals,
) -> Option<Stopped> {
    let orchestrator = tokio::select! {
        started = Orchestrator::start(options) => match started {
            Ok(orchestrator) => orchestrator,
            Err(error) => return Some(error.into()),
        },
        signal = signals.first() => return Some(Stopped::Signalled(signal)),
    };
    let stopped = tokio::select! {
        replayed = replay(&orchestrator, arrivals, requests) => replayed.err().map(Stopped::from),
        error = orchestrator.stage_lost() => Some(error.into()),
        signal = signals.first() => Some(Stopped::Signalled(signal)),
    };
    if let Some(Stopped::Failed(_)) = stopped {
        // The other stages are told to abort what is in flight; let each request have its end.
        let _ = timeout(LOST_WITHIN, requests.collect()).await;
    }
    let ended = timeout(SHUT_DOWN_WITHIN, orchestrator.shut_down()).await;
    let _ = timeout(LOST_WITHIN, requests.collect()).await;
    stopped.or(match ended {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.into()),
        Err(_) => Some(Stopped::Failed(format!("the stages did not end within {SHUT_DOWN_WITHIN:?}"))),
    })
}

/// Submits each request when it is due, and waits for the end of all.
async fn replay(
    orchestrator: &Orchestrator,
    arrivals: &[Arrival],
    requests: &mut Requests,
) -> Result<(), OrchestratorError> {
    let start = Instant::now();
    for (index, arrival) in arrivals.iter().enumerate() {
        let due = start + Duration::from_nanos(arrival.at_ns);
        while tokio::select! {
            () = sleep_until(due) => false,
            Some(ended) = requests.in_flight.join_next() => { requests.note(ended); true }
        } {}
        let request = NewRequest {
            request_id: format!("{:04}", index + 1),
            prompt_tokens: arrival.prompt_tokens,
            output_tokens: arrival.output_tokens,
        };
        let ticket = orchestrator.submit(request, &[]).await?;
        requests.in_flight.spawn(async move { (index, ticket.outcome().await) });
    }
    requests.collect().await;
    Ok(())
}

/// A request's place in the order of arrival, and what became of it.
type Ended = Result<(usize, Result<RequestOutcome, OrchestratorError>), JoinError>;

/// The requests of a scenario.
struct Requests {
    in_flight: JoinSet<(usize, Result<RequestOutcome, OrchestratorError>)>,
    ended: Vec<Option<RequestFigures>>,
    progress: ProgressBar,
}

impl Requests {
    fn new(scenario: &Scenario, requests: usize) -> Self {
        Self {
            in_flight: JoinSet::new(),
            ended: vec![None; requests],
            progress: progress::bar(&scenario.name, requests),
        }
    }

    /// Waits for the end of all that are in flight.
    async fn collect(&mut self) {
        while let Some(ended) = self.in_flight.join_next().await {
            self.note(ended);
        }
    }

    fn note(&mut self, ended: Ended) {
        // A request without an outcome has nothing to show; the stage's loss is told by itself.
        if let Ok((index, Ok(outcome))) = ended
            && let Some(place) = self.ended.get_mut(index)
        {
            *place = Some(request_figures(&outcome));
            self.progress.inc(1);
        }
    }

    fn figures(self, scenario: &Scenario) -> ScenarioFigures {
        self.progress.abandon();
        ScenarioFigures {
            name: scenario.name.clone(),
            cause: scenario.cause.clone(),
            stages: (0..).zip(&scenario.pipeline.stages).map(|(id, stage)| stage_facts(id, stage)).collect(),
            requests: self.ended.into_iter().flatten().collect(),
        }
    }
}
