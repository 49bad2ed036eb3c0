//! OTLP over gRPC.

use std::time::Duration;

use ::http::HeaderMap;
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use tokio::runtime::Runtime;
use tonic::Request;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};

use super::batch::Batch;
use super::outcome::{Outcome, OutcomeKind};
use super::receiver::{Receiver, Secrets, USER_AGENT};
use super::transport::{Transport, TransportError};
use crate::config::Compression;

mod answer;

/// What is read of an answer, at most. A partial success is a few hundred bytes.
const ANSWER_MAX_BYTES: usize = 64 * 1024;

/// Calls the receiver's trace service, on a runtime of its own: whatever runtime the program has,
/// or has not, neither waits for the other.
pub(super) struct GrpcTransport {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    client: TraceServiceClient<Channel>,
    metadata: HeaderMap,
    secrets: Secrets,
}

impl GrpcTransport {
    /// Opens no connection yet. Must run on a thread outside any async runtime.
    pub(super) fn open(receiver: Receiver) -> Result<Self, TransportError> {
        let Receiver { mut url, headers: metadata, compression, tls, connect_timeout, secrets } = receiver;
        // They have no place in HTTP/2's authority. Neither can fail: the address has a host.
        let _ = (url.set_username(""), url.set_password(None));
        let failed = |error: &dyn std::fmt::Display| {
            TransportError::Receiver(format!("the gRPC client can't start: {error}"))
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("stagespan-grpc")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| failed(&error))?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        // An export is several small writes; they wait for no acknowledgement in between.
        tcp.set_nodelay(true);
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http2()
            .wrap_connector(tcp);
        let endpoint = Endpoint::from_shared(url.to_string())
            .and_then(|endpoint| endpoint.user_agent(USER_AGENT))
            .map_err(|error| failed(&error))?
            .connect_timeout(connect_timeout);
        let channel = {
            // The channel starts a task.
            let _inside = runtime.enter();
            endpoint.connect_with_connector_lazy(connector)
        };
        let mut client = TraceServiceClient::new(channel).max_decoding_message_size(ANSWER_MAX_BYTES);
        client = match compression {
            Compression::None => client,
            Compression::Gzip => client.send_compressed(CompressionEncoding::Gzip),
            Compression::Zstd => client.send_compressed(CompressionEncoding::Zstd),
        };
        Ok(Self { runtime: Some(runtime), client, metadata, secrets })
    }
}

impl Transport for GrpcTransport {
    fn send(&mut self, batch: &mut Batch, within: Option<Duration>) -> Outcome {
        let Some(runtime) = &self.runtime else {
            return Outcome::lost(OutcomeKind::Failed, "the gRPC client has ended");
        };
        let mut request = Request::new(batch.message().clone());
        *request.metadata_mut() = MetadataMap::from_headers(self.metadata.clone());
        let call = self.client.export(request);
        let answer = runtime.block_on(async {
            match within {
                Some(within) => tokio::time::timeout(within, call).await.ok(),
                None => Some(call.await),
            }
        });
        answer::outcome(answer, batch.len(), &self.secrets)
    }
}

impl Drop for GrpcTransport {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Name resolution may still hang on a thread of it.
            runtime.shutdown_background();
        }
    }
}
