//! Jaeger's HTTP interfaces: traces in by OTLP, traces out by both versions of its query API.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value as Json;
use ureq::http::StatusCode;

use super::{Jaeger, POLL_EVERY};
use crate::otlp_json;
use crate::span::Span;

/// How long one HTTP exchange may take.
const EXCHANGE_WITHIN: Duration = Duration::from_secs(30);

/// Largest answer read; a search over hundreds of traces is a few megabytes.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// An HTTP client that goes straight to the loopback interface, whatever proxy the environment names.
pub(super) fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder();
    config.proxy(None).http_status_as_error(false).timeout_global(Some(EXCHANGE_WITHIN)).build().into()
}

impl Jaeger {
    /// The trace as OTLP JSON with exact nanoseconds; `None` if Jaeger has no such trace.
    ///
    /// Asks for the raw trace: the plain read changes what the memory store holds.
    ///
    /// # Errors
    /// If Jaeger does not answer, or not as expected.
    pub fn trace_v3(&self, trace_id: &str) -> anyhow::Result<Option<Json>> {
        let answer = self.get(&format!("/api/v3/traces/{trace_id}"), &[("raw_traces", "true")])?;
        Ok(answer.map(|mut json| json["result"].take()))
    }

    /// The trace as the UI gets it, in microseconds and with warnings; `None` if Jaeger has no such trace.
    ///
    /// # Errors
    /// If Jaeger does not answer, or not as expected.
    pub fn trace_v1(&self, trace_id: &str) -> anyhow::Result<Option<Json>> {
        let answer = self.get(&format!("/api/traces/{trace_id}"), &[])?;
        Ok(answer.map(|mut json| json["data"][0].take()))
    }

    /// Up to `traces_max` traces of a service, as OTLP JSON, whatever their time.
    ///
    /// # Errors
    /// If Jaeger does not answer, or not as expected.
    pub fn search_v3(&self, service: &str, traces_max: usize) -> anyhow::Result<Json> {
        let traces_max = traces_max.to_string();
        let parameters = [
            ("query.service_name", service),
            // The API wants a time range. Tests have clocks that are far apart, so theirs is all of time.
            ("query.start_time_min", "1970-01-01T00:00:00Z"),
            ("query.start_time_max", "2200-01-01T00:00:00Z"),
            ("query.num_traces", &traces_max),
            ("query.raw_traces", "true"),
        ];
        let answer = self.get("/api/v3/traces", &parameters)?;
        Ok(answer.map_or(Json::Null, |mut json| json["result"].take()))
    }

    /// What the UI makes of an uploaded OTLP JSON file.
    ///
    /// # Errors
    /// If Jaeger refuses it.
    pub fn transform(&self, file: &str) -> anyhow::Result<Json> {
        self.post(&format!("{}/api/transform", self.query_url()), file)
    }

    /// Exports an OTLP JSON request, as a caller of ours would.
    ///
    /// # Errors
    /// If Jaeger refuses it or a part of it.
    pub fn export(&self, request: &Json) -> anyhow::Result<()> {
        let answer = self.post(&format!("{}/v1/traces", self.otlp_http_endpoint()), &request.to_string())?;
        let partial = &answer["partialSuccess"];
        if partial.as_object().is_some_and(|fields| !fields.is_empty()) {
            bail!("Jaeger took only a part: {partial}");
        }
        Ok(())
    }

    /// The spans that Jaeger has of this trace, none if it has no such trace.
    ///
    /// # Errors
    /// If Jaeger does not answer, or not as expected.
    pub fn spans(&self, trace_id: &str) -> anyhow::Result<Vec<Span>> {
        self.trace_v3(trace_id)?.map_or_else(|| Ok(Vec::new()), |traces| otlp_json::parse(&traces))
    }

