//! Which rows of a trace are replayed, and how fast.

use std::fmt;

use crate::arrivals::Arrival;

/// Requests unless told otherwise.
pub(crate) const REQUESTS_DEFAULT: usize = 120;
/// How much faster than real unless told otherwise.
pub(crate) const SPEED_DEFAULT: f64 = 8.0;
/// Unless a speed is told, it is raised so that all have arrived after this, in nanoseconds: rows
/// of a quiet hour would make a demo nobody waits for.
const ARRIVING_NS_MAX: u64 = 8_000_000_000;

/// Rows to replay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Replay {
    /// The rows, at the times at which they are submitted.
    pub(crate) arrivals: Vec<Arrival>,
    /// How much faster than real.
    pub(crate) speed: f64,
}

/// More requests were asked for than there are rows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooFewRows {
    asked: usize,
    rows: usize,
}

impl fmt::Display for TooFewRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, rows } = self;
        write!(
            f,
            "--requests {asked}: the trace has {rows} rows; ask for at most that, or give a longer --trace"
        )
    }
}

impl std::error::Error for TooFewRows {}

/// The first rows of a trace (they are sorted by time), compressed in time.
///
/// # Errors
/// More rows were asked for than there are.
pub(crate) fn take(
    rows: &[Arrival],
    requests: Option<usize>,
    speed: Option<f64>,
) -> Result<Replay, TooFewRows> {
    let asked = requests.unwrap_or_else(|| REQUESTS_DEFAULT.min(rows.len()));
    let rows = rows.get(..asked).ok_or(TooFewRows { asked, rows: rows.len() })?;
    let first_ns = rows.first().map_or(0, |row| row.at_ns);
    let span_ns = rows.last().map_or(0, |row| row.at_ns - first_ns);
    let speed = speed.unwrap_or_else(|| SPEED_DEFAULT.max(span_ns as f64 / ARRIVING_NS_MAX as f64));
    let arrivals = rows
        .iter()
        // A float holds these to a microsecond; `as` saturates.
        .map(|row| Arrival { at_ns: ((row.at_ns - first_ns) as f64 / speed) as u64, ..*row })
        .collect();
    Ok(Replay { arrivals, speed })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn rows(at_s: &[u64]) -> Vec<Arrival> {
        at_s.iter().map(|s| Arrival { at_ns: s * S, prompt_tokens: 1, output_tokens: 1 }).collect()
    }

    fn taken(rows: &[Arrival], requests: Option<usize>, speed: Option<f64>) -> (Vec<u64>, f64) {
        let replay = take(rows, requests, speed).unwrap();
        (replay.arrivals.iter().map(|a| a.at_ns).collect(), replay.speed)
    }

    #[test]
    fn rows_are_compressed_in_time() {
        let rows = rows(&[10, 14, 26, 90]);
        assert_eq!(taken(&rows, Some(3), None), (vec![0, S / 2, 2 * S], 8.0));
        assert_eq!(taken(&rows, Some(2), Some(0.5)), (vec![0, 8 * S], 0.5));
        assert_eq!(taken(&rows, None, None).0, [0, S / 2, 2 * S, 10 * S].map(|ns| ns * 8 / 10));
        assert_eq!(taken(&rows, None, None).1, 10.0, "80 s of arrivals take 8 s");
        assert_eq!(taken(&rows, None, Some(1e300)).0, [0, 0, 0, 0]);
    }

    #[test]
    fn as_many_as_there_are_or_as_asked() {
        let many = rows(&(0..200).collect::<Vec<_>>());
        assert_eq!(take(&many, None, None).unwrap().arrivals.len(), 120);
        assert_eq!(take(&many, Some(200), None).unwrap().arrivals.len(), 200);
        assert_eq!(take(&many[..7], None, None).unwrap().arrivals.len(), 7);
        let error = take(&many[..7], Some(8), None).unwrap_err().to_string();
        assert!(error.starts_with("--requests 8: the trace has 7 rows;"), "{error}");
    }
}
