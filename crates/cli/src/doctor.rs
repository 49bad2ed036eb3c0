//! `stagespan doctor`: what the environment asks for, and whether the receiver takes spans.

use std::io::Write as _;
use std::time::Duration;

use stagespan_model::ClockDomain;
use stagespan_otel::{Activation, Config, ConfigError, Environment, Output, Reading, probe};

use crate::arguments::DoctorArguments;
use crate::exit::{End, Failure};

mod json;
mod report;
mod show;

use report::{Report, State};

/// How long an answer is waited for where no variable says.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How much longer it may take to find out why there is none.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// Examines this process's environment, and contacts the receiver that it names.
///
/// # Errors
/// Standard output can't be written to. What was found is told by the end.
pub(crate) fn run(arguments: &DoctorArguments) -> Result<End, Failure> {
    let report = examine(Config::from_environment(&Environment::of_this_process()));
    let text = if arguments.json { json::of(&report) } else { show::text(&report) };
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::failed(format!("can't write to standard output: {error}")))?;
    Ok(match report.state() {
        State::Off | State::Ok => End::Done,
        State::Unreachable => End::Unreachable,
        State::Misconfigured => End::Misconfigured,
    })
}

fn examine(reading: Reading) -> Report {
    let Reading { activation, warnings, settings, log_level: _ } = reading;
    let (off, errors, contact) = match activation {
        Ok(Activation::Off(reason)) => (Some(reason.to_string()), Vec::new(), None),
        Ok(Activation::On(config)) => (None, Vec::new(), contact(&config)),
        Err(ConfigError { findings }) => (None, findings, None),
    };
    let clock_domain = ClockDomain::of_this_process().id().to_owned();
    Report { off, settings, errors, warnings, clock_domain, contact }
}

fn contact(config: &Config) -> Option<stagespan_otel::ProbeOutcome> {
    let Output::Otlp(otlp) = &config.output else { return None };
    Some(probe(config, otlp.timeout.unwrap_or(ANSWER_WITHIN) + LOOK_WITHIN))
}
