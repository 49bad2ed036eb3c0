//! A stage process: one engine, its scheduler, and the sockets to its neighbours.
//!
//! Threads: one reader for the orchestrator and one for the stage before, which put what they read
//! into one bounded inbox; the engine, the only owner of the scheduler; one writer for the
//! orchestrator and one for the stage after, behind bounded queues. Every queue blocks its
//! producer when full: that is the back-pressure.
//!
//! A stage exits when its orchestrator's connection ends, so none outlives a killed orchestrator.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use serde::{Deserialize, Serialize};
use stagespan_model::{Clock, ClockAnchor, StageResource};

use crate::frame::{Frame, FrameError};
use crate::message::{Handover, Hello, PROTOCOL_VERSION, Up};
use crate::pipeline_file::{Connector, Stage};
use crate::transport::{Address, Listener, Stream};

mod early_input;
mod engine;
mod outbox;

/// Messages in the inbox, and frames for each writer.
const QUEUE_FRAMES: usize = 1024;

/// Everything a stage process is told at its start, as JSON on its standard input: the run token
/// must not stand on a command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageSpec {
    /// Its table in the pipeline file.
    pub stage: Stage,
    /// Its number.
    pub stage_id: u32,
    /// Which replica.
    pub replica_id: u32,
    /// The token of this run.
    pub run_token: String,
    /// Where the orchestrator listens.
    pub orchestrator: Address,
    /// What to listen on.
    pub connector: Connector,
    /// The run's directory for Unix sockets.
    pub socket_directory: PathBuf,
    /// Where and how the stage after takes its input, if it does.
    pub downstream: Option<Downstream>,
    /// Whether tracing or statistics are on: else no event is recorded and no stamp taken.
    pub observe: bool,
    /// The input gate's timeout in nanoseconds; 0 is none.
    pub input_wait_timeout_ns: u64,
}

/// The stage after.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Downstream {
    /// Where it listens.
    pub address: Address,
    /// Whether it takes chunks; else the whole payload.
    pub takes_chunks: bool,
}

/// Why a stage process fails.
#[derive(Debug)]
pub enum StageError {
    /// A socket can't be had; the text has its address.
    Socket(io::Error),
    /// The scheduler refuses its configuration.
    Scheduler(stagespan_scheduler::ConfigError),
    /// The orchestrator sent something else than frames.
    Orchestrator(FrameError),
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(error) => error.fmt(f),
            Self::Scheduler(error) => error.fmt(f),
            Self::Orchestrator(error) => write!(f, "the orchestrator's connection: {error}"),
        }
    }
}

impl std::error::Error for StageError {}

