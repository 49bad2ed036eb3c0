"""Spans as a back end holds them, in a form to be compared with."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Span:
    """One span. Times are unix nanoseconds."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: str
    start: int
    end: int
    attributes: dict[str, Any]
    links: list[tuple[str, str, dict[str, Any]]]
    is_error: bool
    resource: dict[str, Any]
    children: list[Span] = field(default_factory=list)

    @property
    def length(self) -> int:
        return self.end - self.start

    def get(self, name: str) -> Any:
        """An attribute of ours; `None` where it is absent."""
        return self.attributes.get(f"stagespan.{name}")

    def child(self, name: str) -> Span:
        (found,) = (child for child in self.children if child.name == name)
        return found


class Spans:
    """A set of spans, their children attached."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.all = list(spans)
        by_id = {(span.trace_id, span.span_id): span for span in self.all}
        for span in self.all:
            parent = by_id.get((span.trace_id, span.parent_id))
            if parent is not None:
                parent.children.append(span)
        for span in self.all:
            span.children.sort(key=lambda child: (child.start, child.end))

    def stages(self, request_id: str | None = None, stage: str | None = None) -> list[Span]:
        """The stage spans, in order of time."""
        found = [
            span
            for span in self.all
            if span.name.startswith("stage ")
            and request_id in (None, span.get("request.id"), span.get("request.internal_id"))
            and stage in (None, span.get("stage.name"))
        ]
        return sorted(found, key=lambda span: span.start)

    def stage(self, request_id: str, stage: str | None = None) -> Span:
        """The one stage span of a request."""
        found = self.stages(request_id, stage)
        assert len(found) == 1, f"{len(found)} stage spans of {request_id}"
        return found[0]

    def requests(self, request_id: str | None = None) -> list[Span]:
        return [s for s in self.all if s.name == "request" and request_id in (None, s.get("request.id"))]


def from_file(path: Path) -> Spans:
    """The spans of a file of OTLP JSON; none if it was never written."""
    return from_otlp(json.loads(path.read_text("utf-8"))) if path.exists() else Spans([])


def from_otlp(*documents: dict[str, Any]) -> Spans:
    """The spans of OTLP JSON documents."""
    spans = []
    for document in documents:
        for resource_spans in document.get("resourceSpans", []):
            resource = _attributes(resource_spans.get("resource", {}).get("attributes", []))
            for scope in resource_spans.get("scopeSpans", []):
                spans += [_span(raw, resource) for raw in scope.get("spans", [])]
    return Spans(spans)


def _span(raw: dict[str, Any], resource: dict[str, Any]) -> Span:
    return Span(
        name=raw["name"],
        trace_id=raw["traceId"],
        span_id=raw["spanId"],
        parent_id=raw.get("parentSpanId", ""),
        kind=str(raw.get("kind", "")),
        start=int(raw["startTimeUnixNano"]),
        end=int(raw["endTimeUnixNano"]),
        attributes=_attributes(raw.get("attributes", [])),
        links=[
            (link["traceId"], link["spanId"], _attributes(link.get("attributes", [])))
            for link in raw.get("links", [])
        ],
        is_error=raw.get("status", {}).get("code") in (2, "STATUS_CODE_ERROR"),
        resource=resource,
    )


def _attributes(raw: list[dict[str, Any]]) -> dict[str, Any]:
    return {entry["key"]: _value(entry["value"]) for entry in raw}


def _value(value: dict[str, Any]) -> Any:
    if "intValue" in value:
        return int(value["intValue"])
    return next(iter(value.values()), None)


def check(span: Span) -> None:
    """What holds of every stage span, whatever happened to the request."""
    for child in span.children:
        assert span.start <= child.start <= child.end <= span.end, child
        assert child.get("request.id") == span.get("request.id")
        assert child.get("stage.name") == span.get("stage.name")
        # A measured zero is exported one nanosecond long.
        assert child.length == max(child.get("duration_ns"), 1), child
    names = [child.name for child in span.children]
    assert names, "a stage span without a child"
    assert len(set(names)) == len(names), names
    assert len({"queued"} & set(names)) + ("input_wait" in names) == 1, names
    waits = span.get("input_wait_ns"), span.get("ready_queued_ns")
    if span.get("split") == "measured":
        assert sum(waits) == span.get("queued_ns"), span.attributes
        assert [names[0], names[1]] == ["input_wait", "ready_queued"]
    else:
        assert waits == (None, None), span.attributes
    assert ("error.type" in span.attributes) == span.is_error
