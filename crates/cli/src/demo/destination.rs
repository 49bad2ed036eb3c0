//! Where the trace went.

use stagespan_otel::{Layer, TraceOutput};

use super::plan::Tracing;
use crate::json::TraceDestination;

/// The port of Jaeger's UI.
const JAEGER_UI_PORT: u16 = 16_686;

/// Where the layer's spans went.
pub(super) fn of(layer: &Layer, tracing: &Tracing) -> TraceDestination {
    match (layer.output(), tracing) {
        (TraceOutput::File(path), _) => TraceDestination::File { path: path.display().to_string() },
        (TraceOutput::Console, _) => TraceDestination::Console,
        (TraceOutput::Receiver(endpoint), tracing) => {
            let jaeger_ui_guess = host(&endpoint).map(|host| format!("http://{host}:{JAEGER_UI_PORT}"));
            let service = match tracing {
                Tracing::On(config) => config.service_name.clone(),
                Tracing::Off(_) => String::new(),
            };
            TraceDestination::Receiver { endpoint, service, jaeger_ui_guess }
        }
        (TraceOutput::Off, Tracing::Off(reason)) => TraceDestination::Off { reason: reason.clone() },
        (TraceOutput::Off, Tracing::On(_)) => TraceDestination::Off { reason: "the layer is off".to_owned() },
    }
}

/// The host of a URL, as it stands there.
fn host(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host_and_port = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let end = match host_and_port.strip_prefix('[') {
        // An IPv6 address has colons of its own.
        Some(address) => address.find(']')? + 2,
        None => host_and_port.find(':').unwrap_or(host_and_port.len()),
    };
    host_and_port.get(..end).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_endpoint() {
        let table = [
            ("http://localhost:4318/v1/traces", Some("localhost")),
            ("https://collector.example/base", Some("collector.example")),
            ("http://[::1]:4318", Some("[::1]")),
            ("http://user:secret@10.0.0.1:4318/", Some("10.0.0.1")),
            ("http://:4318", None),
            ("localhost:4318", None),
            ("http://[::1", None),
        ];
        for (url, expected) in table {
            assert_eq!(host(url), expected, "{url}");
        }
    }
}
