//! Spans from and to OTLP's JSON form: hex ids, and 64-bit integers as decimal strings.
//!
//! Reading is strict: something this module does not know is an error that shows it, not a value left out. Integers are
//! exact; a double may be off by one unit in its last place, as serde_json reads it.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use serde_json::{Value as Json, json};

use crate::span::{Link, Span, SpanKind, Status, Value};

/// The attribute under which Jaeger stores what it found wrong with a span.
const JAEGER_WARNINGS: &str = "@jaeger@warnings";

/// All spans of an object with `resourceSpans`, in the order in which they stand there.
///
/// # Errors
/// If the object is not what OTLP says, with the part that is not.
pub fn parse(traces: &Json) -> anyhow::Result<Vec<Span>> {
    let mut spans = Vec::new();
    for resource_spans in list(traces, "resourceSpans")? {
        let resource = attributes(&resource_spans["resource"])?;
        for scope_spans in list(resource_spans, "scopeSpans")? {
            let scope = text(&scope_spans["scope"], "name")?;
            for span in list(scope_spans, "spans")? {
                spans.push(
                    parse_span(span, &resource, &scope).with_context(|| format!("in the span {span}"))?,
                );
            }
        }
    }
    Ok(spans)
}

fn parse_span(span: &Json, resource: &BTreeMap<String, Value>, scope: &str) -> anyhow::Result<Span> {
    let mut own_attributes = attributes(span)?;
    let warnings = match own_attributes.remove(JAEGER_WARNINGS) {
        None => Vec::new(),
        Some(Value::Array(warnings)) => warnings
            .into_iter()
            .map(|warning| match warning {
                Value::Str(text) => Ok(text),
                other => bail!("the warning {other:?} is not text"),
            })
            .collect::<anyhow::Result<_>>()?,
        Some(other) => bail!("{JAEGER_WARNINGS} is {other:?}, not a list"),
    };
    let kind = match number::<u32>(span, "kind")? {
        0 => SpanKind::Unspecified,
        1 => SpanKind::Internal,
        2 => SpanKind::Server,
        3 => SpanKind::Client,
        4 => SpanKind::Producer,
        5 => SpanKind::Consumer,
        other => bail!("kind {other} does not exist"),
    };
    let status = match number::<u32>(&span["status"], "code")? {
        0 => Status::Unset,
        1 => Status::Ok,
        2 => Status::Error(text(&span["status"], "message")?),
        other => bail!("status code {other} does not exist"),
    };
    Ok(Span {
        trace_id: id(span, "traceId", 32)?,
        span_id: id(span, "spanId", 16)?,
        parent: match text(span, "parentSpanId")?.as_str() {
            "" => None,
            _ => Some(id(span, "parentSpanId", 16)?),
        },
        trace_state: text(span, "traceState")?,
        flags: number(span, "flags")?,
        name: text(span, "name")?,
        kind,
        start_ns: number(span, "startTimeUnixNano")?,
        end_ns: number(span, "endTimeUnixNano")?,
        status,
        attributes: own_attributes,
        links: list(span, "links")?.iter().map(parse_link).collect::<anyhow::Result<_>>()?,
        resource: resource.clone(),
        scope: scope.to_owned(),
        warnings,
    })
}

fn parse_link(link: &Json) -> anyhow::Result<Link> {
    Ok(Link {
        trace_id: id(link, "traceId", 32)?,
        span_id: id(link, "spanId", 16)?,
        trace_state: text(link, "traceState")?,
        flags: number(link, "flags")?,
        attributes: attributes(link)?,
    })
}

fn attributes(owner: &Json) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut map = BTreeMap::new();
    for attribute in list(owner, "attributes")? {
        let key = text(attribute, "key")?;
        let value = value(&attribute["value"]).with_context(|| format!("in the attribute {key}"))?;
        if map.insert(key.clone(), value).is_some() {
            bail!("the attribute {key} stands there twice");
        }
    }
    Ok(map)
}

