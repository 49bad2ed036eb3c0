//! What the processes of a pipeline say to each other.
//!
//! Down, to a stage: vLLM's own kind bytes and bodies (`stagespan-wire`), untouched. Up, from a
//! stage, and from a stage to the next: the messages below, one to a frame.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stagespan_model::{ClockAnchor, ClockDomain, Instant, StageResource};

use crate::frame::Frame;
use crate::transport::Address;

/// The version of this protocol. Both ends are the same binary, so any other is refused.
pub const PROTOCOL_VERSION: u32 = 1;

/// From a stage to the orchestrator.
#[derive(Clone, Debug, PartialEq)]
pub enum Up {
    /// The first frame: who the stage is.
    Hello(Box<Hello>),
    /// A renewed anchor of the stage's clock.
    Anchor(RawAnchor),
    /// The stage refused to join a request's trace: it is not on the request's clock.
    Refused(Refused),
    /// How finely the stamps in the next outputs were observed.
    Observed(Observed),
    /// vLLM's `EngineCoreOutputs`, untouched.
    Outputs(Vec<u8>),
    /// The stage ends as told; nothing follows.
    Bye,
}

/// Who a stage is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL_VERSION`].
    pub version: u32,
    /// The token of this run, told to the stage at its start: a stranger on the socket has none.
    pub run_token: String,
    /// The stage's number.
    pub stage_id: u32,
    /// Which replica.
    pub replica_id: u32,
    /// Its clock domain's id.
    pub clock_domain: String,
    /// Its clock's first anchor.
    pub anchor: RawAnchor,
    /// Its process's resource.
    pub resource: StageResource,
    /// Where it takes input from the stage before.
    pub input: Option<Address>,
}

/// An anchor as bare numbers of the sender's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawAnchor {
    /// Monotonic, in nanoseconds.
    pub monotonic_ns: u64,
    /// Unix time, in nanoseconds.
    pub wall_unix_ns: u64,
    /// Half the width of the bracket they were read in, in nanoseconds.
    pub uncertainty_ns: u64,
}

/// A refusal to join a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The engine-core request.
    pub request_id: String,
    /// Why.
    pub reason: String,
}

/// The resolution of stamps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// Engine-core requests, and the nanoseconds since the gate last saw each unready.
    pub resolutions_ns: Vec<(String, u64)>,
}

/// From a stage to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handover {
    /// The first frame.
    Hello {
        /// The token of this run.
        run_token: String,
    },
    /// A chunk of a request's output.
    Chunk(ChunkMessage),
    /// All of a request's output.
    Payload(ChunkMessage),
}

/// Output of a request on the stage before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkMessage {
    /// The engine-core request.
    pub request_id: String,
    /// How many tokens.
    pub tokens: u32,
    /// Whether no more follow.
    pub finished: bool,
}

const HELLO: u8 = 0x10;
const ANCHOR: u8 = 0x11;
const REFUSED: u8 = 0x12;
const OBSERVED: u8 = 0x13;
const OUTPUTS: u8 = 0x14;
const BYE: u8 = 0x15;
const HANDOVER_HELLO: u8 = 0x20;
const HANDOVER_CHUNK: u8 = 0x21;
const HANDOVER_PAYLOAD: u8 = 0x22;

/// A frame that is no message of ours.
#[derive(Debug)]
pub enum MessageError {
    /// A kind byte that this direction doesn't have.
    UnknownKind(u8),
    /// A body that isn't what its kind says.
    BadBody {
        /// The kind byte.
        kind: u8,
        /// Why.
        source: rmp_serde::decode::Error,
    },
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKind(kind) => write!(f, "a frame of unknown kind {kind:#04x}"),
            Self::BadBody { kind, source } => {
                write!(f, "a frame of kind {kind:#04x} with a bad body: {source}")
            }
        }
    }
}

impl std::error::Error for MessageError {}

fn pack<T: Serialize>(kind: u8, body: &T) -> Frame {
    #[expect(
        clippy::expect_used,
        reason = "structs of numbers, texts and lists written to memory can't fail"
    )]
    Frame::new(kind, rmp_serde::to_vec(body).expect("plain data packs"))
}

fn unpack<T: DeserializeOwned>(frame: &Frame) -> Result<T, MessageError> {
    rmp_serde::from_slice(&frame.body).map_err(|source| MessageError::BadBody { kind: frame.kind, source })
}

impl From<Up> for Frame {
    fn from(message: Up) -> Self {
        match message {
            Up::Hello(hello) => pack(HELLO, &hello),
            Up::Anchor(anchor) => pack(ANCHOR, &anchor),
            Up::Refused(refused) => pack(REFUSED, &refused),
            Up::Observed(observed) => pack(OBSERVED, &observed),
            Up::Outputs(bytes) => Frame::new(OUTPUTS, bytes),
            Up::Bye => Frame::new(BYE, Vec::new()),
        }
    }
}

impl TryFrom<Frame> for Up {
    type Error = MessageError;

