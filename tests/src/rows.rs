//! Trace files in the format that the demo replays.

use std::fmt::Write as _;

/// A row: milliseconds after the first, prompt tokens, output tokens.
pub type Row = (u64, u32, u32);

/// A trace file as the public one is: CRLF, seven fractional digits, no zone, no line end after the last row.
#[must_use]
pub fn azure(rows: &[Row]) -> String {
    let mut text = String::from("TIMESTAMP,ContextTokens,GeneratedTokens");
    for (at_ms, prompt, output) in rows {
        let (seconds, ms) = (at_ms / 1000, at_ms % 1000);
        let (minutes, seconds) = (seconds / 60, seconds % 60);
        let (hours, minutes) = (minutes / 60, minutes % 60);
        // Writing to a String cannot fail.
        let _ =
            write!(text, "\r\n2023-11-16 {hours:02}:{minutes:02}:{seconds:02}.{ms:03}0000,{prompt},{output}");
    }
    text
}

/// Rows that arrive evenly, all alike.
#[must_use]
pub fn even(count: u64, every_ms: u64, prompt: u32, output: u32) -> Vec<Row> {
    (0..count).map(|n| (n * every_ms, prompt, output)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_as_the_public_one() {
        assert_eq!(
            azure(&even(2, 61_005, 374, 44)),
            "TIMESTAMP,ContextTokens,GeneratedTokens\r\n\
             2023-11-16 00:00:00.0000000,374,44\r\n\
             2023-11-16 00:01:01.0050000,374,44"
        );
    }
}
