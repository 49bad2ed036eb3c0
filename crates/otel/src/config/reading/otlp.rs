//! The `OTEL_EXPORTER_OTLP_*` variables, those of the traces signal before the general ones.

use ::http::{HeaderName, HeaderValue};
use reqwest::Url;

use super::Reader;
use super::list;
use crate::config::finding::Source;
use crate::config::{MASK, OtlpOutput, Protocol, Secret};
use crate::environment::Environment;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const PROTOCOL: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
const TIMEOUT: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];

const HTTP_DEFAULT: &str = "http://localhost:4318/v1/traces";
const TRACES_PATH: &str = "/v1/traces";
const GRPC_PORT: u16 = 4317;

/// Whether either endpoint is set and not empty: then the layer is on.
pub(super) fn is_endpoint_set(environment: &Environment) -> bool {
    [TRACES_ENDPOINT, ENDPOINT].into_iter().any(|variable| environment.get(variable).is_some())
}

/// `None` where an error has been noted.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<OtlpOutput> {
    let protocol = protocol(reader);
    let endpoint = endpoint(reader);
    let headers = headers(reader);
    let timeout_variable = reader.first(TIMEOUT).map_or(TIMEOUT[1], |(variable, _)| variable);
    let timeout = reader.timeout(timeout_variable, "timeout", 10_000);
    Some(OtlpOutput { endpoint: endpoint?, protocol: protocol?, headers, timeout })
}

fn protocol(reader: &mut Reader<'_>) -> Option<Protocol> {
    let Some((variable, value)) = reader.first(PROTOCOL) else {
        reader.set("protocol", Protocol::HttpProtobuf.as_str(), Source::Default);
        return Some(Protocol::HttpProtobuf);
    };
    let protocol = match value.to_lowercase().as_str() {
        "http/protobuf" => Protocol::HttpProtobuf,
        "grpc" => {
            reader.error(
                variable,
                "asks for a protocol that this version does not speak yet",
                "use http/protobuf and port 4318",
            );
            return None;
        }
        "http/json" => {
            reader.error(variable, "asks for a protocol that is not spoken here", "use http/protobuf");
            return None;
        }
        _ => {
            reader.warn(variable, "names an unknown protocol", "using http/protobuf");
            Protocol::HttpProtobuf
        }
    };
    reader.set("protocol", protocol.as_str(), Source::Variable(variable.to_owned()));
    Some(protocol)
}

/// The address that spans are posted to. The traces' own is used as it is; the general one is a
/// base, to which the path is added.
fn endpoint(reader: &mut Reader<'_>) -> Option<String> {
    // Not trimmed: an address with a blank before it is a mistake that other programs trip over.
    let environment = reader.environment();
    let (variable, value, is_base) = match (environment.get(TRACES_ENDPOINT), environment.get(ENDPOINT)) {
        (Some(value), _) => (TRACES_ENDPOINT, value, false),
        (None, Some(value)) => (ENDPOINT, value, true),
        (None, None) => {
            reader.set("endpoint", HTTP_DEFAULT, Source::Default);
            return Some(HTTP_DEFAULT.to_owned());
        }
    };
    let Some(mut url) = parse(value) else {
        let remedy = "use an address such as http://localhost:4318, without blanks around it";
        reader.error_with(variable, Some(mask(value)), "is not http:// or https:// with a host", remedy);
        return None;
    };
    let shown = Some(mask(value));
    if is_base {
        if url.path().trim_end_matches('/').ends_with(TRACES_PATH) {
            let remedy =
                "spans go to a doubled path; leave it out here, or use OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
            reader.warn_with(
                variable,
                shown.clone(),
                "already ends in /v1/traces, which is added to it",
                remedy,
            );
        }
        let path = format!("{}{TRACES_PATH}", url.path().trim_end_matches('/'));
        url.set_path(&path);
    } else if url.path() == "/" {
        let remedy = "add /v1/traces unless the receiver listens at /";
        reader.warn_with(variable, shown.clone(), "has no path, and is used as it is", remedy);
    }
    if url.port() == Some(GRPC_PORT) {
        let remedy = "use port 4318, or OTEL_EXPORTER_OTLP_PROTOCOL=grpc where that is supported";
        reader.warn_with(
            variable,
            shown,
            "has the usual port of gRPC, while the protocol is http/protobuf",
            remedy,
        );
    }
    reader.set("endpoint", &mask(url.as_str()), Source::Variable(variable.to_owned()));
    Some(url.into())
}

fn parse(value: &str) -> Option<Url> {
    if value.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return None;
    }
    // `http:x` is a host to the URL standard; nobody means it.
    let has_authority = value.split_once("://").is_some_and(|(_, rest)| !rest.starts_with('/'));
    let url = Url::parse(value).ok()?;
    (has_authority && matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

/// The address with whatever stands before an `@` hidden.
pub(crate) fn mask(endpoint: &str) -> String {
    let (scheme, rest) = endpoint.split_once("://").map_or(("", endpoint), |(scheme, rest)| (scheme, rest));
    let authority_len = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_len);
    let Some((_, host)) = authority.rsplit_once('@') else { return endpoint.to_owned() };
    let separator = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{separator}{MASK}@{host}{path}")
}

fn headers(reader: &mut Reader<'_>) -> Vec<(String, Secret)> {
    let Some((variable, text)) = reader.first(HEADERS) else { return Vec::new() };
    let mut headers: Vec<(String, Secret)> = Vec::new();
    for (position, item) in list::items(text).enumerate() {
        let nth = position + 1;
        let Ok((key, value)) = item else {
            // Not even the key: what stands there may be a secret in the wrong place.
            let problem = format!("is not key=value in item {nth}, or has a wrong percent-encoding");
            reader.warn_of_secret(variable, &problem, "that item is left out");
            continue;
        };
        let name = key.to_ascii_lowercase();
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            reader.warn_of_secret(
                variable,
                &format!("has no header name in item {nth}"),
                "that item is left out",
            );
            continue;
        }
        if HeaderValue::from_str(&value).is_err() {
            reader.warn_of_secret(
                variable,
                &format!("has a value that no header may have at {name}"),
                "that header is left out",
            );
            continue;
        }
        headers.retain(|(seen, _)| *seen != name);
        headers.push((name, Secret::new(value)));
    }
    let shown: Vec<_> = headers.iter().map(|(name, _)| format!("{name}={MASK}")).collect();
    reader.set("headers", &shown.join(","), Source::Variable(variable.to_owned()));
    headers
}