impl From<io::Error> for StageError {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

/// What the engine finds in its inbox.
#[derive(Debug)]
enum Inbox {
    /// A frame from the orchestrator, with vLLM's kind byte.
    Request(Frame),
    /// Input from the stage before.
    Input(Handover),
    /// The orchestrator closed its end: finish what is in flight and exit.
    OrchestratorEnded,
    /// The stage before is gone.
    UpstreamEnded,
}

/// Runs a stage until its orchestrator ends the connection.
///
/// # Errors
/// Sockets that can't be had, and a configuration that the scheduler refuses.
pub fn run(spec: StageSpec, resource: StageResource, clock: Arc<dyn Clock>) -> Result<(), StageError> {
    let orchestrator = Stream::connect(&spec.orchestrator)?;
    let (inbox_sender, inbox) = sync_channel(QUEUE_FRAMES);
    let receives = spec.stage.position(spec.stage_id) == stagespan_model::Position::Gated;
    let input = if receives { Some(listen_for_input(&spec, inbox_sender.clone())?) } else { None };
    let down = spec.downstream.as_ref().map(|d| connect_downstream(&spec, d)).transpose()?;

    let hello = Up::Hello(Box::new(Hello {
        version: PROTOCOL_VERSION,
        run_token: spec.run_token.clone(),
        stage_id: spec.stage_id,
        replica_id: spec.replica_id,
        clock_domain: clock.domain().id().to_owned(),
        anchor: ClockAnchor::read(&*clock).into(),
        resource,
        input,
    }));
    let (up, up_writer) = spawn_writer("to-orchestrator", orchestrator.try_clone()?)?;
    // The writer has just started and its queue is empty.
    let _ = up.send(hello.into());
    spawn_request_reader(orchestrator.try_clone()?, inbox_sender)?;

    let result = engine::Engine::new(spec, clock, inbox, up, down)?.run();
    // The engine dropped its sender: the writer ends when everything is written.
    if up_writer.join().is_err() {
        tracing::error!("the thread that writes to the orchestrator panicked");
    }
    orchestrator.shut_down();
    result
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(body)
}

fn spawn_request_reader(mut stream: Stream, inbox: SyncSender<Inbox>) -> io::Result<()> {
    spawn("from-orchestrator", move || {
        loop {
            let message = match Frame::read_from(&mut stream) {
                Ok(frame) => Inbox::Request(frame),
                Err(error) => {
                    if !matches!(error, FrameError::Closed) {
                        tracing::warn!(%error, "reading from the orchestrator");
                    }
                    Inbox::OrchestratorEnded
                }
            };
            let ended = matches!(message, Inbox::OrchestratorEnded);
            if inbox.send(message).is_err() || ended {
                return;
            }
        }
    })?;
    Ok(())
}

fn listen_for_input(spec: &StageSpec, inbox: SyncSender<Inbox>) -> io::Result<Address> {
    let name = format!("input-{}-{}", spec.stage_id, spec.replica_id);
    let listener = Listener::bind(spec.connector, &spec.socket_directory, &name)?;
    let address = listener.address()?;
    let run_token = spec.run_token.clone();
    spawn("from-upstream", move || {
        // Exactly one stage feeds this one; a stranger without the token is turned away.
        while let Ok(mut stream) = listener.accept() {
            let hello = Frame::read_from(&mut stream).ok().and_then(|frame| Handover::try_from(frame).ok());
            if hello == Some(Handover::Hello { run_token: run_token.clone() }) {
                read_input(stream, &inbox);
                return;
            }
            tracing::warn!("turned away a connection to the input socket that isn't the stage before");
        }
    })?;
    Ok(address)
}

fn read_input(mut stream: Stream, inbox: &SyncSender<Inbox>) {
    loop {
        let input = match Frame::read_from(&mut stream) {
            Ok(frame) => Handover::try_from(frame),
            Err(error) => {
                if !matches!(error, FrameError::Closed) {
                    tracing::warn!(%error, "reading from the stage before");
                }
                let _ = inbox.send(Inbox::UpstreamEnded);
                return;
            }
        };
        match input {
            Ok(input) => {
                if inbox.send(Inbox::Input(input)).is_err() {
                    return;
                }
            }
            Err(error) => tracing::warn!(%error, "ignored a message of the stage before"),
        }
    }
}

fn connect_downstream(spec: &StageSpec, downstream: &Downstream) -> io::Result<SyncSender<Frame>> {
    let stream = Stream::connect(&downstream.address)?;
    let (sender, _writer) = spawn_writer("to-downstream", stream)?;
    // The writer has just started and its queue is empty.
    let _ = sender.send(Handover::Hello { run_token: spec.run_token.clone() }.into());
    Ok(sender)
}

/// A thread that writes frames until the last sender is dropped or the peer is gone.
fn spawn_writer(name: &str, stream: Stream) -> io::Result<(SyncSender<Frame>, thread::JoinHandle<()>)> {
    let (sender, receiver): (_, Receiver<Frame>) = sync_channel(QUEUE_FRAMES);
    let thread = spawn(name, move || {
        let mut writer = io::BufWriter::new(stream);
        while let Ok(frame) = receiver.recv() {
            let mut written = frame.write_to(&mut writer);
            // Write what waits in one go, then flush: frames never linger in the buffer.
            while let (Ok(()), Ok(next)) = (&written, receiver.try_recv()) {
                written = next.write_to(&mut writer);
            }
            let flushed = written.and_then(|()| io::Write::flush(&mut writer).map_err(FrameError::Io));
            if let Err(error) = flushed {
                tracing::debug!(%error, "the peer is gone");
                return;
            }
        }
    })?;
    Ok((sender, thread))
}
