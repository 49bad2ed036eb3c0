//! The order of an output's fields in each version.

/// The field order of an output's array, which each vLLM-Omni version extends in the middle.
///
/// The arrays carry no names, so a field's meaning is its place, and the number of places tells
/// the version. The default is ours: the newest, with `input_ready_ts` as its last field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OutputLayout {
    /// vLLM-Omni 0.32: 24 fields.
    Omni032,
    /// vLLM-Omni 0.32 with `input_ready_ts` after it: 25 fields.
    #[default]
    InputReady,
}

/// The field order of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BatchLayout {
    /// Up to vLLM 0.31: 8 fields.
    Vllm031,
    /// vLLM 0.32, with `weight_version`: 9 fields.
    #[default]
    Vllm032,
}

/// A field of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputField {
    RequestId,
    NewTokenIds,
    NewLogprobs,
    NewPromptLogprobsTensors,
    PoolingOutput,
    FinishReason,
    StopReason,
    Events,
    KvTransferParams,
    EcTransferParams,
    TraceHeaders,
    PrefillStats,
    RoutedExperts,
    NumNansInLogits,
    MmCacheMissHashes,
    NewSamplingMask,
    SpecDecodeMetrics,
    PromptTokenIdLogprobs,
    MultimodalOutput,
    PoolingOutputPayload,
    IsSegmentFinished,
    NewPromptLenSnapshot,
    NumGenerationTokens,
    IsCoalesced,
    InputReadyTs,
}

use OutputField::*;

/// The newest order; older ones are listed by what they lack.
const INPUT_READY: [OutputField; 25] = [
    RequestId,
    NewTokenIds,
    NewLogprobs,
    NewPromptLogprobsTensors,
    PoolingOutput,
    FinishReason,
    StopReason,
    Events,
    KvTransferParams,
    EcTransferParams,
    TraceHeaders,
    PrefillStats,
    RoutedExperts,
    NumNansInLogits,
    MmCacheMissHashes,
    NewSamplingMask,
    SpecDecodeMetrics,
    PromptTokenIdLogprobs,
    MultimodalOutput,
    PoolingOutputPayload,
    IsSegmentFinished,
    NewPromptLenSnapshot,
    NumGenerationTokens,
    IsCoalesced,
    InputReadyTs,
];

impl OutputLayout {
    /// The layout of an array of `len` fields: a longer one is the newest with unknown fields
    /// after it.
    pub(crate) const fn of_len(len: usize) -> Self {
        match len {
            ..25 => Self::Omni032,
            25.. => Self::InputReady,
        }
    }

    pub(crate) fn fields(self) -> &'static [OutputField] {
        match self {
            Self::Omni032 => &INPUT_READY[..24],
            Self::InputReady => &INPUT_READY,
        }
    }
}

impl BatchLayout {
    pub(crate) const fn of_len(len: usize) -> Self {
        match len {
            ..9 => Self::Vllm031,
            9.. => Self::Vllm032,
        }
    }

    pub(crate) const fn len(self) -> usize {
        match self {
            Self::Vllm031 => 8,
            Self::Vllm032 => 9,
        }
    }
}

impl OutputField {
    /// Its name in errors.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            RequestId => "outputs.request_id",
            NewTokenIds => "outputs.new_token_ids",
            NewLogprobs => "outputs.new_logprobs",
            NewPromptLogprobsTensors => "outputs.new_prompt_logprobs_tensors",
            PoolingOutput => "outputs.pooling_output",
            FinishReason => "outputs.finish_reason",
            StopReason => "outputs.stop_reason",
            Events => "outputs.events",
            KvTransferParams => "outputs.kv_transfer_params",
            EcTransferParams => "outputs.ec_transfer_params",
            TraceHeaders => "outputs.trace_headers",
            PrefillStats => "outputs.prefill_stats",
            RoutedExperts => "outputs.routed_experts",
            NumNansInLogits => "outputs.num_nans_in_logits",
            MmCacheMissHashes => "outputs.mm_cache_miss_hashes",
            NewSamplingMask => "outputs.new_sampling_mask",
            SpecDecodeMetrics => "outputs.spec_decode_metrics",
            PromptTokenIdLogprobs => "outputs.prompt_token_id_logprobs",
            MultimodalOutput => "outputs.multimodal_output",
            PoolingOutputPayload => "outputs.pooling_output_payload",
            IsSegmentFinished => "outputs.is_segment_finished",
            NewPromptLenSnapshot => "outputs.new_prompt_len_snapshot",
            NumGenerationTokens => "outputs.num_generation_tokens",
            IsCoalesced => "outputs.is_coalesced",
            InputReadyTs => "outputs.input_ready_ts",
        }
    }
}
