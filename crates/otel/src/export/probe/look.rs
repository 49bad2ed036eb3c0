//! A connection, looked at step by step: name, port, TLS, and what is spoken there.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConnection, StreamOwned};

use super::ProbeCause;
use crate::config::Protocol;
use crate::export::receiver::Receiver;

/// How far the look got.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    NoAddress(String),
    Refused,
    ConnectTimedOut,
    NotConnected(String),
    TlsFailed(ProbeCause, String),
    /// No TLS, where we spoke it.
    NotTls,
    /// TLS, where we did not speak it.
    Tls,
    Http1,
    Http2,
    Garbage,
    Closed,
    Silent,
}

/// An HTTP/2 client's first words, with empty settings. A server of HTTP/2 answers with its own
/// settings, one of HTTP/1.1 with a refusal that begins with `HTTP/1`.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The head of an HTTP/2 frame.
const FRAME_HEAD_BYTES: usize = 9;

/// Looks at the receiver; each step takes `step` at the longest, name resolution aside.
pub(super) fn at(receiver: &Receiver, protocol: Protocol, step: Duration) -> Seen {
    // Zero is refused as a socket's timeout.
    let step = step.max(Duration::from_millis(1));
    let tcp = match connect(receiver, step) {
        Ok(tcp) => tcp,
        Err(seen) => return seen,
    };
    if receiver.url.scheme() == "https" { over_tls(tcp, receiver, protocol) } else { greet(tcp, protocol) }
}

fn connect(receiver: &Receiver, step: Duration) -> Result<TcpStream, Seen> {
    let addresses = receiver.url.socket_addrs(|| None).map_err(|error| Seen::NoAddress(error.to_string()))?;
    let mut last = Seen::NoAddress("it has no address".to_owned());
    for address in addresses {
        let connected = TcpStream::connect_timeout(&address, step).and_then(|tcp| {
            tcp.set_read_timeout(Some(step))?;
            tcp.set_write_timeout(Some(step))?;
            Ok(tcp)
        });
        match connected {
            Ok(tcp) => return Ok(tcp),
            Err(error) => {
                last = match error.kind() {
                    io::ErrorKind::ConnectionRefused => Seen::Refused,
                    io::ErrorKind::TimedOut => Seen::ConnectTimedOut,
                    _ => Seen::NotConnected(error.to_string()),
                }
            }
        }
    }
    Err(last)
}

fn over_tls(mut tcp: TcpStream, receiver: &Receiver, protocol: Protocol) -> Seen {
    let mut tls = receiver.tls.clone();
    tls.alpn_protocols = vec![match protocol {
        Protocol::HttpProtobuf => b"http/1.1".to_vec(),
        Protocol::Grpc => b"h2".to_vec(),
    }];
    let host = receiver.url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let failed = |why: String| Seen::TlsFailed(ProbeCause::TlsFailed, why);
    let name = match ServerName::try_from(host) {
        Ok(name) => name,
        Err(error) => return failed(error.to_string()),
    };
    let mut connection = match ClientConnection::new(Arc::new(tls), name) {
        Ok(connection) => connection,
        Err(error) => return failed(error.to_string()),
    };
    while connection.is_handshaking() {
        if let Err(error) = connection.complete_io(&mut tcp) {
            return of_error(&error, protocol);
        }
    }
    greet(StreamOwned::new(connection, tcp), protocol)
}

/// Says an HTTP/2 client's first words, and looks at the first ones of the answer.
fn greet(mut stream: impl Read + Write, protocol: Protocol) -> Seen {
    if let Err(error) = stream.write_all(PREFACE).and_then(|()| stream.flush()) {
        return of_error(&error, protocol);
    }
    let mut answer = Vec::new();
    let mut part = [0; FRAME_HEAD_BYTES];
    while answer.len() < FRAME_HEAD_BYTES {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(n) => answer.extend_from_slice(&part[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if answer.is_empty() => return of_error(&error, protocol),
            Err(_) => break,
        }
    }
    of_words(&answer)
}

fn of_words(words: &[u8]) -> Seen {
    match words {
        [] => Seen::Closed,
        [b'H', b'T', b'T', b'P', b'/', ..] => Seen::Http1,
        // A frame of settings, on stream 0.
        [_, _, _, 4, _, 0, 0, 0, 0, ..] => Seen::Http2,
        // A TLS record that holds an alert.
        [0x15, 3, ..] => Seen::Tls,
        _ => Seen::Garbage,
    }
}

fn of_error(error: &io::Error, protocol: Protocol) -> Seen {
    if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return of_tls_error(error, protocol);
    }
    match error.kind() {
        // The operating systems do not agree on the name of a socket's timeout.
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Seen::Silent,
        _ => Seen::Closed,
    }
}

fn of_tls_error(error: &rustls::Error, protocol: Protocol) -> Seen {
    use rustls::Error;
    let cause = match error {
        Error::InvalidMessage(_) => return Seen::NotTls,
        Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            return match protocol {
                Protocol::HttpProtobuf => Seen::Http2,
                Protocol::Grpc => Seen::Http1,
            };
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => ProbeCause::TlsName,
        // An authority of the issuer's name is trusted, but with another key: it was made anew.
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            ProbeCause::TlsUnknownIssuer
        }
        Error::InvalidCertificate(_) => ProbeCause::TlsCertificate,
        _ => ProbeCause::TlsFailed,
    };
    Seen::TlsFailed(cause, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words() {
        let table: [(&[u8], Seen); 9] = [
            (b"", Seen::Closed),
            (b"HTTP/1.1 4", Seen::Http1),
            (b"HTTP/1.0 400 Bad", Seen::Http1),
            (b"\0\0\0\x04\0\0\0\0\0", Seen::Http2),
            (b"\0\0\x12\x04\0\0\0\0\0", Seen::Http2),
            (b"\0\0\0\x04\0\0\0\0\x01", Seen::Garbage),
            (b"\x15\x03\x01\0\x02\x02\x46", Seen::Tls),
            (b"SSH-2.0-Op", Seen::Garbage),
            (b"\0", Seen::Garbage),
        ];
        for (words, seen) in table {
            assert_eq!(of_words(words), seen, "{words:?}");
        }
    }

    #[test]
    fn tls_errors() {
        let of = |error| of_tls_error(&error, Protocol::HttpProtobuf);
        let cause = |error| match of(error) {
            Seen::TlsFailed(cause, _) => cause,
            other => panic!("{other:?}"),
        };
        use rustls::{AlertDescription, Error, InvalidMessage};
        assert_eq!(of(Error::InvalidMessage(InvalidMessage::InvalidContentType)), Seen::NotTls);
        assert_eq!(of(Error::AlertReceived(AlertDescription::NoApplicationProtocol)), Seen::Http2);
        let certificate = |error| cause(Error::InvalidCertificate(error));
        assert_eq!(certificate(CertificateError::NotValidForName), ProbeCause::TlsName);
        assert_eq!(certificate(CertificateError::UnknownIssuer), ProbeCause::TlsUnknownIssuer);
        assert_eq!(certificate(CertificateError::Expired), ProbeCause::TlsCertificate);
        assert_eq!(cause(Error::AlertReceived(AlertDescription::CertificateRequired)), ProbeCause::TlsFailed);
    }
}
