//! An HTTP service in front of two stages, on tokio and axum: a caller's `traceparent`, the service's own `tracing`
//! spans inside the request, and an upstream stage that the downstream one waits for.
//!
//! ```sh
//! OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 cargo run -p stagespan-examples --example http_service
//! curl -H 'traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' http://127.0.0.1:8080/say/hello
//! ```
//!
//! `--once` serves one request that it makes itself, on a port that the system picks, and ends.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::get;
use stagespan::{Door, End, Gate, RequestSpan, StageOptions, StageTracer, Tracing};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// What the handlers share.
#[derive(Clone)]
struct Service {
    tracing: Tracing,
    text: StageTracer,
    speech: StageTracer,
    /// The speech stage's slots.
    slots: Arc<Semaphore>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tracing = Tracing::from_environment();
    // The service's own spans are exported beside Stagespan's, as children of `request`.
    tracing_subscriber::registry().with(tracing.layer().subscriber_layer()).init();
    let service = Service {
        text: tracing.stage(StageOptions::new(0, "text"))?,
        speech: tracing.stage(StageOptions::new(1, "speech").gate(Gate::FullPayload))?,
        slots: Arc::new(Semaphore::new(1)),
        tracing: tracing.clone(),
    };
    let router = Router::new().route("/say/{words}", get(say)).with_state(service);

    let once = std::env::args().any(|argument| argument == "--once");
    let listener = TcpListener::bind(if once { "127.0.0.1:0" } else { "127.0.0.1:8080" }).await?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}/say/hello");
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, router).with_graceful_shutdown(async move {
        if once {
            // An error means that `stop` was dropped: then, too, it is over.
            let _ = stopped.await;
        } else if let Err(error) = tokio::signal::ctrl_c().await {
            eprintln!("no signals here: {error}");
        }
    });
    let serving = tokio::spawn(server.into_future());
    if once {
        let mut caller = TcpStream::connect(address).await?;
        let request = "GET /say/hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                       Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\r\n";
        caller.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        caller.read_to_string(&mut answer).await?;
        println!("{}", answer.lines().last().unwrap_or_default());
        drop(stop);
    }
    serving.await??;

    // Blocking, and with a deadline: a receiver that is gone can't hold the service up.
    let flushed = tokio::task::spawn_blocking(move || {
        let result = tracing.shutdown(Duration::from_secs(5));
        (result, tracing.stats())
    });
    if let (Err(error), account) = flushed.await? {
        eprintln!("{error} ({account})");
    }
    Ok(())
}

/// The door.
async fn say(State(service): State<Service>, Path(words): Path<String>, headers: HeaderMap) -> String {
    // A header that is no text can't be trace context.
    let readable = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let mut request = service.tracing.request(&words, readable, Door::Http);
    let for_text = service.text.assign(&mut request, &[]);
    let for_speech = service.speech.assign(&mut request, &[service.text.name()]);
    let work = run_stages(service, words, for_text, for_speech);
    // Written out, since `tracing` gives every value an `instrument` of its own.
    let answer = RequestSpan::instrument(&request, work).await;
    request.end();
    answer
}

/// Both stages take the request in at once; speech waits for all of the text.
async fn run_stages(
    service: Service,
    words: String,
    for_text: Vec<(String, String)>,
    for_speech: Vec<(String, String)>,
) -> String {
    let mut speech = service.speech.enqueue(&words, &for_speech);
    let text = write_text(&service, &words, &for_text).await;
    speech.input_ready();
    // A closed semaphore would be a bug of this file; the request then ends as aborted when it is dropped.
    let Ok(_slot) = service.slots.acquire().await else { return "no slots".to_owned() };
    speech.scheduled();
    tokio::time::sleep(Duration::from_millis(5)).await;
    speech.tokens(1);
    speech.finish(End::Stop);
    format!("said: {text}")
}

async fn write_text(service: &Service, words: &str, headers: &[(String, String)]) -> String {
    let mut traced = service.text.enqueue(words, headers);
    traced.scheduled();
    // A span of the service's own, by `tracing` as everywhere: a child of `request`.
    let text = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        words.to_uppercase()
    }
    .instrument(tracing::info_span!("look up words"))
    .await;
    traced.tokens(1);
    traced.finish(End::Length);
    text
}
