//! One request's part of an output batch.

use stagespan_model::FinishReason;

use crate::error::{DecodeError, Problem};
use crate::event::WireEvent;
use crate::layout::{OutputField, OutputLayout};
use crate::raw::RawValue;
use crate::reader::Reader;
use crate::writer::Writer;

/// Why generation stopped, where the finish reason alone doesn't say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The stop token.
    Token(i64),
    /// The stop string, or what our ends write there (`stagespan_model::End::to_wire`).
    Text(String),
}

/// What a stage's engine put out for one request in one step. The default is vLLM's: an output
/// that says nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineCoreOutput {
    /// The engine's own (internal) id of the request.
    pub request_id: String,
    /// The new tokens of this step.
    pub new_token_ids: Vec<u32>,
    /// How the request ended; `None` while it goes on.
    pub finish_reason: Option<FinishReason>,
    /// What stopped it.
    pub stop_reason: Option<StopReason>,
    /// The engine-core events since the last output; `None` where the engine records none.
    pub events: Option<Vec<WireEvent>>,
    /// Tokens with NaN in their logits: above 0, the output is corrupt.
    pub num_nans_in_logits: u64,
    /// The finish reason ends a segment of a streaming session, not the request.
    pub is_segment_finished: Option<bool>,
    /// The length of a streaming update's prompt, in tokens.
    pub new_prompt_len_snapshot: Option<u64>,
    /// Tokens generated in this segment so far, where the engine counts them itself.
    pub num_generation_tokens: Option<u64>,
    /// The output stands for several decode steps.
    pub is_coalesced: bool,
    /// When the scheduler saw the input ready, in seconds of the stage's `time.monotonic()`. Sent
    /// only with events.
    pub input_ready_ts: Option<f64>,
    /// The fields that are passed on untouched; `None` where all are nil.
    pub carried: Option<Box<CarriedOutputFields>>,
    /// The field order it came in, or goes out in.
    pub layout: OutputLayout,
}

impl Default for EngineCoreOutput {
    fn default() -> Self {
        Self {
            request_id: String::new(),
            new_token_ids: Vec::new(),
            finish_reason: None,
            stop_reason: None,
            events: None,
            num_nans_in_logits: 0,
            is_segment_finished: Some(false),
            new_prompt_len_snapshot: None,
            num_generation_tokens: None,
            is_coalesced: false,
            input_ready_ts: None,
            carried: None,
            layout: OutputLayout::default(),
        }
    }
}

/// The fields of an output that are passed on untouched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are vLLM's own fields, and opaque here")]
pub struct CarriedOutputFields {
    pub new_logprobs: RawValue,
    pub new_prompt_logprobs_tensors: RawValue,
    pub pooling_output: RawValue,
    pub kv_transfer_params: RawValue,
    pub ec_transfer_params: RawValue,
    pub trace_headers: RawValue,
    pub prefill_stats: RawValue,
    pub routed_experts: RawValue,
    pub mm_cache_miss_hashes: RawValue,
    pub new_sampling_mask: RawValue,
    pub spec_decode_metrics: RawValue,
    pub prompt_token_id_logprobs: RawValue,
    pub multimodal_output: RawValue,
    pub pooling_output_payload: RawValue,
}

/// The array itself, in errors.
const OUTPUT: &str = "outputs";

