//! What a gRPC receiver's answer means. Pure, so that no test of it needs a server.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use tonic::{Code, Response, Status};
use tonic_types::StatusExt as _;

use crate::export::outcome::{Outcome, OutcomeKind};
use crate::export::receiver::Secrets;
use crate::export::trouble;

/// How tonic's own status begins where an answer is longer than we take.
const TOO_LARGE: &str = "Error, decoded message length too large";

/// What became of a batch of `len` spans; `None` where there was no answer in time.
pub(super) fn outcome(
    answer: Option<Result<Response<ExportTraceServiceResponse>, Status>>,
    len: u64,
    secrets: &Secrets,
) -> Outcome {
    match answer {
        // The receiver may have taken it, and would count it twice.
        None => Outcome::lost(OutcomeKind::Failed, "no answer in time"),
        Some(Ok(response)) => match response.into_inner().partial_success {
            None => Outcome::delivered(len, 0, ""),
            Some(partial) => {
                let rejected = u64::try_from(partial.rejected_spans).unwrap_or(0);
                Outcome::delivered(len, rejected, secrets.safe(&partial.error_message))
            }
        },
        Some(Err(status)) => refused(&status, secrets),
    }
}

fn refused(status: &Status, secrets: &Secrets) -> Outcome {
    if let Some(source) = std::error::Error::source(status) {
        // Not the receiver's words, but the connection's: it could not be made, or ended without
        // an answer, and OTLP asks to send again.
        return Outcome::lost(OutcomeKind::Retryable, secrets.safe(&trouble::describe(source)));
    }
    if status.message().starts_with(TOO_LARGE) {
        return Outcome::lost(OutcomeKind::Failed, "the receiver's answer is too long to be one");
    }
    let retry_after = retry_info(status);
    let kind = match status.code() {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => OutcomeKind::Retryable,
        // Without a time it is no overload, but a quota or a message that is too large.
        Code::ResourceExhausted if retry_after.is_some() => OutcomeKind::Retryable,
        Code::InvalidArgument => OutcomeKind::Bad,
        _ => OutcomeKind::Failed,
    };
    let hint = match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => " (look at OTEL_EXPORTER_OTLP_HEADERS)",
        Code::Unimplemented => {
            " (does the address belong to a receiver of OTLP/gRPC? \
             if so, look at OTEL_EXPORTER_OTLP_COMPRESSION)"
        }
        _ => "",
    };
    let words = secrets.safe(status.message());
    let separator = if words.is_empty() { "" } else { ": " };
    let message = format!("the receiver answered {:?}{separator}{words}{hint}", status.code());
    Outcome::refused(kind, retry_after, message)
}

/// How long the receiver asks to be left alone.
fn retry_info(status: &Status) -> Option<Duration> {
    status.get_details_retry_info()?.retry_delay
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{OtlpOutput, Secret};
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;
    use tonic_types::ErrorDetails;

    fn of(status: Status) -> Outcome {
        outcome(Some(Err(status)), 10, &Secrets::default())
    }

    #[test]
    fn codes() {
        use OutcomeKind::*;
        let table = [
            (Code::Cancelled, Retryable),
            (Code::Unknown, Failed),
            (Code::InvalidArgument, Bad),
            (Code::DeadlineExceeded, Retryable),
            (Code::NotFound, Failed),
            (Code::AlreadyExists, Failed),
            (Code::PermissionDenied, Failed),
            (Code::ResourceExhausted, Failed),
            (Code::FailedPrecondition, Failed),
            (Code::Aborted, Retryable),
            (Code::OutOfRange, Retryable),
            (Code::Unimplemented, Failed),
            (Code::Internal, Failed),
            (Code::Unavailable, Retryable),
            (Code::DataLoss, Retryable),
            (Code::Unauthenticated, Failed),
        ];
        for (code, kind) in table {
            let outcome = of(Status::new(code, ""));
            assert_eq!((outcome.kind, outcome.retry_after), (kind, None), "{code:?}");
        }
    }

    #[test]
    fn retry_info_makes_exhaustion_retryable_and_is_honoured_elsewhere_too() {
        let wish = Some(Duration::from_millis(1_500));
        let with = |code| Status::with_error_details(code, "", ErrorDetails::with_retry_info(wish));
        for code in [Code::ResourceExhausted, Code::Unavailable] {
            let outcome = of(with(code));
            assert_eq!((outcome.kind, outcome.retry_after), (OutcomeKind::Retryable, wish), "{code:?}");
        }
        assert_eq!(of(with(Code::InvalidArgument)).kind, OutcomeKind::Bad);
        let no_time = Status::with_error_details(
            Code::ResourceExhausted,
            "",
            ErrorDetails::with_quota_failure_violation("tenant", "too many spans"),
        );
        assert_eq!(of(no_time).kind, OutcomeKind::Failed);
        let garbage = Status::with_details(Code::ResourceExhausted, "", vec![0xff; 9].into());
        assert_eq!(of(garbage).kind, OutcomeKind::Failed);
    }

    #[test]
    fn partial_success() {
        for (rejected_spans, accepted, rejected) in [(0, 10, 0), (3, 7, 3), (11, 0, 10), (-1, 10, 0)] {
            let partial_success =
                Some(ExportTracePartialSuccess { rejected_spans, error_message: "too\nold".to_owned() });
            let answer = Response::new(ExportTraceServiceResponse { partial_success });
            let outcome = outcome(Some(Ok(answer)), 10, &Secrets::default());
            assert_eq!((outcome.accepted, outcome.rejected), (accepted, rejected));
            assert_eq!(outcome.message, "tooold");
        }
    }

    #[test]
    fn silence_is_no_reason_to_send_again() {
        assert_eq!(outcome(None, 10, &Secrets::default()).kind, OutcomeKind::Failed);
        let huge = Status::out_of_range(format!("{TOO_LARGE}: found 99 bytes, the limit is: 9 bytes"));
        assert_eq!(of(huge).kind, OutcomeKind::Failed);
    }

    #[test]
    fn a_lost_connection_is() {
        let error: Box<dyn std::error::Error + Send + Sync> = "connection reset".into();
        let outcome = of(Status::from_error(error));
        assert_eq!((outcome.kind, &*outcome.message), (OutcomeKind::Retryable, "connection reset"));
    }

    #[test]
    fn a_message_shows_no_secret() {
        let mut output = OtlpOutput::grpc("http://c:4317");
        output.headers.push(("authorization".to_owned(), Secret::new("Bearer hunter2")));
        let secrets = crate::export::receiver::Receiver::check(&output).unwrap().secrets;
        let status = Status::unauthenticated("Bearer hunter2 has expired");
        let message = outcome(Some(Err(status)), 1, &secrets).message;
        assert_eq!(
            message,
            "the receiver answered Unauthenticated: ••• has expired (look at OTEL_EXPORTER_OTLP_HEADERS)"
        );
    }
}
