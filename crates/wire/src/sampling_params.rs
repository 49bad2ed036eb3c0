//! How a request's tokens are sampled.

use crate::error::DecodeError;
use crate::raw::RawValue;
use crate::reader::Reader;
use crate::writer::Writer;

/// vLLM's default for `max_tokens`, which is then not written.
pub const MAX_TOKENS_DEFAULT: u64 = 16;

/// A request's sampling parameters: a map in which defaults are left out.
///
/// What a scheduler needs is read and set by name; every other entry is passed on untouched and in
/// its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingParams {
    entries: Vec<(Box<str>, RawValue)>,
}

const SAMPLING_PARAMS: &str = "sampling_params";

impl SamplingParams {
    /// Parameters that end a request after `max_tokens` tokens, whatever the tokens are.
    pub fn with_max_tokens(max_tokens: u64) -> Self {
        let mut params = Self::default();
        params.set_ignore_eos(true);
        params.set_max_tokens(Some(max_tokens));
        params
    }

    /// The most tokens to generate; `None` is no limit but the model's.
    pub fn max_tokens(&self) -> Option<u64> {
        self.read("max_tokens", |r| r.optional("sampling_params.max_tokens", Reader::u64))
            .unwrap_or(Some(MAX_TOKENS_DEFAULT))
    }

    /// Sets the most tokens to generate.
    pub fn set_max_tokens(&mut self, max_tokens: Option<u64>) {
        let is_default = max_tokens == Some(MAX_TOKENS_DEFAULT);
        self.set("max_tokens", is_default, |w| w.optional(max_tokens, Writer::u64));
    }

    /// The fewest tokens to generate before a stop token counts.
    pub fn min_tokens(&self) -> u64 {
        self.read("min_tokens", |r| r.u64("sampling_params.min_tokens")).unwrap_or(0)
    }

    /// Whether the end-of-sequence token doesn't end the request.
    pub fn ignore_eos(&self) -> bool {
        self.read("ignore_eos", |r| r.bool("sampling_params.ignore_eos")).unwrap_or(false)
    }

    /// Sets whether the end-of-sequence token doesn't end the request.
    pub fn set_ignore_eos(&mut self, ignore_eos: bool) {
        self.set("ignore_eos", !ignore_eos, |w| w.bool(ignore_eos));
    }

    /// The tokens that end the request.
    pub fn stop_token_ids(&self) -> Vec<u32> {
        self.read("stop_token_ids", |r| r.optional("sampling_params.stop_token_ids", Reader::tokens))
            .flatten()
            .unwrap_or_default()
    }

    /// Sets the tokens that end the request.
    pub fn set_stop_token_ids(&mut self, tokens: &[u32]) {
        self.set("stop_token_ids", tokens.is_empty(), |w| w.tokens(tokens));
    }

    /// The entry of that name, if there is one, as [`SamplingParams::decode`] has checked it.
    fn read<T>(&self, name: &str, read: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>) -> Option<T> {
        let (_, value) = self.entries.iter().find(|(key, _)| **key == *name)?;
        read(&mut Reader::new(value.as_bytes(), SAMPLING_PARAMS).ok()?).ok()
    }

    fn set(&mut self, name: &str, is_default: bool, write: impl FnOnce(&mut Writer)) {
        let place = self.entries.iter().position(|(key, _)| **key == *name);
        if is_default {
            if let Some(place) = place {
                self.entries.remove(place);
            }
            return;
        }
        let mut writer = Writer::default();
        write(&mut writer);
        let value = RawValue::from_checked(&writer.finish());
        match place {
            Some(place) => self.entries[place].1 = value,
            None => self.entries.push((Box::from(name), value)),
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        let mut entries = Vec::new();
        for _ in 0..reader.map_len(field)? {
            let key = reader.text(field)?;
            let value = match key {
                // Decoded here to be refused here, with their place in the message.
                "max_tokens" => reader
                    .checked("sampling_params.max_tokens", |r, f| r.optional(f, Reader::u64).map(drop))?,
                "min_tokens" => reader.checked("sampling_params.min_tokens", |r, f| r.u64(f).map(drop))?,
                "ignore_eos" => reader.checked("sampling_params.ignore_eos", |r, f| r.bool(f).map(drop))?,
                "stop_token_ids" => reader.checked("sampling_params.stop_token_ids", |r, f| {
                    r.optional(f, Reader::tokens).map(drop)
                })?,
                _ => reader.raw(field)?,
            };
            entries.push((Box::from(key), value));
        }
        Ok(Self { entries })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.reserved_map_len(self.entries.len());
        for (key, value) in &self.entries {
            writer.text(key);
            writer.raw(value);
        }
    }
}
