//! The gRPC side of the scripted receiver: HTTP/2 frames, so that every fault can be made.

use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tonic::Status;
use tonic::codegen::Bytes;
use tonic_types::{ErrorDetails, StatusExt as _};

use super::receiver::{Answer, Export, Shared, answer_body, decompress};

/// Serves for as long as the test's process lives.
pub(crate) fn start(listener: TcpListener, state: Shared, tls: Option<Arc<rustls::ServerConfig>>) {
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let tls = tls.map(tokio_rustls::TlsAcceptor::from);
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (state, tls) = (Arc::clone(&state), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, state).await,
                        Some(tls) => {
                            // A client that is refused is no connection.
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, state).await;
                            }
                        }
                    }
                });
            }
        });
    });
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, state: Shared) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let close = Arc::new(Notify::new());
    loop {
        let next = tokio::select! {
            next = connection.accept() => next,
            // The connection is dropped as it is, as if the process were killed.
            () = close.notified() => return,
        };
        let Some(Ok((request, respond))) = next else { return };
        let (state, close) = (Arc::clone(&state), Arc::clone(&close));
        tokio::spawn(async move {
            if respond_to(request, respond, &state).await.is_none() {
                close.notify_one();
            }
        });
    }
}

/// `None` if the connection is to be closed.
async fn respond_to(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    state: &Shared,
) -> Option<()> {
    let answer = state.lock().unwrap().next();
    if matches!(answer, Answer::ResetMidBody) {
        return None;
    }
    let export = read_export(request).await?;
    let authorization = export.headers.get("authorization").cloned().unwrap_or_default();
    let answer = state.lock().unwrap().note(export, answer, false);
    let status = |status: &Status| {
        let mut response = Response::new(());
        response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
        status.add_header(response.headers_mut()).unwrap();
        response
    };
    match answer {
        Answer::Ok => send(&mut respond, &answer_body(0)),
        Answer::Partial(rejected) => send(&mut respond, &answer_body(rejected)),
        Answer::Code(code, None) => drop(respond.send_response(status(&Status::new(code, "no")), true)),
        Answer::Code(code, wish) => {
            let details = ErrorDetails::with_retry_info(wish);
            drop(respond.send_response(status(&Status::with_error_details(code, "no", details)), true));
        }
        Answer::Echo => {
            drop(respond.send_response(status(&Status::unauthenticated(authorization)), true));
        }
        Answer::Status(status, _) => {
            drop(respond.send_response(Response::builder().status(status).body(()).unwrap(), true));
        }
        Answer::Hang => std::future::pending().await,
        Answer::Drip => {
            let mut stream = respond.send_response(head(), false).ok()?;
            // The frame is announced as long as it takes.
            let _ = stream.send_data(Bytes::from_static(&[0, 0, 0, 0xff, 0]), false);
            while stream.send_data(Bytes::from_static(b"x"), false).is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        Answer::Close | Answer::ResetMidBody => return None,
        Answer::HalfBody => {
            let mut stream = respond.send_response(head(), false).ok()?;
            let _ = stream.send_data(Bytes::from_static(&[0, 0, 0, 0, 9, 1]), false);
            stream.send_reset(Reason::INTERNAL_ERROR);
        }
        Answer::Garbage => {
            let mut response = head();
            // tonic panics over details that are not base64.
            response.headers_mut().insert("grpc-status", HeaderValue::from_static("13"));
            response.headers_mut().insert("grpc-status-details-bin", HeaderValue::from_static("!!!"));
            drop(respond.send_response(response, true));
        }
        Answer::Huge => {
            let mut stream = respond.send_response(head(), false).ok()?;
            let _ = stream.send_data(Bytes::from_static(&[0, 0x10, 0, 0, 0]), false);
            let _ = stream.send_data(Bytes::from(vec![b'x'; 1 << 20]), false);
            std::future::pending::<()>().await;
        }
        Answer::BadIf(..) | Answer::BadRequestId(_) => unreachable!("settled when it was noted"),
    }
    Some(())
}

fn head() -> Response<()> {
    Response::builder().header("content-type", "application/grpc").body(()).unwrap()
}

/// A message, and that all is well.
fn send(respond: &mut SendResponse<Bytes>, message: &[u8]) {
    let Ok(mut stream) = respond.send_response(head(), false) else { return };
    let mut frame = vec![0];
    frame.extend((message.len() as u32).to_be_bytes());
    frame.extend(message);
    let _ = stream.send_data(Bytes::from(frame), false);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let _ = stream.send_trailers(trailers);
}

async fn read_export(request: Request<RecvStream>) -> Option<Export> {
    let (head, mut stream) = request.into_parts();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data.ok()?;
        let _ = stream.flow_control().release_capacity(data.len());
        body.extend_from_slice(&data);
    }
    let headers: std::collections::BTreeMap<_, _> = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap_or_default().to_owned()))
        .collect();
    let (is_compressed, message) = (body.first()? == &1, body.get(5..)?.to_vec());
    let encoding = is_compressed.then(|| headers["grpc-encoding"].as_str());
    let request = ExportTraceServiceRequest::decode(&*decompress(encoding, message)).unwrap();
    Some(Export { path: head.uri.path().to_owned(), headers, request, accepted: 0, rejected: 0 })
}
