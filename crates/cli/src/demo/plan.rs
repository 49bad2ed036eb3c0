//! What is to be run, checked before anything is started.

use std::path::Path;

use stagespan_otel::{Activation, Config, Environment, OffReason, Output, Reading, Source};
use stagespan_scheduler::parse_input_wait_timeout;

use crate::arguments::DemoArguments;
use crate::arrivals;
use crate::exit::Failure;
use crate::replay::{self, Replay};
use crate::scenario::Scenario;

/// Where the trace goes unless told otherwise.
const OUT_DEFAULT: &str = "stagespan-demo.json";
/// `service.name` unless told otherwise.
const SERVICE_DEFAULT: &str = "stagespan";
/// How long a request may wait at an input gate; vLLM-Omni's own variable.
const INPUT_WAIT_TIMEOUT: &str = "VLLM_OMNI_INPUT_WAIT_TIMEOUT_S";

/// A run that can be started.
#[derive(Debug)]
pub(super) struct Plan {
    /// The rows.
    pub(super) replay: Replay,
    /// What to run, one after the other.
    pub(super) scenarios: Vec<Scenario>,
    /// Where spans go, or why nowhere.
    pub(super) tracing: Tracing,
    /// The input gates' timeout in nanoseconds; 0 is none.
    pub(super) input_wait_timeout_ns: u64,
}

/// Whether the run is traced.
#[derive(Debug)]
pub(super) enum Tracing {
    /// It isn't, for this reason.
    Off(String),
    /// It is.
    On(Box<Config>),
}

impl Plan {
    /// The run that the command line and the environment ask for.
    ///
    /// # Errors
    /// Whatever in them can't be done.
    pub(super) fn of(arguments: &DemoArguments) -> Result<Self, Failure> {
        let rows = match &arguments.trace {
            Some(path) => arrivals::read(path),
            None => arrivals::embedded(),
        };
        let rows = rows.map_err(Failure::bad_input)?;
        let replay = replay::take(&rows, arguments.requests, arguments.speed).map_err(Failure::bad_input)?;
        let scenarios = match &arguments.pipeline {
            Some(path) => vec![Scenario::read(path).map_err(Failure::bad_input)?],
            None => {
                let built_ins = arguments.scenario.built_ins().into_iter();
                let scenarios: Result<_, _> = built_ins.map(|b| b.for_arrivals(&replay.arrivals)).collect();
                scenarios.map_err(Failure::bad_input)?
            }
        };
        let timeout = std::env::var(INPUT_WAIT_TIMEOUT).ok().filter(|text| !text.is_empty());
        let timeout = parse_input_wait_timeout(timeout.as_deref()).map_err(Failure::bad_input)?;
        let tracing = tracing(arguments, &Environment::of_this_process())?;
        Ok(Self {
            replay,
            scenarios,
            tracing,
            input_wait_timeout_ns: timeout.map_or(0, std::num::NonZeroU64::get),
        })
    }
}

