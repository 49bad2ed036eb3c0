//! The progress bar on standard error; nothing where that is no terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for a scenario's requests.
pub(super) fn bar(scenario: &str, requests: usize) -> ProgressBar {
    // Hidden by itself where stderr is no terminal.
    let bar = ProgressBar::new(requests as u64);
    if let Ok(style) =
        ProgressStyle::with_template("{prefix:<12} {bar:32.cyan/dim} {pos:>4}/{len}  {elapsed}")
    {
        bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
    }
    bar.set_prefix(crate::render::cut(scenario));
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    bar
}
