//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::scenario::BuiltIn;

/// Tells the two waits of a queued request apart: for its input, and for its turn.
#[derive(Debug, Parser)]
#[command(name = "stagespan", version, arg_required_else_help = true, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What there is to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Replay real arrivals through three stage processes, and see why the second one queues
    #[command(long_about = DEMO_ABOUT, after_long_help = DEMO_AFTER)]
    Demo(DemoArguments),
    /// Say what the environment asks for, and whether the receiver takes spans
    #[command(long_about = DOCTOR_ABOUT, after_long_help = DOCTOR_AFTER)]
    Doctor(DoctorArguments),
    /// Run one stage; the demo starts its stages so, with their orders on standard input
    #[command(hide = true)]
    Stage,
}

/// Options of `stagespan demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Which of the two causes to show
    #[arg(long, value_enum, default_value_t = ScenarioChoice::Both, conflicts_with = "pipeline")]
    pub(crate) scenario: ScenarioChoice,

    /// Replay the rows of this file: TIMESTAMP,ContextTokens,GeneratedTokens [default: real ones]
    ///
    /// The format is that of the Azure LLM inference traces. Without this, rows of the conversation
    /// trace of 2023 that are built in are replayed.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// Run the pipeline of this file as it is, once, instead of the scenarios
    #[arg(long, value_name = "FILE")]
    pub(crate) pipeline: Option<PathBuf>,

    /// Replay so many rows, the earliest [default: 120, or all if there are fewer]
    ///
    /// A backlog needs some thirty requests to build up.
    #[arg(long, value_name = "N", value_parser = requests, allow_negative_numbers = true)]
    pub(crate) requests: Option<usize>,

    /// How much faster than real [default: 8, or more where the rows would take over 8 s]
    #[arg(long, value_name = "X", value_parser = speed, allow_negative_numbers = true)]
    pub(crate) speed: Option<f64>,

    /// Write the trace here, as one OTLP JSON object [default: stagespan-demo.json]
    ///
    /// Given, it is written even if the environment names a receiver.
    #[arg(long, value_name = "FILE", conflicts_with = "no_trace")]
    pub(crate) out: Option<PathBuf>,

    /// Print the figures of every request and stage as JSON, in nanoseconds
    #[arg(long)]
    pub(crate) json: bool,

    /// Export nothing; the figures come from the engine's statistics all the same
    #[arg(long)]
    pub(crate) no_trace: bool,
}

/// Options of `stagespan doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Print the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which built-in scenarios to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScenarioChoice {
    /// The first stage starts cold: talker waits for its input
    ColdStart,
    /// talker has too few slots: ready requests wait for their turn
    Backlog,
    /// One after the other
    Both,
}

impl ScenarioChoice {
    /// The scenarios, in the order in which they run.
    pub(crate) fn built_ins(self) -> Vec<BuiltIn> {
        match self {
            Self::ColdStart => vec![BuiltIn::ColdStart],
            Self::Backlog => vec![BuiltIn::Backlog],
            Self::Both => BuiltIn::ALL.to_vec(),
        }
    }
}

/// The most requests of one run.
const REQUESTS_MAX: usize = 100_000;

fn requests(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|n| (1..=REQUESTS_MAX).contains(n))
        .ok_or_else(|| format!("give a number from 1 to {REQUESTS_MAX}"))
}

fn speed(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|x: &f64| x.is_finite() && *x > 0.0)
        .ok_or_else(|| "give a number above 0, such as 8 or 0.5".to_owned())
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed on the way; 2 bad input, nothing was started.";

const DEMO_ABOUT: &str = "\
Replay real arrivals through three stage processes, and see why the second one queues.

thinker → talker → code2wav run as processes of their own, each with a real scheduler; only the \
model is a stand-in, which takes real time. Two scenarios make talker queue its slowest request for \
about as long:

  cold-start  thinker's first step takes 6 s longer, so talker waits for its input
  backlog     talker has two slots, so requests whose input is there wait for their turn

Their queued times look alike. Their two parts, input_wait and ready_queued, do not.";

const DEMO_AFTER: &str = "\
Where the trace goes:
  By default into stagespan-demo.json, which Jaeger's UI shows by Upload. To a receiver instead:
    OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 stagespan demo
  All OTEL_* variables that concern traces count, and STAGESPAN_TRACE_SHAPE and STAGESPAN_SPANS.
  A value that can't be used ends the command before anything is started.

Examples:
  stagespan demo --scenario backlog --requests 300
  stagespan demo --trace arrivals.csv --speed 20
  stagespan demo --pipeline my-pipeline.toml --no-trace
  stagespan demo --json | jq '.scenarios[].stages[] | {name, verdict}'

Exit codes: 0 done; 1 a stage was lost, or the trace file could not be written; 2 bad input, nothing
was started; 130 or 143 after Ctrl-C or SIGTERM, with the stages ended and the trace file complete.";

const DOCTOR_ABOUT: &str = "\
Say what the environment asks for, and whether the receiver takes spans.

Every value in force is shown with the variable that it comes from, and every value that can't be \
used with what to do about it. Then the receiver is sent an export without any span, as a serving \
process would send its spans. Values that may be secret are masked.";

const DOCTOR_AFTER: &str = "\
Run it where the traced process runs, with the same environment:
  kubectl exec POD -- stagespan doctor
  stagespan doctor --json | jq -r .state

Exit codes: 0 good, or off; 1 the receiver doesn't take spans; 2 a value that nothing can stand in
for. A value with a specified fallback is a warning, and changes no exit code.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn numbers_are_checked() {
        for bad in ["0", "-1", "1.5", "100001", "many", ""] {
            assert!(requests(bad).is_err(), "{bad}");
        }
        assert_eq!(requests("300"), Ok(300));
        for bad in ["0", "-8", "inf", "NaN", "fast", ""] {
            assert!(speed(bad).is_err(), "{bad}");
        }
        assert_eq!(speed("0.5"), Ok(0.5));
    }
}
