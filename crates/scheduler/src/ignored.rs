//! What was ignored, counted by reason.

/// Calls that had no effect. None of them is an error: a client may abort what has just ended,
/// and a connector may deliver what nobody waits for any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// The handle's request is gone (or was another scheduler's).
    pub unknown_request: u64,
    /// A chunk for a stage that receives none, or a payload for one that takes chunks.
    pub unexpected_input: u64,
    /// A chunk after the one that finished its request, or a second payload.
    pub late_input: u64,
    /// A streaming update of a request that is no session.
    pub not_a_session: u64,
    /// `grammar_ready` for a request that waits for no grammar.
    pub no_grammar: u64,
}

impl Ignored {
    /// All of them.
    pub const fn total(&self) -> u64 {
        let Self { unknown_request, unexpected_input, late_input, not_a_session, no_grammar } = self;
        *unknown_request + *unexpected_input + *late_input + *not_a_session + *no_grammar
    }
}
