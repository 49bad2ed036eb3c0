//! Everything that anybody could read — events and spans of every crate at every level, the log,
//! Debug output, errors, findings — holds none of the secrets that were used. Alone in its file,
//! since it takes the process's subscriber and logger.

#![allow(clippy::unwrap_used, reason = "what can't be set up fails the test")]

mod support;

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::ExtendedKeyUsagePurpose::ClientAuth;
use stagespan_model::SystemClock;
use stagespan_otel::config::TlsFiles;
use stagespan_otel::{Activation, Config, Environment, Layer, OtlpOutput, Output, Secret, probe};
use support::certificates::Authority;
use support::receiver::{Answer, Receiver, Speaks};
use support::{Pipeline, config_for, start};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};

/// Everything that was said, to whomever.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<String>>);

impl Said {
    fn add(&self, text: impl Debug) {
        let mut said = self.0.lock().unwrap();
        writeln!(said, "{text:?}").unwrap();
    }
}

struct Fields<'a>(&'a Said);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.add((field.name(), format!("{value:?}")));
    }
}

impl<S: Subscriber> tracing_subscriber::Layer<S> for Said {
    fn on_new_span(&self, attributes: &Attributes<'_>, _id: &Id, _context: Context<'_, S>) {
        attributes.record(&mut Fields(self));
    }

    fn on_record(&self, _span: &Id, values: &Record<'_>, _context: Context<'_, S>) {
        values.record(&mut Fields(self));
    }

    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        event.record(&mut Fields(self));
    }
}

impl log::Log for Said {
    fn enabled(&self, _metadata: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.add(record.args());
    }

    fn flush(&self) {}
}

/// Header values, a bare token, a password in an address. Each in a form that no other text has.
const SECRETS: [&str; 4] = ["s3cr3t-token-1", "s3cr3t-tenant-2", "s3cr3t-password-3", "s3cr3t-fromenv-4"];

fn with_secrets(mut output: OtlpOutput) -> OtlpOutput {
    output.headers.push(("authorization".to_owned(), Secret::new(format!("Bearer {}", SECRETS[0]))));
    output.headers.push(("x-tenant".to_owned(), Secret::new(SECRETS[1])));
    output.timeout = Some(Duration::from_millis(500));
    output
}

#[test]
fn nothing_that_can_be_read_holds_a_secret() {
    let said = Said::default();
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(said.clone())).unwrap();
    log::set_logger(Box::leak(Box::new(said.clone()))).unwrap();
    log::set_max_level(log::LevelFilter::Trace);

    let authority = Authority::new();
    let client = authority.issue("us", ClientAuth);
    let key = std::fs::read_to_string(&client.key).unwrap();
    let key_line = key.lines().nth(1).unwrap();

    let mut outputs = Vec::new();
    let mut receivers = Vec::new();
    for speaks in [Speaks::Http, Speaks::Grpc] {
        for answer in [
            Answer::Ok,
            Answer::Echo,
            Answer::Partial(1),
            Answer::Garbage,
            Answer::Close,
            Answer::Hang,
            Answer::Status(401, &[]),
        ] {
            let receiver = Receiver::always(speaks, answer);
            outputs.push(receiver.output());
            receivers.push(receiver);
        }
        let mutual = Receiver::secure(speaks, authority.server("localhost", true));
        for client in [Some(client.clone()), None] {
            let tls = TlsFiles { certificate: Some(authority.certificate()), client };
            outputs.push(OtlpOutput { tls, ..mutual.output() });
        }
        // The operating system doesn't know this authority.
        outputs.push(mutual.output());
        receivers.push(mutual);
    }
    let with_password = |address: &str| address.replace("://", &format!("://me:{}@", SECRETS[2]));
    let plain = Receiver::start([]);
    outputs.push(OtlpOutput::http(with_password(&plain.endpoint())));
    outputs.push(OtlpOutput::http(with_password("http://127.0.0.1:1/v1/traces")));
    outputs.push(OtlpOutput::grpc(with_password("http://127.0.0.1:1")));
    receivers.push(plain);

    for output in outputs.into_iter().map(with_secrets) {
        let mut config = config_for(output);
        config.batch.export_timeout = Some(Duration::from_millis(600));
        config.log_level = stagespan_otel::LogLevel::Trace;
        said.add(&config);
        said.add(probe(&config, Duration::from_secs(5)));
        let layer = start(config);
        Pipeline::new(&layer).run_requests(1);
        said.add(layer.flush(Duration::from_secs(30)));
        said.add((&layer, layer.output(), layer.stats().to_string()));
        said.add(layer.shutdown(Duration::from_secs(1)));
    }

    // What can't be started, by hand and from the environment.
    let clock = || Arc::new(SystemClock::new());
    for endpoint in [format!("ftp://me:{}@c", SECRETS[2]), format!("http://me:{}@", SECRETS[2])] {
        let error = Layer::start(config_for(with_secrets(OtlpOutput::http(endpoint))), clock()).unwrap_err();
        said.add((&error, error.to_string()));
    }
    let mut unsendable = OtlpOutput::grpc("http://c:4317");
    unsendable.headers.push(("a".to_owned(), Secret::new(format!("{}\n", SECRETS[1]))));
    let error = Layer::start(config_for(unsendable), clock()).unwrap_err();
    said.add((&error, error.to_string()));
    for (endpoint, headers) in [
        ("http://me:s3cr3t-password-3@127.0.0.1:1", "authorization=Bearer%20s3cr3t-fromenv-4"),
        ("grpc://me:s3cr3t-password-3@c", "s3cr3t-fromenv-4"),
        ("http://c", "a b=s3cr3t-fromenv-4,x=%zzs3cr3t-fromenv-4,y=s3cr3t-fromenv-4%0A"),
    ] {
        let reading = Config::from_environment(&Environment::from_pairs([
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
            ("OTEL_EXPORTER_OTLP_HEADERS", headers),
        ]));
        said.add(&reading);
        said.add(reading.warnings.iter().map(ToString::to_string).collect::<Vec<_>>());
        said.add(reading.settings.iter().map(|setting| setting.value.clone()).collect::<Vec<_>>());
        if let Ok(Activation::On(config)) = &reading.activation {
            assert!(matches!(config.output, Output::Otlp(_)));
        }
        said.add(Layer::start_or_off(reading, clock()));
    }

    let said = said.0.lock().unwrap();
    // The test would prove nothing if nobody had spoken.
    for spoke in ["export attempt", "Unauthenticated", "401", "•••"] {
        assert!(said.contains(spoke), "nobody said {spoke:?}");
    }
    for secret in SECRETS.into_iter().chain([key_line]) {
        let line = said.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
    // Some receivers got the secrets, in their place.
    let exports = receivers
        .iter()
        .flat_map(Receiver::exports)
        .filter(|export| export.headers.get("authorization").is_some_and(|value| value.contains(SECRETS[0])));
    assert!(exports.count() > 10);
}
