//! An OTLP receiver, and how it is spoken to.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::reading;
use super::secret::Secret;

/// An OTLP receiver.
#[derive(Clone)]
pub struct OtlpOutput {
    /// The address: for HTTP where spans are posted to, with its path; for gRPC scheme, host and
    /// port.
    pub endpoint: String,
    /// The transport.
    pub protocol: Protocol,
    /// Headers (gRPC: metadata) of every export. Their values are secret.
    pub headers: Vec<(String, Secret)>,
    /// The longest that one attempt may take; `None` is no limit.
    pub timeout: Option<Duration>,
    /// How exports are compressed.
    pub compression: Compression,
    /// Whom to trust and what to show of ourselves, at an `https://` address.
    pub tls: TlsFiles,
}

impl OtlpOutput {
    /// A receiver of OTLP/HTTP at `endpoint`, a full address such as
    /// `http://localhost:4318/v1/traces`.
    pub fn http(endpoint: impl Into<String>) -> Self {
        Self::with_protocol(endpoint.into(), Protocol::HttpProtobuf)
    }

    /// A receiver of OTLP/gRPC at `endpoint`, such as `http://localhost:4317`.
    pub fn grpc(endpoint: impl Into<String>) -> Self {
        Self::with_protocol(endpoint.into(), Protocol::Grpc)
    }

    fn with_protocol(endpoint: String, protocol: Protocol) -> Self {
        Self {
            endpoint,
            protocol,
            headers: Vec::new(),
            timeout: Some(Duration::from_secs(10)),
            compression: Compression::default(),
            tls: TlsFiles::default(),
        }
    }

    /// The address without user and password.
    pub(crate) fn printable_endpoint(&self) -> String {
        reading::mask(&self.endpoint)
    }
}

impl fmt::Debug for OtlpOutput {
    /// Without the address's user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Destructured whole, so that a new field can't be forgotten here.
        let Self { endpoint: _, protocol, headers, timeout, compression, tls } = self;
        f.debug_struct("OtlpOutput")
            .field("endpoint", &self.printable_endpoint())
            .field("protocol", protocol)
            .field("headers", headers)
            .field("timeout", timeout)
            .field("compression", compression)
            .field("tls", tls)
            .finish()
    }
}

/// How spans are sent to a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `http/protobuf`.
    HttpProtobuf,
    /// `grpc`.
    Grpc,
}

impl Protocol {
    /// Its name in `OTEL_EXPORTER_OTLP_PROTOCOL`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HttpProtobuf => "http/protobuf",
            Self::Grpc => "grpc",
        }
    }
}

/// How exports are compressed: `OTEL_EXPORTER_OTLP_COMPRESSION`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// gzip: every receiver reads it.
    Gzip,
    /// zstd: the same size at a third of gzip's cost.
    Zstd,
}

impl Compression {
    /// Its name in the variable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// PEM files for `https://`: `OTEL_EXPORTER_OTLP_CERTIFICATE` and its two siblings. They are read
/// when the layer starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates to trust, in place of the operating system's.
    pub certificate: Option<PathBuf>,
    /// Our own certificate and key, where the receiver asks for one (mTLS).
    pub client: Option<ClientFiles>,
}

/// Our own certificate, with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    /// The certificate chain, ours first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}
