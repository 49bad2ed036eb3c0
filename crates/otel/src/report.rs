//! How problems reach whoever can mend them.

use std::io::Write as _;

/// Says a problem as a `tracing` event and, where nobody listens to those, on stderr.
pub(crate) fn problem(message: &str) {
    tracing::warn!(target: "stagespan", "{message}");
    if !tracing::dispatcher::has_been_set() {
        stderr(message);
    }
}

/// Says a problem both ways: what is said before the program has set up its log would vanish.
pub(crate) fn at_start(message: &str) {
    tracing::warn!(target: "stagespan", "{message}");
    stderr(message);
}

fn stderr(message: &str) {
    // A closed stderr is no reason to stop (`eprintln!` would panic).
    let _ = writeln!(std::io::stderr(), "stagespan: {message}");
}
