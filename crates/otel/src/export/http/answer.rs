//! What a receiver's answer means. Pure, so that no test of it needs a server.

use std::time::{Duration, SystemTime};

use ::http::StatusCode;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;

use crate::export::outcome::{Outcome, OutcomeKind};
use crate::export::receiver::Secrets;

/// What was read of an answer.
pub(super) struct Answer<'a> {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: &'a [u8],
}

/// The meaning of `Retry-After`: seconds, or a date.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or(Duration::ZERO))
}

/// What became of a batch of `len` spans.
pub(super) fn outcome(answer: Answer<'_>, len: u64, secrets: &Secrets) -> Outcome {
    let Answer { status, retry_after, body } = answer;
    if status.is_success() {
        return delivered(body, len, secrets);
    }
    let kind = match status.as_u16() {
        429 | 502 | 503 | 504 => OutcomeKind::Retryable,
        // Malformed, too large, or not to be processed as it is.
        400 | 413 | 422 => OutcomeKind::Bad,
        _ => OutcomeKind::Failed,
    };
    // The body is left out: some receivers echo the request's headers.
    let hint = match status.as_u16() {
        400 => " (if for every export: is it a receiver of OTLP/HTTP, and does it want https://?)",
        300..=399 => " (redirects are not followed: set the address it leads to)",
        401 | 403 => " (look at OTEL_EXPORTER_OTLP_HEADERS)",
        404 => " (look at the address's path; OTLP/HTTP is usually at /v1/traces)",
        415 => " (look at OTEL_EXPORTER_OTLP_PROTOCOL and OTEL_EXPORTER_OTLP_COMPRESSION)",
        _ => "",
    };
    Outcome::refused(kind, retry_after, format!("the receiver answered {status}{hint}"))
}

fn delivered(body: &[u8], len: u64, secrets: &Secrets) -> Outcome {
    // A 2xx without a message that can be read is a success all the same.
    let partial = ExportTraceServiceResponse::decode(body).ok().and_then(|answer| answer.partial_success);
    let Some(partial) = partial else { return Outcome::delivered(len, 0, "") };
    let rejected = u64::try_from(partial.rejected_spans).unwrap_or(0);
    Outcome::delivered(len, rejected, secrets.safe(&partial.error_message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    fn partial(rejected_spans: i64) -> Vec<u8> {
        let partial_success =
            Some(ExportTracePartialSuccess { rejected_spans, error_message: "too\nold".to_owned() });
        ExportTraceServiceResponse { partial_success }.encode_to_vec()
    }

    #[test]
    fn answers() {
        use OutcomeKind::*;
        let of = |status: u16, body: &[u8]| {
            let status = StatusCode::from_u16(status).unwrap();
            let o = outcome(Answer { status, retry_after: None, body }, 10, &Secrets::default());
            (o.kind, o.accepted, o.rejected)
        };
        let table: [(u16, Vec<u8>, _); 19] = [
            (200, vec![], (Delivered, 10, 0)),
            (202, vec![], (Delivered, 10, 0)),
            (200, b"<html>garbage".to_vec(), (Delivered, 10, 0)),
            (200, partial(0), (Delivered, 10, 0)),
            (200, partial(3), (Delivered, 7, 3)),
            (200, partial(11), (Delivered, 0, 10)),
            (200, partial(-1), (Delivered, 10, 0)),
            (301, vec![], (Failed, 0, 0)),
            (400, partial(3), (Bad, 0, 0)),
            (401, vec![], (Failed, 0, 0)),
            (404, vec![], (Failed, 0, 0)),
            (413, vec![], (Bad, 0, 0)),
            (415, vec![], (Failed, 0, 0)),
            (422, vec![], (Bad, 0, 0)),
            (429, vec![], (Retryable, 0, 0)),
            (500, vec![], (Failed, 0, 0)),
            (502, vec![], (Retryable, 0, 0)),
            (503, vec![], (Retryable, 0, 0)),
            (504, vec![], (Retryable, 0, 0)),
        ];
        for (status, body, expected) in table {
            assert_eq!(of(status, &body), expected, "{status} {body:?}");
        }
    }

    #[test]
    fn retry_after_in_seconds_or_as_a_date() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2015 07:28:00 GMT").unwrap();
        let table = [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Wed, 21 Oct 2015 07:28:30 GMT", Some(30)),
            ("Wed, 21 Oct 2015 07:27:00 GMT", Some(0)),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ];
        for (value, expected) in table {
            assert_eq!(retry_after(value, now), expected.map(Duration::from_secs), "{value:?}");
        }
        assert_eq!(retry_after(&"9".repeat(40), now), Some(Duration::from_secs(u64::MAX)));
    }
}
