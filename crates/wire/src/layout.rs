//! The order of the fields in each version.
//!
//! The arrays carry no names, so a field's meaning is its place. vLLM appends to its own structs,
//! on which vLLM-Omni's build: a new field of vLLM's stands in the middle of vLLM-Omni's, and the
//! number of fields tells the version. A shorter array than any known is read as the first fields
//! of the newest, which is msgspec's rule for a missing tail.

/// The field order of an output. The default is ours: the newest, with `input_ready_ts` as its
/// last field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OutputLayout {
    /// vLLM 0.30's own output: 17 fields. vLLM-Omni's AR scheduler sends it for an abort.
    Vllm030,
    /// vLLM 0.31's and 0.32's own output, with `prompt_token_id_logprobs`: 18 fields.
    Vllm031,
    /// vLLM-Omni 0.30: 22 fields.
    Omni030,
    /// vLLM-Omni 0.31, with `prompt_token_id_logprobs`: 23 fields.
    Omni031,
    /// vLLM-Omni 0.32, with `is_coalesced`: 24 fields.
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

/// The field order of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RequestLayout {
    /// vLLM-Omni 0.30: 24 fields.
    Omni030,
    /// vLLM-Omni 0.31 and 0.32, with `kv_hints`: 25 fields.
    #[default]
    Omni031,
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

/// The newest order.
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

/// 0.30's order: the newest without what came in its middle, and at its end, since.
const OMNI_030: [OutputField; 22] = {
    let mut fields = [RequestId; 22];
    let (mut from, mut to) = (0, 0);
    while to < fields.len() {
        if !matches!(INPUT_READY[from], PromptTokenIdLogprobs) {
            fields[to] = INPUT_READY[from];
            to += 1;
        }
        from += 1;
    }
    fields
};

impl OutputLayout {
    /// The layout of an array of `len` fields: a longer one is the newest with unknown fields
    /// after it.
    pub(crate) const fn of_len(len: usize) -> Self {
        match len {
            ..=17 => Self::Vllm030,
            18 => Self::Vllm031,
            22 => Self::Omni030,
            23 => Self::Omni031,
            19..25 => Self::Omni032,
            25.. => Self::InputReady,
        }
    }

    pub(crate) fn fields(self) -> &'static [OutputField] {
        match self {
            Self::Vllm030 => &INPUT_READY[..17],
            Self::Vllm031 => &INPUT_READY[..18],
            Self::Omni030 => &OMNI_030,
            Self::Omni031 => &INPUT_READY[..23],
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

/// Where `kv_hints` stands among a request's fields.
const KV_HINTS: usize = 21;

impl RequestLayout {
    pub(crate) const fn of_len(len: usize) -> Self {
        match len {
            24 => Self::Omni030,
            _ => Self::Omni031,
        }
    }

    pub(crate) const fn len(self) -> usize {
        match self {
            Self::Omni030 => 24,
            Self::Omni031 => 25,
        }
    }

    /// The place in the newest order of the field at `place`.
    pub(crate) const fn newest_place(self, place: usize) -> usize {
        match self {
            Self::Omni030 if place >= KV_HINTS => place + 1,
            Self::Omni030 | Self::Omni031 => place,
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
