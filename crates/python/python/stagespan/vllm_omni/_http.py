"""The HTTP door: the caller's headers, kept for as long as its request is served."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, MutableMapping
from types import ModuleType
from typing import Any

from stagespan.vllm_omni._door import http_headers
from stagespan.vllm_omni._hooks import fault
from stagespan.vllm_omni._imports import when_imported

REGISTER = "vllm.entrypoints.serve.middleware.register"
#: Imports the function by name.
APP = "vllm.entrypoints.launchers.app"
_FUNCTION = "init_entrypoints_middleware"
#: Headers of a caller that a context can be made of.
_WANTED = ("traceparent", "tracestate", "baggage")

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[..., Awaitable[Any]], Callable[..., Awaitable[Any]]], Awaitable[None]]


class TraceContextMiddleware:
    """Keeps the caller's trace context where the engine's `generate` finds it.

    It is added by itself; `--middleware stagespan.vllm_omni.TraceContextMiddleware` does the same for
    a server that builds its application in another way.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(
        self, scope: Scope, receive: Callable[..., Awaitable[Any]], send: Callable[..., Awaitable[Any]]
    ) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers: dict[str, str] = {}
        try:
            headers = _wanted(scope)
        except Exception:
            fault("TraceContextMiddleware")
        token = http_headers.set(headers)
        try:
            await self._app(scope, receive, send)
        finally:
            http_headers.reset(token)


def _wanted(scope: Scope) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1").lower()
        if name in _WANTED:
            value = raw_value.decode("latin-1")
            # A list may come in several lines; a traceparent that does is refused for it.
            headers[name] = f"{headers[name]},{value}" if name in headers else value
    return headers


def install() -> None:
    """Adds the middleware to every application that this process builds."""
    when_imported(REGISTER, _add_middleware)
    when_imported(APP, _add_middleware)


def _add_middleware(module: ModuleType) -> None:
    original = getattr(module, _FUNCTION)
    if hasattr(original, "__stagespan_watches__"):
        return

    @functools.wraps(original)
    def init_entrypoints_middleware(args: Any, app: Any, *rest: Any, **kwargs: Any) -> Any:
        result = original(args, app, *rest, **kwargs)
        try:
            app.add_middleware(TraceContextMiddleware)
        except Exception:
            fault(_FUNCTION)
        return result

    setattr(init_entrypoints_middleware, "__stagespan_watches__", original)  # noqa: B010
    setattr(module, _FUNCTION, init_entrypoints_middleware)
