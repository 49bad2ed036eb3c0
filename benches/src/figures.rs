//! What a run prints: a table for people, JSON for programs, and which limits it keeps.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::machine::Machine;
use crate::stage_load::{Load, Stamp};
use crate::step_cost::{Point, Series, StepCost, WAITING};

/// A step where 100,000 wait costs at most so many times one where 100 do.
const INSTRUCTIONS_RATIO_MAX: f64 = 1.2;
const TIME_RATIO_MAX: f64 = 2.0;

/// Everything that a run found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    #[serde(serialize_with = "with_ratios")]
    pub(crate) step_cost: StepCost,
}

/// The last point of a series by its first.
#[derive(Debug, Serialize)]
struct Ratio {
    name: String,
    ratio: f64,
    /// None where the figure is there for contrast.
    limit: Option<f64>,
}

impl Ratio {
    fn is_kept(&self) -> bool {
        self.limit.is_none_or(|limit| self.ratio <= limit)
    }
}

/// What a figure counts, and how it is read from a point.
type Figure = (&'static str, fn(&Point) -> u64, f64);

const FIGURES: [Figure; 3] = [
    ("instructions", |point| point.instructions, INSTRUCTIONS_RATIO_MAX),
    ("warm_ns", |point| point.warm_ns, TIME_RATIO_MAX),
    ("cold_ns", |point| point.cold_ns, TIME_RATIO_MAX),
];

impl Series {
    /// One for each of [`FIGURES`].
    fn ratios(&self) -> [Ratio; FIGURES.len()] {
        FIGURES.map(|(figure, value, limit)| {
            let ends = self.points.first().map(value).zip(self.points.last().map(value));
            // A series without points, or of steps that cost nothing, keeps no limit.
            let ratio = match ends {
                Some((first, last)) if first > 0 => last as f64 / first as f64,
                _ => f64::INFINITY,
            };
            Ratio {
                name: format!("step_cost.{}.{}.{figure}", self.load, self.stamp),
                ratio,
                limit: (self.stamp == Stamp::ReleasedSet).then_some(limit),
            }
        })
    }
}

fn with_ratios<S: Serializer>(cost: &StepCost, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct WithRatios<'a> {
        #[serde(flatten)]
        cost: &'a StepCost,
        ratios: Vec<Ratio>,
    }
    let ratios = cost.series.iter().flat_map(Series::ratios).collect();
    WithRatios { cost, ratios }.serialize(serializer)
}

impl Report {
    pub(crate) fn keeps_limits(&self) -> bool {
        self.step_cost.series.iter().flat_map(Series::ratios).all(|ratio| ratio.is_kept())
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::HeldForPayload => "held_for_payload",
            Self::HeldForChunk => "held_for_chunk",
            Self::ReadyWithoutSlot => "ready_without_slot",
        })
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ReleasedSet => "released_set",
            Self::FullScan => "full_scan",
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, step_cost } = self;
        let StepCost { running, changes_per_step, repetitions, warm_steps, cold_steps, series } = step_cost;
        let (fewest, most) = (WAITING[0], WAITING[WAITING.len() - 1]);
        writeln!(f, "{machine}")?;
        writeln!(
            f,
            "Scheduler step by the number of requests that wait, while {running} run. In every step"
        )?;
        writeln!(
            f,
            "{changes_per_step} requests come in, as many become ready, are scheduled first, and end."
        )?;
        writeln!(
            f,
            "Times are the median of {repetitions} medians: warm_ns of {warm_steps} steps without a pause,"
        )?;
        writeln!(
            f,
            "cold_ns of {cold_steps} with other data in the caches. Ratio: {most} waiting by {fewest}."
        )?;
        write!(f, "\n{:<20}{:<14}{:<14}", "requests that wait", "stamp by", "a step in")?;
        for waiting in WAITING {
            write!(f, "{waiting:>10}")?;
        }
        writeln!(f, "{:>10}  limit", "ratio")?;
        for series in series {
            for ((figure, value, _), ratio) in FIGURES.iter().zip(series.ratios()) {
                write!(f, "{:<20}{:<14}{figure:<14}", series.load, series.stamp)?;
                for point in &series.points {
                    write!(f, "{:>10}", value(point))?;
                }
                write!(f, "{:>10.2}", ratio.ratio)?;
                match ratio.limit {
                    Some(limit) if ratio.is_kept() => writeln!(f, "  {limit}")?,
                    Some(limit) => writeln!(f, "  {limit}, MISSED")?,
                    None => writeln!(f)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(stamp: Stamp, instructions: [u64; 2], warm_ns: [u64; 2]) -> Series {
        let point = |i: usize| Point {
            waiting: WAITING[i],
            instructions: instructions[i],
            warm_ns: warm_ns[i],
            cold_ns: 1_000,
        };
        Series { load: Load::HeldForPayload, stamp, points: vec![point(0), point(1)] }
    }

    fn keeps(series: Series) -> bool {
        series.ratios().iter().all(Ratio::is_kept)
    }

    #[test]
    fn limits_are_on_the_released_set_alone() {
        assert!(keeps(series(Stamp::ReleasedSet, [100, 120], [100, 200])));
        assert!(!keeps(series(Stamp::ReleasedSet, [100, 121], [100, 100])));
        assert!(!keeps(series(Stamp::ReleasedSet, [100, 100], [100, 201])));
        assert!(!keeps(series(Stamp::ReleasedSet, [0, 100], [0, 100])), "nothing measured proves nothing");
        assert!(keeps(series(Stamp::FullScan, [100, 90_000], [100, 90_000])));
    }

    #[test]
    fn a_ratio_is_named_after_what_it_compares() {
        let [instructions, time, _] = series(Stamp::FullScan, [1, 2], [1, 3]).ratios();
        assert_eq!(instructions.name, "step_cost.held_for_payload.full_scan.instructions");
        assert_eq!((time.ratio, time.limit), (3.0, None));
    }
}
