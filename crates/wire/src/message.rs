//! What an orchestrator sends to a stage's engine.

use crate::error::{DecodeError, Problem};
use crate::raw::RawValue;
use crate::reader::Reader;
use crate::request::EngineCoreRequest;
use crate::writer::Writer;

/// The kind of a message: the byte that goes before it (`EngineCoreRequestType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RequestKind {
    /// Submit a request, or a streaming update of one.
    Add = 0x00,
    /// Abort requests.
    Abort = 0x01,
    /// Call a method of the engine.
    Utility = 0x03,
}

impl RequestKind {
    /// The kind with that byte.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0x00 => Some(Self::Add),
            0x01 => Some(Self::Abort),
            0x03 => Some(Self::Utility),
            _ => None,
        }
    }

    /// Its byte.
    pub const fn byte(self) -> u8 {
        self as u8
    }
}

/// A call of a method of the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct UtilityCall {
    /// Which client calls.
    pub client_index: u64,
    /// The client's number for the call.
    pub call_id: i64,
    /// The method's name.
    pub method: String,
    /// Its arguments, passed on untouched.
    pub args: RawValue,
}

/// A message from an orchestrator to a stage's engine.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineCoreMessage {
    /// Submit a request, or a streaming update of one.
    Add(Box<EngineCoreRequest>),
    /// Abort the requests with these internal ids.
    Abort(Vec<String>),
    /// Call a method of the engine.
    Utility(UtilityCall),
}

impl EngineCoreMessage {
    /// Decodes the body of a message of that kind.
    ///
    /// # Errors
    /// Names the field and where it is.
    pub fn decode(kind: RequestKind, body: &[u8]) -> Result<Self, DecodeError> {
        match kind {
            RequestKind::Add => EngineCoreRequest::decode(body).map(Box::new).map(Self::Add),
            RequestKind::Abort => decode_abort(body).map(Self::Abort),
            RequestKind::Utility => decode_utility(body).map(Self::Utility),
        }
    }

    /// The kind's byte and the encoded body.
    pub fn encode(&self) -> (RequestKind, Vec<u8>) {
        match self {
            Self::Add(request) => (RequestKind::Add, request.encode()),
            Self::Abort(ids) => (RequestKind::Abort, encode_abort(ids)),
            Self::Utility(call) => (RequestKind::Utility, encode_utility(call)),
        }
    }
}

fn decode_abort(body: &[u8]) -> Result<Vec<String>, DecodeError> {
    const ABORT: &str = "abort.request_ids";
    let mut reader = Reader::new(body, ABORT)?;
    let len = reader.bounded_len(ABORT)?;
    let mut ids = Vec::with_capacity(len);
    for _ in 0..len {
        ids.push(reader.owned_text(ABORT)?);
    }
    reader.end(ABORT)?;
    Ok(ids)
}

/// Encodes the body of a message that aborts the requests with these internal ids.
pub fn encode_abort<S: AsRef<str>>(request_ids: &[S]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.array_len(request_ids.len());
    request_ids.iter().for_each(|id| writer.text(id.as_ref()));
    writer.finish()
}

fn decode_utility(body: &[u8]) -> Result<UtilityCall, DecodeError> {
    const CALL: &str = "utility";
    let mut reader = Reader::new(body, CALL)?;
    let len = reader.array_len(CALL)?;
    if len < 4 {
        return Err(DecodeError { field: CALL, offset: 0, problem: Problem::Missing });
    }
    let call = UtilityCall {
        client_index: reader.u64("utility.client_index")?,
        call_id: reader.i64("utility.call_id")?,
        method: reader.owned_text("utility.method")?,
        args: reader.raw("utility.args")?,
    };
    for _ in 4..len {
        reader.skip(CALL)?;
    }
    reader.end(CALL)?;
    Ok(call)
}

fn encode_utility(call: &UtilityCall) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.array_len(4);
    writer.u64(call.client_index);
    writer.i64(call.call_id);
    writer.text(&call.method);
    writer.raw(&call.args);
    writer.finish()
}
