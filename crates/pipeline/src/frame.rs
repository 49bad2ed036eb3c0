//! Frames on a stage's connection.
//!
//! A frame is a big-endian `u32` length (of what follows, at most 64 MiB), one kind byte, and a
//! MessagePack body. The same frames run between orchestrator and stage, and from stage to stage.

use std::fmt;
use std::io::{self, Read, Write};

/// The most bytes of one frame: kind and body.
pub const FRAME_MAX_BYTES: usize = 64 << 20;

/// A frame: its kind byte and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What the body is.
    pub kind: u8,
    /// The body.
    pub body: Vec<u8>,
}

/// Why a connection gives no further frame.
#[derive(Debug)]
pub enum FrameError {
    /// The peer closed the connection between two frames: its ordinary end.
    Closed,
    /// The connection failed, or ended inside a frame.
    Io(io::Error),
    /// A length of 0, or above 64 MiB: not our protocol, or a broken peer.
    BadLength(usize),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the peer closed the connection"),
            Self::Io(error) => write!(f, "the connection failed: {error}"),
            Self::BadLength(length) => {
                write!(
                    f,
                    "a frame of {length} bytes: frames have 1 to {FRAME_MAX_BYTES}; is the peer a stagespan?"
                )
            }
        }
    }
}

impl std::error::Error for FrameError {}

impl Frame {
    /// A frame of this kind.
    pub fn new(kind: u8, body: Vec<u8>) -> Self {
        Self { kind, body }
    }

    /// The frame's header: its length and its kind.
    ///
    /// # Errors
    /// A body too large for a frame.
    pub fn header(&self) -> Result<[u8; 5], FrameError> {
        let length = self.body.len() + 1;
        if length > FRAME_MAX_BYTES {
            return Err(FrameError::BadLength(length));
        }
        // FRAME_MAX_BYTES fits in u32.
        let [a, b, c, d] = (length as u32).to_be_bytes();
        Ok([a, b, c, d, self.kind])
    }

    /// Writes the frame; the caller flushes.
    ///
    /// # Errors
    /// A body too large for a frame, or a failing connection.
    pub fn write_to(&self, to: &mut impl Write) -> Result<(), FrameError> {
        to.write_all(&self.header()?).and_then(|()| to.write_all(&self.body)).map_err(FrameError::Io)
    }

    /// Reads the next frame.
    ///
    /// # Errors
    /// [`FrameError::Closed`] at the peer's end; a length that no frame has; a failing connection.
    pub fn read_from(from: &mut impl Read) -> Result<Self, FrameError> {
        let mut header = [0; 5];
        let mut have = 0;
        while have < header.len() {
            match from.read(&mut header[have..]) {
                Ok(0) if have == 0 => return Err(FrameError::Closed),
                Ok(0) => return Err(FrameError::Io(io::ErrorKind::UnexpectedEof.into())),
                Ok(n) => have += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(FrameError::Io(error)),
            }
        }
        let (kind, length) = Self::parse_header(header)?;
        let mut body = Vec::new();
        // `take` and not a buffer of `length` zeros: a lying header must not cost 64 MiB.
        let read = from.take(length as u64).read_to_end(&mut body).map_err(FrameError::Io)?;
        if read < length {
            return Err(FrameError::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(Self { kind, body })
    }

    /// The kind and the body's length that a header tells of.
    ///
    /// # Errors
    /// A length that no frame has.
    pub fn parse_header([a, b, c, d, kind]: [u8; 5]) -> Result<(u8, usize), FrameError> {
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length == 0 || length > FRAME_MAX_BYTES {
            return Err(FrameError::BadLength(length));
        }
        Ok((kind, length - 1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(frame: &Frame) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame.write_to(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn layout() {
        assert_eq!(bytes(&Frame::new(3, vec![0xc0])), [0, 0, 0, 2, 3, 0xc0]);
        assert_eq!(bytes(&Frame::new(9, Vec::new())), [0, 0, 0, 1, 9]);
    }

    #[test]
    fn ends_and_lies() {
        let read = |mut bytes: &[u8]| Frame::read_from(&mut bytes).unwrap_err();
        assert!(matches!(read(&[]), FrameError::Closed));
        assert!(matches!(read(&[0, 0]), FrameError::Io(_)));
        assert!(matches!(read(&[0, 0, 0, 9, 1, 2]), FrameError::Io(_)));
        assert!(matches!(read(&[0, 0, 0, 0, 1]), FrameError::BadLength(0)));
        assert!(matches!(read(&[4, 0, 0, 1, 1]), FrameError::BadLength(_)));
        // 64 MiB announced, nothing sent: no 64 MiB are set aside for it.
        assert!(matches!(read(&[4, 0, 0, 0, 1]), FrameError::Io(_)));
        let large = Frame::new(1, vec![0; FRAME_MAX_BYTES]);
        assert!(matches!(large.header(), Err(FrameError::BadLength(_))));
    }

    proptest! {
        #[test]
        fn round_trip(frames in proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..50)), 0..4)) {
            let frames: Vec<Frame> = frames.into_iter().map(|(kind, body)| Frame::new(kind, body)).collect();
            let stream: Vec<u8> = frames.iter().flat_map(bytes).collect();
            let mut rest = stream.as_slice();
            for frame in &frames {
                prop_assert_eq!(&Frame::read_from(&mut rest).unwrap(), frame);
            }
            prop_assert!(matches!(Frame::read_from(&mut rest), Err(FrameError::Closed)));
        }
    }
}
