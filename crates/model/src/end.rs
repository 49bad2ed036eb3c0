//! How a request ended on a stage.

/// vLLM's finish reason, with its numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FinishReason {
    /// A stop token or stop string, or the last chunk of a generation stage.
    Stop = 0,
    /// `max_tokens` or the model's length was reached.
    Length = 1,
    /// The client took it back.
    Abort = 2,
    /// A retryable failure inside the engine.
    Error = 3,
    /// A repetitive pattern was detected.
    Repetition = 4,
}

impl FinishReason {
    /// The reason with vLLM's number `code`.
    pub const fn from_code(code: u64) -> Option<Self> {
        match code {
            0 => Some(Self::Stop),
            1 => Some(Self::Length),
            2 => Some(Self::Abort),
            3 => Some(Self::Error),
            4 => Some(Self::Repetition),
            _ => None,
        }
    }

    /// vLLM's number.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// How a request ended on a stage: `stagespan.end`, with its error where it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Finished by a stop condition.
    Stop,
    /// Finished at its length.
    Length,
    /// Taken back. A failure only before the first SCHEDULED: later it is how a stop string found
    /// by the front end, or the end of a streaming session, arrives.
    Aborted,
    /// The input gate gave up waiting for the input.
    Timeout,
    /// The connector that should have brought the input failed.
    ConnectorFailure,
    /// The engine failed.
    EngineError,
    /// Too large for this stage ever to run.
    Rejected,
    /// The stage was shut down with the request in flight.
    Shutdown,
}

/// The value of `error.type` on a failed span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorType {
    /// The input gate's timeout.
    InputTimeout,
    /// The connector failed.
    ConnectorFailure,
    /// The request was too large for the stage.
    Rejected,
    /// The stage was shut down with the request in flight.
    Shutdown,
    /// The engine failed.
    EngineError,
    /// Aborted before it was ever scheduled.
    Aborted,
    /// The stage's process died (on the `request` span only: such a stage has no span).
    StageLost,
}

impl ErrorType {
    /// The attribute's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InputTimeout => "input_timeout",
            Self::ConnectorFailure => "connector_failure",
            Self::Rejected => "rejected",
            Self::Shutdown => "shutdown",
            Self::EngineError => "engine_error",
            Self::Aborted => "aborted",
            Self::StageLost => "stage_lost",
        }
    }
}

impl End {
    /// Every way to end.
    pub const ALL: [Self; 8] = [
        Self::Stop,
        Self::Length,
        Self::Aborted,
        Self::Timeout,
        Self::ConnectorFailure,
        Self::EngineError,
        Self::Rejected,
        Self::Shutdown,
    ];

    /// The value of `stagespan.end`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Aborted => "aborted",
            Self::Timeout => "timeout",
            Self::ConnectorFailure | Self::EngineError => "error",
            Self::Rejected => "rejected",
            Self::Shutdown => "shutdown",
        }
    }

    /// The error of this end, given whether the request had been scheduled before.
    pub const fn error_type(self, scheduled: bool) -> Option<ErrorType> {
        match self {
            Self::Stop | Self::Length => None,
            Self::Aborted if scheduled => None,
            Self::Aborted => Some(ErrorType::Aborted),
            Self::Timeout => Some(ErrorType::InputTimeout),
            Self::ConnectorFailure => Some(ErrorType::ConnectorFailure),
            Self::EngineError => Some(ErrorType::EngineError),
            Self::Rejected => Some(ErrorType::Rejected),
            Self::Shutdown => Some(ErrorType::Shutdown),
        }
    }

    /// What the engine's wire says of this end: its finish reason, and the `stop_reason` that
    /// tells apart what vLLM's finish reasons don't. An ordinary end leaves `stop_reason` free.
    pub const fn to_wire(self) -> (FinishReason, Option<&'static str>) {
        match self {
            Self::Stop => (FinishReason::Stop, None),
            Self::Length => (FinishReason::Length, None),
            Self::Aborted => (FinishReason::Abort, None),
            Self::Timeout => (FinishReason::Error, Some("input_timeout")),
            Self::ConnectorFailure => (FinishReason::Error, Some("connector_failure")),
            Self::EngineError => (FinishReason::Error, None),
            Self::Rejected => (FinishReason::Error, Some("rejected")),
            Self::Shutdown => (FinishReason::Abort, Some("shutdown")),
        }
    }

    /// The end that the engine's wire tells of. Of an unknown `stop_reason` only the finish
    /// reason counts.
    ///
    /// Beside the words of [`End::to_wire`] the sentences of vLLM-Omni 0.32 are known: a gate's
    /// timeout ("Timed out waiting for connector input …") and a chunk that no step can hold
    /// ("async chunk requires … tokens"). Its connector failures arrive as plain aborts.
    pub fn from_wire(finish_reason: FinishReason, stop_reason: Option<&str>) -> Self {
        match (finish_reason, stop_reason) {
            (FinishReason::Stop | FinishReason::Repetition, _) => Self::Stop,
            (FinishReason::Length, _) => Self::Length,
            (FinishReason::Abort, Some("shutdown")) => Self::Shutdown,
            (FinishReason::Abort, _) => Self::Aborted,
            (FinishReason::Error, Some("input_timeout")) => Self::Timeout,
            (FinishReason::Error, Some("connector_failure")) => Self::ConnectorFailure,
            (FinishReason::Error, Some("rejected")) => Self::Rejected,
            (FinishReason::Error, Some(text))
                if text.starts_with("Timed out waiting for connector input") =>
            {
                Self::Timeout
            }
            (FinishReason::Error, Some(text)) if text.starts_with("async chunk requires") => Self::Rejected,
            (FinishReason::Error, _) => Self::EngineError,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_survives_the_wire() {
        for end in End::ALL {
            let (finish_reason, stop_reason) = end.to_wire();
            assert_eq!(End::from_wire(finish_reason, stop_reason), end);
            assert_eq!(FinishReason::from_code(finish_reason.code().into()), Some(finish_reason));
        }
        assert_eq!(FinishReason::from_code(5), None);
    }

    #[test]
    fn sentences_of_vllm_omni() {
        let error = |text| End::from_wire(FinishReason::Error, Some(text));
        assert_eq!(error("Timed out waiting for connector input after 600s"), End::Timeout);
        assert_eq!(
            error("async chunk requires 900 tokens, but max_num_scheduled_tokens is 512"),
            End::Rejected
        );
        assert_eq!(error("streaming_context_overflow: 9000 > 8192"), End::EngineError);
        assert_eq!(End::from_wire(FinishReason::Repetition, None), End::Stop);
    }

    #[test]
    fn an_abort_is_a_failure_only_before_the_first_scheduled() {
        assert_eq!(End::Aborted.error_type(false), Some(ErrorType::Aborted));
        assert_eq!(End::Aborted.error_type(true), None);
        for end in End::ALL.into_iter().filter(|e| *e != End::Aborted) {
            assert_eq!(end.error_type(true), end.error_type(false));
        }
        assert_eq!(End::Timeout.error_type(true).map(ErrorType::as_str), Some("input_timeout"));
    }
}
