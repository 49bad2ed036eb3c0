//! Frames on the orchestrator's sockets, which are asynchronous.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::frame::{Frame, FrameError};

/// Reads the next frame.
///
/// # Errors
/// As [`Frame::read_from`].
pub(crate) async fn read_frame(from: &mut (impl AsyncRead + Unpin)) -> Result<Frame, FrameError> {
    let mut header = [0; 5];
    let first = from.read(&mut header).await.map_err(FrameError::Io)?;
    if first == 0 {
        return Err(FrameError::Closed);
    }
    from.read_exact(&mut header[first..]).await.map_err(FrameError::Io)?;
    let (kind, length) = Frame::parse_header(header)?;
    let mut body = Vec::new();
    let read = from.take(length as u64).read_to_end(&mut body).await.map_err(FrameError::Io)?;
    if read < length {
        return Err(FrameError::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(Frame { kind, body })
}

/// Writes a frame; the caller flushes.
///
/// # Errors
/// As [`Frame::write_to`].
pub(crate) async fn write_frame(to: &mut (impl AsyncWrite + Unpin), frame: &Frame) -> Result<(), FrameError> {
    to.write_all(&frame.header()?).await.map_err(FrameError::Io)?;
    to.write_all(&frame.body).await.map_err(FrameError::Io)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_kinds_of_reader_agree() {
        let frames = [Frame::new(1, vec![5; 70_000]), Frame::new(2, vec![])];
        let mut stream = Vec::new();
        for frame in &frames {
            write_frame(&mut stream, frame).await.unwrap();
        }
        let (mut asynchronous, mut blocking) = (stream.as_slice(), stream.as_slice());
        for frame in &frames {
            assert_eq!(&read_frame(&mut asynchronous).await.unwrap(), frame);
            assert_eq!(&Frame::read_from(&mut blocking).unwrap(), frame);
        }
        assert!(matches!(read_frame(&mut asynchronous).await, Err(FrameError::Closed)));
        for bad in [&[0, 0][..], &[0, 0, 0, 9, 1, 2], &[0, 0, 0, 0, 1]] {
            assert!(!matches!(read_frame(&mut &*bad).await, Ok(_) | Err(FrameError::Closed)), "{bad:?}");
        }
    }
}
