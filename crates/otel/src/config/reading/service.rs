//! `service.name`, and the attributes beside it.

use super::Reader;
use super::resource_attributes::{RESOURCE_ATTRIBUTES, resource_attributes};
use crate::attributes;
use crate::config::finding::Source;

const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";

/// OTEL_SERVICE_NAME, else `service.name` of OTEL_RESOURCE_ATTRIBUTES, else `unknown_service:` and the program.
pub(super) fn name(reader: &mut Reader<'_>) -> String {
    let given = resource_attributes(reader.environment()).unwrap_or_else(|| {
        let problem = "has an item that is not key=value, or a wrong percent-encoding";
        reader.warn(
            RESOURCE_ATTRIBUTES,
            problem,
            "all of it is discarded; write blanks and commas as %20 and %2C",
        );
        Vec::new()
    });
    let attribute =
        given.into_iter().find(|(key, value)| key == attributes::SERVICE_NAME && !value.is_empty());
    let (name, source) = match (reader.text(SERVICE_NAME), attribute) {
        (Some(name), _) => (name.to_owned(), Source::Variable(SERVICE_NAME.to_owned())),
        (None, Some((_, name))) => (name, Source::Variable(RESOURCE_ATTRIBUTES.to_owned())),
        (None, None) => (unknown_service(), Source::Default),
    };
    reader.set("service", &name, source);
    name
}

fn unknown_service() -> String {
    let program = std::env::current_exe().ok();
    match program.as_deref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy()) {
        Some(name) => format!("unknown_service:{name}"),
        None => "unknown_service".to_owned(),
    }
}
