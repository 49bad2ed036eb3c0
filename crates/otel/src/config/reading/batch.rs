//! The `OTEL_BSP_*` variables.

use std::time::Duration;

use super::Reader;
use crate::config::BatchLimits;

const SCHEDULE_DELAY: &str = "OTEL_BSP_SCHEDULE_DELAY";
const MAX_QUEUE_SIZE: &str = "OTEL_BSP_MAX_QUEUE_SIZE";
const MAX_EXPORT_BATCH_SIZE: &str = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE";
const EXPORT_TIMEOUT: &str = "OTEL_BSP_EXPORT_TIMEOUT";

/// The queue is allocated at once; an entry is some 400 bytes.
const QUEUE_MAX: u64 = 1 << 20;

pub(super) fn read(reader: &mut Reader<'_>) -> BatchLimits {
    let default = BatchLimits::default();
    // At 0 the worker would never sleep.
    let delay_ms = reader.number(SCHEDULE_DELAY, default.schedule_delay.as_millis() as u64, 1..=86_400_000);
    let queue_entries = reader.number(MAX_QUEUE_SIZE, default.queue_entries as u64, 1..=QUEUE_MAX) as usize;
    let mut export_batch_spans =
        reader.number(MAX_EXPORT_BATCH_SIZE, default.export_batch_spans as u64, 1..=QUEUE_MAX) as usize;
    if export_batch_spans > queue_entries {
        // Only a value that somebody set is worth a word.
        if reader.text(MAX_EXPORT_BATCH_SIZE).is_some() {
            let remedy = format!("using {queue_entries}");
            reader.warn(MAX_EXPORT_BATCH_SIZE, "is larger than OTEL_BSP_MAX_QUEUE_SIZE", &remedy);
        }
        export_batch_spans = queue_entries;
    }
    let schedule_delay = Duration::from_millis(delay_ms);
    reader.set("queue", &queue_entries.to_string(), reader.source(MAX_QUEUE_SIZE));
    reader.set("batch", &export_batch_spans.to_string(), reader.source(MAX_EXPORT_BATCH_SIZE));
    reader.set("delay", &format!("{schedule_delay:?}"), reader.source(SCHEDULE_DELAY));
    BatchLimits {
        schedule_delay,
        queue_entries,
        export_batch_spans,
        export_timeout: reader.timeout(EXPORT_TIMEOUT, "export timeout", 30_000),
    }
}
