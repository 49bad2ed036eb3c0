//! The figures of a request on a stage under vLLM-Omni's names.

use serde::Serialize;

/// Statistics of one request on one stage, in milliseconds; `None` is not measured, 0 is measured.
///
/// The existing fields keep vLLM's meaning and float arithmetic (a streaming update starts them
/// anew); the two waits add up to `vllm_queued_ms` within float rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StageRequestStats {
    /// The last QUEUED to its first SCHEDULED.
    pub vllm_queued_ms: Option<f64>,
    /// QUEUED to the step that saw the input ready.
    pub vllm_input_wait_ms: Option<f64>,
    /// That step to the first SCHEDULED.
    pub vllm_ready_queued_ms: Option<f64>,
    /// First SCHEDULED to first token.
    pub vllm_prefill_ms: Option<f64>,
    /// First token to last token.
    pub vllm_decode_ms: Option<f64>,
    /// How often the request was preempted; as in vLLM-Omni `None` if the scheduler told of neither
    /// a QUEUED nor a SCHEDULED.
    pub vllm_num_preemptions: Option<u32>,
}
