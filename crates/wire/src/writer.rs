//! Writes MessagePack as msgspec does: every integer and length in its shortest form, but one.

use std::convert::Infallible;

use rmp::Marker;
use rmp::encode::{self, ByteBuf, ValueWriteError};

use crate::raw::RawValue;

/// Appends values to a buffer in memory, which can't fail.
#[derive(Default)]
pub(crate) struct Writer {
    buffer: ByteBuf,
}

/// Takes what writing into memory returns: an error type without values.
fn written<T>(result: Result<T, ValueWriteError<Infallible>>) {
    match result {
        Ok(_) => {}
        Err(ValueWriteError::InvalidMarkerWrite(never) | ValueWriteError::InvalidDataWrite(never)) => {
            match never {}
        }
    }
}

impl Writer {
    pub(crate) fn finish(self) -> Vec<u8> {
        self.buffer.into_vec()
    }

    pub(crate) fn array_len(&mut self, len: usize) {
        // More than u32::MAX entries would be over a frame's size a hundredfold.
        written(encode::write_array_len(&mut self.buffer, u32::try_from(len).unwrap_or(u32::MAX)));
    }

    pub(crate) fn map_len(&mut self, len: usize) {
        written(encode::write_map_len(&mut self.buffer, u32::try_from(len).unwrap_or(u32::MAX)));
    }

    /// The length of a map that leaves defaults out: msgspec makes room for it before it knows how
    /// many entries follow, so it is not in its shortest form.
    pub(crate) fn reserved_map_len(&mut self, len: usize) {
        match u16::try_from(len) {
            Ok(len) => {
                let bytes = self.buffer.as_mut_vec();
                bytes.push(Marker::Map16.to_u8());
                bytes.extend_from_slice(&len.to_be_bytes());
            }
            Err(_) => self.map_len(len),
        }
    }

    pub(crate) fn text(&mut self, text: &str) {
        written(encode::write_str(&mut self.buffer, text));
    }

    pub(crate) fn u64(&mut self, number: u64) {
        written(encode::write_uint(&mut self.buffer, number));
    }

    pub(crate) fn i64(&mut self, number: i64) {
        written(encode::write_sint(&mut self.buffer, number));
    }

    pub(crate) fn f64(&mut self, number: f64) {
        written(encode::write_f64(&mut self.buffer, number));
    }

    pub(crate) fn bool(&mut self, value: bool) {
        match encode::write_bool(&mut self.buffer, value) {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }

    pub(crate) fn nil(&mut self) {
        match encode::write_nil(&mut self.buffer) {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }

    pub(crate) fn raw(&mut self, value: &RawValue) {
        self.buffer.as_mut_vec().extend_from_slice(value.as_bytes());
    }

    /// Nil, or what `write` writes.
    pub(crate) fn optional<T: Copy>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => write(self, value),
            None => self.nil(),
        }
    }

    pub(crate) fn tokens(&mut self, tokens: &[u32]) {
        self.array_len(tokens.len());
        for token in tokens {
            self.u64((*token).into());
        }
    }
}
