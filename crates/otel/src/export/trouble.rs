//! What went wrong with a connection, in words, and what that usually means.

use std::error::Error;
use std::io;

/// An error with all of its causes, since the clients' own texts stop at "error sending request",
/// and a hint where the cause is a usual one.
pub(super) fn describe(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut hint = hint(error);
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors repeat their cause's text as their own.
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        hint = hint.or_else(|| self::hint(cause));
        source = cause.source();
    }
    match hint {
        Some(hint) => format!("{text} ({hint})"),
        None => text,
    }
}

/// What one of the causes usually means.
fn hint(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return tls_hint(error);
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        // An I/O error hides the error it was made of from `source`; that may be another one.
        if let Some(inner) = error.get_ref() {
            return hint(inner);
        }
        if error.kind() == io::ErrorKind::ConnectionRefused {
            return Some("nothing listens there; is the receiver running, and is the port right?");
        }
    }
    let text = error.to_string();
    let usual = [
        ("failed to lookup address", "the receiver's name is not known here"),
        ("tls handshake eof", "does the receiver speak TLS? if not, use http://"),
        ("invalid HTTP version", "the receiver speaks gRPC or TLS; look at protocol, scheme and port"),
        (
            "unexpected message from connection",
            "does the receiver speak gRPC? look at protocol, scheme and port",
        ),
        ("frame with invalid size", "the receiver speaks HTTP/1.1 or TLS; look at protocol, scheme and port"),
        ("stream closed because of a broken pipe", "does the receiver speak gRPC? look at protocol and port"),
        ("unspecific protocol error", "does the receiver speak gRPC? look at protocol, scheme and port"),
    ];
    usual.into_iter().find(|(words, _)| text.contains(words)).map(|(_, hint)| hint)
}

fn tls_hint(error: &rustls::Error) -> Option<&'static str> {
    use rustls::{AlertDescription, CertificateError, Error};
    match error {
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => Some("the certificate is for another name than the address has"),
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            Some("look at OTEL_EXPORTER_OTLP_CERTIFICATE")
        }
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            Some("the certificate has expired")
        }
        Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::HandshakeFailure,
        ) => Some("look at OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and its key"),
        Error::InvalidMessage(_) => Some("the receiver does not speak TLS; use http://"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layered {
        text: &'static str,
        source: Option<Box<dyn Error + Send + Sync>>,
    }

    fn layered(text: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Layered {
        Layered { text, source: Some(source.into()) }
    }

    #[test]
    fn causes_are_told_once_and_the_usual_ones_explained() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let text = describe(&layered("error sending request", layered("connect", refused)));
        assert!(text.starts_with("error sending request: connect: connection refused ("), "{text}");
        assert!(text.contains("nothing listens there"), "{text}");

        let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let hidden = io::Error::new(io::ErrorKind::InvalidData, unknown);
        assert!(describe(&hidden).ends_with("(look at OTEL_EXPORTER_OTLP_CERTIFICATE)"));

        assert_eq!(describe(&layered("same", "same")), "same");
        assert_eq!(describe(&layered("a", "b")), "a: b");
    }
}
