//! Figures for tests of what is shown.

use stagespan_model::{Absent, End, Position, Split};

use super::*;

pub(crate) const MS: u64 = 1_000_000;

fn measured(input_wait_ns: u64, ready_queued_ns: u64, running_ns: u64) -> Times {
    let queued_ns = input_wait_ns + ready_queued_ns;
    Times {
        queued_ns: Some(queued_ns),
        split: Split::Measured { input_wait_ns, ready_queued_ns },
        resolution_ns: Some(1_900_000),
        total_ns: queued_ns + running_ns,
    }
}

fn first(queued_ns: u64, running_ns: u64) -> Times {
    Times {
        queued_ns: Some(queued_ns),
        split: Split::Absent(Absent::FirstStage),
        resolution_ns: None,
        total_ns: queued_ns + running_ns,
    }
}

fn request(number: usize, stages: [Times; 3]) -> RequestFigures {
    RequestFigures {
        id: format!("{number:04}"),
        trace_id: Some(format!("{:032x}", 0x4bf9_2f35 + number)),
        error: None,
        stages: (0..)
            .zip(stages)
            .map(|(stage_id, times)| StageFigures {
                stage_id,
                end: End::Stop,
                times: Some(times),
                tokens_in: 374,
                tokens_out: 44,
            })
            .collect(),
    }
}

fn stages() -> Vec<StageFacts> {
    [
        ("thinker", Position::First, true),
        ("talker", Position::Gated, true),
        ("code2wav", Position::Gated, false),
    ]
    .map(|(name, position, is_ar)| StageFacts { name: name.to_owned(), position, is_ar })
    .into()
}

/// 20 requests; the first pays for a start of 6 s on the first stage.
pub(crate) fn cold_start() -> ScenarioFigures {
    let requests = (0..20).map(|n| {
        let waited = if n == 0 { 6_080 } else { 5_900 - n as u64 * 250 };
        request(
            n + 1,
            [
                first(if n == 0 { 400_000 } else { (waited - 30) * MS }, 6_210 * MS),
                measured(waited * MS, 30_000 + n as u64 * 9_000, 820 * MS),
                measured((waited + 40) * MS, 0, 790 * MS),
            ],
        )
    });
    ScenarioFigures {
        name: "cold-start".to_owned(),
        cause: "thinker's first step takes 6 s longer".to_owned(),
        stages: stages(),
        requests: requests.collect(),
    }
}

/// 20 requests; the second stage has too few slots.
pub(crate) fn backlog() -> ScenarioFigures {
    let requests = (0..20).map(|n| {
        let queued = n as u64 * 370;
        request(
            n + 1,
            [
                first(300_000, 240 * MS),
                measured(14 * MS, queued * MS, 640 * MS),
                measured((queued + 30) * MS, 0, 610 * MS),
            ],
        )
    });
    ScenarioFigures {
        name: "backlog".to_owned(),
        cause: "talker has 2 slots".to_owned(),
        stages: stages(),
        requests: requests.collect(),
    }
}
