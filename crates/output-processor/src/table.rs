//! The statistics of one request as text.

use std::fmt::Write;

use crate::summary::{RequestStages, StageRow};

/// A figure of a row, or nothing where it was not measured.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    Count(u64),
    Milliseconds(f64),
    NotMeasured,
}

impl Figure {
    fn milliseconds(ms: Option<f64>) -> Self {
        ms.map_or(Self::NotMeasured, Self::Milliseconds)
    }

    fn count(count: Option<u32>) -> Self {
        count.map_or(Self::NotMeasured, |count| Self::Count(count.into()))
    }

    fn is_nothing(self) -> bool {
        match self {
            Self::Count(count) => count == 0,
            Self::Milliseconds(ms) => ms == 0.0,
            Self::NotMeasured => true,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Milliseconds(ms) => format!("{ms:.3}"),
            Self::NotMeasured => "-".to_owned(),
        }
    }
}

/// A figure's name, and where it stands in a row.
type Line = (&'static str, fn(&StageRow) -> Figure);

/// The lines of the table.
const LINES: [Line; 8] = [
    ("num_tokens_in", |row| Figure::Count(row.num_tokens_in.into())),
    ("num_tokens_out", |row| Figure::count(row.num_tokens_out)),
    ("vllm_queued_ms", |row| Figure::milliseconds(row.stats.vllm_queued_ms)),
    ("vllm_input_wait_ms", |row| Figure::milliseconds(row.stats.vllm_input_wait_ms)),
    ("vllm_ready_queued_ms", |row| Figure::milliseconds(row.stats.vllm_ready_queued_ms)),
    ("vllm_prefill_ms", |row| Figure::milliseconds(row.stats.vllm_prefill_ms)),
    ("vllm_decode_ms", |row| Figure::milliseconds(row.stats.vllm_decode_ms)),
    ("vllm_num_preemptions", |row| Figure::count(row.stats.vllm_num_preemptions)),
];

impl RequestStages {
    /// The request's table: a column for each stage, a line for each figure. A figure that is 0 or
    /// not measured on every stage is left out; so a measured 0 may stand only in the summary.
    pub fn table(&self) -> String {
        let mut columns: Vec<Vec<String>> = vec![vec!["Field".to_owned()]];
        for row in &self.stages {
            columns.push(vec![format!("{} {}", row.stage_id, row.stage_name)]);
        }
        for (name, figure) in LINES {
            let figures: Vec<Figure> = self.stages.iter().map(figure).collect();
            if figures.iter().all(|figure| figure.is_nothing()) {
                continue;
            }
            columns[0].push(name.to_owned());
            for (column, figure) in columns[1..].iter_mut().zip(figures) {
                column.push(figure.text());
            }
        }
        let widths: Vec<usize> =
            columns.iter().map(|column| column.iter().map(String::len).max().unwrap_or(0)).collect();
        let mut text = format!("[StageRequestStats [request_id={}]]", self.request_id);
        for line in 0..columns[0].len() {
            text.push('\n');
            for (i, (column, width)) in columns.iter().zip(&widths).enumerate() {
                // Writing into a String can't fail.
                let _ = match i {
                    0 => write!(text, "{:<width$}", column[line]),
                    _ => write!(text, "  {:>width$}", column[line]),
                };
            }
        }
        text
    }
}
