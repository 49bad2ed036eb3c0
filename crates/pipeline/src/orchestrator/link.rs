//! A running stage as the core sees it: its process, its connection, its output processor.

use std::time::Duration;

use stagespan_output_processor::OutputProcessor;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::child::{ReadyStage, describe_exit};
use super::core::Message;
use crate::frame::{Frame, FrameError};
use crate::frame_io::{read_frame, write_frame};
use crate::message::Up;
use crate::pipeline_file::Stage;

/// How long a process may take to be gone once its connection is.
const EXIT_WITHIN: Duration = Duration::from_secs(2);
/// How long a stage may take to end what it has in flight when it is told to end.
const BYE_WITHIN: Duration = Duration::from_secs(5);

/// A running stage.
pub(super) struct StageLink {
    pub(super) stage: Stage,
    pub(super) pid: u32,
    pub(super) processor: OutputProcessor,
    /// `None` once the stage is told to end, or is lost.
    frames: Option<mpsc::Sender<Frame>>,
    process: Child,
    reader: JoinHandle<()>,
}

impl StageLink {
    pub(super) fn new(
        index: usize,
        stage: Stage,
        ready: ReadyStage,
        processor: OutputProcessor,
        max_in_flight: usize,
        inbox: &mpsc::Sender<Message>,
    ) -> Self {
        let (read, write) = ready.connection;
        // One ADD and one ABORT for each request in flight: a send never finds the queue full.
        let (frames, queued) = mpsc::channel(2 * max_in_flight.max(1));
        tokio::spawn(write_frames(write, queued));
        Self {
            stage,
            pid: ready.hello.resource.process_pid,
            processor,
            frames: Some(frames),
            process: ready.process,
            reader: tokio::spawn(read_frames(index, read, inbox.clone())),
        }
    }

    /// Sends a frame; to a stage that is ending or lost nothing is sent.
    pub(super) fn send(&self, frame: Frame) {
        if let Some(frames) = &self.frames
            && let Err(error) = frames.try_send(frame)
        {
            // Full can't be (see `new`); closed means that the stage's end is on its way to the core.
            tracing::debug!(%error, stage = %self.stage.name, "not sent");
        }
    }

    /// Tells the stage to end: its connection's writing end closes when all is written.
    pub(super) fn close(&mut self) {
        self.frames = None;
    }

    /// How a stage whose connection is gone came to its end, in words.
    pub(super) async fn describe_loss(&mut self, connection: &str) -> String {
        self.close();
        match timeout(EXIT_WITHIN, self.process.wait()).await {
            Ok(Ok(status)) => describe_exit(status),
            Ok(Err(error)) => error.to_string(),
            Err(_) => {
                self.kill().await;
                format!("{connection}; its process was still there and was killed")
            }
        }
    }

    /// Waits until a stage that was told to end is gone, and kills it if it won't go.
    pub(super) async fn join(&mut self) {
        if timeout(BYE_WITHIN, self.process.wait()).await.is_err() {
            tracing::warn!(stage = %self.stage.name, pid = self.pid, "did not end when told: killed");
            self.kill().await;
        }
        self.reader.abort();
    }

    async fn kill(&mut self) {
        // With a launch prefix the child is the launcher; the stage itself has seen its
        // connection end and exits by that.
        if let Err(error) = self.process.kill().await {
            tracing::warn!(%error, stage = %self.stage.name, "can't kill the stage's process");
        }
    }
}

async fn write_frames(write: Box<dyn AsyncWrite + Send + Unpin>, mut frames: mpsc::Receiver<Frame>) {
    let mut writer = tokio::io::BufWriter::new(write);
    while let Some(frame) = frames.recv().await {
        let mut written = write_frame(&mut writer, &frame).await;
        // What waits goes out together, then all of it is flushed.
        while let (Ok(()), Ok(next)) = (&written, frames.try_recv()) {
            written = write_frame(&mut writer, &next).await;
        }
        let flushed = match written {
            Ok(()) => writer.flush().await.map_err(FrameError::Io),
            Err(error) => Err(error),
        };
        if let Err(error) = flushed {
            tracing::debug!(%error, "the stage is gone");
            return;
        }
    }
    // The stage reads the end of the connection as "finish and exit".
    let _ = writer.shutdown().await;
}

async fn read_frames(stage: usize, read: Box<dyn AsyncRead + Send + Unpin>, inbox: mpsc::Sender<Message>) {
    let mut reader = BufReader::new(read);
    let mut said_bye = false;
    loop {
        let message = match read_frame(&mut reader).await {
            Ok(frame) => match Up::try_from(frame) {
                Ok(up) => {
                    said_bye |= up == Up::Bye;
                    Message::FromStage { stage, up }
                }
                Err(error) => {
                    tracing::warn!(%error, stage, "ignored a message of a stage");
                    continue;
                }
            },
            Err(error) => {
                let connection = if said_bye { None } else { Some(error.to_string()) };
                let _ = inbox.send(Message::StageEnded { stage, lost: connection }).await;
                return;
            }
        };
        if inbox.send(message).await.is_err() {
            return;
        }
    }
}
