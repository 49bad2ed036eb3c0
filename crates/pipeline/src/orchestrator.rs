//! The orchestrator: starts the stages, takes requests in at the door, and follows each to its end.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use stagespan_model::{Clock, ClockDomain, Position, RequestId, StageName};
use stagespan_otel::Layer;
use stagespan_output_processor::Summary;
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::outcome::RequestOutcome;
use crate::pipeline_file::Pipeline;

mod child;
mod core;
mod error;
mod in_flight;
mod link;
mod start;

pub use error::OrchestratorError;

/// Messages in the core's inbox: full, it makes the stages' readers and the door wait.
const INBOX_MESSAGES: usize = 1024;

/// How a pipeline is run.
pub struct OrchestratorOptions {
    /// The stages.
    pub pipeline: Pipeline,
    /// The tracing layer, on or off.
    pub layer: Layer,
    /// The clock of this process.
    pub clock: Arc<dyn Clock>,
    /// The command that runs [`stage::run`](crate::stage::run), without the stage's `launch` prefix.
    pub stage_command: Vec<OsString>,
    /// Whether statistics are kept (`--log-stats`), with tracing or without.
    pub log_stats: bool,
    /// The input gates' timeout in nanoseconds; 0 is none.
    pub input_wait_timeout_ns: u64,
    /// The most requests in flight; [`Orchestrator::submit`] waits for one to end beyond that.
    pub max_in_flight: usize,
}

impl OrchestratorOptions {
    /// Runs `pipeline` with tracing off, statistics on, and vLLM-Omni's timeout of 600 s.
    pub fn new(pipeline: Pipeline, clock: Arc<dyn Clock>, stage_command: Vec<OsString>) -> Self {
        Self {
            pipeline,
            layer: Layer::off(),
            clock,
            stage_command,
            log_stats: true,
            input_wait_timeout_ns: 600_000_000_000,
            max_in_flight: 16_384,
        }
    }
}

/// A request at the door.
#[derive(Clone, Debug)]
pub struct NewRequest {
    /// The client's id. Two live requests may have the same.
    pub request_id: String,
    /// Prompt tokens of the first stage.
    pub prompt_tokens: u32,
    /// Output tokens of the first stage.
    pub output_tokens: u32,
}

/// What is known of a running stage.
#[derive(Clone, Debug)]
pub struct StageFacts {
    /// Its name.
    pub name: StageName,
    /// Its number.
    pub stage_id: u32,
    /// Its process.
    pub pid: u32,
    /// Its clock.
    pub clock_domain: ClockDomain,
    /// Its position.
    pub position: Position,
}

/// A running pipeline.
pub struct Orchestrator {
    inbox: mpsc::Sender<core::Message>,
    stages: Vec<StageFacts>,
    layer: Layer,
    in_flight: Arc<Semaphore>,
    core: CoreTask,
    /// The Unix sockets' directory, removed with the orchestrator.
    _socket_directory: tempfile::TempDir,
}

/// The core's task. Dropped with the orchestrator it stops, and the stages' processes with it.
struct CoreTask(tokio::task::JoinHandle<()>);

impl Drop for CoreTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A request on its way.
#[derive(Debug)]
pub struct Ticket {
    internal_id: RequestId,
    outcome: oneshot::Receiver<RequestOutcome>,
}

impl Ticket {
    /// The engine-core id of the request, for [`Orchestrator::abort`].
    pub fn internal_id(&self) -> &RequestId {
        &self.internal_id
    }

    /// Waits for the request's end on every stage.
    ///
    /// # Errors
    /// [`OrchestratorError::ShutDown`] if the orchestrator was dropped before.
    pub async fn outcome(self) -> Result<RequestOutcome, OrchestratorError> {
        self.outcome.await.map_err(|_| OrchestratorError::ShutDown)
    }
}

impl Orchestrator {
    /// Starts every stage's process and waits until all are ready.
    ///
    /// # Errors
    /// A stage that can't be started or doesn't get ready, named.
    pub async fn start(options: OrchestratorOptions) -> Result<Self, OrchestratorError> {
        start::start(options).await
    }

    /// The running stages, first to last.
    pub fn stages(&self) -> &[StageFacts] {
        &self.stages
    }

    /// The door: takes a request in, with the caller's headers (of any case; `stagespan-*` ones are
    /// dropped), and waits while too many are in flight.
    ///
    /// # Errors
    /// A stage that was lost, or an orchestrator that was shut down.
    pub async fn submit(
        &self,
        request: NewRequest,
        headers: &[(String, String)],
    ) -> Result<Ticket, OrchestratorError> {
        // The semaphore is never closed.
        let permit =
            Arc::clone(&self.in_flight).acquire_owned().await.map_err(|_| OrchestratorError::ShutDown)?;
        let span = in_flight::open_span(&self.layer, &request.request_id, headers);
        let (answer, answered) = oneshot::channel();
        let submit = core::Message::Submit(Box::new(core::Submit { request, span, permit, answer }));
        self.inbox.send(submit).await.map_err(|_| OrchestratorError::ShutDown)?;
        answered.await.map_err(|_| OrchestratorError::ShutDown)?
    }

    /// Takes a request back. Its stages end it, and its ticket tells how far it had come.
    pub async fn abort(&self, internal_id: &RequestId) {
        // A core that is gone has no requests.
        let _ = self.inbox.send(core::Message::Abort(internal_id.clone())).await;
    }

    /// Waits until a stage is lost; never returns in a run where none is.
    pub async fn stage_lost(&self) -> OrchestratorError {
        let (answer, answered) = oneshot::channel();
        let _ = self.inbox.send(core::Message::AwaitLoss(answer)).await;
        answered.await.unwrap_or(OrchestratorError::ShutDown)
    }

    /// Ends the stages, which first end what they have in flight, and gives the run's summary.
    ///
    /// # Errors
    /// The loss of a stage, if there was one: everything else is ended all the same.
    pub async fn shut_down(mut self) -> Result<Summary, OrchestratorError> {
        let (answer, answered) = oneshot::channel();
        let _ = self.inbox.send(core::Message::ShutDown(answer)).await;
        let result = answered.await.unwrap_or(Err(OrchestratorError::ShutDown));
        // The core ends by itself right after its answer.
        let _ = tokio::time::timeout(Duration::from_secs(5), &mut self.core.0).await;
        result
    }
}
