//! Variables of OpenTelemetry that have a meaning elsewhere, and none here.

use super::Reader;

/// Both names that the file has had.
const CONFIG_FILE: [&str; 2] = ["OTEL_CONFIG_FILE", "OTEL_EXPERIMENTAL_CONFIG_FILE"];

/// Says of each that it does nothing, rather than leave somebody wondering.
pub(super) fn warn(reader: &mut Reader<'_>) {
    for variable in CONFIG_FILE {
        if reader.text(variable).is_some() {
            reader.warn(
                variable,
                "names a configuration file, which is not supported",
                "ignored; the OTEL_* variables are in force",
            );
        }
    }
}