impl EngineCoreOutput {
    /// The fewest bytes of an output: an array of an empty id and no tokens.
    pub(crate) const MIN_BYTES: usize = 3;

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        let len = reader.array_len(OUTPUT)?;
        let layout = OutputLayout::of_len(len);
        let mut output = Self { layout, ..Self::default() };
        let fields = layout.fields();
        for field in fields.iter().take(len) {
            output.read_field(*field, reader)?;
        }
        for _ in fields.len()..len {
            reader.skip(OUTPUT)?;
        }
        if let Some(missing) = [OutputField::RequestId, OutputField::NewTokenIds].get(len) {
            return Err(DecodeError { field: missing.name(), offset, problem: Problem::Missing });
        }
        Ok(output)
    }

    fn read_field(&mut self, field: OutputField, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let name = field.name();
        match field {
            OutputField::RequestId => self.request_id = reader.owned_text(name)?,
            OutputField::NewTokenIds => self.new_token_ids = reader.tokens(name)?,
            OutputField::FinishReason => self.finish_reason = reader.optional(name, read_finish_reason)?,
            OutputField::StopReason => self.stop_reason = reader.optional(name, read_stop_reason)?,
            OutputField::Events => self.events = reader.optional(name, read_events)?,
            OutputField::NumNansInLogits => self.num_nans_in_logits = reader.u64(name)?,
            OutputField::IsSegmentFinished => {
                self.is_segment_finished = reader.optional(name, Reader::bool)?;
            }
            OutputField::NewPromptLenSnapshot => {
                self.new_prompt_len_snapshot = reader.optional(name, Reader::u64)?;
            }
            OutputField::NumGenerationTokens => {
                self.num_generation_tokens = reader.optional(name, Reader::u64)?;
            }
            OutputField::IsCoalesced => self.is_coalesced = reader.bool(name)?,
            OutputField::InputReadyTs => self.input_ready_ts = reader.optional(name, Reader::f64)?,
            carried => {
                if !reader.nil(name)? {
                    let value = reader.raw(name)?;
                    if let Some(slot) = self.carried.get_or_insert_default().slot(carried) {
                        *slot = value;
                    }
                }
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        let fields = self.layout.fields();
        writer.array_len(fields.len());
        for field in fields {
            self.write_field(*field, writer);
        }
    }

    fn write_field(&self, field: OutputField, writer: &mut Writer) {
        match field {
            OutputField::RequestId => writer.text(&self.request_id),
            OutputField::NewTokenIds => writer.tokens(&self.new_token_ids),
            OutputField::FinishReason => {
                writer.optional(self.finish_reason, |w, reason| w.u64(reason.code().into()));
            }
            OutputField::StopReason => match &self.stop_reason {
                None => writer.nil(),
                Some(StopReason::Token(token)) => writer.i64(*token),
                Some(StopReason::Text(text)) => writer.text(text),
            },
            OutputField::Events => writer.optional(self.events.as_deref(), |w, events| {
                w.array_len(events.len());
                events.iter().for_each(|event| event.write(w));
            }),
            OutputField::NumNansInLogits => writer.u64(self.num_nans_in_logits),
            OutputField::IsSegmentFinished => writer.optional(self.is_segment_finished, Writer::bool),
            OutputField::NewPromptLenSnapshot => writer.optional(self.new_prompt_len_snapshot, Writer::u64),
            OutputField::NumGenerationTokens => writer.optional(self.num_generation_tokens, Writer::u64),
            OutputField::IsCoalesced => writer.bool(self.is_coalesced),
            OutputField::InputReadyTs => writer.optional(self.input_ready_ts, Writer::f64),
            carried => match self.carried.as_deref().and_then(|fields| fields.get(carried)) {
                Some(value) => writer.raw(value),
                None => writer.nil(),
            },
        }
    }
}

macro_rules! carried_fields {
    ($($variant:ident => $name:ident),* $(,)?) => {
        impl CarriedOutputFields {
            fn slot(&mut self, field: OutputField) -> Option<&mut RawValue> {
                match field {
                    $(OutputField::$variant => Some(&mut self.$name),)*
                    _ => None,
                }
            }

            fn get(&self, field: OutputField) -> Option<&RawValue> {
                match field {
                    $(OutputField::$variant => Some(&self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

carried_fields! {
    NewLogprobs => new_logprobs,
    NewPromptLogprobsTensors => new_prompt_logprobs_tensors,
    PoolingOutput => pooling_output,
    KvTransferParams => kv_transfer_params,
    EcTransferParams => ec_transfer_params,
    TraceHeaders => trace_headers,
    PrefillStats => prefill_stats,
    RoutedExperts => routed_experts,
    MmCacheMissHashes => mm_cache_miss_hashes,
    NewSamplingMask => new_sampling_mask,
    SpecDecodeMetrics => spec_decode_metrics,
    PromptTokenIdLogprobs => prompt_token_id_logprobs,
    MultimodalOutput => multimodal_output,
    PoolingOutputPayload => pooling_output_payload,
}

fn read_finish_reason(reader: &mut Reader<'_>, field: &'static str) -> Result<FinishReason, DecodeError> {
    let offset = reader.offset();
    let code = reader.u64(field)?;
    FinishReason::from_code(code).ok_or(DecodeError {
        field,
        offset,
        problem: Problem::Unknown { what: "finish reason", code },
    })
}

fn read_stop_reason(reader: &mut Reader<'_>, field: &'static str) -> Result<StopReason, DecodeError> {
    if reader.is_text(field)? {
        reader.owned_text(field).map(StopReason::Text)
    } else {
        reader.i64(field).map(StopReason::Token)
    }
}

fn read_events(reader: &mut Reader<'_>, field: &'static str) -> Result<Vec<WireEvent>, DecodeError> {
    let len = reader.array_len(field)?;
    let mut events = Vec::with_capacity(len.min(reader.remaining() / WireEvent::MIN_BYTES));
    for _ in 0..len {
        events.push(WireEvent::read(reader)?);
    }
    Ok(events)
}
