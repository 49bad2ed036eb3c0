//! OTEL_LOG_LEVEL.

use super::Reader;
use crate::report::LogLevel;

const LOG_LEVEL: &str = "OTEL_LOG_LEVEL";

pub(super) fn read(reader: &mut Reader<'_>) -> LogLevel {
    use LogLevel::{Debug, Error, Info, Off, Trace, Warn};
    reader.one_of(
        LOG_LEVEL,
        "log level",
        [
            ("info", Info),
            ("off", Off),
            ("none", Off),
            ("error", Error),
            ("warn", Warn),
            ("warning", Warn),
            ("debug", Debug),
            ("trace", Trace),
            ("all", Trace),
        ],
    )
}
