//! What was told of a request, as a list, and every figure worked out of that list by the rules' own words.

use stagespan_model::timeline::Ignored;
use stagespan_model::{Absent, Instant, PhaseKind, Position, Split, TimelineEvent};

#[derive(Debug)]
pub(crate) struct Told {
    position: Position,
    queued: Instant,
    pub(crate) queued_ns: u64,
    pub(crate) accepted: Vec<TimelineEvent>,
}

impl Told {
    pub(crate) fn new(position: Position, queued: Instant) -> Self {
        Self { position, queued, queued_ns: queued.as_ns(), accepted: Vec::new() }
    }

    fn times<'a>(
        &'a self,
        time: impl Fn(&TimelineEvent) -> Option<Instant> + 'a,
    ) -> impl Iterator<Item = u64> + 'a {
        self.accepted.iter().filter_map(time).map(Instant::as_ns)
    }

    fn scheduled(&self) -> impl Iterator<Item = u64> + '_ {
        self.times(|event| match event {
            TimelineEvent::Scheduled(at) => Some(*at),
            _ => None,
        })
    }

    fn tokens_at(&self) -> impl Iterator<Item = u64> + '_ {
        self.times(|event| match event {
            TimelineEvent::Tokens { at, .. } => Some(*at),
            _ => None,
        })
    }

    /// The latest of what the engine's own events say.
    fn last_event_ns(&self) -> u64 {
        let times = self.times(|event| match event {
            TimelineEvent::Queued(at) | TimelineEvent::Scheduled(at) | TimelineEvent::Preempted(at) => {
                Some(*at)
            }
            _ => None,
        });
        times.chain([self.queued_ns]).max().unwrap()
    }

    fn ready(&self) -> Option<(u64, Option<u64>)> {
        self.accepted.iter().find_map(|event| match event {
            TimelineEvent::InputReady { at, resolution_ns } => Some((at.as_ns(), *resolution_ns)),
            _ => None,
        })
    }

    pub(crate) fn first_scheduled_ns(&self) -> Option<u64> {
        self.scheduled().next()
    }

    /// Whether an event is taken, or why it is not.
    pub(crate) fn expected(&self, event: TimelineEvent) -> Result<(), Ignored> {
        let ordered = |at: Instant, earliest_ns: u64| {
            if at.domain() != self.queued.domain() {
                Err(Ignored::ForeignClock)
            } else if at.as_ns() < earliest_ns {
                Err(Ignored::OutOfOrder)
            } else {
                Ok(())
            }
        };
        match event {
            TimelineEvent::Queued(at) | TimelineEvent::Scheduled(at) => ordered(at, self.last_event_ns()),
            TimelineEvent::InputReady { at, .. } => {
                ordered(at, 0)?;
                if self.ready().is_some() { Err(Ignored::Repeated) } else { Ok(()) }
            }
            TimelineEvent::Preempted(at) => {
                ordered(at, self.last_event_ns())?;
                self.first_scheduled_ns().map(drop).ok_or(Ignored::OutOfOrder)
            }
            TimelineEvent::Tokens { at, .. } => {
                let scheduled_ns = self.first_scheduled_ns().ok_or(Ignored::OutOfOrder)?;
                ordered(at, self.tokens_at().last().unwrap_or(0).max(scheduled_ns))
            }
            TimelineEvent::InvalidTime => Ok(()),
        }
    }

    pub(crate) fn waiting_for(&self) -> Option<PhaseKind> {
        match (self.first_scheduled_ns(), self.position, self.ready()) {
            (Some(_), ..) => None,
            (None, Position::Gated, None) => Some(PhaseKind::InputWait),
            (None, Position::Gated, Some(_)) => Some(PhaseKind::ReadyQueued),
            (None, Position::First | Position::Ungated, _) => Some(PhaseKind::Queued),
        }
    }

    pub(crate) fn split(&self) -> Split {
        let invalid = self.accepted.contains(&TimelineEvent::InvalidTime);
        let absent = |reason| Split::Absent(reason);
        match (self.position, self.ready(), self.first_scheduled_ns()) {
            (Position::First, ..) => absent(Absent::FirstStage),
            (Position::Ungated, ..) => absent(Absent::Ungated),
            _ if invalid => absent(Absent::InvalidTime),
            (_, None, _) => absent(Absent::NotObserved),
            (_, Some(_), None) => absent(Absent::NotScheduled),
            (_, Some((ready_ns, _)), Some(scheduled_ns)) => {
                if self.queued_ns <= ready_ns && ready_ns <= scheduled_ns {
                    Split::Measured {
                        input_wait_ns: ready_ns - self.queued_ns,
                        ready_queued_ns: scheduled_ns - ready_ns,
                    }
                } else {
                    absent(Absent::OutOfInterval)
                }
            }
        }
    }

    pub(crate) fn prefill_and_decode_ns(&self) -> (Option<u64>, Option<u64>) {
        let (first, last) = (self.tokens_at().next(), self.tokens_at().last());
        let prefill = first.zip(self.first_scheduled_ns()).map(|(first, scheduled)| first - scheduled);
        (prefill, first.zip(last).map(|(first, last)| last - first))
    }

    pub(crate) fn resolution_ns(&self) -> Option<u64> {
        self.ready()?.1
    }

    pub(crate) fn preemptions(&self) -> u32 {
        self.accepted.iter().filter(|event| matches!(event, TimelineEvent::Preempted(_))).count() as u32
    }

    pub(crate) fn tokens(&self) -> u32 {
        self.accepted.iter().fold(0_u32, |sum, event| match event {
            TimelineEvent::Tokens { count, .. } => sum.saturating_add(*count),
            _ => sum,
        })
    }

    /// When a request ended that was said to end at `at`.
    pub(crate) fn ended_ns(&self, at: Instant) -> u64 {
        let said_ns = if at.domain() == self.queued.domain() { at.as_ns() } else { 0 };
        said_ns.max(self.last_event_ns()).max(self.tokens_at().last().unwrap_or(0))
    }
}
