//! vLLM's own statistics of a request, in vLLM's own arithmetic.

use stagespan_model::{EventKind, StageRequestStats};

/// The engine-core times of a request as vLLM's front end keeps them: float seconds, 0 for "never
/// set", the last QUEUED, the first SCHEDULED, and outputs instead of tokens.
///
/// The figures are subtracted and scaled exactly as vLLM does, so they are the same to the bit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PhaseStats {
    queued_ts: f64,
    scheduled_ts: f64,
    first_token_ts: f64,
    last_token_ts: f64,
    preemptions: u32,
    /// Whether an output has come since the start, or since the last streaming update.
    has_output: bool,
    queued_events: u32,
    /// Whether nothing more counts.
    complete: bool,
}

impl PhaseStats {
    /// Keeps the figures as they are, whatever still comes.
    pub(crate) fn complete(&mut self) {
        self.complete = true;
    }

    /// Notes an engine-core event.
    pub(crate) fn event(&mut self, kind: EventKind, timestamp: f64) {
        if self.complete {
            return;
        }
        match kind {
            EventKind::Queued => {
                self.queued_ts = timestamp;
                self.queued_events = self.queued_events.saturating_add(1);
            }
            EventKind::Scheduled => {
                if self.scheduled_ts == 0.0 {
                    self.scheduled_ts = timestamp;
                }
            }
            EventKind::Preempted => self.preemptions = self.preemptions.saturating_add(1),
        }
    }

    /// Notes an output, with the timestamp of its batch: the first one counts as the first token,
    /// whether or not it has any.
    pub(crate) fn output(&mut self, batch_timestamp: f64) {
        if self.complete {
            return;
        }
        if !self.has_output {
            self.has_output = true;
            self.first_token_ts = batch_timestamp;
        }
        self.last_token_ts = batch_timestamp;
    }

    /// The figures. The two waits stand in them only where the queued time that they split is the
    /// one that they were measured in: `input_ready_ts` is given only then.
    pub(crate) fn finish(&self, input_ready_ts: Option<f64>) -> StageRequestStats {
        let input_ready_ts = input_ready_ts.filter(|_| self.queued_events == 1);
        StageRequestStats {
            vllm_queued_ms: interval_ms(self.queued_ts, self.scheduled_ts),
            vllm_input_wait_ms: input_ready_ts.and_then(|ready| interval_ms(self.queued_ts, ready)),
            vllm_ready_queued_ms: input_ready_ts.and_then(|ready| interval_ms(ready, self.scheduled_ts)),
            vllm_prefill_ms: interval_ms(self.scheduled_ts, self.first_token_ts),
            vllm_decode_ms: interval_ms(self.first_token_ts, self.last_token_ts),
            // Without an engine-core event seen, a count of 0 would mean nothing.
            vllm_num_preemptions: (self.queued_ts > 0.0 || self.scheduled_ts > 0.0)
                .then_some(self.preemptions),
        }
    }
}

/// An interval as vLLM takes it: its start was set, and it isn't negative.
fn interval_ms(from: f64, to: f64) -> Option<f64> {
    (from > 0.0 && to >= from).then_some((to - from) * 1000.0)
}
