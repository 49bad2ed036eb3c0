"""The plug-in for vLLM-Omni: spans without a patch of its source.

vLLM loads it by the entry point `stagespan` of `vllm.general_plugins`, in every process: in each
stage's engine core it watches the scheduler, in the front end the requests. It only observes and
hands over to the native part. It is off unless OpenTelemetry's variables ask for traces
(``OTEL_EXPORTER_OTLP_ENDPOINT``), and stays off, with one warning, with any version of vLLM-Omni that
it does not know line by line.
"""

from __future__ import annotations

import logging

from stagespan.vllm_omni._http import TraceContextMiddleware

__all__ = ["TraceContextMiddleware", "install"]

logger = logging.getLogger("stagespan")

_has_run = False


def install() -> None:
    """Watches vLLM-Omni in this process. Never raises; a second call does nothing."""
    global _has_run
    if _has_run:
        return
    _has_run = True
    try:
        _install()
    except Exception:
        logger.warning("stagespan: the plug-in could not start and is off", exc_info=True)


def _install() -> None:
    from stagespan import _native

    if not _native.is_on():
        return
    from stagespan.vllm_omni import _shapes

    problem = _shapes.problem()
    if problem is not None:
        logger.warning("stagespan: tracing of vLLM-Omni is off: %s", problem)
        return
    from stagespan.vllm_omni import _engine_core, _front, _http, _statistics

    _engine_core.install()
    _front.install()
    _http.install()
    _statistics.install()
