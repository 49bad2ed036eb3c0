"""What travels in the `trace_headers` of the engine's messages.

To a stage: the headers that `RequestSpan.assign` gave, and two that only this plug-in reads, since an
engine core knows neither the client's id of a request nor whose companion it is. From a stage: the
stamp of input readiness, on outputs that carry events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

#: The client's own id of the request.
REQUEST_ID = "stagespan-request-id"
#: The role of a companion request.
COMPANION_ROLE = "stagespan-companion-role"
#: The stamp of input readiness, in seconds of the stage's monotonic clock.
INPUT_READY = "stagespan-input-ready"
#: Beside a `traceparent` that is the host's own tracing's, ours is carried under this name.
_OURS = {"stagespan-traceparent": "traceparent", "stagespan-tracestate": "tracestate"}
_AS_OURS = {plain: ours for ours, plain in _OURS.items()}


class StageHeaders(NamedTuple):
    """What came with a submit message."""

    context: Mapping[str, str] | None
    request_id: str | None
    companion_role: str | None


_NOTHING = StageHeaders(None, None, None)


def host_traces(vllm_config: Any) -> bool:
    """Whether the engine's own tracing is on, which then needs its headers on requests and outputs."""
    observability = getattr(vllm_config, "observability_config", None)
    return getattr(observability, "otlp_traces_endpoint", None) is not None


def pack(
    host: Mapping[str, str] | None, ours: Mapping[str, str], request_id: str, companion_role: str | None
) -> dict[str, str]:
    """The headers of a submit message: the host's untouched, and ours beside them."""
    packed = {name: value for name, value in (host or {}).items() if not is_reserved(name)}
    taken = {name.lower() for name in packed}
    for name, value in ours.items():
        packed[_AS_OURS[name] if name in taken and name in _AS_OURS else name] = value
    packed[REQUEST_ID] = request_id
    if companion_role is not None:
        packed[COMPANION_ROLE] = companion_role
    return packed


def unpack(request: Any, *, keeps_host_context: bool) -> StageHeaders:
    """Takes our headers off a request that has reached its stage.

    The engine echoes a request's headers in each of its outputs; they are left on the request only
    for the host's own tracing.
    """
    headers = request.trace_headers
    if not headers:
        return _NOTHING
    ours: dict[str, str] = {}
    hosts: dict[str, str] = {}
    for name, value in headers.items():
        (ours if is_reserved(name) else hosts)[name] = value
    if not ours:
        return _NOTHING
    request.trace_headers = (hosts or None) if keeps_host_context else None
    request_id = ours.pop(REQUEST_ID, None)
    companion_role = ours.pop(COMPANION_ROLE, None)
    context = {**hosts, **{_OURS.get(name, name): value for name, value in ours.items()}}
    return StageHeaders(context, request_id, companion_role)


def is_reserved(name: str) -> bool:
    """Whether a header is ours: no client may set it."""
    return name.lower().startswith("stagespan-")


def attach_stamp(output: Any, ready_at: float) -> None:
    """Sends a request's stamp with an output."""
    output.trace_headers = {**(output.trace_headers or {}), INPUT_READY: repr(ready_at)}


def take_stamp(output: Any) -> float | None:
    """Takes the stamp off an output that has arrived; `None` if it has none, or no instant."""
    headers = output.trace_headers
    if not headers or INPUT_READY not in headers:
        return None
    rest = dict(headers)
    text = rest.pop(INPUT_READY)
    output.trace_headers = rest or None
    try:
        ready_at = float(text)
    except ValueError:
        return None
    # Not a number, never set, and wall-clock time are no instants.
    return ready_at if 0.0 < ready_at <= 1e9 else None
