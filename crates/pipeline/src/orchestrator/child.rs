//! A stage's process, from its start to its Hello.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use stagespan_model::StageName;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::error::OrchestratorError;
use crate::frame_io::read_frame;
use crate::message::{Hello, PROTOCOL_VERSION, Up};
use crate::stage::StageSpec;
use crate::transport::Listener;

/// How long a stage's process may take to its Hello.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// The reading and the writing end of a stage's connection.
pub(super) type Connection = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

/// A stage's process that has said Hello.
pub(super) struct ReadyStage {
    pub(super) process: Child,
    pub(super) hello: Hello,
    pub(super) connection: Connection,
}

/// The socket that stages connect to.
pub(super) enum Door {
    Unix(tokio::net::UnixListener),
    Tcp(tokio::net::TcpListener),
}

impl Door {
    pub(super) fn new(listener: Listener) -> std::io::Result<Self> {
        match listener {
            Listener::Unix(listener, _) => {
                listener.set_nonblocking(true)?;
                tokio::net::UnixListener::from_std(listener).map(Self::Unix)
            }
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                tokio::net::TcpListener::from_std(listener).map(Self::Tcp)
            }
        }
    }

    async fn accept(&self) -> std::io::Result<Connection> {
        Ok(match self {
            Self::Unix(listener) => {
                let (read, write) = listener.accept().await?.0.into_split();
                (Box::new(read), Box::new(write))
            }
            Self::Tcp(listener) => {
                let stream = listener.accept().await?.0;
                stream.set_nodelay(true)?;
                let (read, write) = stream.into_split();
                (Box::new(read), Box::new(write))
            }
        })
    }
}

/// Starts a stage's process and waits for its Hello.
///
/// # Errors
/// A command that can't be run; a process that ends, or says something else, first.
pub(super) async fn start(
    stage_command: &[OsString],
    spec: &StageSpec,
    name: &StageName,
    door: &Door,
) -> Result<ReadyStage, OrchestratorError> {
    let mut words = spec.stage.launch.iter().map(OsString::from).chain(stage_command.iter().cloned());
    let program = words.next().unwrap_or_default();
    let cannot_start = |cause: String| OrchestratorError::CannotStart {
        stage: name.clone(),
        command: program.to_string_lossy().into_owned(),
        cause,
    };
    let mut process = Command::new(&program)
        .args(words)
        .stdin(Stdio::piped())
        // What a stage or its launcher prints must not end up in the orchestrator's output.
        .stdout(Stdio::null())
        // A Ctrl-C on the terminal is for the orchestrator, which then ends its stages in order.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| cannot_start(error.to_string()))?;
    let spec_json = serde_json::to_vec(spec).map_err(|error| cannot_start(error.to_string()))?;
    if let Some(mut stdin) = process.stdin.take() {
        // A process that is already gone is reported by its exit below.
        let _ = stdin.write_all(&spec_json).await;
    }
    let not_ready = |cause: String| OrchestratorError::NotReady { stage: name.clone(), cause };
    let hello = tokio::select! {
        hello = timeout(READY_WITHIN, await_hello(door, spec)) => hello
            .map_err(|_| not_ready(format!("no Hello within {} s", READY_WITHIN.as_secs())))?,
        status = process.wait() => {
            return Err(not_ready(status.map_or_else(|e| e.to_string(), describe_exit)));
        }
    };
    let (hello, connection) = hello.map_err(not_ready)?;
    Ok(ReadyStage { process, hello, connection })
}

/// The Hello of the stage that was just started. A connection without this run's token is a
/// stranger's and is turned away.
async fn await_hello(door: &Door, spec: &StageSpec) -> Result<(Hello, Connection), String> {
    loop {
        let mut connection = door.accept().await.map_err(|error| error.to_string())?;
        let first = read_frame(&mut connection.0).await.map(Up::try_from);
        let Ok(Ok(Up::Hello(hello))) = first else {
            tracing::warn!("turned away a connection that began with something else than a Hello");
            continue;
        };
        if hello.run_token != spec.run_token {
            tracing::warn!("turned away a connection without this run's token");
            continue;
        }
        if hello.version != PROTOCOL_VERSION {
            return Err(format!(
                "it speaks version {} of the protocol, this orchestrator {PROTOCOL_VERSION}; use one binary for both",
                hello.version
            ));
        }
        if (hello.stage_id, hello.replica_id) != (spec.stage_id, spec.replica_id) {
            return Err(format!("it says that it is stage {} replica {}", hello.stage_id, hello.replica_id));
        }
        return Ok((*hello, connection));
    }
}

/// How a process ended, in words.
pub(super) fn describe_exit(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its process exited with code {code}"),
        (None, Some(signal)) => format!("its process was killed by signal {signal}"),
        (None, None) => "its process ended".to_owned(),
    }
}
