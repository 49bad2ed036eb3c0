//! A scheduler of one's own, instrumented by hand: two stages, plain threads, no async runtime.
//!
//! ```sh
//! cargo run -p stagespan-examples --example own_scheduler
//! OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 cargo run -p stagespan-examples --example own_scheduler
//! ```
//!
//! The writer writes four "sentences" per request, one at a time. The speaker takes a request in at once, holds it until its
//! first sentence is there, and has only one slot: so a request can wait for its input, and then for the slot.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use stagespan::{Door, End, Gate, RequestSpan, StageOptions, StageRequest, StageTracer, Tracing};

const REQUESTS: usize = 6;
const SENTENCES: u32 = 4;
const STEP: Duration = Duration::from_millis(3);

/// What the front end sends to a stage: the request's id, and the headers that were assigned to the stage.
struct Submission {
    request_id: String,
    headers: Vec<(String, String)>,
}

/// What reaches the speaker.
enum ToSpeaker {
    Submitted(Submission),
    Sentence { request_id: String, last: bool },
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Once per process. Without OTEL_EXPORTER_OTLP_ENDPOINT (or another of OpenTelemetry's variables) everything
    // below is a no-op.
    let tracing = Tracing::from_environment();
    let writer = tracing.stage(StageOptions::new(0, "writer"))?;
    let speaker = tracing.stage(StageOptions::new(1, "speaker").gate(Gate::AsyncChunk))?;

    let (to_writer, writer_inbox) = channel();
    let (to_speaker, speaker_inbox) = channel();
    let (done, finished) = channel();
    let sentences = to_speaker.clone();
    let writer_thread = {
        let writer = writer.clone();
        thread::spawn(move || write(&writer, &writer_inbox, &sentences))
    };
    let speaker_thread = {
        let speaker = speaker.clone();
        thread::spawn(move || Speaker::new(speaker, done).run(&speaker_inbox))
    };

    // The front end: one `request` span each, and headers for both stages.
    let mut open: Vec<RequestSpan> = Vec::new();
    for number in 0..REQUESTS {
        let request_id = format!("sentence-request-{number}");
        let mut request = tracing.request(&request_id, [], Door::Call);
        let for_writer = writer.assign(&mut request, &[]);
        let for_speaker = speaker.assign(&mut request, &[writer.name()]);
        to_speaker.send(ToSpeaker::Submitted(Submission {
            request_id: request_id.clone(),
            headers: for_speaker,
        }))?;
        to_writer.send(Submission { request_id, headers: for_writer })?;
        open.push(request);
    }
    drop((to_writer, to_speaker));
    for request_id in finished.iter().take(REQUESTS) {
        println!("spoken: {request_id}");
    }
    writer_thread.join().map_err(|_| "the writer panicked")?;
    speaker_thread.join().map_err(|_| "the speaker panicked")?;
    open.into_iter().for_each(RequestSpan::end);

    if let Err(error) = tracing.shutdown(Duration::from_secs(5)) {
        eprintln!("{error}");
    }
    if tracing.is_on() {
        println!("spans: {}", tracing.stats());
    } else {
        println!("tracing is off: set OTEL_EXPORTER_OTLP_ENDPOINT to see where the time went");
    }
    Ok(())
}

/// Stage 0: one request after the other, a step per sentence.
fn write(stage: &StageTracer, inbox: &Receiver<Submission>, sentences: &Sender<ToSpeaker>) {
    let mut queue: VecDeque<(String, StageRequest)> = VecDeque::new();
    loop {
        // QUEUED for everything that has arrived; wait only when there is nothing else to do.
        let arrived = if queue.is_empty() { inbox.recv().ok() } else { inbox.try_recv().ok() };
        if let Some(Submission { request_id, headers }) = arrived {
            let traced = stage.enqueue(&request_id, &headers);
            queue.push_back((request_id, traced));
            continue;
        }
        let Some((request_id, mut traced)) = queue.pop_front() else { return };
        traced.scheduled();
        for sentence in 1..=SENTENCES {
            thread::sleep(STEP);
            traced.tokens(1);
            let last = sentence == SENTENCES;
            if sentences.send(ToSpeaker::Sentence { request_id: request_id.clone(), last }).is_err() {
                // Nobody listens any more: the request is dropped, and ends as aborted.
                return;
            }
        }
        traced.finish(End::Length);
    }
}

/// A request on the speaker.
struct Spoken {
    request_id: String,
    traced: StageRequest,
    unspoken: u32,
    complete: bool,
}

/// Stage 1: a gate and one slot.
struct Speaker {
    stage: StageTracer,
    done: Sender<String>,
    held: Vec<Spoken>,
    ready: VecDeque<Spoken>,
    running: Option<Spoken>,
}

impl Speaker {
    fn new(stage: StageTracer, done: Sender<String>) -> Self {
        Self { stage, done, held: Vec::new(), ready: VecDeque::new(), running: None }
    }

    fn run(mut self, inbox: &Receiver<ToSpeaker>) {
        loop {
            match inbox.recv_timeout(STEP) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if self.is_idle() => return,
                Err(RecvTimeoutError::Disconnected) => thread::sleep(STEP),
            }
            self.step();
        }
    }

    fn is_idle(&self) -> bool {
        self.held.is_empty() && self.ready.is_empty() && self.running.is_none()
    }

    fn take(&mut self, message: ToSpeaker) {
        match message {
            ToSpeaker::Submitted(Submission { request_id, headers }) => {
                let traced = self.stage.enqueue(&request_id, &headers);
                self.held.push(Spoken { request_id, traced, unspoken: 0, complete: false });
            }
            ToSpeaker::Sentence { request_id, last } => {
                let everywhere = self.held.iter_mut().chain(&mut self.ready).chain(&mut self.running);
                for request in everywhere.filter(|request| request.request_id == request_id) {
                    request.unspoken += 1;
                    request.complete |= last;
                }
            }
        }
    }

    /// One scheduler step: the gate, then the slot, then the model.
    fn step(&mut self) {
        // The gate lets through what has its first sentence: this step has seen the input ready.
        for mut request in self.held.extract_if(.., |request| request.unspoken > 0) {
            request.traced.input_ready();
            self.ready.push_back(request);
        }
        if self.running.is_none()
            && let Some(mut request) = self.ready.pop_front()
        {
            request.traced.scheduled();
            self.running = Some(request);
        }
        if let Some(mut request) = self.running.take() {
            if request.unspoken > 0 {
                request.unspoken -= 1;
                thread::sleep(STEP);
                request.traced.tokens(1);
            }
            if request.complete && request.unspoken == 0 {
                request.traced.finish(End::Stop);
                // The front end may be gone; the request has ended all the same.
                let _ = self.done.send(request.request_id);
            } else {
                self.running = Some(request);
            }
        }
    }
}
