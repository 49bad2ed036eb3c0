//! The orchestrator's core: the one owner of the requests in flight and of the stages' links.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use stagespan_model::{Clock, RequestId, StageName};
use stagespan_otel::{Layer, RequestSpan};
use stagespan_output_processor::{Aggregator, StageFinished, Summary};
use stagespan_wire::EngineCoreOutputs;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant as Wakeup;

use super::error::OrchestratorError;
use super::in_flight::{InFlight, internal_id};
use super::link::StageLink;
use super::{NewRequest, Ticket};
use crate::message::{Observed, Refused, Up};

/// How long the other stages may take to end the requests of a lost stage.
const ABORTS_WITHIN: Duration = Duration::from_secs(2);

/// What the core is told.
pub(super) enum Message {
    Submit(Box<Submit>),
    Abort(RequestId),
    FromStage {
        stage: usize,
        up: Up,
    },
    /// A stage's connection ended; `lost` says how, unless the stage had said Bye.
    StageEnded {
        stage: usize,
        lost: Option<String>,
    },
    AwaitLoss(oneshot::Sender<OrchestratorError>),
    ShutDown(oneshot::Sender<Result<Summary, OrchestratorError>>),
}

/// A request that has come through the door.
pub(super) struct Submit {
    pub(super) request: NewRequest,
    pub(super) span: RequestSpan,
    pub(super) permit: OwnedSemaphorePermit,
    pub(super) answer: oneshot::Sender<Result<Ticket, OrchestratorError>>,
}

/// The state of a run.
pub(super) struct Core {
    clock: Arc<dyn Clock>,
    layer: Layer,
    links: Vec<StageLink>,
    names: Vec<StageName>,
    in_flight: HashMap<RequestId, InFlight>,
    submitted: u64,
    statistics: Aggregator,
    lost: Option<OrchestratorError>,
    loss_waiters: Vec<oneshot::Sender<OrchestratorError>>,
    /// When requests that a lost stage left behind are given up.
    give_up_at: Option<Wakeup>,
    shut_down: Option<oneshot::Sender<Result<Summary, OrchestratorError>>>,
    ended_stages: usize,
}

impl Core {
    pub(super) fn new(
        clock: Arc<dyn Clock>,
        layer: Layer,
        links: Vec<StageLink>,
        names: Vec<StageName>,
    ) -> Self {
        Self {
            clock,
            layer,
            links,
            names,
            in_flight: HashMap::new(),
            submitted: 0,
            statistics: Aggregator::default(),
            lost: None,
            loss_waiters: Vec::new(),
            give_up_at: None,
            shut_down: None,
            ended_stages: 0,
        }
    }

