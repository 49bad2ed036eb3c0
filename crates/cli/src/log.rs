//! What goes to standard error.

use std::io::Write as _;

use tracing::{Level, Metadata};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;

/// Shows warnings and errors of all crates on standard error.
pub(crate) fn to_stderr() {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .with_filter(filter_fn(is_shown));
    // This is the only place that sets one.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines));
}

/// A lost stage is logged by the orchestrator and returned as its error; the latter is shown, once,
/// by [`failure`].
fn is_shown(event: &Metadata<'_>) -> bool {
    let told_by_the_error =
        event.target() == "stagespan_pipeline::orchestrator::core" && *event.level() == Level::ERROR;
    *event.level() <= Level::WARN && !told_by_the_error
}

/// Says what did not work, though the command did.
pub(crate) fn notice(message: &str) {
    let _ = writeln!(std::io::stderr(), "stagespan: {}", message.trim_end());
}

/// Says why the command failed, each line below the first one indented.
pub(crate) fn failure(message: &str) {
    // A closed stderr is no reason to panic.
    let _ = writeln!(std::io::stderr(), "stagespan: {}", message.trim_end().replace('\n', "\n  "));
}
