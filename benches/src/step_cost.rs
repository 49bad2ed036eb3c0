//! A scheduler's step against the number of requests that wait. The changes are the same in every step, so a step that
//! costs more where more wait has looked at requests for which nothing changed.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Context as _;
use clap::ValueEnum;
use serde::Serialize;

use crate::callgrind;
use crate::stage_load::{CHANGES, Load, RUNNING, StageLoad, Stamp};

pub(crate) const WAITING: [usize; 4] = [100, 1_000, 10_000, 100_000];

/// Repetitions; the figure is the median of their medians. All sizes take their turn in each, so that what disturbs the
/// machine for a while disturbs all of them.
const REPETITIONS: usize = 9;
/// Steps of a repetition, one after another; the first few, which find their memory cold, are not counted.
const WARM_STEPS: usize = 200;
const WARM_UP_STEPS: usize = 20;
/// Steps of a repetition before each of which the caches are filled with something else, as the model's own pass does.
const COLD_STEPS: usize = 15;
/// More than the last cache of most machines.
const OTHER_DATA_BYTES: usize = 64 << 20;
const CACHE_LINE_BYTES: usize = 64;
/// Steps whose instructions are counted.
const COUNTED_STEPS: usize = 100;

/// Steps at one number of waiting requests.
#[derive(Debug, Serialize)]
pub(crate) struct Point {
    pub(crate) waiting: usize,
    pub(crate) instructions: u64,
    pub(crate) warm_ns: u64,
    pub(crate) cold_ns: u64,
}

/// Steps of one load, with the stamp found in one way.
#[derive(Debug, Serialize)]
pub(crate) struct Series {
    pub(crate) load: Load,
    pub(crate) stamp: Stamp,
    /// By the number that wait, in the order of [`WAITING`].
    pub(crate) points: Vec<Point>,
}

/// The whole benchmark.
#[derive(Debug, Serialize)]
pub(crate) struct StepCost {
    pub(crate) running: usize,
    pub(crate) changes_per_step: usize,
    pub(crate) repetitions: usize,
    pub(crate) warm_steps: usize,
    pub(crate) cold_steps: usize,
    pub(crate) series: Vec<Series>,
}

/// Measures every load, with both ways to stamp.
///
/// # Errors
/// If a load is not what it was set up to be, or valgrind cannot be run.
pub(crate) fn measure() -> anyhow::Result<StepCost> {
    let mut other_data = OtherData::new();
    let mut series = Vec::new();
    for load in Load::value_variants() {
        for stamp in Stamp::value_variants() {
            let times = step_times(*load, *stamp, &mut other_data)?;
            let mut points = Vec::new();
            for (waiting, (warm_ns, cold_ns)) in WAITING.into_iter().zip(times) {
                let instructions = count_instructions(*load, *stamp, waiting)?;
                points.push(Point { waiting, instructions, warm_ns, cold_ns });
            }
            series.push(Series { load: *load, stamp: *stamp, points });
        }
    }
    Ok(StepCost {
        running: RUNNING,
        changes_per_step: CHANGES,
        repetitions: REPETITIONS,
        warm_steps: WARM_STEPS,
        cold_steps: COLD_STEPS,
        series,
    })
}

/// Nanoseconds of a step for each of [`WAITING`], in warm and in cold caches.
fn step_times(
    load: Load,
    stamp: Stamp,
    other_data: &mut OtherData,
) -> anyhow::Result<[(u64, u64); WAITING.len()]> {
    let mut stages = Vec::new();
    for waiting in WAITING {
        stages.push(StageLoad::new(load, stamp, waiting)?);
    }
    let mut medians = WAITING.map(|_| (Vec::new(), Vec::new()));
    for _ in 0..REPETITIONS {
        for (stage, (warm, cold)) in stages.iter_mut().zip(&mut medians) {
            for _ in 0..WARM_UP_STEPS {
                stage.round()?;
            }
            warm.push(median_step_ns(stage, WARM_STEPS, || {})?);
            cold.push(median_step_ns(stage, COLD_STEPS, || other_data.walk())?);
        }
    }
    Ok(medians.map(|(mut warm, mut cold)| (median(&mut warm), median(&mut cold))))
}

fn median_step_ns(stage: &mut StageLoad, steps: usize, mut before: impl FnMut()) -> anyhow::Result<u64> {
    let mut times = Vec::with_capacity(steps);
    for _ in 0..steps {
        stage.before_step();
        before();
        let start = Instant::now();
        let step = stage.measured_step();
        times.push(u64::try_from(start.elapsed().as_nanos()).context("a step of centuries")?);
        stage.after_step(step)?;
    }
    Ok(median(&mut times))
}

/// What else a processor works on between two steps.
struct OtherData(Vec<u8>);

impl OtherData {
    fn new() -> Self {
        Self(vec![1; OTHER_DATA_BYTES])
    }

    /// Writes to each line, so that it takes the place of another one in every cache.
    fn walk(&mut self) {
        for byte in self.0.iter_mut().step_by(CACHE_LINE_BYTES) {
            *byte = byte.wrapping_add(1);
        }
        black_box(&self.0);
    }
}

/// The upper of the two where the number is even.
fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Instructions of a step.
fn count_instructions(load: Load, stamp: Stamp, waiting: usize) -> anyhow::Result<u64> {
    let [load, stamp] = [name(load)?, name(stamp)?];
    let counted = callgrind::count("measured_step", &["count-steps", &load, &stamp, &waiting.to_string()])?;
    Ok(counted / COUNTED_STEPS as u64)
}

/// A value as the command line takes it.
fn name(value: impl ValueEnum) -> anyhow::Result<String> {
    let name = value.to_possible_value().context("a value that the command line does not take")?;
    Ok(name.get_name().to_owned())
}

/// What valgrind runs.
///
/// # Errors
/// If the load is not what it was set up to be.
pub(crate) fn make_counted_steps(load: Load, stamp: Stamp, waiting: usize) -> anyhow::Result<()> {
    let mut stage = StageLoad::new(load, stamp, waiting)?;
    for _ in 0..COUNTED_STEPS {
        stage.round()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert_eq!(median(&mut [9, 1, 5]), 5);
        assert_eq!(median(&mut [4, 1, 9, 5]), 5);
    }

    #[test]
    fn names_are_what_the_command_line_takes() {
        assert_eq!(name(Load::HeldForPayload).expect("a name"), "held_for_payload");
        assert!(Load::from_str("ready_without_slot", false).is_ok());
    }
}
