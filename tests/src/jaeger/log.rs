//! What Jaeger's log tells: the ports it was given, and that it is ready.

use std::net::SocketAddr;

use anyhow::Context as _;
use serde_json::Value as Json;

/// The addresses of a Jaeger that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) otlp_grpc: SocketAddr,
    pub(super) otlp_http: SocketAddr,
    pub(super) query_http: SocketAddr,
}

/// The line that stands after all servers listen.
const READY: &str = "Everything is ready";

/// What the log says so far; `None` while Jaeger is not ready.
///
/// # Errors
/// If it is ready and did not tell its addresses, which means that its log has changed.
pub(super) fn announced(log: &str) -> anyhow::Result<Option<Announced>> {
    if !log.contains(READY) {
        return Ok(None);
    }
    let address = |source: &str, message: &str, field: &str| {
        let line = log.lines().find(|line| line.contains(source) && line.contains(message));
        // Each line is time, level, source, message and a JSON object, between tabs.
        let fields: Option<Json> = line.and_then(|line| serde_json::from_str(line.rsplit('\t').next()?).ok());
        let address = fields.as_ref().and_then(|fields| fields[field].as_str()?.parse().ok());
        address.with_context(|| {
            format!("Jaeger's log has no address `{field}` of {source} in a line {message:?}")
        })
    };
    Ok(Some(Announced {
        otlp_grpc: address("otlpreceiver", "Starting GRPC server", "endpoint")?,
        otlp_http: address("otlpreceiver", "Starting HTTP server", "endpoint")?,
        query_http: address("app/server.go", "Query server started", "http_addr")?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTING: &str = "time\tinfo\tapp/server.go:258\tQuery server started\t{\"http_addr\": \"127.0.0.1:43031\", \"grpc_addr\": \"127.0.0.1:43867\"}
time\tinfo\tapp/server.go:286\tStarting HTTP server\t{\"port\": 43031, \"addr\": \"127.0.0.1:0\"}
time\tinfo\totlpreceiver@v0.140.0/otlp.go:120\tStarting GRPC server\t{\"endpoint\": \"127.0.0.1:39321\"}
time\tinfo\totlpreceiver@v0.140.0/otlp.go:178\tStarting HTTP server\t{\"endpoint\": \"127.0.0.1:32993\"}
";

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn is_not_ready_before_it_says_so() {
        assert_eq!(announced(STARTING).expect("no error"), None);
        let ready = announced(&format!("{STARTING}time\tinfo\tservice.go\tEverything is ready.\t{{}}\n"));
        let expected =
            Announced { otlp_grpc: address(39321), otlp_http: address(32993), query_http: address(43031) };
        assert_eq!(ready.expect("addresses"), Some(expected));
    }

    #[test]
    fn a_log_that_changed_is_an_error_not_an_endless_wait() {
        let error = announced("Everything is ready").expect_err("no addresses");
        assert!(error.to_string().contains("no address `endpoint` of otlpreceiver"), "{error}");
    }
}
