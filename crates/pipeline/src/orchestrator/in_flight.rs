//! A request in flight: its `request` span, what each stage is given, and how far it has come.

use stagespan_model::{End, ErrorType, Gate, RequestId, StageName};
use stagespan_otel::{Door, Layer, RequestOpening, RequestSpan, StageTarget};
use stagespan_output_processor::{StageFinished, Submission};
use stagespan_wire::{EngineCoreRequest, SamplingParams};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::NewRequest;
use super::link::StageLink;
use crate::frame::Frame;
use crate::outcome::{RequestOutcome, StageOutcome};
use crate::pipeline_file::{SchedulerKind, Stage};

/// Opens the `request` span under the caller's context.
pub(super) fn open_span(layer: &Layer, request_id: &str, headers: &[(String, String)]) -> RequestSpan {
    layer.open_request(RequestOpening {
        request_id,
        headers: headers.iter().map(|(name, value)| (name.as_str(), value.as_str())),
        door: Door::Call,
    })
}

/// Where a request stands on one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Not submitted there yet: it goes there when the stage before is done.
    Later,
    /// Submitted.
    Live,
    /// Ended there, or never to be submitted, or the stage is lost.
    Over,
}

/// A request in flight.
pub(super) struct InFlight {
    internal_id: RequestId,
    request_id: RequestId,
    span: RequestSpan,
    tokens: Vec<StageTokens>,
    standings: Vec<Standing>,
    outcomes: Vec<StageOutcome>,
    error: Option<ErrorType>,
    outcome: oneshot::Sender<RequestOutcome>,
    /// Gives its place back when the request is over.
    _permit: OwnedSemaphorePermit,
}

/// A stage's share of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StageTokens {
    prompt: u32,
    output: u32,
}

/// What each stage is given: it puts out so many tokens for each that the stage before puts out,
/// and starts on the first chunk, or on the whole payload.
fn stage_tokens<'a>(request: &NewRequest, stages: impl Iterator<Item = &'a Stage>) -> Vec<StageTokens> {
    let mut before: Option<(StageTokens, u32)> = None;
    stages
        .map(|stage| {
            let tokens = match before {
                None => StageTokens { prompt: request.prompt_tokens, output: request.output_tokens },
                Some((before, before_chunk)) => StageTokens {
                    prompt: match stage.gate {
                        Gate::AsyncChunk => before.output.min(before_chunk),
                        Gate::FullPayload | Gate::None => before.output,
                    },
                    output: match stage.scheduler {
                        SchedulerKind::Ar => before.output.saturating_mul(stage.tokens_per_input_token.get()),
                        SchedulerKind::Generation => before.output,
                    },
                },
            };
            before = Some((tokens, stage.chunk_tokens.get()));
            tokens
        })
        .collect()
}

impl InFlight {
    pub(super) fn new(
        internal_id: RequestId,
        request: &NewRequest,
        span: RequestSpan,
        links: &[StageLink],
        permit: OwnedSemaphorePermit,
    ) -> (Self, oneshot::Receiver<RequestOutcome>) {
        let (sender, outcome) = oneshot::channel();
        let this = Self {
            internal_id,
            request_id: RequestId::from(request.request_id.as_str()),
            span,
            tokens: stage_tokens(request, links.iter().map(|link| &link.stage)),
            standings: vec![Standing::Later; links.len()],
            outcomes: Vec::new(),
            error: None,
            outcome: sender,
            _permit: permit,
        };
        (this, outcome)
    }

    /// Submits the request to the next stages that may have it now: async_chunk stages get it
    /// together with the stage before, any other when the stage before is done.
    pub(super) fn submit_due(&mut self, links: &mut [StageLink], names: &[StageName], now_unix_s: f64) {
        for (stage, link) in links.iter_mut().enumerate() {
            if self.standings[stage] != Standing::Later {
                continue;
            }
            let together = link.stage.gate == Gate::AsyncChunk;
            let due = stage == 0 || together || self.standings[stage - 1] == Standing::Over;
            if !due {
                // Nothing behind a stage that waits for its turn is due.
                return;
            }
            self.submit(stage, link, names, now_unix_s);
        }
    }