    /// Waits until the trace has this number of spans and returns them.
    ///
    /// # Errors
    /// If there are more, or fewer when the time is up.
    pub fn wait_for_spans(
        &self,
        trace_id: &str,
        count: usize,
        within: Duration,
    ) -> anyhow::Result<Vec<Span>> {
        let deadline = Instant::now() + within;
        loop {
            let spans = self.spans(trace_id)?;
            if spans.len() == count {
                return Ok(spans);
            }
            if spans.len() > count || Instant::now() > deadline {
                let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
                bail!("trace {trace_id} has {} spans instead of {count}: {names:?}", spans.len());
            }
            thread::sleep(POLL_EVERY);
        }
    }

    /// Waits until a search for the service finds at least this number of spans, and returns all it finds.
    ///
    /// # Errors
    /// If there are fewer when the time is up.
    pub fn wait_for_service(
        &self,
        service: &str,
        traces_max: usize,
        spans_min: usize,
        within: Duration,
    ) -> anyhow::Result<Vec<Span>> {
        let deadline = Instant::now() + within;
        loop {
            let spans = otlp_json::parse(&self.search_v3(service, traces_max)?)?;
            if spans.len() >= spans_min {
                return Ok(spans);
            }
            if Instant::now() > deadline {
                bail!("service {service} has {} spans, fewer than {spans_min}", spans.len());
            }
            thread::sleep(POLL_EVERY);
        }
    }

    /// Every warning that the UI would show for this trace, with the id of its span.
    ///
    /// # Errors
    /// If there is no such trace, or Jaeger does not answer as expected.
    pub fn warnings(&self, trace_id: &str) -> anyhow::Result<Vec<String>> {
        Self::warnings_of(
            &self.trace_v1(trace_id)?.with_context(|| format!("Jaeger has no trace {trace_id}"))?,
        )
    }

    /// The same, of a trace as [`Jaeger::trace_v1`] gives it.
    ///
    /// # Errors
    /// If it is something else.
    pub fn warnings_of(trace: &Json) -> anyhow::Result<Vec<String>> {
        let spans = trace["spans"].as_array().with_context(|| format!("no spans in {trace}"))?;
        let mut found = Vec::new();
        for owner in std::iter::once(trace).chain(spans) {
            let id = owner["spanID"].as_str().unwrap_or("the trace");
            match &owner["warnings"] {
                Json::Null => {}
                Json::Array(warnings) => {
                    found.extend(warnings.iter().map(|warning| format!("{id}: {warning}")))
                }
                other => bail!("the warnings of {id} are {other}"),
            }
        }
        Ok(found)
    }

    /// The UI's start page.
    ///
    /// # Errors
    /// If Jaeger does not answer.
    pub fn ui_page(&self) -> anyhow::Result<String> {
        let (status, page) = read(self.http.get(self.query_url()).call(), &self.query_url())?;
        if status != StatusCode::OK {
            bail!("{} answered {status}: {page}", self.query_url());
        }
        Ok(page)
    }

    fn get(&self, path: &str, parameters: &[(&str, &str)]) -> anyhow::Result<Option<Json>> {
        let url = format!("{}{path}", self.query_url());
        let (status, body) = read(self.http.get(&url).query_pairs(parameters.iter().copied()).call(), &url)?;
        match status {
            StatusCode::OK => Ok(Some(json(&body, &url)?)),
            StatusCode::NOT_FOUND => Ok(None),
            other => bail!("{url} answered {other}: {body}"),
        }
    }

    fn post(&self, url: &str, body: &str) -> anyhow::Result<Json> {
        let sent = self.http.post(url).header("content-type", "application/json").send(body);
        let (status, body) = read(sent, url)?;
        if status != StatusCode::OK {
            bail!("{url} answered {status}: {body}");
        }
        json(&body, url)
    }
}

type Answer = Result<ureq::http::Response<ureq::Body>, ureq::Error>;

fn read(answer: Answer, url: &str) -> anyhow::Result<(StatusCode, String)> {
    let mut answer = answer.with_context(|| format!("{url} did not answer"))?;
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
    Ok((answer.status(), body.with_context(|| format!("the answer of {url} broke off"))?))
}

fn json(body: &str, url: &str) -> anyhow::Result<Json> {
    serde_json::from_str(body).with_context(|| format!("{url} answered something other than JSON: {body}"))
}
