//! The segments of a streaming session, as vLLM's front end counts them.

/// What a step of the session does to the request's statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// They go on.
    Nothing,
    /// They start anew: the engine has come to a new segment.
    Restart,
    /// They are complete: nothing after this counts.
    Complete,
    /// They are dropped: the front end let go of the request between two segments.
    Drop,
}

/// Where a streaming session stands. An update starts the statistics anew: at once when the engine
/// has finished the segment before it, else when it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segments {
    /// Whether further input is announced.
    open: bool,
    /// The engine has finished its segment and has no other to go on with.
    idle: bool,
    /// Updates that the engine has not come to.
    waiting: u32,
    /// The last of these is the session's last.
    last_is_final: bool,
}

impl Segments {
    pub(crate) fn new(resumable: bool) -> Self {
        Self { open: resumable, ..Self::default() }
    }

    /// Notes an update. One that is not `resumable` brings no input: it closes the session.
    pub(crate) fn updated(&mut self, resumable: bool) -> Effect {
        if resumable {
            if self.idle {
                self.idle = false;
                return Effect::Restart;
            }
            self.waiting = self.waiting.saturating_add(1);
        } else if self.idle {
            return Effect::Drop;
        } else if self.waiting > 0 {
            self.last_is_final = true;
        } else {
            self.open = false;
        }
        Effect::Nothing
    }

    /// Notes the end of a segment.
    pub(crate) fn segment_finished(&mut self) -> Effect {
        if !self.open {
            return Effect::Complete;
        }
        if self.waiting == 0 {
            self.idle = true;
            return Effect::Nothing;
        }
        self.waiting -= 1;
        self.open = !(self.waiting == 0 && self.last_is_final);
        Effect::Restart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_counts_from_when_the_engine_comes_to_it() {
        let mut session = Segments::new(true);
        assert_eq!(session.updated(true), Effect::Nothing, "the first segment is still running");
        assert_eq!(session.segment_finished(), Effect::Restart, "and now the second begins");
        assert_eq!(session.segment_finished(), Effect::Nothing, "there is nothing to go on with");
        assert_eq!(session.updated(true), Effect::Restart, "the engine was waiting for it");
        assert_eq!(session.updated(false), Effect::Nothing);
        assert_eq!(session.segment_finished(), Effect::Complete);
    }

    #[test]
    fn the_last_segment_closes_the_session() {
        let mut session = Segments::new(true);
        assert_eq!(session.updated(true), Effect::Nothing);
        assert_eq!(session.updated(true), Effect::Nothing);
        assert_eq!(session.updated(false), Effect::Nothing);
        assert_eq!(session.segment_finished(), Effect::Restart);
        assert_eq!(session.segment_finished(), Effect::Restart, "the last one begins");
        assert_eq!(session.segment_finished(), Effect::Complete);
    }

    #[test]
    fn a_session_closed_between_two_segments_has_no_figures() {
        let mut session = Segments::new(true);
        assert_eq!(session.segment_finished(), Effect::Nothing);
        assert_eq!(session.updated(false), Effect::Drop);
    }

    #[test]
    fn a_request_without_updates_has_one_segment() {
        assert_eq!(Segments::new(false).segment_finished(), Effect::Complete);
    }
}