fn value(value_json: &Json) -> anyhow::Result<Value> {
    let mut fields = value_json.as_object().into_iter().flatten();
    Ok(match (fields.next(), fields.next()) {
        (Some((kind, held)), None) => match (kind.as_str(), held) {
            ("stringValue", Json::String(text)) => Value::Str(text.clone()),
            ("boolValue", Json::Bool(flag)) => Value::Bool(*flag),
            ("intValue", _) => Value::Int(number(value_json, "intValue")?),
            ("doubleValue", _) => Value::Double(number(value_json, "doubleValue")?),
            ("arrayValue", _) => {
                Value::Array(list(held, "values")?.iter().map(value).collect::<anyhow::Result<_>>()?)
            }
            _ => bail!("{value_json} is a value this module does not know"),
        },
        _ => bail!("{value_json} is not one value"),
    })
}

/// A field that is a list, or absent, which stands for an empty one.
fn list<'a>(owner: &'a Json, field: &str) -> anyhow::Result<&'a [Json]> {
    match &owner[field] {
        Json::Null => Ok(&[]),
        Json::Array(items) => Ok(items),
        other => bail!("{field} is {other}, not a list"),
    }
}

/// A field that is text, or absent, which stands for an empty one.
fn text(owner: &Json, field: &str) -> anyhow::Result<String> {
    match &owner[field] {
        Json::Null => Ok(String::new()),
        Json::String(text) => Ok(text.clone()),
        other => bail!("{field} is {other}, not text"),
    }
}

/// A field that is a number, as such or as text, or absent, which stands for zero.
fn number<T: FromStr + Default>(owner: &Json, field: &str) -> anyhow::Result<T> {
    let digits = match &owner[field] {
        Json::Null => return Ok(T::default()),
        Json::Number(number) => number.to_string(),
        Json::String(digits) => digits.clone(),
        other => bail!("{field} is {other}, not a number"),
    };
    digits.parse().ok().with_context(|| format!("{field} is {digits}, which is not a number of its type"))
}

fn id(owner: &Json, field: &str, digits: usize) -> anyhow::Result<String> {
    let id = text(owner, field)?;
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if id.len() != digits || !id.bytes().all(hex) {
        bail!("{field} is {id:?}, not {digits} lower-case hex digits");
    }
    Ok(id)
}

/// An export request with these spans, each with its own resource and scope; warnings are the back end's and left out.
#[must_use]
pub fn export_request(spans: &[Span]) -> Json {
    let resource_spans: Vec<Json> = spans
        .iter()
        .map(|span| {
            json!({
                "resource": {"attributes": attributes_json(&span.resource)},
                "scopeSpans": [{"scope": {"name": span.scope}, "spans": [span_json(span)]}],
            })
        })
        .collect();
    json!({ "resourceSpans": resource_spans })
}

fn span_json(span: &Span) -> Json {
    let kind = match span.kind {
        SpanKind::Unspecified => 0,
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
        SpanKind::Producer => 4,
        SpanKind::Consumer => 5,
    };
    let status = match &span.status {
        Status::Unset => json!({}),
        Status::Ok => json!({"code": 1}),
        Status::Error(message) => json!({"code": 2, "message": message}),
    };
    let links: Vec<Json> = span
        .links
        .iter()
        .map(|link| {
            json!({
                "traceId": link.trace_id,
                "spanId": link.span_id,
                "traceState": link.trace_state,
                "flags": link.flags,
                "attributes": attributes_json(&link.attributes),
            })
        })
        .collect();
    json!({
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "parentSpanId": span.parent.as_deref().unwrap_or_default(),
        "traceState": span.trace_state,
        "flags": span.flags,
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": span.start_ns.to_string(),
        "endTimeUnixNano": span.end_ns.to_string(),
        "attributes": attributes_json(&span.attributes),
        "links": links,
        "status": status,
    })
}

fn attributes_json(attributes: &BTreeMap<String, Value>) -> Vec<Json> {
    attributes.iter().map(|(key, value)| json!({"key": key, "value": value_json(value)})).collect()
}

fn value_json(value: &Value) -> Json {
    match value {
        Value::Str(text) => json!({"stringValue": text}),
        Value::Int(number) => json!({"intValue": number.to_string()}),
        Value::Double(number) => json!({"doubleValue": number}),
        Value::Bool(flag) => json!({"boolValue": flag}),
        Value::Array(items) => {
            json!({"arrayValue": {"values": items.iter().map(value_json).collect::<Vec<_>>()}})
        }
    }
}

#[cfg(test)]
#[path = "otlp_json/tests.rs"]
mod tests;
