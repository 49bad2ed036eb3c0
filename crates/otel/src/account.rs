//! What became of every span.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// What became of every span, and what was counted beside them.
///
/// With the queue at rest, `produced = exported + rejected + dropped + pending`, exactly. All are
/// counted in spans; what isn't sampled is not produced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Handed over to be exported.
    pub produced: u64,
    /// Accepted by the receiver.
    pub exported: u64,
    /// Refused by the receiver one by one: by an OTLP partial success, or alone, when a batch that
    /// was called bad was searched for what is bad in it.
    pub rejected: u64,
    /// Lost on this side, by reason.
    pub dropped: Dropped,
    /// Still held by the queue and the worker.
    pub pending: u64,
    /// What is counted beside the spans.
    pub counters: Counters,
}

/// Spans lost on this side, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// The queue was full.
    pub queue_full: u64,
    /// The receiver could not be reached, failed, or refused the whole batch. An export that timed
    /// out counts here, though the receiver may have it.
    pub export_failed: u64,
    /// They could not be expressed, such as a time outside what unix nanoseconds hold.
    pub invalid: u64,
    /// Still unsent at the deadline of shutdown, or produced after it.
    pub shutdown: u64,
}

impl Dropped {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.queue_full + self.export_failed + self.invalid + self.shutdown
    }
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Things counted beside the spans, in requests unless said otherwise.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        #[derive(Debug, Default)]
        pub(crate) struct LiveCounters {
            $(pub(crate) $name: AtomicU64,)+
        }

        impl LiveCounters {
            fn snapshot(&self) -> Counters {
                Counters { $($name: self.$name.load(Ordering::Relaxed),)+ }
            }
        }

        impl Counters {
            fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)+].into_iter()
            }
        }
    };
}

counters! {
    /// Stage records whose trace isn't sampled.
    unsampled,
    /// Untraced, since more were in flight than there are slots.
    too_many_live,
    /// Ended without ever having had a valid QUEUED.
    never_queued,
    /// Came with a context that is malformed: `request` became a root.
    bad_context,
    /// Came with a sound `traceparent`, but a `tracestate` that is malformed: that alone was dropped.
    bad_tracestate,
    /// Came without a context.
    missing_context,
    /// Stages that refused to join the request's trace, since their clock is another.
    refused_joins,
    /// Request ids that were cut or escaped.
    cut_request_ids,
    /// Stage spans whose assigned id had been used before, and which took a fresh one.
    repeated_ids,
}

/// The live side of [`Account`]: one relaxed atomic per figure.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    produced: AtomicU64,
    exported: AtomicU64,
    rejected: AtomicU64,
    queue_full: AtomicU64,
    export_failed: AtomicU64,
    invalid: AtomicU64,
    shutdown: AtomicU64,
    pending: AtomicU64,
    pub(crate) counters: LiveCounters,
}

/// Why spans were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropReason {
    QueueFull,
    ExportFailed,
    Invalid,
    Shutdown,
}

impl Ledger {
    /// Counts spans in, before they are enqueued: whoever looks in between sees them as pending.
    pub(crate) fn produced(&self, spans: u64) {
        self.pending.fetch_add(spans, Ordering::Relaxed);
        self.produced.fetch_add(spans, Ordering::Relaxed);
    }

    /// Settles spans that the receiver has accepted or rejected.
    pub(crate) fn delivered(&self, accepted: u64, rejected: u64) {
        self.exported.fetch_add(accepted, Ordering::Relaxed);
        self.rejected.fetch_add(rejected, Ordering::Relaxed);
        self.pending.fetch_sub(accepted + rejected, Ordering::Relaxed);
    }

    /// Settles spans that are lost.
    pub(crate) fn dropped(&self, spans: u64, reason: DropReason) {
        let figure = match reason {
            DropReason::QueueFull => &self.queue_full,
            DropReason::ExportFailed => &self.export_failed,
            DropReason::Invalid => &self.invalid,
            DropReason::Shutdown => &self.shutdown,
        };
        figure.fetch_add(spans, Ordering::Relaxed);
        self.pending.fetch_sub(spans, Ordering::Relaxed);
    }

    /// The figures now.
    pub(crate) fn account(&self) -> Account {
        let figure = |f: &AtomicU64| f.load(Ordering::Relaxed);
        Account {
            produced: figure(&self.produced),
            exported: figure(&self.exported),
            rejected: figure(&self.rejected),
            dropped: Dropped {
                queue_full: figure(&self.queue_full),
                export_failed: figure(&self.export_failed),
                invalid: figure(&self.invalid),
                shutdown: figure(&self.shutdown),
            },
            pending: figure(&self.pending),
            counters: self.counters.snapshot(),
        }
    }
}

/// Adds one to a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Account {
    /// Whether the figures add up. They do whenever the queue is at rest.
    pub const fn is_balanced(&self) -> bool {
        self.produced == self.exported + self.rejected + self.dropped.total() + self.pending
    }

    /// Whether every span that was produced has been accepted.
    pub const fn is_complete(&self) -> bool {
        self.produced == self.exported
    }
}

impl fmt::Display for Account {
    /// One line; figures that are usually 0 are left out when they are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} produced, {} exported", self.produced, self.exported)?;
        if self.rejected > 0 {
            write!(f, ", {} rejected", self.rejected)?;
        }
        write!(f, ", {} dropped", self.dropped.total())?;
        let Dropped { queue_full, export_failed, invalid, shutdown } = self.dropped;
        let reasons = [
            ("queue_full", queue_full),
            ("export_failed", export_failed),
            ("invalid", invalid),
            ("shutdown", shutdown),
        ];
        let mut open = " (";
        for (reason, n) in reasons.into_iter().filter(|(_, n)| *n > 0) {
            write!(f, "{open}{reason} {n}")?;
            open = ", ";
        }
        if self.dropped.total() > 0 {
            f.write_str(")")?;
        }
        if self.pending > 0 {
            write!(f, ", {} pending", self.pending)?;
        }
        // A caller without a context is the ordinary case, not news.
        for (name, n) in self.counters.named().filter(|(name, n)| *n > 0 && *name != "missing_context") {
            write!(f, "; {name} {n}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_span_is_somewhere() {
        let ledger = Ledger::default();
        ledger.produced(10);
        ledger.delivered(3, 1);
        for reason in
            [DropReason::QueueFull, DropReason::ExportFailed, DropReason::Invalid, DropReason::Shutdown]
        {
            ledger.dropped(1, reason);
        }
        let account = ledger.account();
        assert_eq!(
            (account.exported, account.rejected, account.dropped.total(), account.pending),
            (3, 1, 4, 2)
        );
        assert!(account.is_balanced());
        assert!(!account.is_complete());
    }

    #[test]
    fn one_line_says_what_matters() {
        let ledger = Ledger::default();
        count(&ledger.counters.missing_context);
        ledger.produced(960);
        ledger.delivered(960, 0);
        assert_eq!(ledger.account().to_string(), "960 produced, 960 exported, 0 dropped");
        ledger.produced(7);
        ledger.dropped(3, DropReason::QueueFull);
        ledger.dropped(1, DropReason::Shutdown);
        count(&ledger.counters.bad_context);
        assert_eq!(
            ledger.account().to_string(),
            "967 produced, 960 exported, 4 dropped (queue_full 3, shutdown 1), 3 pending; bad_context 1"
        );
    }

    #[test]
    fn json_has_every_reason() {
        let json = serde_json::to_value(Account::default()).unwrap();
        assert_eq!(json["dropped"]["queue_full"], 0);
        assert_eq!(json["counters"]["refused_joins"], 0);
    }
}
