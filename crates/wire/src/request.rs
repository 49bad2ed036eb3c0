//! A request as it is submitted to a stage's engine.

use crate::error::{DecodeError, Problem};
use crate::layout::RequestLayout;
use crate::raw::RawValue;
use crate::reader::Reader;
use crate::sampling_params::SamplingParams;
use crate::writer::Writer;

/// A request for a stage's engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineCoreRequest {
    /// The engine's own (internal) id.
    pub request_id: String,
    /// The prompt's tokens.
    pub prompt_token_ids: Option<Vec<u32>>,
    /// How the tokens are sampled.
    pub sampling_params: Option<SamplingParams>,
    /// When the request came in, in unix seconds of the orchestrator.
    pub arrival_time: f64,
    /// The client's index, for answers to more than one.
    pub client_index: u64,
    /// The data-parallel wave that the request belongs to.
    pub current_wave: u64,
    /// Its priority: less is earlier.
    pub priority: i64,
    /// The trace context, as headers.
    pub trace_headers: Option<Vec<(String, String)>>,
    /// Whether further input will follow (a streaming session).
    pub resumable: bool,
    /// The id as the client knows it.
    pub external_req_id: Option<String>,
    /// Whether it is to be aborted as soon as it is queued.
    pub abort_immediately: bool,
    /// The session it belongs to.
    pub session_id: Option<String>,
    /// The fields that are passed on untouched; `None` where all are nil.
    pub carried: Option<Box<CarriedRequestFields>>,
    /// The field order it came in, or goes out in.
    pub layout: RequestLayout,
}

/// The fields of a request that are passed on untouched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are vLLM's own fields, and opaque here")]
pub struct CarriedRequestFields {
    pub mm_features: RawValue,
    pub pooling_params: RawValue,
    pub lora_request: RawValue,
    pub cache_salt: RawValue,
    pub data_parallel_rank: RawValue,
    pub prompt_embeds: RawValue,
    pub prompt_is_token_ids: RawValue,
    pub reasoning_ended: RawValue,
    pub reasoning_parser_kwargs: RawValue,
    pub kv_hints: RawValue,
    pub additional_information: RawValue,
    pub model_intermediate_buffer: RawValue,
    pub payload_sender_info: RawValue,
}

/// The message itself, in errors.
const REQUEST: &str = "request";
/// The fields before this have no default.
const REQUIRED: usize = 9;

