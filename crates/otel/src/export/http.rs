//! OTLP over HTTP: opentelemetry-otlp encodes, a client of ours sends and reads every answer.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry_otlp::{Protocol, RetryPolicy, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::trace::SpanExporter as _;
use rustls::ClientConfig;
use rustls::crypto::ring;

use crate::config::OtlpOutput;

use super::transport::{Batch, Outcome, OutcomeKind, Transport, TransportError};

mod answer;
mod inspecting_client;

use inspecting_client::InspectingClient;

/// A receiver whose address and headers have been checked.
pub(crate) struct HttpOpening {
    endpoint: reqwest::Url,
    headers: HeaderMap,
}

impl HttpOpening {
    /// # Errors
    /// An address that isn't `http(s)://` with a host, or a header that HTTP doesn't allow.
    pub(super) fn check(output: &OtlpOutput) -> Result<Self, TransportError> {
        let refuse = |why: String| Err(TransportError::Receiver(why));
        let endpoint = match reqwest::Url::parse(&output.endpoint) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => url,
            // The address is left out: it may hold a password.
            _ => return refuse("the receiver's address is not http://host… or https://host…".to_owned()),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &output.headers {
            let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
                return refuse(format!("{name:?} can't be the name of an export header"));
            };
            let Ok(mut value) = HeaderValue::from_str(value.reveal()) else {
                return refuse(format!(
                    "the value of export header {name:?} has characters that no header may have"
                ));
            };
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        Ok(Self { endpoint, headers })
    }
}

/// TLS with the ring provider, named here: the default client fails, for http:// too, as soon as
/// any crate of the program turns reqwest's provider off.
fn tls(endpoint: &reqwest::Url) -> Result<ClientConfig, rustls::Error> {
    use rustls_platform_verifier::BuilderVerifierExt as _;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    if endpoint.scheme() == "https" {
        Ok(builder.with_platform_verifier()?.with_no_client_auth())
    } else {
        // No certificate is ever checked on http://; the system's roots need not be readable.
        Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
    }
}

/// The exporter encodes a batch once; its client keeps the bytes, so that a retry sends the same.
pub(super) struct HttpTransport {
    client: Arc<InspectingClient>,
    exporter: opentelemetry_otlp::SpanExporter,
}

/// Stands in for an answer's client, since the exporter takes a value that is only a client.
#[derive(Debug)]
struct Shared(Arc<InspectingClient>);

#[async_trait::async_trait]
impl opentelemetry_http::HttpClient for Shared {
    async fn send_bytes(
        &self,
        request: opentelemetry_http::Request<opentelemetry_http::Bytes>,
    ) -> Result<opentelemetry_http::Response<opentelemetry_http::Bytes>, opentelemetry_http::HttpError> {
        self.0.take_from_exporter(request)
    }
}

impl HttpTransport {
    /// Opens no connection yet. Must run on a thread outside any async runtime.
    pub(super) fn open(opening: HttpOpening) -> Result<Self, TransportError> {
        let HttpOpening { endpoint, headers } = opening;
        let failed =
            |error: String| TransportError::Receiver(format!("the HTTP client can't start: {error}"));
        let tls = tls(&endpoint).map_err(|error| failed(error.to_string()))?;
        let http = reqwest::blocking::Client::builder()
            .tls_backend_preconfigured(tls)
            // Each request has its own; the client's default of 30 s would cut a longer one short.
            .timeout(None)
            // A redirected POST would go on as a GET without its spans.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let client = Arc::new(InspectingClient::new(http, endpoint.clone(), headers));
        // The exporter reads the process's variables too. All that it could find there is
        // overruled: the client rewrites address and headers, and retries are the worker's.
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(Shared(Arc::clone(&client)))
            .with_endpoint(endpoint.as_str())
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(Duration::MAX)
            .with_retry_policy(RetryPolicy::disabled())
            .build()
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self { client, exporter })
    }
}

impl Transport for HttpTransport {
    fn send(&mut self, batch: &mut Batch, within: Option<Duration>) -> Outcome {
        if let Some(request) = &batch.encoded {
            return self.client.post(request.clone(), batch.len, within);
        }
        self.exporter.set_resource(&batch.resource);
        let spans = mem::take(&mut batch.spans);
        // The client answers at once and keeps the request: nothing is sent in here.
        let exported = futures_executor::block_on(self.exporter.export(spans));
        match self.client.encoded() {
            Some(request) => {
                batch.encoded = Some(request.clone());
                self.client.post(request, batch.len, within)
            }
            None => {
                let why = exported.err().map_or_else(String::new, |error| error.to_string());
                Outcome::lost(OutcomeKind::Failed, format!("the batch can't be encoded: {why}"))
            }
        }
    }
}