    fn try_from(frame: Frame) -> Result<Self, MessageError> {
        Ok(match frame.kind {
            HELLO => Self::Hello(Box::new(unpack(&frame)?)),
            ANCHOR => Self::Anchor(unpack(&frame)?),
            REFUSED => Self::Refused(unpack(&frame)?),
            OBSERVED => Self::Observed(unpack(&frame)?),
            OUTPUTS => Self::Outputs(frame.body),
            BYE => Self::Bye,
            kind => return Err(MessageError::UnknownKind(kind)),
        })
    }
}

impl From<Handover> for Frame {
    fn from(message: Handover) -> Self {
        match message {
            Handover::Hello { run_token } => pack(HANDOVER_HELLO, &run_token),
            Handover::Chunk(chunk) => pack(HANDOVER_CHUNK, &chunk),
            Handover::Payload(payload) => pack(HANDOVER_PAYLOAD, &payload),
        }
    }
}

impl TryFrom<Frame> for Handover {
    type Error = MessageError;

    fn try_from(frame: Frame) -> Result<Self, MessageError> {
        Ok(match frame.kind {
            HANDOVER_HELLO => Self::Hello { run_token: unpack(&frame)? },
            HANDOVER_CHUNK => Self::Chunk(unpack(&frame)?),
            HANDOVER_PAYLOAD => Self::Payload(unpack(&frame)?),
            kind => return Err(MessageError::UnknownKind(kind)),
        })
    }
}

impl From<ClockAnchor> for RawAnchor {
    fn from(anchor: ClockAnchor) -> Self {
        Self {
            monotonic_ns: anchor.monotonic().as_ns(),
            wall_unix_ns: anchor.wall_unix_ns(),
            uncertainty_ns: anchor.uncertainty_ns(),
        }
    }
}

impl RawAnchor {
    /// The anchor in the sender's clock domain; `None` where its reading is no instant.
    pub fn in_domain(self, domain: &ClockDomain) -> Option<ClockAnchor> {
        let monotonic = Instant::from_ns(self.monotonic_ns, domain.tag()).ok()?;
        Some(ClockAnchor::new(monotonic, self.wall_unix_ns, self.uncertainty_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_survives_its_frame() {
        let anchor = RawAnchor { monotonic_ns: 5, wall_unix_ns: 7, uncertainty_ns: 1 };
        let up = [
            Up::Hello(Box::new(Hello {
                version: PROTOCOL_VERSION,
                run_token: "t".into(),
                stage_id: 1,
                replica_id: 0,
                clock_domain: "d".into(),
                anchor,
                resource: StageResource { host_id: "h".into(), ..StageResource::default() },
                input: Some("unix:/run/x.sock".parse().unwrap()),
            })),
            Up::Anchor(anchor),
            Up::Refused(Refused { request_id: "r".into(), reason: "why".into() }),
            Up::Observed(Observed { resolutions_ns: vec![("r".into(), 9)] }),
            Up::Outputs(vec![0x98, 0]),
            Up::Bye,
        ];
        for message in up {
            assert_eq!(Up::try_from(Frame::from(message.clone())).unwrap(), message);
        }
        let chunk = ChunkMessage { request_id: "r".into(), tokens: 3, finished: true };
        let hello = Handover::Hello { run_token: "t".into() };
        for message in [hello, Handover::Chunk(chunk.clone()), Handover::Payload(chunk)] {
            assert_eq!(Handover::try_from(Frame::from(message.clone())).unwrap(), message);
        }
    }

    /// A hand-over may say when it was sent, on its sender's clock: nothing of ours reads that.
    #[test]
    fn rtp_llm_1369_a_senders_clock_in_the_payload_is_ignored() {
        #[derive(Serialize)]
        struct Sent {
            request_id: &'static str,
            tokens: u32,
            finished: bool,
            sent_at: f64,
        }
        for sent_at in [-3.0, 0.0, 3.0] {
            let body = rmp_serde::to_vec_named(&Sent { request_id: "r", tokens: 3, finished: true, sent_at })
                .unwrap();
            let chunk = ChunkMessage { request_id: "r".into(), tokens: 3, finished: true };
            let read = Handover::try_from(Frame::new(HANDOVER_CHUNK, body)).unwrap();
            assert_eq!(read, Handover::Chunk(chunk));
        }
    }

    #[test]
    fn frames_that_are_no_messages() {
        assert!(matches!(Up::try_from(Frame::new(0x21, vec![])), Err(MessageError::UnknownKind(0x21))));
        assert!(matches!(Handover::try_from(Frame::new(BYE, vec![])), Err(MessageError::UnknownKind(BYE))));
        let error = Up::try_from(Frame::new(HELLO, vec![0xc1])).unwrap_err();
        assert!(error.to_string().starts_with("a frame of kind 0x10 with a bad body"), "{error}");
    }

    #[test]
    fn an_anchor_at_zero_is_none() {
        let domain = ClockDomain::unknown();
        let raw = RawAnchor { monotonic_ns: 0, wall_unix_ns: 7, uncertainty_ns: 1 };
        assert_eq!(raw.in_domain(&domain), None);
        let anchor = RawAnchor { monotonic_ns: 3, ..raw }.in_domain(&domain).unwrap();
        assert_eq!(RawAnchor::from(anchor), RawAnchor { monotonic_ns: 3, ..raw });
    }
}
