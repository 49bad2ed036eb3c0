//! The configuration as the environment asks for it.

use std::fmt;
use std::path::PathBuf;

use stagespan_model::Detail;

use super::finding::{ConfigError, Finding, Setting, Source};
use super::{Config, LONG_WAIT, Output, TraceShape};
use crate::environment::Environment;
use crate::report::LogLevel;
use crate::resource;

mod batch;
mod list;
mod log_level;
mod otlp;
mod propagators;
mod reader;
mod resource_attributes;
mod sampler;
mod service;
mod span_limits;
mod unsupported;

pub(crate) use otlp::mask;
pub(crate) use resource_attributes::resource_attributes;

use reader::Reader;

const SDK_DISABLED: &str = "OTEL_SDK_DISABLED";
const TRACES_EXPORTER: &str = "OTEL_TRACES_EXPORTER";
const TRACE_SHAPE: &str = "STAGESPAN_TRACE_SHAPE";
const SPANS: &str = "STAGESPAN_SPANS";

/// What the environment asks for.
#[derive(Clone, Debug)]
pub struct Reading {
    /// On with this configuration, off, or an error.
    pub activation: Result<Activation, ConfigError>,
    /// Values that were not taken as they are, though there is a specified way on.
    pub warnings: Vec<Finding>,
    /// Every value in force, in the order in which people look for them. Secrets are masked.
    pub settings: Vec<Setting>,
    /// How much the layer says of itself, also where the rest can't be used.
    pub log_level: LogLevel,
}

/// Whether the layer is to be on.
#[derive(Clone, Debug)]
pub enum Activation {
    /// Nothing is traced.
    Off(OffReason),
    /// Traced so.
    On(Box<Config>),
}

/// Why nothing is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffReason {
    /// `OTEL_SDK_DISABLED=true`.
    SdkDisabled,
    /// `OTEL_TRACES_EXPORTER=none`.
    ExporterNone,
    /// No variable asks for it.
    NotAsked,
}

impl fmt::Display for OffReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SdkDisabled => "OTEL_SDK_DISABLED is true",
            Self::ExporterNone => "OTEL_TRACES_EXPORTER is none",
            Self::NotAsked => {
                "none of OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_ENDPOINT and \
                 OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set"
            }
        })
    }
}

/// What `OTEL_TRACES_EXPORTER` and the endpoints come to.
enum Exporter {
    Off(OffReason),
    Otlp,
    Console,
}

impl Config {
    /// Reads the configuration from the environment: off unless asked for.
    pub fn from_environment(environment: &Environment) -> Reading {
        let mut reader = Reader::new(environment);
        let exporter = match sdk_disabled(&mut reader) {
            true => Exporter::Off(OffReason::SdkDisabled),
            false => exporter(&mut reader),
        };
        let output = match exporter {
            Exporter::Off(reason) => return reader.finish(Activation::Off(reason)),
            Exporter::Console => {
                reader.set("output", "console", Source::Variable(TRACES_EXPORTER.to_owned()));
                Some(Output::Console)
            }
            Exporter::Otlp => otlp::read(&mut reader).map(Output::Otlp),
        };
        Self::read_rest(reader, output)
    }

    /// As [`Config::from_environment`], but with the spans written to a file, whatever the
    /// exporter variables say. Only `OTEL_SDK_DISABLED` still turns the layer off.
    pub fn to_json_file(path: impl Into<PathBuf>, environment: &Environment) -> Reading {
        let mut reader = Reader::new(environment);
        if sdk_disabled(&mut reader) {
            return reader.finish(Activation::Off(OffReason::SdkDisabled));
        }
        let path = path.into();
        reader.set("output", &path.display().to_string(), Source::Default);
        Self::read_rest(reader, Some(Output::OtlpJsonFile(path)))
    }

    /// Everything but the output; without one, an error has been noted.
    fn read_rest(mut reader: Reader<'_>, output: Option<Output>) -> Reading {
        let service_name = service::name(&mut reader);
        let sampler = sampler::read(&mut reader);
        let shape = reader.one_of(
            TRACE_SHAPE,
            "shape",
            [TraceShape::Auto, TraceShape::Linked, TraceShape::Joined].map(|s| (s.as_str(), s)),
        );
        let detail = reader.one_of(SPANS, "spans", [("waits", Detail::Waits), ("phases", Detail::Phases)]);
        let propagators = propagators::read(&mut reader);
        let batch = batch::read(&mut reader);
        let span_limits = span_limits::read(&mut reader);
        unsupported::warn(&mut reader);
        let resource = resource::detect_process(reader.environment());
        let activation = output.map(|output| {
            Activation::On(Box::new(Self {
                output,
                service_name,
                resource,
                sampler,
                shape,
                detail,
                propagators,
                batch,
                span_limits,
                log_level: reader.log_level(),
                long_wait: Some(LONG_WAIT),
            }))
        });
        // Without an output the reader holds the error that says why.
        reader.finish(activation.unwrap_or(Activation::Off(OffReason::NotAsked)))
    }
}

fn sdk_disabled(reader: &mut Reader<'_>) -> bool {
    let Some(value) = reader.word(SDK_DISABLED) else { return false };
    match value.as_str() {
        "true" => true,
        "false" => false,
        _ => {
            reader.warn(SDK_DISABLED, "is neither true nor false", "counts as false");
            false
        }
    }
}

fn exporter(reader: &mut Reader<'_>) -> Exporter {
    let names = reader.list(TRACES_EXPORTER);
    if names.is_empty() {
        return match otlp::is_endpoint_set(reader.environment()) {
            true => Exporter::Otlp,
            false => Exporter::Off(OffReason::NotAsked),
        };
    }
    match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["none"] => Exporter::Off(OffReason::ExporterNone),
        ["otlp"] => Exporter::Otlp,
        ["console"] => Exporter::Console,
        [one] => {
            reader.error(
                TRACES_EXPORTER,
                &format!("names the exporter {one:?}, which there is not here"),
                "use otlp, console or none",
            );
            Exporter::Otlp
        }
        [..] => {
            reader.error(
                TRACES_EXPORTER,
                "names several exporters",
                "name one; a collector can send on to several back ends",
            );
            Exporter::Otlp
        }
    }
}

#[cfg(test)]
mod tests;
