//! Drives our scheduler through a script, in process.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use stagespan_model::{End, EventKind, FinishReason, ManualClock};
use stagespan_scheduler::{
    Chunk, NewRequest, Payload, PrefillAdmission, RequestHandle, Sampled, Scheduler, SchedulerConfig,
    SchedulerKind, StageOutput, Step, StopReason, StreamingUpdate,
};

use super::outcome::{Outcome, Story};
use super::script::{Config, Kind, Operation, Script};

const STEP_NS: u64 = 1_000_000_000;
const TOKEN: u32 = 7;
const STOP_TOKEN: u32 = 99;

fn scheduler_config(config: &Config) -> SchedulerConfig {
    let kind = match config.kind {
        Kind::Ar => SchedulerKind::Ar,
        Kind::Generation => SchedulerKind::Generation,
    };
    let admission = PrefillAdmission {
        min_batch: config.admission_min_batch,
        max_wait_ns: NonZeroU64::new(u64::from(config.admission_max_wait_steps) * STEP_NS)
            .unwrap_or(NonZeroU64::MIN),
        min_running: config.admission_min_running,
    };
    let timeout_ns = u64::from(config.input_wait_timeout_steps) * STEP_NS + STEP_NS / 2;
    let mut scheduler = SchedulerConfig::new(kind, config.stage_id, config.gate);
    scheduler.sender_only = config.sender_only;
    scheduler.active_stream_window = config.active_stream_window;
    scheduler.max_num_seqs = config.max_num_seqs;
    scheduler.token_budget = config.token_budget;
    scheduler.kv_blocks = config.kv_blocks;
    scheduler.block_size = config.block_size;
    scheduler.max_model_len = config.max_model_len;
    scheduler.chunked_prefill = config.chunked_prefill;
    scheduler.input_wait_timeout_ns =
        if config.input_wait_timeout_steps > 0 { NonZeroU64::new(timeout_ns) } else { None };
    scheduler.prefill_admission = (config.admission_min_batch > 0).then_some(admission);
    scheduler
}

struct Run {
    scheduler: Scheduler,
    clock: ManualClock,
    step: u64,
    handles: BTreeMap<String, RequestHandle>,
    ids: BTreeMap<RequestHandle, String>,
    stop_after: BTreeMap<RequestHandle, (u32, u32)>,
    outcome: Outcome,
}

/// What our scheduler makes of a script.
///
/// # Errors
/// A configuration that our scheduler refuses.
pub fn run(script: &Script) -> anyhow::Result<Outcome> {
    let mut run = Run {
        scheduler: Scheduler::new(scheduler_config(&script.config))?,
        clock: ManualClock::new(STEP_NS),
        step: 0,
        handles: BTreeMap::new(),
        ids: BTreeMap::new(),
        stop_after: BTreeMap::new(),
        outcome: Outcome::default(),
    };
    for operations in &script.steps {
        if run.step > 0 {
            run.clock.advance_ns(STEP_NS);
        }
        run.step += 1;
        for operation in operations {
            run.apply(operation);
        }
        run.take_outputs(true);
        run.step();
        run.take_outputs(true);
    }
    run.outcome.live = run
        .handles
        .iter()
        .filter(|(_, handle)| run.scheduler.contains(**handle))
        .map(|(id, _)| id.clone())
        .collect();
    // Events of requests that live on have not been sent; the shutdown sends them, and its ends
    // are not part of the story.
    run.scheduler.shutdown();
    run.take_outputs(false);
    Ok(run.outcome)
}

