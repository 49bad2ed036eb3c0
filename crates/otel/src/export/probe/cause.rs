//! The cases that contacting a receiver can come to.

/// Which case it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeCause {
    /// The receiver takes spans.
    Ok,
    /// The output is a file or stdout: there is nobody to contact.
    NoReceiver,
    /// The configuration can't be used at all, such as a certificate that is no file.
    Unusable,
    /// The receiver's name has no address.
    NameNotResolved,
    /// Nothing listens on the port.
    Refused,
    /// No connection, for another reason.
    NotReached,
    /// No connection, or no answer, in time.
    TimedOut,
    /// The certificate is another name's.
    TlsName,
    /// The certificate's issuer is not trusted.
    TlsUnknownIssuer,
    /// The certificate is no good for another reason, such as its age.
    TlsCertificate,
    /// TLS failed for another reason, such as that a certificate is asked of us.
    TlsFailed,
    /// `https://` to a port without TLS.
    NotTls,
    /// `http://` to a port with TLS.
    ExpectsTls,
    /// Who we say we are doesn't suffice: 401, 403, and their like in gRPC.
    Unauthorized,
    /// No such path, or no such gRPC service.
    NotFound,
    /// Another answer than yes.
    Answered,
    /// gRPC where HTTP was expected.
    SpeaksGrpc,
    /// HTTP where gRPC was expected.
    SpeaksHttp,
    /// Neither HTTP nor gRPC.
    NotOtlp,
    /// The connection ended without an answer.
    NoAnswer,
}

impl ProbeCause {
    /// Its name, for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NoReceiver => "no_receiver",
            Self::Unusable => "unusable",
            Self::NameNotResolved => "name_not_resolved",
            Self::Refused => "refused",
            Self::NotReached => "not_reached",
            Self::TimedOut => "timed_out",
            Self::TlsName => "tls_name",
            Self::TlsUnknownIssuer => "tls_unknown_issuer",
            Self::TlsCertificate => "tls_certificate",
            Self::TlsFailed => "tls_failed",
            Self::NotTls => "not_tls",
            Self::ExpectsTls => "expects_tls",
            Self::Unauthorized => "unauthorized",
            Self::NotFound => "not_found",
            Self::Answered => "answered",
            Self::SpeaksGrpc => "speaks_grpc",
            Self::SpeaksHttp => "speaks_http",
            Self::NotOtlp => "not_otlp",
            Self::NoAnswer => "no_answer",
        }
    }

    pub(super) const fn remedy(self) -> &'static str {
        match self {
            Self::Ok | Self::NoReceiver | Self::Unusable | Self::Answered => "",
            Self::NameNotResolved => "correct the host in the endpoint, or look at this machine's DNS",
            Self::Refused => {
                "start the receiver, or correct the port: OTLP/HTTP is usually at 4318, OTLP/gRPC at 4317"
            }
            Self::NotReached => "look at the host in the endpoint, and at the route to it",
            Self::TimedOut => {
                "look for a firewall or an overloaded receiver on the way, or raise OTEL_EXPORTER_OTLP_TIMEOUT"
            }
            Self::TlsName => "use the name that stands in the receiver's certificate in the endpoint",
            Self::TlsUnknownIssuer => {
                "let OTEL_EXPORTER_OTLP_CERTIFICATE name the PEM file of the authority that issued it"
            }
            Self::TlsCertificate => {
                "renew the receiver's certificate, and compare the clocks of both machines"
            }
            Self::TlsFailed => {
                "if the receiver asks for a certificate, set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and \
                 OTEL_EXPORTER_OTLP_CLIENT_KEY"
            }
            Self::NotTls => "use http:// in the endpoint, or turn TLS on at the receiver",
            Self::ExpectsTls => "use https:// in the endpoint",
            Self::Unauthorized => {
                "look at OTEL_EXPORTER_OTLP_HEADERS, such as authorization=Bearer%20<token>"
            }
            Self::NotFound => "is this the address of a receiver of OTLP/gRPC? It is usually at port 4317",
            Self::SpeaksGrpc => "OTEL_EXPORTER_OTLP_PROTOCOL=grpc, or the receiver's HTTP port, usually 4318",
            Self::SpeaksHttp => {
                "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or the receiver's gRPC port, usually 4317"
            }
            Self::NotOtlp => "correct host and port: OTLP/HTTP is usually at 4318, OTLP/gRPC at 4317",
            Self::NoAnswer => "look at the receiver's own log, and at any proxy on the way",
        }
    }
}

/// How the transports begin what they say of an answer.
const ANSWERED: &str = "the receiver answered ";

/// The answer's case; `None` if there was none.
pub(super) fn of_answer(message: &str) -> Option<ProbeCause> {
    let answer = message.strip_prefix(ANSWERED)?;
    let status = answer.split([' ', ':']).next().unwrap_or_default();
    Some(match status {
        "401" | "403" | "Unauthenticated" | "PermissionDenied" => ProbeCause::Unauthorized,
        "404" | "Unimplemented" => ProbeCause::NotFound,
        _ => ProbeCause::Answered,
    })
}

/// What to do about an answer that is no case of its own.
pub(super) fn remedy_of_status(message: &str) -> &'static str {
    match message.strip_prefix(ANSWERED).unwrap_or_default().get(..3).unwrap_or_default() {
        "400" => "is this a receiver of OTLP? A port that expects https:// answers so to http://, too",
        "415" => "look at OTEL_EXPORTER_OTLP_PROTOCOL and OTEL_EXPORTER_OTLP_COMPRESSION",
        "429" | "503" => "the receiver is there, but takes nothing now: look at its load and limits",
        status if status.starts_with('3') => "redirects are not followed: set the address it leads to",
        _ => "look at the receiver's own log",
    }
}

/// The message without the hint that the transports add; the remedy says more.
pub(super) fn without_hint(message: &str) -> &str {
    let ends = [" (look at ", " (does the address ", " (redirects "];
    ends.iter().filter_map(|hint| message.rfind(hint)).min().map_or(message, |end| &message[..end])
}