    fn submit(&mut self, stage: usize, link: &mut StageLink, names: &[StageName], now_unix_s: f64) {
        let StageTokens { prompt, output } = self.tokens[stage];
        let upstreams = if stage == 0 { &[][..] } else { &names[stage - 1..stage] };
        let identity = link.processor.stage();
        let assigned = self.span.assign(StageTarget {
            name: &identity.name,
            clock: Some(&identity.clock_domain),
            upstreams,
            companion_role: None,
        });
        link.processor.submitted(Submission {
            internal_id: self.internal_id.as_str(),
            request_id: self.request_id.clone(),
            context: assigned.context,
            request_anchor: self.span.anchor(),
            tokens_input: prompt,
            companion_role: None,
            resumable: false,
        });
        let mut params = SamplingParams::with_max_tokens(output.into());
        params.set_ignore_eos(true);
        let message = EngineCoreRequest {
            request_id: self.internal_id.as_str().to_owned(),
            external_req_id: Some(self.request_id.as_str().to_owned()),
            prompt_token_ids: Some(vec![1; prompt as usize]),
            sampling_params: Some(params),
            arrival_time: now_unix_s,
            trace_headers: (!assigned.headers.is_empty()).then_some(assigned.headers),
            ..EngineCoreRequest::default()
        };
        let (kind, body) = stagespan_wire::EngineCoreMessage::Add(Box::new(message)).encode();
        link.send(Frame::new(kind.byte(), body));
        self.standings[stage] = Standing::Live;
    }

    /// Notes that a stage is done with it. An end that is no ordinary one ends it everywhere.
    pub(super) fn finished_on(&mut self, stage: usize, finished: StageFinished, links: &[StageLink]) {
        self.standings[stage] = Standing::Over;
        let error = finished.timeline.as_ref().and_then(|t| t.error_type());
        if !matches!(finished.end, End::Stop | End::Length) {
            self.abort(links);
        }
        if let Some(error) = error {
            let name = links[stage].processor.stage().name.as_str();
            self.fail(error, &format!("stage {name}: {}", error.as_str()));
        }
        self.outcomes.push(StageOutcome {
            stage_id: finished.stage.stage_id,
            stage: finished.stage.name.clone(),
            end: finished.end,
            tokens_output: finished.timeline.as_ref().map_or(0, |t| t.tokens_output()),
            timeline: finished.timeline,
            stats: finished.stats.unwrap_or_default(),
            tokens_input: finished.tokens_input,
        });
    }

    /// Notes that a stage's process is lost. It leaves no record; the other stages are aborted.
    pub(super) fn stage_lost(&mut self, stage: usize, message: &str, links: &[StageLink]) {
        self.standings[stage] = Standing::Over;
        self.fail(ErrorType::StageLost, message);
        self.abort(links);
    }

    /// The first failure is the request's; a lost stage outweighs what follows from it.
    fn fail(&mut self, error: ErrorType, message: &str) {
        if self.error.is_none() || error == ErrorType::StageLost {
            self.span.fail(error, message);
            self.error = Some(error);
        }
    }

    /// The stage refused to join the request's trace: its span gets fresh ids in a trace of its own.
    pub(super) fn join_refused(&mut self, link: &mut StageLink) {
        let name = link.processor.stage().name.clone();
        if let Some(context) = link.processor.context_mut(self.internal_id.as_str()) {
            self.span.join_refused(&name, context);
        }
    }

    /// Takes it back from every stage that has it; where it hasn't been, it won't go.
    pub(super) fn abort(&mut self, links: &[StageLink]) {
        let body = stagespan_wire::message::encode_abort(&[self.internal_id.as_str()]);
        for (standing, link) in self.standings.iter_mut().zip(links) {
            match *standing {
                Standing::Later => *standing = Standing::Over,
                Standing::Live => {
                    link.send(Frame::new(stagespan_wire::RequestKind::Abort.byte(), body.clone()));
                }
                Standing::Over => {}
            }
        }
    }

    /// Whether every stage is done with it.
    pub(super) fn is_over(&self) -> bool {
        self.standings.iter().all(|standing| *standing == Standing::Over)
    }

    /// Ends the `request` span and tells the ticket.
    pub(super) fn end(mut self) {
        let first = self.tokens.first().map_or(0, |t| t.prompt);
        let output: u32 = self.outcomes.iter().filter(|o| o.stage_id == 0).map(|o| o.tokens_output).sum();
        self.span.usage(first.into(), output.into());
        self.outcomes.sort_by_key(|outcome| outcome.stage_id);
        let outcome = RequestOutcome {
            request_id: self.request_id,
            trace_id: self.span.trace_id(),
            stages: self.outcomes,
            error: self.error,
        };
        self.span.end();
        // The ticket may have been dropped: nobody waits.
        let _ = self.outcome.send(outcome);
    }
}

/// A request's own id on all stages, unique in the run: two live requests may share a client's id.
pub(super) fn internal_id(request_id: &str, number: u64) -> RequestId {
    RequestId::from(format!("{number}-{request_id}").as_str())
}

#[cfg(test)]
mod tests;