impl Run {
    fn apply(&mut self, operation: &Operation) {
        let (scheduler, clock) = (&mut self.scheduler, &self.clock);
        let handle = |id: &String| self.handles.get(id).copied().unwrap_or_default();
        match operation {
            Operation::Add { id, prompt_tokens, max_tokens, stop_after, resumable } => {
                let new = NewRequest {
                    prompt_tokens: *prompt_tokens,
                    max_tokens: *max_tokens,
                    stop_token_ids: vec![STOP_TOKEN],
                    resumable: *resumable,
                    grammar_pending: false,
                };
                let handle = scheduler.add_request(new, clock);
                self.handles.insert(id.clone(), handle);
                self.ids.insert(handle, id.clone());
                self.stop_after.insert(handle, (*stop_after, 0));
                self.outcome.requests.insert(id.clone(), Story::default());
            }
            Operation::Chunk { id, tokens, finished, segment_finished } => {
                let chunk =
                    Chunk { tokens: *tokens, finished: *finished, segment_finished: *segment_finished };
                scheduler.deliver_chunk(handle(id), chunk);
            }
            Operation::Payload { id, prompt_tokens } => {
                scheduler.deliver_payload(handle(id), Payload { prompt_tokens: *prompt_tokens });
            }
            Operation::Fail { id } => scheduler.fail_input(handle(id), "lost"),
            Operation::Abort { id } => scheduler.abort(handle(id)),
            Operation::Update { id, prompt_tokens, max_tokens } => {
                let update = StreamingUpdate { prompt_tokens: *prompt_tokens, max_tokens: *max_tokens };
                scheduler.update_session(handle(id), update, clock);
            }
            Operation::Close { id } => scheduler.close_session(handle(id)),
        }
    }

    fn step(&mut self) {
        let Step::Run(plan) = self.scheduler.step(&self.clock) else { return };
        let ar = self.scheduler.config().kind == SchedulerKind::Ar;
        let (mut shares, mut sampled) = (Vec::new(), Vec::new());
        for scheduled in &plan.scheduled {
            let id = self.ids.get(&scheduled.handle).cloned().unwrap_or_default();
            shares.push((id, scheduled.tokens));
            let mut token_ids = Vec::new();
            if ar
                && scheduled.completes_input
                && let Some((stop_after, so_far)) = self.stop_after.get_mut(&scheduled.handle)
            {
                *so_far += 1;
                token_ids.push(if so_far == stop_after { STOP_TOKEN } else { TOKEN });
            }
            sampled.push(Sampled { handle: scheduled.handle, token_ids, has_payload: false });
        }
        self.outcome.plans.push(shares);
        self.scheduler.update(plan, &sampled, &self.clock);
    }

    fn story(&mut self, handle: RequestHandle) -> &mut Story {
        let id = self.ids.get(&handle).cloned().unwrap_or_default();
        self.outcome.requests.entry(id).or_default()
    }

    fn take_outputs(&mut self, ends_count: bool) {
        let step = self.step;
        for output in self.scheduler.take_outputs() {
            let is_last = output.is_last();
            let story = self.story(output.handle);
            let StageOutput { new_token_ids, finished, events, input_ready, .. } = output;
            story
                .events
                .extend(events.iter().map(|event| (event_name(event.kind), event.at.as_ns() / STEP_NS)));
            if let Some(ready) = input_ready {
                story.ready = Some(ready.at.as_ns() / STEP_NS);
            }
            story.sampled += new_token_ids.len();
            let Some(finished) = finished.filter(|_| ends_count) else { continue };
            let (reason, _) = finished.end.to_wire();
            if is_last {
                let stop_reason = match finished.stop_reason {
                    Some(StopReason::Token(token)) => token.into(),
                    Some(StopReason::Text(text)) => text.into(),
                    None => serde_json::Value::Null,
                };
                story.end = Some((step, status_name(finished.end).to_owned()));
                story.output = Some((reason_name(reason).to_owned(), stop_reason));
            } else {
                story.segments.push((step, reason_name(reason).to_owned()));
            }
        }
    }
}

fn event_name(kind: EventKind) -> String {
    match kind {
        EventKind::Queued => "QUEUED",
        EventKind::Scheduled => "SCHEDULED",
        EventKind::Preempted => "PREEMPTED",
    }
    .to_owned()
}

/// vLLM's status of a request that ended so.
const fn status_name(end: End) -> &'static str {
    match end {
        End::Stop => "FINISHED_STOPPED",
        End::Length => "FINISHED_LENGTH_CAPPED",
        End::Aborted | End::Shutdown => "FINISHED_ABORTED",
        End::Timeout | End::ConnectorFailure | End::EngineError | End::Rejected => "FINISHED_ERROR",
    }
}

const fn reason_name(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::Abort => "abort",
        FinishReason::Error => "error",
        FinishReason::Repetition => "repetition",
    }
}