/// Whether and whereto the run is traced: what the command line says, else the environment, else a
/// file.
fn tracing(arguments: &DemoArguments, environment: &Environment) -> Result<Tracing, Failure> {
    if arguments.no_trace {
        return Ok(Tracing::Off("--no-trace".to_owned()));
    }
    let to_file = |path: &Path| Config::to_json_file(path, environment);
    let reading = match &arguments.out {
        Some(path) => to_file(path),
        None => match Config::from_environment(environment) {
            Reading { activation: Ok(Activation::Off(OffReason::NotAsked)), .. } => {
                to_file(Path::new(OUT_DEFAULT))
            }
            reading => reading,
        },
    };
    let Reading { activation, warnings, settings, log_level: _ } = reading;
    // Of what has a remedy a serving process would make the best and go on; here somebody is looking.
    let errors = activation.as_ref().err().map(|error| error.findings.as_slice()).unwrap_or_default();
    let findings: Vec<String> = errors.iter().chain(&warnings).map(ToString::to_string).collect();
    if !findings.is_empty() {
        return Err(Failure::bad_input(findings.join("\n")));
    }
    let activation = activation.map_err(Failure::bad_input)?;
    let mut config = match activation {
        Activation::Off(reason) => return Ok(Tracing::Off(reason.to_string())),
        Activation::On(config) => config,
    };
    if arguments.json && matches!(config.output, Output::Console) {
        let message = "--json and OTEL_TRACES_EXPORTER=console both write to standard output: drop one";
        return Err(Failure::bad_input(message));
    }
    if settings.iter().any(|s| s.name == "service" && s.source == Source::Default) {
        SERVICE_DEFAULT.clone_into(&mut config.service_name);
    }
    Ok(Tracing::On(config))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn arguments(words: &[&str]) -> DemoArguments {
        let words = ["stagespan", "demo"].iter().chain(words);
        match Arguments::try_parse_from(words).unwrap().command {
            Command::Demo(arguments) => arguments,
            Command::Doctor(_) | Command::Stage => unreachable!(),
        }
    }

    fn traced(words: &[&str], environment: &[(&str, &str)]) -> Result<Tracing, Failure> {
        tracing(&arguments(words), &Environment::from_pairs(environment.iter().copied()))
    }

    fn config(words: &[&str], environment: &[(&str, &str)]) -> Config {
        match traced(words, environment).unwrap() {
            Tracing::On(config) => *config,
            Tracing::Off(reason) => panic!("off: {reason}"),
        }
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");

    #[test]
    fn the_command_line_then_the_environment_then_a_file() {
        let file = |words: &[&str], environment: &[(&str, &str)]| match config(words, environment).output {
            Output::OtlpJsonFile(path) => path,
            output => panic!("{output:?}"),
        };
        assert_eq!(file(&[], &[]), PathBuf::from(OUT_DEFAULT));
        assert_eq!(file(&["--out", "t.json"], &[]), PathBuf::from("t.json"));
        assert_eq!(file(&["--out", "t.json"], &[ENDPOINT]), PathBuf::from("t.json"));
        assert!(matches!(config(&[], &[ENDPOINT]).output, Output::Otlp(_)));
        assert!(matches!(config(&[], &[("OTEL_TRACES_EXPORTER", "console")]).output, Output::Console));
    }

    #[test]
    fn off_says_why() {
        let off = |words: &[&str], environment: &[(&str, &str)]| match traced(words, environment).unwrap() {
            Tracing::Off(reason) => reason,
            Tracing::On(config) => panic!("on: {config:?}"),
        };
        assert_eq!(off(&["--no-trace"], &[ENDPOINT]), "--no-trace");
        assert_eq!(off(&[], &[("OTEL_SDK_DISABLED", "true"), ENDPOINT]), "OTEL_SDK_DISABLED is true");
        assert_eq!(off(&["--out", "t.json"], &[("OTEL_SDK_DISABLED", "true")]), "OTEL_SDK_DISABLED is true");
        assert_eq!(off(&[], &[("OTEL_TRACES_EXPORTER", "none")]), "OTEL_TRACES_EXPORTER is none");
    }

    #[test]
    fn the_service_has_a_name_of_its_own() {
        assert_eq!(config(&[], &[]).service_name, "stagespan");
        assert_eq!(config(&[], &[("OTEL_SERVICE_NAME", "mine")]).service_name, "mine");
        let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=theirs");
        assert_eq!(config(&[], &[attributes]).service_name, "theirs");
    }

    #[test]
    fn values_that_cannot_be_used_are_bad_input() {
        let table = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_TRACES_SAMPLER_ARG", "NaN"),
            ("STAGESPAN_TRACE_SHAPE", "knotted"),
            ("STAGESPAN_SPANS", "all"),
        ];
        for (name, value) in table {
            let mut environment = vec![(name, value)];
            if name == "OTEL_TRACES_SAMPLER_ARG" {
                environment.push(("OTEL_TRACES_SAMPLER", "traceidratio"));
            }
            let Err(Failure::BadInput(message)) = traced(&[], &environment) else { panic!("{name}={value}") };
            assert!(message.contains(name), "{message}");
        }
        let Err(failure) = traced(&["--json"], &[("OTEL_TRACES_EXPORTER", "console")]) else { panic!() };
        assert!(failure.message().contains("--json and OTEL_TRACES_EXPORTER=console"));
    }
}
