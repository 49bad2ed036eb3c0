//! The few styles there are.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

/// Headings, and the one number of a line that matters.
pub(crate) const STRONG: Style = Style::new().bold();
/// Notes.
pub(crate) const DIM: Style = Style::new().dimmed();
/// Time spent waiting for input.
pub(super) const INPUT_WAIT: Style = AnsiColor::Cyan.on_default();
/// Time spent ready, waiting to be scheduled.
pub(super) const READY_QUEUED: Style = AnsiColor::Yellow.on_default();
/// Queued time that isn't split.
pub(super) const QUEUED: Style = AnsiColor::Magenta.on_default();
/// Time spent running.
pub(super) const RUNNING: Style = AnsiColor::Green.on_default();

/// What is as it should be.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// What deserves a look.
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// What has to be mended.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();

/// A text in a style.
pub(crate) fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}
