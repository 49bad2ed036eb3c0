"""Tell the wait for input from the wait for a slot, for every request and stage.

A scheduler tells what happens to its requests by six calls::

    import stagespan

    talker = stagespan.Stage("talker", stage_id=1, gate="async_chunk")

    handle = talker.enqueue("req-1")  # QUEUED
    talker.input_ready(handle)        # the step that saw the input ready
    talker.scheduled(handle)          # the first tokens of a run
    talker.tokens(handle, 1)          # an output with new tokens
    talker.finish(handle, "stop")     # the end

Each finished request becomes a span `stage talker` with its two waits as children, and is exported
by OTLP. Tracing is off until ``OTEL_EXPORTER_OTLP_ENDPOINT`` (or another of OpenTelemetry's
variables) is set, and every call then does nothing.

`preempted` is the sixth call. `open_request` makes the span that a request's stages belong to, and
gives each stage its headers. For vLLM-Omni none of this is needed: the package is a plug-in there
(see `stagespan.vllm_omni`).

All calls may be made from any thread and from coroutines; none of them blocks but `flush`,
`shutdown` and `configure`.
"""

from __future__ import annotations

import json
from typing import Any

from stagespan import _lifecycle, _native
from stagespan._native import (
    RequestSpan,
    Stage,
    clock_domain,
    configure,
    flush,
    is_on,
    open_request,
    output,
    shutdown,
)

__all__ = [
    "RequestSpan",
    "Stage",
    "__version__",
    "clock_domain",
    "configure",
    "flush",
    "is_on",
    "open_request",
    "output",
    "shutdown",
    "stats",
]

__version__: str = _native.VERSION


def stats() -> dict[str, Any]:
    """What became of every span of this process, counted in spans.

    With the queue at rest, ``produced = exported + rejected + sum(dropped.values()) + pending``.
    ``counters`` and ``python`` hold what is counted beside the spans, such as events that came in
    the wrong order.
    """
    account: dict[str, Any] = json.loads(_native.stats())
    return account


_lifecycle.install()
