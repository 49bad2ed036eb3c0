//! The receiver's address.

use std::borrow::Cow;

use reqwest::Url;

use crate::config::finding::Source;
use crate::config::reading::Reader;
use crate::config::{MASK, Protocol};
use crate::environment::Environment;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const INSECURE: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_INSECURE", "OTEL_EXPORTER_OTLP_INSECURE"];

const HTTP_DEFAULT: &str = "http://localhost:4318/v1/traces";
const GRPC_DEFAULT: &str = "http://localhost:4317";
const TRACES_PATH: &str = "/v1/traces";
const GRPC_PORT: u16 = 4317;
const HTTP_PORT: u16 = 4318;

/// Whether either endpoint is set and not empty: then the layer is on.
pub(in crate::config::reading) fn is_set(environment: &Environment) -> bool {
    [TRACES_ENDPOINT, ENDPOINT].into_iter().any(|variable| environment.get(variable).is_some())
}

/// The variable that is in force, as it was given.
struct Given<'e> {
    variable: &'static str,
    value: &'e str,
    /// Whether it is the one for all signals.
    is_general: bool,
}

impl Given<'_> {
    /// What a message may show of it.
    fn shown(&self) -> Option<String> {
        Some(mask(self.value))
    }
}

/// The address that spans are sent to. `None` where an error has been noted.
pub(super) fn read(reader: &mut Reader<'_>, protocol: Protocol) -> Option<String> {
    let insecure = insecure(reader);
    // Not trimmed: an address with a blank before it is a mistake that other programs trip over.
    let environment = reader.environment();
    let given = match (environment.get(TRACES_ENDPOINT), environment.get(ENDPOINT)) {
        (Some(value), _) => Given { variable: TRACES_ENDPOINT, value, is_general: false },
        (None, Some(value)) => Given { variable: ENDPOINT, value, is_general: true },
        (None, None) => {
            let default = match protocol {
                Protocol::HttpProtobuf => HTTP_DEFAULT,
                Protocol::Grpc => GRPC_DEFAULT,
            };
            reader.set("endpoint", default, Source::Default);
            return Some(default.to_owned());
        }
    };
    let url = match protocol {
        Protocol::HttpProtobuf => http(reader, &given)?,
        Protocol::Grpc => grpc(reader, &given, insecure)?,
    };
    reader.set("endpoint", &mask(&url), Source::Variable(given.variable.to_owned()));
    Some(url)
}

/// The address that spans are posted to. The traces' own is used as it is; the general one is a
/// base, to which the path is added.
fn http(reader: &mut Reader<'_>, given: &Given<'_>) -> Option<String> {
    let Some(mut url) = parse(given.value) else {
        let remedy = "use an address such as http://localhost:4318, without blanks around it";
        return refuse(reader, given, remedy);
    };
    if given.is_general {
        if url.path().trim_end_matches('/').ends_with(TRACES_PATH) {
            let remedy =
                "spans go to a doubled path; leave it out here, or use OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
            reader.warn_with(
                given.variable,
                given.shown(),
                "already ends in /v1/traces, which is added to it",
                remedy,
            );
        }
        let path = format!("{}{TRACES_PATH}", url.path().trim_end_matches('/'));
        url.set_path(&path);
    } else if url.path() == "/" {
        let remedy = "add /v1/traces unless the receiver listens at /";
        reader.warn_with(given.variable, given.shown(), "has no path, and is used as it is", remedy);
    }
    if url.port() == Some(GRPC_PORT) {
        reader.warn_with(
            given.variable,
            given.shown(),
            "has the usual port of gRPC, while the protocol is http/protobuf",
            "use port 4318, or OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
        );
    }
    Some(url.into())
}

/// Scheme, host and port of a gRPC receiver. Without a scheme, which gRPC allows, the connection
/// is secure unless the variables say otherwise.
fn grpc(reader: &mut Reader<'_>, given: &Given<'_>, insecure: bool) -> Option<String> {
    let full = match given.value.contains("://") {
        true => Cow::Borrowed(given.value),
        false if insecure => Cow::Owned(format!("http://{}", given.value)),
        false => Cow::Owned(format!("https://{}", given.value)),
    };
    let Some(mut url) = parse(&full) else {
        let remedy = "use an address such as http://localhost:4317, without blanks around it";
        return refuse(reader, given, remedy);
    };
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        reader.warn_with(
            given.variable,
            given.shown(),
            "has more than scheme, host and port, while the protocol is grpc",
            "the rest is left out; a path has a meaning only with http/protobuf",
        );
        url.set_path("");
        url.set_query(None);
        url.set_fragment(None);
    }
    if !url.username().is_empty() || url.password().is_some() {
        reader.warn_with(
            given.variable,
            given.shown(),
            "has a user or password, which gRPC does not send",
            "left out; put what the receiver asks for into OTEL_EXPORTER_OTLP_HEADERS",
        );
        // Neither can fail: the address has a host.
        let _ = (url.set_username(""), url.set_password(None));
    }
    if url.port() == Some(HTTP_PORT) {
        reader.warn_with(
            given.variable,
            given.shown(),
            "has the usual port of OTLP/HTTP, while the protocol is grpc",
            "use port 4317, or OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
        );
    }
    Some(url.as_str().trim_end_matches('/').to_owned())
}

fn refuse(reader: &mut Reader<'_>, given: &Given<'_>, remedy: &str) -> Option<String> {
    reader.error_with(given.variable, given.shown(), "is not http:// or https:// with a host", remedy);
    None
}

/// Whether a gRPC address without a scheme is spoken to without TLS.
fn insecure(reader: &mut Reader<'_>) -> bool {
    let Some((variable, _)) = reader.first(INSECURE) else { return false };
    match reader.word(variable).as_deref() {
        Some("true") => true,
        Some("false") => false,
        _ => {
            reader.warn(variable, "is neither true nor false", "counts as false");
            false
        }
    }
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
