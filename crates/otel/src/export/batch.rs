//! Spans of one resource on their way, and what is made of them once.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use tonic::codegen::Bytes;

/// Spans of one resource, on their way.
#[derive(Debug)]
pub(crate) struct Batch {
    content: Content,
    /// How many spans there are; stays whatever becomes of the content.
    len: u64,
    /// The message as it goes over the wire, so that a retry sends the same bytes.
    encoded: Option<Bytes>,
}

#[derive(Debug)]
enum Content {
    Spans { resource: Box<Resource>, spans: Vec<SpanData> },
    Message(ExportTraceServiceRequest),
}

impl Batch {
    pub(crate) fn new(resource: Resource, spans: Vec<SpanData>) -> Self {
        let len = spans.len() as u64;
        Self { content: Content::Spans { resource: Box::new(resource), spans }, len, encoded: None }
    }

    fn of_message(message: ExportTraceServiceRequest, len: u64) -> Self {
        Self { content: Content::Message(message), len, encoded: None }
    }

    /// How many spans it holds.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The spans themselves, for a transport that takes no OTLP. They are gone then.
    pub(crate) fn take_spans(&mut self) -> Option<(Resource, Vec<SpanData>)> {
        match &mut self.content {
            Content::Spans { resource, spans } => Some(((**resource).clone(), std::mem::take(spans))),
            Content::Message(_) => None,
        }
    }

    /// The spans as an OTLP message, made at the first call.
    pub(crate) fn message(&mut self) -> &ExportTraceServiceRequest {
        if let Content::Spans { resource, spans } = &mut self.content {
            let resource = ResourceAttributesWithSchema::from(&**resource);
            let resource_spans = group_spans_by_resource_and_scope(std::mem::take(spans), &resource);
            self.content = Content::Message(ExportTraceServiceRequest { resource_spans });
        }
        match &self.content {
            Content::Message(message) => message,
            Content::Spans { .. } => unreachable!("turned into a message above"),
        }
    }

    /// The message's bytes, encoded at the first call by `encode`.
    pub(crate) fn bytes<E>(
        &mut self,
        encode: impl FnOnce(&ExportTraceServiceRequest) -> Result<Vec<u8>, E>,
    ) -> Result<Bytes, E> {
        if let Some(bytes) = &self.encoded {
            return Ok(bytes.clone());
        }
        let bytes = Bytes::from(encode(self.message())?);
        self.encoded = Some(bytes.clone());
        Ok(bytes)
    }

    /// Two halves of at least one span each, in their order. `None` for a single span.
    pub(crate) fn halves(mut self) -> Option<[Self; 2]> {
        if self.len < 2 {
            return None;
        }
        self.message();
        let Content::Message(mut first) = self.content else { return None };
        let first_len = self.len / 2;
        let second = split_off(&mut first, first_len as usize);
        Some([Self::of_message(first, first_len), Self::of_message(second, self.len - first_len)])
    }
}

/// Takes everything after the first `keep` spans out of a message. Resources and scopes stand in
/// both.
fn split_off(message: &mut ExportTraceServiceRequest, keep: usize) -> ExportTraceServiceRequest {
    let mut left = keep;
    let mut rest = Vec::new();
    for of_resource in &mut message.resource_spans {
        let mut rest_of_resource = Vec::new();
        for of_scope in &mut of_resource.scope_spans {
            let kept = left.min(of_scope.spans.len());
            left -= kept;
            let spans = of_scope.spans.split_off(kept);
            if !spans.is_empty() {
                rest_of_resource.push(ScopeSpans {
                    scope: of_scope.scope.clone(),
                    spans,
                    schema_url: of_scope.schema_url.clone(),
                });
            }
        }
        of_resource.scope_spans.retain(|of_scope| !of_scope.spans.is_empty());
        if !rest_of_resource.is_empty() {
            rest.push(ResourceSpans {
                resource: of_resource.resource.clone(),
                scope_spans: rest_of_resource,
                schema_url: of_resource.schema_url.clone(),
            });
        }
    }
    message.resource_spans.retain(|of_resource| !of_resource.scope_spans.is_empty());
    ExportTraceServiceRequest { resource_spans: rest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::trace::v1::Span;
    use proptest::prelude::*;

    fn message(shape: &[Vec<usize>]) -> ExportTraceServiceRequest {
        let mut number = 0_u64;
        let mut span = || {
            number += 1;
            Span { span_id: number.to_be_bytes().to_vec(), ..Span::default() }
        };
        let resource_spans = shape
            .iter()
            .map(|scopes| ResourceSpans {
                scope_spans: scopes
                    .iter()
                    .map(|&n| ScopeSpans { spans: (0..n).map(|_| span()).collect(), ..ScopeSpans::default() })
                    .collect(),
                schema_url: format!("{} scopes", scopes.len()),
                ..ResourceSpans::default()
            })
            .collect();
        ExportTraceServiceRequest { resource_spans }
    }

    fn ids(message: &ExportTraceServiceRequest) -> Vec<Vec<u8>> {
        let scopes = message.resource_spans.iter().flat_map(|r| &r.scope_spans);
        scopes.flat_map(|s| &s.spans).map(|span| span.span_id.clone()).collect()
    }

    #[test]
    fn a_single_span_has_no_halves() {
        assert!(Batch::of_message(message(&[vec![1]]), 1).halves().is_none());
        assert!(Batch::of_message(message(&[]), 0).halves().is_none());
    }

    #[test]
    fn bytes_are_made_once() {
        let mut batch = Batch::of_message(message(&[vec![2]]), 2);
        let first = batch.bytes(|message| Ok::<_, ()>(vec![ids(message).len() as u8]));
        assert_eq!(first.as_deref(), Ok(&[2_u8][..]));
        assert_eq!(batch.bytes(|_| Err(())), first);
    }

    proptest! {
        #[test]
        fn halves_hold_every_span_once_in_order(
            shape in prop::collection::vec(prop::collection::vec(0..5_usize, 0..4), 0..4),
        ) {
            let whole = message(&shape);
            let all = ids(&whole);
            if let Some([mut first, mut second]) = Batch::of_message(whole, all.len() as u64).halves() {
                let (a, b) = (ids(first.message()), ids(second.message()));
                prop_assert_eq!((a.len() as u64, b.len() as u64), (first.len(), second.len()));
                prop_assert!(!a.is_empty() && a.len() <= b.len() && b.len() <= a.len() + 1);
                prop_assert_eq!([a, b].concat(), all);
                for half in [first.message(), second.message()] {
                    prop_assert!(half.resource_spans.iter().all(|r| !r.scope_spans.is_empty()));
                }
            } else {
                prop_assert!(all.len() < 2);
            }
        }
    }
}
