//! What a stage's scheduler is told at start, and what it refuses.

use std::fmt;
use std::num::NonZeroU64;

use stagespan_model::{Gate, Position};

/// Which of vLLM-Omni's two schedulers a stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SchedulerKind {
    /// Autoregressive: a prompt is prefilled, then one token is sampled per step.
    Ar,
    /// One-shot generation: each input, or chunk of it, runs through the model once.
    Generation,
}

/// Prefill admission deferral: arrivals share one prefill step instead of each turning a decode
/// step into a mixed one. It costs a ready request time inside the stage (`ready_queued`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefillAdmission {
    /// Admit as soon as this many requests wait. At least 2.
    pub min_batch: u32,
    /// Admit when the oldest has waited this long since it was added, in nanoseconds.
    pub max_wait_ns: NonZeroU64,
    /// Defer only while at least this many requests run.
    pub min_running: u32,
}

/// What the generation scheduler does while no request is runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoalescingPolicy {
    /// Runs an empty step at once.
    Fixed,
    /// Waits for the first input as well, if every live request is held at the chunk gate.
    IdleWait,
}

/// Input coalescing of the generation scheduler: the gate pass waits for a fuller batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// Proceed as soon as this many requests are runnable. At least 2, at most `max_num_seqs`.
    pub min_batch: u32,
    /// Proceed after this long, in nanoseconds.
    pub max_wait_ns: NonZeroU64,
    /// What to do while nothing is runnable.
    pub policy: CoalescingPolicy,
}

/// The configuration of one stage's scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Which scheduler.
    pub kind: SchedulerKind,
    /// The stage's number in the pipeline, from 0.
    pub stage_id: u32,
    /// Its input gate.
    pub gate: Gate,
    /// An async_chunk stage that only sends chunks; it is not gated.
    pub sender_only: bool,
    /// With async_chunk: at most this many requests receive chunks at a time; 0 = no bound.
    pub active_stream_window: u32,
    /// Requests that may run at a time.
    pub max_num_seqs: u32,
    /// Tokens per step (`max_num_batched_tokens`).
    pub token_budget: u32,
    /// KV blocks that requests can hold. (vLLM's `num_gpu_blocks` counts one more, its null block.)
    pub kv_blocks: u32,
    /// Tokens per KV block.
    pub block_size: u32,
    /// Longest prompt plus output, in tokens.
    pub max_model_len: u32,
    /// Whether a prompt may be prefilled over several steps.
    pub chunked_prefill: bool,
    /// Requests parked in mid-run for their next chunk keep their running slot (vLLM-Omni with its
    /// second model runner, or a codec that retains state across chunks).
    pub parked_keep_slots: bool,
    /// How long a request may wait at the gate, in nanoseconds; `None` = for ever.
    pub input_wait_timeout_ns: Option<NonZeroU64>,
    /// Prefill admission deferral (AR only).
    pub prefill_admission: Option<PrefillAdmission>,
    /// Input coalescing (generation only).
    pub coalescing: Option<Coalescing>,
    /// Whether tracing or statistics are on. Off, no event is recorded and no stamp is taken.
    pub observe: bool,
}

/// vLLM-Omni's default for `VLLM_OMNI_INPUT_WAIT_TIMEOUT_S`.
pub const INPUT_WAIT_TIMEOUT_DEFAULT_NS: NonZeroU64 = NonZeroU64::MIN.saturating_add(600 * 1_000_000_000 - 1);

/// Why a configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    field: &'static str,
    value: String,
    remedy: &'static str,
}

impl ConfigError {
    fn new(field: &'static str, value: impl fmt::Display, remedy: &'static str) -> Self {
        Self { field, value: value.to_string(), remedy }
    }

    /// The field or variable at fault.
    pub const fn field(&self) -> &'static str {
        self.field
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: {}", self.field, self.value, self.remedy)
    }
}

impl std::error::Error for ConfigError {}

impl SchedulerConfig {
    /// A stage with `gate` and otherwise ample defaults: 16 slots, 2,048 tokens a step, 1,024 KV
    /// blocks of 16 tokens, vLLM-Omni's timeout, observed.
    pub const fn new(kind: SchedulerKind, stage_id: u32, gate: Gate) -> Self {
        Self {
            kind,
            stage_id,
            gate,
            sender_only: false,
            active_stream_window: 0,
            max_num_seqs: 16,
            token_budget: 2048,
            kv_blocks: 1024,
            block_size: 16,
            max_model_len: 1024 * 16,
            chunked_prefill: true,
            parked_keep_slots: false,
            input_wait_timeout_ns: Some(INPUT_WAIT_TIMEOUT_DEFAULT_NS),
            prefill_admission: None,
            coalescing: None,
            observe: true,
        }
    }

    /// Where the stage stands.
    pub const fn position(&self) -> Position {
        Position::of(self.stage_id, self.gate, self.sender_only)
    }

    /// Whether the stage's gate can hold a request.
    pub(crate) const fn gated(&self) -> bool {
        matches!(self.position(), Position::Gated)
    }

    /// Whether the stage receives its input in chunks.
    pub(crate) const fn receives_chunks(&self) -> bool {
        self.gated() && matches!(self.gate, Gate::AsyncChunk)
    }

