//! Reads MessagePack from a slice, with the field's name in every error.

use rmp::Marker;
use rmp::decode::{self, NumValueReadError, ValueReadError};

use crate::error::{DecodeError, Problem};
use crate::raw::RawValue;
use crate::{FRAME_MAX_BYTES, MESSAGE_MAX_ENTRIES};

type Field = &'static str;
type Result<T> = std::result::Result<T, DecodeError>;

/// A cursor over one message. Nothing here recurses or allocates by a length that it was told:
/// a list can't announce more entries than there are bytes left.
pub(crate) struct Reader<'a> {
    length: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of `message`, which is one frame's body.
    pub(crate) fn new(message: &'a [u8], field: Field) -> Result<Self> {
        if message.len() > FRAME_MAX_BYTES {
            let problem = Problem::TooLong { bytes: message.len(), max: FRAME_MAX_BYTES };
            return Err(DecodeError { field, offset: 0, problem });
        }
        Ok(Self { length: message.len(), rest: message })
    }

    /// Refuses a message that goes on after its value.
    pub(crate) fn end(self, field: Field) -> Result<()> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(DecodeError { field, offset: self.offset(), problem: Problem::Trailing { bytes } }),
        }
    }

    pub(crate) fn offset(&self) -> usize {
        self.length - self.rest.len()
    }

    /// How many bytes are left.
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    fn peek(&self, field: Field) -> Result<u8> {
        self.rest.first().copied().ok_or(DecodeError {
            field,
            offset: self.offset(),
            problem: Problem::Truncated,
        })
    }

    /// Runs one of rmp's readers; a value that it refuses is named with where it began.
    fn read<T, E: Into<Refused>>(
        &mut self,
        field: Field,
        expected: &'static str,
        read: impl FnOnce(&mut &'a [u8]) -> std::result::Result<T, E>,
    ) -> Result<T> {
        let offset = self.offset();
        let marker = self.peek(field)?;
        read(&mut self.rest).map_err(|error| {
            let problem = match error.into() {
                Refused::Truncated => Problem::Truncated,
                Refused::Type => Problem::Type { expected, marker },
                Refused::Range => Problem::OutOfRange { expected },
            };
            DecodeError { field, offset, problem }
        })
    }

    /// Takes a nil, if there is one.
    pub(crate) fn nil(&mut self, field: Field) -> Result<bool> {
        let nil = self.peek(field)? == Marker::Null.to_u8();
        if nil {
            self.rest = &self.rest[1..];
        }
        Ok(nil)
    }

    /// Nil, or what `read` reads.
    pub(crate) fn optional<T>(
        &mut self,
        field: Field,
        read: impl FnOnce(&mut Self, Field) -> Result<T>,
    ) -> Result<Option<T>> {
        if self.nil(field)? { Ok(None) } else { read(self, field).map(Some) }
    }

    pub(crate) fn array_len(&mut self, field: Field) -> Result<usize> {
        let offset = self.offset();
        let len = self.read(field, "an array", decode::read_array_len)? as usize;
        self.fits(field, offset, len)
    }

    /// The length of a list of outputs or ids.
    pub(crate) fn bounded_len(&mut self, field: Field) -> Result<usize> {
        let offset = self.offset();
        let len = self.array_len(field)?;
        bounded(field, offset, len)
    }

    pub(crate) fn map_len(&mut self, field: Field) -> Result<usize> {
        let offset = self.offset();
        let len = self.read(field, "a map", decode::read_map_len)? as usize;
        // An entry is two values.
        self.fits(field, offset, len.saturating_mul(2))?;
        bounded(field, offset, len)
    }

    /// Every value takes a byte, so `values` of them can't follow where fewer bytes do.
    fn fits(&self, field: Field, offset: usize, values: usize) -> Result<usize> {
        if values > self.rest.len() {
            return Err(DecodeError { field, offset, problem: Problem::Truncated });
        }
        Ok(values)
    }

    pub(crate) fn text(&mut self, field: Field) -> Result<&'a str> {
        let offset = self.offset();
        let len = self.read(field, "a string", decode::read_str_len)? as usize;
        let bytes = self.take(field, offset, len)?;
        std::str::from_utf8(bytes).map_err(|_| DecodeError { field, offset, problem: Problem::NotUtf8 })
    }

    pub(crate) fn owned_text(&mut self, field: Field) -> Result<String> {
        self.text(field).map(str::to_owned)
    }

    pub(crate) fn u64(&mut self, field: Field) -> Result<u64> {
        self.read(field, "a non-negative integer", decode::read_int)
    }

    pub(crate) fn u32(&mut self, field: Field) -> Result<u32> {
        self.read(field, "an integer of 32 bits", decode::read_int)
    }

    pub(crate) fn i64(&mut self, field: Field) -> Result<i64> {
        self.read(field, "an integer", decode::read_int)
    }

    pub(crate) fn bool(&mut self, field: Field) -> Result<bool> {
        self.read(field, "a boolean", decode::read_bool)
    }

    /// A float. Integers are taken too, as Python's decoders do.
    pub(crate) fn f64(&mut self, field: Field) -> Result<f64> {
        match Marker::from_u8(self.peek(field)?) {
            Marker::F32 => self.read(field, "a float", decode::read_f32).map(f64::from),
            Marker::FixNeg(_) | Marker::I8 | Marker::I16 | Marker::I32 | Marker::I64 => {
                self.i64(field).map(|n| n as f64)
            }
            Marker::FixPos(_) | Marker::U8 | Marker::U16 | Marker::U32 | Marker::U64 => {
                self.u64(field).map(|n| n as f64)
            }
            _ => self.read(field, "a float", decode::read_f64),
        }
    }

    /// A list of token ids.
    pub(crate) fn tokens(&mut self, field: Field) -> Result<Vec<u32>> {
        let len = self.array_len(field)?;
        let mut tokens = Vec::with_capacity(len);
        for _ in 0..len {
            tokens.push(self.u32(field)?);
        }
        Ok(tokens)
    }

    /// Whether the next value is a string.
    pub(crate) fn is_text(&self, field: Field) -> Result<bool> {
        let marker = Marker::from_u8(self.peek(field)?);
        Ok(matches!(marker, Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32))
    }

    /// A value that `read` must accept, untouched.
    pub(crate) fn checked(
        &mut self,
        field: Field,
        read: impl FnOnce(&mut Self, Field) -> Result<()>,
    ) -> Result<RawValue> {
        let before = self.rest;
        read(self, field)?;
        Ok(RawValue::from_checked(&before[..before.len() - self.rest.len()]))
    }

    /// Any value, untouched.
    pub(crate) fn raw(&mut self, field: Field) -> Result<RawValue> {
        self.checked(field, Self::skip)
    }

    /// Passes over one value, whatever its depth: it counts what is still to come instead of
    /// calling itself, so no nesting can exhaust the stack.
    pub(crate) fn skip(&mut self, field: Field) -> Result<()> {
        let start = self.offset();
        let mut to_come = 1_usize;
        while to_come > 0 {
            to_come -= 1;
            let (bytes, values) = self.head(field)?;
            self.take(field, start, bytes)?;
            to_come = self.fits(field, start, to_come.saturating_add(values))?;
        }
        Ok(())
    }

    /// Takes a value's marker and length: how many bytes and how many values belong to it.
    fn head(&mut self, field: Field) -> Result<(usize, usize)> {
        let start = self.offset();
        let byte = self.peek(field)?;
        self.rest = &self.rest[1..];
        Ok(match Marker::from_u8(byte) {
            Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => (0, 0),
            Marker::U8 | Marker::I8 => (1, 0),
            Marker::U16 | Marker::I16 => (2, 0),
            Marker::U32 | Marker::I32 | Marker::F32 => (4, 0),
            Marker::U64 | Marker::I64 | Marker::F64 => (8, 0),
            Marker::FixStr(len) => (len.into(), 0),
            Marker::Str8 | Marker::Bin8 => (self.length(field, start, 1)?, 0),
            Marker::Str16 | Marker::Bin16 => (self.length(field, start, 2)?, 0),
            Marker::Str32 | Marker::Bin32 => (self.length(field, start, 4)?, 0),
            // An extension has one more byte: its type.
            Marker::FixExt1 => (2, 0),
            Marker::FixExt2 => (3, 0),
            Marker::FixExt4 => (5, 0),
            Marker::FixExt8 => (9, 0),
            Marker::FixExt16 => (17, 0),
            Marker::Ext8 => (self.length(field, start, 1)?.saturating_add(1), 0),
            Marker::Ext16 => (self.length(field, start, 2)?.saturating_add(1), 0),
            Marker::Ext32 => (self.length(field, start, 4)?.saturating_add(1), 0),
            Marker::FixArray(len) => (0, len.into()),
            Marker::Array16 => (0, self.length(field, start, 2)?),
            Marker::Array32 => (0, self.length(field, start, 4)?),
            Marker::FixMap(len) => (0, usize::from(len) * 2),
            Marker::Map16 => (0, self.length(field, start, 2)?.saturating_mul(2)),
            Marker::Map32 => (0, self.length(field, start, 4)?.saturating_mul(2)),
            Marker::Reserved => {
                let problem = Problem::Type { expected: "a value", marker: byte };
                return Err(DecodeError { field, offset: start, problem });
            }
        })
    }

    /// A big-endian length of `size` bytes.
    fn length(&mut self, field: Field, start: usize, size: usize) -> Result<usize> {
        let bytes = self.take(field, start, size)?;
        Ok(bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    fn take(&mut self, field: Field, start: usize, bytes: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(bytes) else {
            return Err(DecodeError { field, offset: start, problem: Problem::Truncated });
        };
        self.rest = rest;
        Ok(taken)
    }
}

/// Refuses more entries than a message may have. Each becomes many times as large as its bytes.
fn bounded(field: Field, offset: usize, count: usize) -> Result<usize> {
    if count > MESSAGE_MAX_ENTRIES {
        let problem = Problem::TooMany { count, max: MESSAGE_MAX_ENTRIES };
        return Err(DecodeError { field, offset, problem });
    }
    Ok(count)
}

/// What rmp's two error types say, as far as it matters here.
pub(crate) enum Refused {
    Truncated,
    Type,
    Range,
}

impl<E: decode::RmpReadErr> From<ValueReadError<E>> for Refused {
    fn from(error: ValueReadError<E>) -> Self {
        match error {
            ValueReadError::TypeMismatch(_) => Self::Type,
            ValueReadError::InvalidMarkerRead(_) | ValueReadError::InvalidDataRead(_) => Self::Truncated,
        }
    }
}

impl<E: decode::RmpReadErr> From<NumValueReadError<E>> for Refused {
    fn from(error: NumValueReadError<E>) -> Self {
        match error {
            NumValueReadError::TypeMismatch(_) => Self::Type,
            NumValueReadError::OutOfRange => Self::Range,
            NumValueReadError::InvalidMarkerRead(_) | NumValueReadError::InvalidDataRead(_) => {
                Self::Truncated
            }
        }
    }
}
