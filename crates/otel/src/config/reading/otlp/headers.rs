//! Headers of every export, whose values are secret.

use ::http::{HeaderName, HeaderValue};

use crate::config::finding::Source;
use crate::config::reading::{Reader, list};
use crate::config::{MASK, Secret};

const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];

pub(super) fn read(reader: &mut Reader<'_>) -> Vec<(String, Secret)> {
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