    /// Slots of the active-stream window, if it bounds anything.
    pub(crate) fn window(&self) -> Option<usize> {
        let slots = self.active_stream_window.min(self.max_num_seqs) as usize;
        (self.receives_chunks() && slots > 0).then_some(slots)
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first field that no scheduler could run with, with what to set instead.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let positive = [
            ("max_num_seqs", self.max_num_seqs),
            ("token_budget", self.token_budget),
            ("kv_blocks", self.kv_blocks),
            ("block_size", self.block_size),
            ("max_model_len", self.max_model_len),
        ];
        for (field, value) in positive {
            if value == 0 {
                return Err(ConfigError::new(field, value, "must be at least 1"));
            }
        }
        let kv_tokens = u64::from(self.kv_blocks) * u64::from(self.block_size);
        if u64::from(self.max_model_len) > kv_tokens {
            return Err(ConfigError::new(
                "max_model_len",
                self.max_model_len,
                "one request of that length must fit into kv_blocks × block_size tokens; lower it or raise those",
            ));
        }
        if let Some(admission) = self.prefill_admission
            && admission.min_batch < 2
        {
            return Err(ConfigError::new(
                "prefill_admission.min_batch",
                admission.min_batch,
                "must be at least 2; leave the deferral out to admit at once",
            ));
        }
        if let Some(coalescing) = self.coalescing
            && !(2..=self.max_num_seqs).contains(&coalescing.min_batch)
        {
            return Err(ConfigError::new(
                "coalescing.min_batch",
                coalescing.min_batch,
                "must be between 2 and max_num_seqs; leave coalescing out to run at once",
            ));
        }
        Ok(())
    }
}

/// Reads the text of `VLLM_OMNI_INPUT_WAIT_TIMEOUT_S`, in seconds; unset is 600 s, `0` is off.
///
/// # Errors
/// What is no number, negative, or not finite. (vLLM-Omni itself takes a text that is no number as
/// 600 s; a caller that must go on can do the same with [`INPUT_WAIT_TIMEOUT_DEFAULT_NS`].)
pub fn parse_input_wait_timeout(text: Option<&str>) -> Result<Option<NonZeroU64>, ConfigError> {
    const VARIABLE: &str = "VLLM_OMNI_INPUT_WAIT_TIMEOUT_S";
    let Some(text) = text else { return Ok(Some(INPUT_WAIT_TIMEOUT_DEFAULT_NS)) };
    let refuse = |remedy| ConfigError::new(VARIABLE, format_args!("{text:?}"), remedy);
    let seconds: f64 =
        text.trim().parse().map_err(|_| refuse("is no number; give seconds, or 0 for no timeout"))?;
    if !seconds.is_finite() {
        return Err(refuse("is not finite; give seconds, or 0 for no timeout"));
    }
    if seconds < 0.0 {
        return Err(refuse("is negative; give seconds, or 0 for no timeout"));
    }
    // `as` saturates: a timeout of centuries is as good as the largest one. A positive text never
    // becomes 0 = off: less than a nanosecond counts as one.
    let ns = (seconds * 1e9).round() as u64;
    Ok(NonZeroU64::new(if seconds > 0.0 { ns.max(1) } else { 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_text_is_read_as_the_variable_says() {
        let ns = |text| parse_input_wait_timeout(text).map(|t| t.map_or(0, NonZeroU64::get));
        assert_eq!(ns(None), Ok(600_000_000_000));
        assert_eq!(ns(Some("0")), Ok(0));
        assert_eq!(ns(Some("-0")), Ok(0));
        assert_eq!(ns(Some("0.05")), Ok(50_000_000));
        assert_eq!(ns(Some(" 1e-12 ")), Ok(1));
        for bad in ["", "soon", "-1", "nan", "inf", "-inf"] {
            let error = parse_input_wait_timeout(Some(bad)).unwrap_err();
            assert!(error.to_string().contains("VLLM_OMNI_INPUT_WAIT_TIMEOUT_S"), "{error}");
        }
    }

    #[test]
    fn impossible_configurations_name_the_field() {
        let good = SchedulerConfig::new(SchedulerKind::Ar, 1, Gate::FullPayload);
        assert_eq!(good.validate(), Ok(()));
        let refused = |change: fn(&mut SchedulerConfig)| {
            let mut config = good.clone();
            change(&mut config);
            config.validate().unwrap_err().field()
        };
        assert_eq!(refused(|c| c.max_num_seqs = 0), "max_num_seqs");
        assert_eq!(refused(|c| c.token_budget = 0), "token_budget");
        assert_eq!(refused(|c| c.kv_blocks = 0), "kv_blocks");
        assert_eq!(refused(|c| c.block_size = 0), "block_size");
        assert_eq!(refused(|c| c.kv_blocks = 3), "max_model_len");
        let wait = NonZeroU64::new(1).unwrap();
        let admission = PrefillAdmission { min_batch: 1, max_wait_ns: wait, min_running: 0 };
        let mut config = good.clone();
        config.prefill_admission = Some(admission);
        assert_eq!(config.validate().unwrap_err().field(), "prefill_admission.min_batch");
        let mut config = good.clone();
        config.coalescing =
            Some(Coalescing { min_batch: 17, max_wait_ns: wait, policy: CoalescingPolicy::Fixed });
        assert_eq!(config.validate().unwrap_err().field(), "coalescing.min_batch");
    }

    #[test]
    fn a_sender_only_stage_is_not_gated() {
        let mut config = SchedulerConfig::new(SchedulerKind::Ar, 1, Gate::AsyncChunk);
        assert!(config.gated());
        config.sender_only = true;
        assert!(!config.gated());
        assert_eq!(config.position(), Position::Ungated);
    }
}
