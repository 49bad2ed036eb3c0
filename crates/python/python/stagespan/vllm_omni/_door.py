"""A request at the front end: its span, and the headers that its stages are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, cast

from stagespan import _native

#: The caller's headers of the HTTP request that is being served.
http_headers: ContextVar[Mapping[str, str] | None] = ContextVar("stagespan_http_headers", default=None)


def caller_headers(given: Any) -> tuple[Mapping[str, str] | None, _native.Door]:
    """The caller's headers, those that were passed along before those of HTTP, and through what
    kind of door the request came."""
    over_http = http_headers.get()
    kind: _native.Door = "call" if over_http is None else "http"
    return (given if isinstance(given, Mapping) and given else over_http), kind


class Door:
    """One request in flight at the front end."""

    __slots__ = ("_assigned", "_has_failed", "_names", "is_submitted", "request_id", "span")

    def __init__(self, request_id: str, headers: Mapping[str, str] | None, kind: _native.Door) -> None:
        #: The client's own id.
        self.request_id = request_id
        self.span = _native.open_request(request_id, headers, door=kind)
        #: Whether the orchestrator has it, and will end it.
        self.is_submitted = False
        self._has_failed = False
        self._names: dict[int, str] = {}
        self._assigned: dict[tuple[str, int], dict[str, str]] = {}

    def headers_for(
        self,
        engine_request_id: str,
        stage_id: int,
        name: str,
        *,
        clock_domain: str | None,
        upstream_ids: Iterable[int],
        companion_role: str | None,
        is_update: bool,
    ) -> dict[str, str]:
        """The headers of a stage's submit message. An update keeps the ids that the stage was given
        first; a retry is given new ones."""
        key = (engine_request_id, stage_id)
        if is_update and key in self._assigned:
            return self._assigned[key]
        self._names[stage_id] = name
        upstreams = [self._names[i] for i in upstream_ids if i in self._names and i != stage_id]
        headers = self.span.assign(
            name, clock_domain=clock_domain, upstreams=upstreams, companion_role=companion_role
        )
        self._assigned[key] = headers
        return headers

    def fail(self, error_type: str, message: str) -> None:
        """Marks the request as failed; the first cause stands."""
        if not self._has_failed:
            self._has_failed = True
            self.span.fail(cast("_native.ErrorType", error_type), message)

    def end(self) -> None:
        """Ends the request's span."""
        self.span.end()
