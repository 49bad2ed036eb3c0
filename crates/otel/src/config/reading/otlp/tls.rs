//! The PEM files for `https://`. Only their names are looked at here; they are read when the layer
//! starts.

use std::path::PathBuf;

use crate::config::finding::Source;
use crate::config::reading::Reader;
use crate::config::{ClientFiles, TlsFiles};

const CERTIFICATE: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"];
const CLIENT_CERTIFICATE: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"];
const CLIENT_KEY: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "OTEL_EXPORTER_OTLP_CLIENT_KEY"];

/// `None` where an error has been noted.
pub(super) fn read(reader: &mut Reader<'_>, is_secure: bool) -> Option<TlsFiles> {
    let certificate = file(reader, CERTIFICATE, "certificate", is_secure);
    let client_certificate = file(reader, CLIENT_CERTIFICATE, "client certificate", is_secure);
    let client_key = file(reader, CLIENT_KEY, "client key", is_secure);
    let client = match (client_certificate, client_key) {
        (None, None) => None,
        (Some((_, certificate)), Some((_, key))) => Some(ClientFiles { certificate, key }),
        (Some((variable, _)), None) => return half(reader, variable, CLIENT_KEY[1]),
        (None, Some((variable, _))) => return half(reader, variable, CLIENT_CERTIFICATE[1]),
    };
    Some(TlsFiles { certificate: certificate.map(|(_, path)| path), client })
}

fn file(
    reader: &mut Reader<'_>,
    variables: [&'static str; 2],
    setting: &'static str,
    is_secure: bool,
) -> Option<(&'static str, PathBuf)> {
    let (variable, value) = reader.first(variables)?;
    if !is_secure {
        let remedy = "ignored; use an https:// address if the receiver speaks TLS";
        reader.warn(variable, "has no meaning at an http:// address", remedy);
        return None;
    }
    reader.set(setting, value, Source::Variable(variable.to_owned()));
    Some((variable, PathBuf::from(value)))
}

fn half(reader: &mut Reader<'_>, variable: &str, missing: &str) -> Option<TlsFiles> {
    reader.error(variable, &format!("is set without {missing}"), "set both, or neither");
    None
}