    /// Runs until it is told to shut down and every stage has ended.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Message>) {
        while self.shut_down.is_none() || self.ended_stages < self.links.len() {
            let give_up_at = self.give_up_at;
            let message = tokio::select! {
                message = inbox.recv() => message,
                () = tokio::time::sleep_until(give_up_at.unwrap_or_else(Wakeup::now)), if give_up_at.is_some() => {
                    self.give_up();
                    continue;
                }
            };
            match message {
                Some(message) => self.handle(message).await,
                // The orchestrator was dropped: its children are killed with the links.
                None => return,
            }
        }
        self.end().await;
    }

    async fn handle(&mut self, message: Message) {
        match message {
            Message::Submit(submit) => self.submit(*submit),
            Message::Abort(id) => {
                if let Some(request) = self.in_flight.get_mut(&id) {
                    request.abort(&self.links);
                }
                self.end_if_over(&id);
            }
            Message::FromStage { stage, up } => self.message_of_stage(stage, up),
            Message::StageEnded { stage, lost } => {
                self.ended_stages += 1;
                // A stage that says Bye without having been told to end is lost all the same.
                let unasked = self.shut_down.is_none().then(|| "it ended unasked".to_owned());
                if let Some(connection) = lost.or(unasked) {
                    self.stage_lost(stage, &connection).await;
                }
                self.links[stage].close();
            }
            Message::AwaitLoss(waiter) => match &self.lost {
                Some(error) => drop(waiter.send(error.clone())),
                None => self.loss_waiters.push(waiter),
            },
            Message::ShutDown(answer) => {
                self.shut_down = Some(answer);
                self.links.iter_mut().for_each(StageLink::close);
            }
        }
    }

    fn submit(&mut self, submit: Submit) {
        let Submit { request, span, permit, answer } = submit;
        let refusal =
            if self.shut_down.is_some() { Some(OrchestratorError::ShutDown) } else { self.lost.clone() };
        if let Some(error) = refusal {
            // Turned away at the door: not a success without stages.
            span.fail(error.error_type(), &error.to_string());
            span.end();
            let _ = answer.send(Err(error));
            return;
        }
        self.submitted += 1;
        let id = internal_id(&request.request_id, self.submitted);
        let (mut in_flight, outcome) = InFlight::new(id.clone(), &request, span, &self.links, permit);
        in_flight.submit_due(&mut self.links, &self.names, unix_seconds(&*self.clock));
        self.in_flight.insert(id.clone(), in_flight);
        // A caller that is gone leaves its request to run.
        let _ = answer.send(Ok(Ticket { internal_id: id, outcome }));
    }

    fn message_of_stage(&mut self, stage: usize, up: Up) {
        match up {
            Up::Outputs(bytes) => self.outputs(stage, &bytes),
            Up::Observed(Observed { resolutions_ns }) => {
                for (id, resolution_ns) in resolutions_ns {
                    self.links[stage].processor.observed(&id, resolution_ns);
                }
            }
            Up::Refused(Refused { request_id, reason }) => {
                tracing::warn!(request = %request_id, stage = %self.names[stage], %reason, "refused to join the request's trace");
                if let Some(request) = self.in_flight.get_mut(request_id.as_str()) {
                    request.join_refused(&mut self.links[stage]);
                }
            }
            Up::Anchor(raw) => {
                let processor = &mut self.links[stage].processor;
                match raw.in_domain(&processor.stage().clock_domain) {
                    Some(anchor) => processor.anchor_renewed(anchor),
                    None => {
                        tracing::warn!(stage = %self.names[stage], "ignored an anchor that is no instant")
                    }
                }
            }
            Up::Hello(_) => tracing::warn!(stage = %self.names[stage], "ignored a second Hello"),
            // The end of the connection follows.
            Up::Bye => {}
        }
    }

    fn outputs(&mut self, stage: usize, bytes: &[u8]) {
        let outputs = match EngineCoreOutputs::decode(bytes) {
            Ok(outputs) => outputs,
            Err(error) => {
                // Whatever stood in it is lost, and its requests would never end: so the stage ends.
                tracing::error!(%error, stage = %self.names[stage], "ends: it sent outputs that can't be decoded");
                self.links[stage].close();
                return;
            }
        };
        let mut finished: Vec<StageFinished> = Vec::new();
        self.links[stage].processor.process(&outputs, self.clock.now(), |end| finished.push(end));
        for end in finished {
            self.statistics.add(&end);
            let id = RequestId::from(&*end.internal_id);
            let Some(request) = self.in_flight.get_mut(&id) else { continue };
            request.finished_on(stage, end, &self.links);
            request.submit_due(&mut self.links, &self.names, unix_seconds(&*self.clock));
            self.end_if_over(&id);
        }
    }

    fn end_if_over(&mut self, id: &RequestId) {
        if self.in_flight.get(id).is_some_and(InFlight::is_over)
            && let Some(request) = self.in_flight.remove(id)
        {
            if tracing::enabled!(tracing::Level::DEBUG)
                && let Some(stages) = self.statistics.request(id.as_str())
            {
                tracing::debug!(request = %id, "\n{}", stages.table());
            }
            request.end();
        }
    }

    async fn stage_lost(&mut self, stage: usize, connection: &str) {
        let link = &mut self.links[stage];
        let error = OrchestratorError::StageLost {
            stage: self.names[stage].clone(),
            pid: link.pid,
            cause: link.describe_loss(connection).await,
        };
        // Ids only: a dead stage leaves no record, and none is made up.
        link.processor.abandon();
        let message = error.to_string();
        tracing::error!("{message}");
        let ids: Vec<RequestId> = self.in_flight.keys().cloned().collect();
        for id in ids {
            if let Some(request) = self.in_flight.get_mut(&id) {
                request.stage_lost(stage, &message, &self.links);
            }
            self.end_if_over(&id);
        }
        self.give_up_at = Some(Wakeup::now() + ABORTS_WITHIN);
        let first = self.lost.get_or_insert(error);
        for waiter in self.loss_waiters.drain(..) {
            let _ = waiter.send(first.clone());
        }
    }

    /// Ends the requests that no stage ended in time.
    fn give_up(&mut self) {
        self.give_up_at = None;
        for (id, request) in self.in_flight.drain() {
            tracing::warn!(request = %id, "given up: its stages did not end it in time");
            request.end();
        }
    }

    /// Everything that is left when the stages are gone.
    async fn end(mut self) {
        self.give_up();
        for link in &mut self.links {
            link.join().await;
        }
        let result = match self.lost {
            Some(error) => Err(error),
            None => Ok(self.statistics.summary()),
        };
        drop(self.layer);
        if let Some(answer) = self.shut_down {
            let _ = answer.send(result);
        }
    }
}

/// Unix time in seconds: vLLM's `arrival_time`, which no duration is taken from.
fn unix_seconds(clock: &dyn Clock) -> f64 {
    clock.wall_unix_ns() as f64 / 1e9
}