impl EngineCoreRequest {
    /// Decodes a request.
    ///
    /// # Errors
    /// Names the field and where it is. Fields after the known ones are skipped.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message, REQUEST)?;
        let len = reader.array_len(REQUEST)?;
        let layout = RequestLayout::of_len(len);
        let mut request = Self { layout, ..Self::default() };
        for place in 0..len {
            request.read_field(layout.newest_place(place), &mut reader)?;
        }
        if len < REQUIRED {
            return Err(DecodeError { field: REQUEST, offset: 0, problem: Problem::Missing });
        }
        reader.end(REQUEST)?;
        Ok(request)
    }

    fn read_field(&mut self, place: usize, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        match place {
            0 => self.request_id = r.owned_text("request_id")?,
            1 => self.prompt_token_ids = r.optional("prompt_token_ids", Reader::tokens)?,
            2 => self.carry(r, "mm_features", |c| &mut c.mm_features)?,
            3 => self.sampling_params = r.optional("sampling_params", SamplingParams::decode)?,
            4 => self.carry(r, "pooling_params", |c| &mut c.pooling_params)?,
            5 => self.arrival_time = r.f64("arrival_time")?,
            6 => self.carry(r, "lora_request", |c| &mut c.lora_request)?,
            7 => self.carry(r, "cache_salt", |c| &mut c.cache_salt)?,
            8 => self.carry(r, "data_parallel_rank", |c| &mut c.data_parallel_rank)?,
            9 => self.carry(r, "prompt_embeds", |c| &mut c.prompt_embeds)?,
            10 => self.carry(r, "prompt_is_token_ids", |c| &mut c.prompt_is_token_ids)?,
            11 => self.client_index = r.u64("client_index")?,
            12 => self.current_wave = r.u64("current_wave")?,
            13 => self.priority = r.i64("priority")?,
            14 => self.trace_headers = r.optional("trace_headers", read_headers)?,
            15 => self.resumable = r.bool("resumable")?,
            16 => self.external_req_id = r.optional("external_req_id", Reader::owned_text)?,
            17 => self.carry(r, "reasoning_ended", |c| &mut c.reasoning_ended)?,
            18 => self.carry(r, "reasoning_parser_kwargs", |c| &mut c.reasoning_parser_kwargs)?,
            19 => self.abort_immediately = r.bool("abort_immediately")?,
            20 => self.session_id = r.optional("session_id", Reader::owned_text)?,
            21 => self.carry(r, "kv_hints", |c| &mut c.kv_hints)?,
            22 => self.carry(r, "additional_information", |c| &mut c.additional_information)?,
            23 => self.carry(r, "model_intermediate_buffer", |c| &mut c.model_intermediate_buffer)?,
            24 => self.carry(r, "payload_sender_info", |c| &mut c.payload_sender_info)?,
            _ => r.skip(REQUEST)?,
        }
        Ok(())
    }

    fn carry(
        &mut self,
        reader: &mut Reader<'_>,
        field: &'static str,
        slot: impl FnOnce(&mut CarriedRequestFields) -> &mut RawValue,
    ) -> Result<(), DecodeError> {
        if !reader.nil(field)? {
            let value = reader.raw(field)?;
            *slot(self.carried.get_or_insert_default()) = value;
        }
        Ok(())
    }

    /// Encodes the request, as msgspec would.
    pub fn encode(&self) -> Vec<u8> {
        let nothing = CarriedRequestFields::default();
        let carried = self.carried.as_deref().unwrap_or(&nothing);
        let mut w = Writer::default();
        w.array_len(self.layout.len());
        w.text(&self.request_id);
        w.optional(self.prompt_token_ids.as_deref(), Writer::tokens);
        w.raw(&carried.mm_features);
        w.optional(self.sampling_params.as_ref(), |w, params| params.write(w));
        w.raw(&carried.pooling_params);
        w.f64(self.arrival_time);
        w.raw(&carried.lora_request);
        w.raw(&carried.cache_salt);
        w.raw(&carried.data_parallel_rank);
        w.raw(&carried.prompt_embeds);
        w.raw(&carried.prompt_is_token_ids);
        w.u64(self.client_index);
        w.u64(self.current_wave);
        w.i64(self.priority);
        w.optional(self.trace_headers.as_deref(), write_headers);
        w.bool(self.resumable);
        w.optional(self.external_req_id.as_deref(), Writer::text);
        w.raw(&carried.reasoning_ended);
        w.raw(&carried.reasoning_parser_kwargs);
        w.bool(self.abort_immediately);
        w.optional(self.session_id.as_deref(), Writer::text);
        if self.layout == RequestLayout::Omni031 {
            w.raw(&carried.kv_hints);
        }
        w.raw(&carried.additional_information);
        w.raw(&carried.model_intermediate_buffer);
        w.raw(&carried.payload_sender_info);
        w.finish()
    }
}

fn read_headers(reader: &mut Reader<'_>, field: &'static str) -> Result<Vec<(String, String)>, DecodeError> {
    let len = reader.map_len(field)?;
    let mut headers = Vec::with_capacity(len);
    for _ in 0..len {
        headers.push((reader.owned_text(field)?, reader.owned_text(field)?));
    }
    Ok(headers)
}

fn write_headers(writer: &mut Writer, headers: &[(String, String)]) {
    writer.map_len(headers.len());
    for (name, value) in headers {
        writer.text(name);
        writer.text(value);
    }
}
