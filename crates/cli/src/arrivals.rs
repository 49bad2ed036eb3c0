//! Real arrivals: when each request came, and how long its prompt and its answer were.
//!
//! The format is that of the Azure LLM inference traces:
//!
//! ```text
//! TIMESTAMP,ContextTokens,GeneratedTokens
//! 2023-11-16 18:15:46.6805900,374,44
//! ```
//!
//! Line ends are CRLF or LF, the last one may be missing; a timestamp has up to nine fractional
//! digits and no zone. Rows need not be in order: a trace is a set of arrivals, so they are sorted
//! by time (rows of the same time stay in the file's order).

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;

use jiff::civil::DateTime;

/// The columns, as the first line names them.
const HEADER: [&str; 3] = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"];
/// The most tokens of a prompt or an answer: far above any model's context, far below what would
/// overflow a stage's arithmetic.
const TOKENS_MAX: u32 = 1_000_000;
/// The most rows of a file, so that memory stays bounded whatever is handed in.
const ROWS_MAX: usize = 10_000_000;
/// The most bytes of a line: a row has some 40.
const LINE_BYTES_MAX: u64 = 4_096;
/// How a timestamp is written.
const TIMESTAMP_FORMAT: &str = "%Y-%m-%d %H:%M:%S%.f";
/// How much of a refused value is shown.
const SHOWN_CHARS_MAX: usize = 40;

/// The name of the rows that the binary carries.
pub(crate) const EMBEDDED_NAME: &str = "the embedded Azure conversation trace";
const EMBEDDED: &str = include_str!("../data/azure-conversation-2023.csv");

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// When it came, in nanoseconds after the first request of the trace.
    pub(crate) at_ns: u64,
    /// Tokens of its prompt, at least 1.
    pub(crate) prompt_tokens: u32,
    /// Tokens of its answer, at least 1.
    pub(crate) output_tokens: u32,
}

/// Why a trace can't be replayed.
#[derive(Debug)]
pub(crate) enum TraceError {
    /// The file can't be opened or read.
    Unreadable { path: String, source: io::Error },
    /// A field is not what it should be.
    Malformed { path: String, line: u64, column: usize, problem: String },
    /// There is no row below the header.
    Empty { path: String },
    /// More rows than are read.
    TooLong { path: String },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, source } => write!(f, "can't read the trace {path}: {source}"),
            Self::Malformed { path, line, column, problem } => {
                write!(f, "trace {path}, line {line}, column {column}: {problem}")
            }
            Self::Empty { path } => {
                write!(f, "trace {path}: no request in it; below the header there must be at least one row")
            }
            Self::TooLong { path } => {
                write!(f, "trace {path}: more than {ROWS_MAX} rows; cut it to what you replay")
            }
        }
    }
}

impl std::error::Error for TraceError {}

/// The rows that the binary carries.
///
/// # Errors
/// None in practice: a test reads them.
pub(crate) fn embedded() -> Result<Vec<Arrival>, TraceError> {
    parse(EMBEDDED.as_bytes(), EMBEDDED_NAME)
}

/// Reads a trace file.
///
/// # Errors
/// A file that can't be read or is no such trace, with line, column and value.
pub(crate) fn read(path: &Path) -> Result<Vec<Arrival>, TraceError> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => parse(file, &name),
        Err(source) => Err(TraceError::Unreadable { path: name, source }),
    }
}

