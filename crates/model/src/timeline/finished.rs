//! A request that has ended on a stage.

use super::*;
use crate::record::Detail;

/// What happened to one request on one stage, complete and unchangeable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedTimeline {
    timeline: StageTimeline,
    end_ns: u64,
    end: End,
}

/// A part of a request's time on a stage that has a span of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PhaseKind {
    /// QUEUED to input ready.
    InputWait,
    /// Input ready to first SCHEDULED.
    ReadyQueued,
    /// QUEUED to first SCHEDULED, where it isn't split.
    Queued,
    /// First SCHEDULED to first token.
    Prefill,
    /// First token to last token.
    Decode,
}

impl PhaseKind {
    /// The span's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InputWait => "input_wait",
            Self::ReadyQueued => "ready_queued",
            Self::Queued => "queued",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}

/// One phase, in nanoseconds of the stage's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Which.
    pub kind: PhaseKind,
    /// Its start.
    pub start: Instant,
    /// Its end.
    pub end: Instant,
    /// Whether the request ended in the middle of it.
    pub truncated: bool,
}

impl Phase {
    /// Its length in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        // Phases are made with start ≤ end on one clock.
        self.end.as_ns() - self.start.as_ns()
    }
}

/// The phases of a finished request, at most four, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    phases: [Option<Phase>; 4],
    len: usize,
}

impl Phases {
    fn push(&mut self, phase: Phase) {
        self.phases[self.len] = Some(phase);
        self.len += 1;
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none. A finished request has at least one.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The phases in order.
    pub fn iter(&self) -> impl Iterator<Item = &Phase> {
        self.phases.iter().flatten()
    }
}

impl FinishedTimeline {
    pub(super) fn new(timeline: StageTimeline, end_ns: u64, end: End) -> Self {
        Self { timeline, end_ns, end }
    }

    fn at(&self, ns: u64) -> Instant {
        #[expect(clippy::expect_used, reason = "every number here came out of an Instant of this domain")]
        Instant::from_ns(ns, self.timeline.domain).expect("an instant's own number")
    }

    /// The split of the queued time, or why there is none.
    pub fn split(&self) -> Split {
        Split::of(QueuedInterval {
            position: self.timeline.position,
            queued_ns: self.timeline.queued_ns,
            input_ready_ns: nonzero(self.timeline.input_ready_ns),
            first_scheduled_ns: nonzero(self.timeline.first_scheduled_ns),
            invalid_time: self.timeline.invalid_time,
        })
    }

    /// QUEUED to first SCHEDULED in nanoseconds; `None` if never scheduled.
    pub fn queued_ns(&self) -> Option<u64> {
        // SCHEDULED is only taken at or after QUEUED.
        nonzero(self.timeline.first_scheduled_ns).map(|s| s - self.timeline.queued_ns)
    }

    /// First SCHEDULED to first token in nanoseconds.
    pub fn prefill_ns(&self) -> Option<u64> {
        nonzero(self.timeline.first_token_ns).map(|t| t - self.timeline.first_scheduled_ns)
    }

    /// First token to last token in nanoseconds.
    pub fn decode_ns(&self) -> Option<u64> {
        nonzero(self.timeline.first_token_ns).map(|t| self.timeline.last_token_ns - t)
    }

    /// How long before the stamp the gate last saw the request unready, in nanoseconds.
    pub fn resolution_ns(&self) -> Option<u64> {
        self.timeline.resolution_ns
    }

    /// QUEUED: the start of the stage's span.
    pub fn queued(&self) -> Instant {
        self.at(self.timeline.queued_ns)
    }

    /// The end of the stage's span.
    pub fn ended(&self) -> Instant {
        self.at(self.end_ns)
    }

    /// How it ended.
    pub fn end(&self) -> End {
        self.end
    }

    /// The error, if the end is one.
    pub fn error_type(&self) -> Option<ErrorType> {
        self.end.error_type(self.timeline.is_scheduled())
    }

    /// How often it was preempted.
    pub fn preemptions(&self) -> u32 {
        self.timeline.preemptions
    }

    /// How many tokens it put out on this stage.
    pub fn tokens_output(&self) -> u32 {
        self.timeline.tokens_output
    }

    /// The phases that have a span, each exactly inside QUEUED … end. A phase that never began is
    /// not made up.
    pub fn phases(&self, detail: Detail) -> Phases {
        let mut phases = Phases::default();
        self.queued_phases(&mut phases);
        if detail == Detail::Phases {
            self.running_phases(&mut phases);
        }
        phases
    }

    fn queued_phases(&self, phases: &mut Phases) {
        let t = &self.timeline;
        let phase = |kind, start_ns, end_ns, truncated| Phase {
            kind,
            start: self.at(start_ns),
            end: self.at(end_ns),
            truncated,
        };
        let scheduled = nonzero(t.first_scheduled_ns);
        let until_ns = scheduled.unwrap_or(self.end_ns);
        let truncated = scheduled.is_none();
        let ready = nonzero(t.input_ready_ns);
        let gate_tells = t.position == Position::Gated && !t.invalid_time;
        match ready {
            Some(ready_ns) if gate_tells && (t.queued_ns..=until_ns).contains(&ready_ns) => {
                phases.push(phase(PhaseKind::InputWait, t.queued_ns, ready_ns, false));
                phases.push(phase(PhaseKind::ReadyQueued, ready_ns, until_ns, truncated));
            }
            None if gate_tells && truncated => {
                phases.push(phase(PhaseKind::InputWait, t.queued_ns, until_ns, true));
            }
            _ => phases.push(phase(PhaseKind::Queued, t.queued_ns, until_ns, truncated)),
        }
    }

    fn running_phases(&self, phases: &mut Phases) {
        let t = &self.timeline;
        let Some(scheduled_ns) = nonzero(t.first_scheduled_ns) else { return };
        let cut_short = !matches!(self.end, End::Stop | End::Length);
        match nonzero(t.first_token_ns) {
            None if cut_short => phases.push(Phase {
                kind: PhaseKind::Prefill,
                start: self.at(scheduled_ns),
                end: self.at(self.end_ns),
                truncated: true,
            }),
            // A generation stage ends without tokens: it has neither phase.
            None => {}
            Some(first_token_ns) => {
                phases.push(Phase {
                    kind: PhaseKind::Prefill,
                    start: self.at(scheduled_ns),
                    end: self.at(first_token_ns),
                    truncated: false,
                });
                phases.push(Phase {
                    kind: PhaseKind::Decode,
                    start: self.at(first_token_ns),
                    end: self.at(if cut_short { self.end_ns } else { t.last_token_ns }),
                    truncated: cut_short,
                });
            }
        }
    }
}
