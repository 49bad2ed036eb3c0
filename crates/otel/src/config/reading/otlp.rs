//! The `OTEL_EXPORTER_OTLP_*` variables, those of the traces signal before the general ones.

use super::Reader;
use crate::config::finding::Source;
use crate::config::{Compression, OtlpOutput, Protocol};

mod endpoint;
mod headers;
mod tls;

pub(super) use endpoint::is_set as is_endpoint_set;
pub(crate) use endpoint::mask;

const PROTOCOL: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const TIMEOUT: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
const COMPRESSION: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"];

/// `None` where an error has been noted.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<OtlpOutput> {
    let protocol = protocol(reader);
    // With a protocol that is refused, the address is still looked at: all errors are said at once.
    let endpoint = endpoint::read(reader, protocol.unwrap_or(Protocol::HttpProtobuf));
    let headers = headers::read(reader);
    let timeout_variable = reader.first(TIMEOUT).map_or(TIMEOUT[1], |(variable, _)| variable);
    let timeout = reader.timeout(timeout_variable, "timeout", 10_000);
    let compression = compression(reader);
    let is_secure = endpoint.as_deref().is_none_or(|endpoint| endpoint.starts_with("https:"));
    let tls = tls::read(reader, is_secure);
    Some(OtlpOutput { endpoint: endpoint?, protocol: protocol?, headers, timeout, compression, tls: tls? })
}

fn protocol(reader: &mut Reader<'_>) -> Option<Protocol> {
    let Some((variable, value)) = reader.first(PROTOCOL) else {
        reader.set("protocol", Protocol::HttpProtobuf.as_str(), Source::Default);
        return Some(Protocol::HttpProtobuf);
    };
    let protocol = match value.to_lowercase().as_str() {
        "http/protobuf" => Protocol::HttpProtobuf,
        "grpc" => Protocol::Grpc,
        "http/json" => {
            reader.error(
                variable,
                "asks for a protocol that is not spoken here",
                "use http/protobuf or grpc",
            );
            return None;
        }
        _ => {
            reader.warn(
                variable,
                "names an unknown protocol",
                "using http/protobuf; the other one that is known is grpc",
            );
            Protocol::HttpProtobuf
        }
    };
    reader.set("protocol", protocol.as_str(), Source::Variable(variable.to_owned()));
    Some(protocol)
}

fn compression(reader: &mut Reader<'_>) -> Compression {
    let variable = reader.first(COMPRESSION).map_or(COMPRESSION[1], |(variable, _)| variable);
    reader.one_of(
        variable,
        "compression",
        [Compression::None, Compression::Gzip, Compression::Zstd].map(|c| (c.as_str(), c)),
    )
}