/// Parses a trace; `path` is for errors.
fn parse(from: impl Read, path: &str) -> Result<Vec<Arrival>, TraceError> {
    let mut from = BufReader::new(from);
    let mut rows: Vec<(DateTime, u32, u32)> = Vec::new();
    let mut header_seen = false;
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        // One byte more than a line may have, so that a longer one is seen as such.
        let read = from.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes);
        read.map_err(|source| TraceError::Unreadable { path: path.to_owned(), source })?;
        if bytes.is_empty() {
            break;
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches(['\r', '\n']);
        let text = if line == 1 { text.trim_start_matches('\u{feff}') } else { text };
        let row = Row { fields: text.split(',').collect(), path, line };
        if bytes.len() as u64 > LINE_BYTES_MAX {
            return Err(row.error(0, format!("a line of more than {LINE_BYTES_MAX} bytes: is this a trace?")));
        }
        if text.is_empty() {
            continue;
        }
        if !header_seen {
            row.check_header()?;
            header_seen = true;
            continue;
        }
        if rows.len() >= ROWS_MAX {
            return Err(TraceError::TooLong { path: path.to_owned() });
        }
        rows.push(row.parse()?);
    }
    rows.sort_by_key(|(at, ..)| *at);
    let Some(&(first, ..)) = rows.first() else {
        return Err(TraceError::Empty { path: path.to_owned() });
    };
    let arrival = |(at, prompt_tokens, output_tokens): (DateTime, u32, u32)| Arrival {
        // Sorted, so never negative; u64 nanoseconds hold 584 years, and a longer gap saturates.
        at_ns: u64::try_from(at.duration_since(first).as_nanos()).unwrap_or(u64::MAX),
        prompt_tokens,
        output_tokens,
    };
    Ok(rows.into_iter().map(arrival).collect())
}

/// A row with what its errors need. No field of the format is ever quoted.
struct Row<'a> {
    fields: Vec<&'a str>,
    path: &'a str,
    line: u64,
}

impl Row<'_> {
    /// An error at field `field` (or at the end of the row).
    fn error(&self, field: usize, problem: String) -> TraceError {
        // Every field before it is followed by one comma.
        let before: usize = self.fields.iter().take(field).map(|f| f.chars().count() + 1).sum();
        TraceError::Malformed { path: self.path.to_owned(), line: self.line, column: before + 1, problem }
    }

    fn field(&self, field: usize) -> &str {
        self.fields.get(field).copied().unwrap_or_default()
    }

    fn check_header(&self) -> Result<(), TraceError> {
        for (field, name) in HEADER.iter().enumerate() {
            if self.field(field) != *name {
                let problem = format!(
                    "{} stands where the header {name} should; the first line of a trace is {}",
                    shown(self.field(field)),
                    HEADER.join(",")
                );
                return Err(self.error(field, problem));
            }
        }
        self.check_width()
    }

    fn check_width(&self) -> Result<(), TraceError> {
        let fields = self.fields.len();
        if fields < HEADER.len() {
            let problem = format!("the row ends before {}; a row is {}", HEADER[fields], HEADER.join(","));
            return Err(self.error(fields, problem));
        }
        if fields > HEADER.len() {
            let extra = shown(self.field(HEADER.len()));
            let problem = format!("{extra} is one field too many; a row is {}", HEADER.join(","));
            return Err(self.error(HEADER.len(), problem));
        }
        Ok(())
    }

    fn parse(&self) -> Result<(DateTime, u32, u32), TraceError> {
        self.check_width()?;
        let text = self.field(0);
        let at = DateTime::strptime(TIMESTAMP_FORMAT, text).map_err(|_| {
            let problem = format!(
                "{} is no timestamp; write it as 2023-11-16 18:15:46.6805900, without a zone",
                shown(text)
            );
            self.error(0, problem)
        })?;
        Ok((at, self.tokens(1)?, self.tokens(2)?))
    }

    fn tokens(&self, field: usize) -> Result<u32, TraceError> {
        let text = self.field(field);
        // `parse` alone would take "+5".
        let number = if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None };
        number.filter(|n| (1..=TOKENS_MAX).contains(n)).ok_or_else(|| {
            let problem =
                format!("{} is no number of tokens; {} is 1 to {TOKENS_MAX}", shown(text), HEADER[field]);
            self.error(field, problem)
        })
    }
}

/// A refused value as it may stand in a message: quoted, escaped and cut.
fn shown(value: &str) -> String {
    match value.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{:?}…", &value[..end]),
        None => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests;
