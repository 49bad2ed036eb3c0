//! OTEL_RESOURCE_ATTRIBUTES.

use super::list;
use crate::environment::Environment;

pub(super) const RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// The attributes in their order, of a repeated key the last. `None` if any of them is malformed:
/// then all are discarded, as OpenTelemetry asks, so that a typing error isn't half in force.
pub(crate) fn resource_attributes(environment: &Environment) -> Option<Vec<(String, String)>> {
    let text = environment.get(RESOURCE_ATTRIBUTES).unwrap_or_default();
    let mut attributes: Vec<(String, String)> = Vec::new();
    for item in list::items(text) {
        let (key, value) = item.ok()?;
        attributes.retain(|(seen, _)| *seen != key);
        attributes.push((key, value));
    }
    Some(attributes)
}
