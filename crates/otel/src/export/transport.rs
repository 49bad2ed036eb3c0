//! The seam between the worker and whatever takes the spans.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::{OtlpOutput, Output, Protocol};

use super::batch::Batch;
use super::grpc::GrpcTransport;
use super::http::HttpTransport;
use super::json_file::JsonFile;
use super::outcome::Outcome;
use super::receiver::Receiver;
use super::stdout::Stdout;

/// Takes batches somewhere. Lives on the worker's thread alone.
pub(crate) trait Transport {
    /// Makes one attempt, in no longer than `within` (`None`: no limit). A later attempt with the
    /// same batch sends the same bytes.
    fn send(&mut self, batch: &mut Batch, within: Option<Duration>) -> Outcome;
}

/// What is needed to open a transport, checked beforehand.
pub(crate) enum Opening {
    Http(Box<Receiver>),
    Grpc(Box<Receiver>),
    Stdout,
    JsonFile(JsonFile),
    /// A forked child's: checked only when there is something to send.
    InChild(Box<Output>),
    /// For tests: whatever they want to see sent.
    #[cfg(test)]
    Custom(Box<dyn FnOnce() -> Box<dyn Transport> + Send>),
}

/// Why the output can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The trace file can't be written.
    #[error("the trace file {path:?} can't be written: {error}; choose another place")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A file for TLS can't be used.
    #[error("{variable} names {path:?}, {problem}; give a PEM file that this user can read")]
    TlsFile {
        /// The variable for which the file is meant.
        variable: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The receiver's address, or a header of ours to it, is refused.
    #[error("{0}")]
    Receiver(String),
}

impl Opening {
    /// Checks the output. Opens and reads files, but no connection.
    pub(crate) fn check(output: &Output) -> Result<Self, TransportError> {
        Ok(match output {
            Output::Otlp(otlp) => Self::of_receiver(otlp)?,
            Output::Console => Self::Stdout,
            Output::OtlpJsonFile(path) => Self::JsonFile(
                JsonFile::create(path).map_err(|error| TransportError::File { path: path.clone(), error })?,
            ),
        })
    }

    /// Checks a receiver.
    pub(crate) fn of_receiver(output: &OtlpOutput) -> Result<Self, TransportError> {
        let receiver = Box::new(Receiver::check(output)?);
        Ok(match output.protocol {
            Protocol::HttpProtobuf => Self::Http(receiver),
            Protocol::Grpc => Self::Grpc(receiver),
        })
    }

    /// Opens the transport, on the thread that will use it.
    pub(crate) fn open(self) -> Result<Box<dyn Transport>, TransportError> {
        Ok(match self {
            Self::Http(receiver) => Box::new(HttpTransport::open(*receiver)?),
            Self::Grpc(receiver) => Box::new(GrpcTransport::open(*receiver)?),
            Self::Stdout => Box::new(Stdout),
            Self::JsonFile(file) => Box::new(file),
            Self::InChild(output) => match *output {
                // Two processes can't write one file: the child has its own beside it.
                Output::OtlpJsonFile(path) => {
                    return Self::check(&Output::OtlpJsonFile(with_pid(&path)))?.open();
                }
                output => return Self::check(&output)?.open(),
            },
            #[cfg(test)]
            Self::Custom(open) => open(),
        })
    }
}

/// `trace.json` becomes `trace.<pid>.json`.
fn with_pid(path: &Path) -> PathBuf {
    let pid = std::process::id().to_string();
    match path.extension() {
        Some(extension) => {
            let mut pid_and_extension = OsString::from(pid + ".");
            pid_and_extension.push(extension);
            path.with_extension(pid_and_extension)
        }
        None => path.with_extension(pid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_childs_file_lies_beside_its_parents() {
        let pid = std::process::id();
        assert_eq!(with_pid(Path::new("/t/trace.json")), PathBuf::from(format!("/t/trace.{pid}.json")));
        assert_eq!(with_pid(Path::new("trace")), PathBuf::from(format!("trace.{pid}")));
    }
}
