//! A file that is one OTLP JSON object, after every batch.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Duration;

use super::batch::Batch;
use super::outcome::{Outcome, OutcomeKind};
use super::transport::Transport;

const HEAD: &[u8] = b"{\"resourceSpans\":[";
const TAIL: &[u8] = b"\n]}\n";

/// `{"resourceSpans":[…]}`. Each batch is written over the closing bracket, together with a new
/// one, in a single write: whoever stops the program in between finds a whole file.
#[derive(Debug)]
pub(crate) struct JsonFile {
    file: File,
    /// Where the closing bracket stands.
    tail_at: u64,
    is_first: bool,
}

impl JsonFile {
    /// Creates the file, or empties it; it is valid at once.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(&[HEAD, TAIL].concat())?;
        Ok(Self { file, tail_at: HEAD.len() as u64, is_first: true })
    }

    fn append(&mut self, items: &[Vec<u8>]) -> io::Result<()> {
        let mut text = Vec::new();
        for item in items {
            text.extend_from_slice(if self.is_first { b"\n" } else { b",\n" });
            text.extend_from_slice(item);
            self.is_first = false;
        }
        let grown = text.len() as u64;
        text.extend_from_slice(TAIL);
        self.file.seek(SeekFrom::Start(self.tail_at))?;
        self.file.write_all(&text)?;
        self.tail_at += grown;
        Ok(())
    }
}

impl Transport for JsonFile {
    fn send(&mut self, batch: &mut Batch, _within: Option<Duration>) -> Outcome {
        let items: Result<Vec<_>, _> =
            batch.message().resource_spans.iter().map(serde_json::to_vec).collect();
        let written = items.map_err(io::Error::from).and_then(|items| self.append(&items));
        match written {
            Ok(()) => Outcome::delivered(batch.len(), 0, ""),
            Err(error) => Outcome::lost(OutcomeKind::Failed, format!("trace file: {error}")),
        }
    }
}
