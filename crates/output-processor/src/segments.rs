//! The streaming updates of a request, as vLLM's front end counts them.

/// Where a streaming session stands between its segments. An update starts the statistics anew:
/// at once when the engine has finished the segment before it, else when it does.
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

    /// Notes an update; says whether statistics start anew now.
    #[must_use]
    pub(crate) fn updated(&mut self, resumable: bool) -> bool {
        match (resumable, self.idle) {
            (true, true) => {
                self.idle = false;
                true
            }
            (true, false) => {
                self.waiting = self.waiting.saturating_add(1);
                false
            }
            // The session's end brings no input, so nothing starts.
            (false, _) if self.waiting > 0 => {
                self.last_is_final = true;
                false
            }
            (false, _) => {
                self.open = false;
                false
            }
        }
    }

    /// Notes the end of a segment; says whether statistics start anew now.
    #[must_use]
    pub(crate) fn segment_finished(&mut self) -> bool {
        if !self.open {
            return false;
        }
        if self.waiting == 0 {
            self.idle = true;
            return false;
        }
        self.waiting -= 1;
        self.open = !(self.waiting == 0 && self.last_is_final);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_counts_from_when_the_engine_comes_to_it() {
        let mut session = Segments::new(true);
        assert!(!session.updated(true), "the first segment is still running");
        assert!(session.segment_finished(), "and now the second begins");
        assert!(!session.segment_finished(), "nothing to go on with");
        assert!(session.updated(true), "the engine was waiting for it");
        assert!(!session.updated(false), "the end of the session brings no input");
        assert!(!session.segment_finished());
    }

    #[test]
    fn the_last_segment_closes_the_session() {
        let mut session = Segments::new(true);
        assert!(!session.updated(true));
        assert!(!session.updated(false));
        assert!(session.segment_finished());
        assert_eq!(session, Segments { last_is_final: true, ..Segments::default() });
        assert!(!session.segment_finished());
    }

    #[test]
    fn a_request_without_updates_has_one_segment() {
        let mut session = Segments::new(false);
        assert!(!session.segment_finished());
        assert_eq!(session, Segments::default());
    }
}
