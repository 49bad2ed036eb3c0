//! One log line at most every 30 s while spans are lost.

use std::time::{Duration, Instant};

use crate::account::Account;
use crate::report::LogLevel;

const EVERY: Duration = Duration::from_secs(30);

/// Remembers what has been said of losses.
#[derive(Debug, Default)]
pub(crate) struct DropLog {
    log: LogLevel,
    said: u64,
    said_at: Option<Instant>,
    cause: Option<String>,
}

impl DropLog {
    pub(crate) fn new(log: LogLevel) -> Self {
        Self { log, ..Self::default() }
    }

    /// Notes why spans were lost.
    pub(crate) fn cause(&mut self, message: &str) {
        if !message.is_empty() {
            self.cause = Some(message.to_owned());
        }
    }

    /// Says what has been lost since the last line, if it is time.
    pub(crate) fn look(&mut self, account: &Account, now: Instant) {
        if let Some(line) = self.line(account, now) {
            self.log.problem(&line);
        }
    }

    fn line(&mut self, account: &Account, now: Instant) -> Option<String> {
        let lost = account.dropped.total() + account.rejected;
        let due = self.said_at.is_none_or(|at| now.saturating_duration_since(at) >= EVERY);
        if lost <= self.said || !due {
            return None;
        }
        let line = format!("{} spans lost: {account}", lost - self.said);
        self.said = lost;
        self.said_at = Some(now);
        Some(match self.cause.take() {
            Some(cause) => format!("{line}; last cause: {cause}"),
            None => line,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_thirty_seconds() {
        let mut log = DropLog::default();
        let start = Instant::now();
        let mut account = Account::default();
        assert_eq!(log.line(&account, start), None);
        account.produced = 9;
        account.dropped.queue_full = 5;
        assert_eq!(
            log.line(&account, start).unwrap(),
            "5 spans lost: 9 produced, 0 exported, 5 dropped (queue_full 5)"
        );
        account.dropped.export_failed = 1;
        log.cause("refused");
        assert_eq!(log.line(&account, start + EVERY / 2), None);
        let line = log.line(&account, start + EVERY).unwrap();
        assert!(line.starts_with("1 spans lost") && line.ends_with("last cause: refused"), "{line}");
        assert_eq!(log.line(&account, start + 3 * EVERY), None, "nothing new");
    }
}
