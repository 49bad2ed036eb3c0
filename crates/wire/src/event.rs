//! An engine-core event as it travels.

use stagespan_model::EventKind;

use crate::error::{DecodeError, Problem};
use crate::reader::Reader;
use crate::writer::Writer;

/// An engine-core event: a map of `type` and `timestamp`.
///
/// The timestamp stays what it is on the wire, float seconds of the stage's monotonic clock. Only
/// who knows the stage's clock domain can say whether it is an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WireEvent {
    /// What happened.
    pub kind: EventKind,
    /// When, in seconds of the stage's `time.monotonic()`.
    pub timestamp: f64,
}

const EVENT: &str = "outputs.events";
const TYPE: &str = "outputs.events.type";
const TIMESTAMP: &str = "outputs.events.timestamp";

impl WireEvent {
    /// The fewest bytes of an event: a map of two keys, the number and a float of one byte.
    pub(crate) const MIN_BYTES: usize = 18;

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        let mut kind = None;
        let mut timestamp = None;
        for _ in 0..reader.map_len(EVENT)? {
            match reader.text(EVENT)? {
                "type" => kind = Some(read_kind(reader)?),
                "timestamp" => timestamp = Some(reader.f64(TIMESTAMP)?),
                _ => reader.skip(EVENT)?,
            }
        }
        let missing = |field| DecodeError { field, offset, problem: Problem::Missing };
        Ok(Self { kind: kind.ok_or(missing(TYPE))?, timestamp: timestamp.ok_or(missing(TIMESTAMP))? })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.map_len(2);
        writer.text("type");
        writer.u64(self.kind.code().into());
        writer.text("timestamp");
        writer.f64(self.timestamp);
    }
}

fn read_kind(reader: &mut Reader<'_>) -> Result<EventKind, DecodeError> {
    let offset = reader.offset();
    let code = reader.u64(TYPE)?;
    EventKind::from_code(code).ok_or(DecodeError {
        field: TYPE,
        offset,
        problem: Problem::Unknown { what: "engine-core event type", code },
    })
}
