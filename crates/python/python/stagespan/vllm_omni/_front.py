"""The hooks of the front end: the `request` span, and the context of every stage.

vLLM-Omni drops the trace context of a request between its door and its stages, so it is carried
beside it: from the door by a context variable to where the engine builds its message, by the internal
request id to the orchestrator's thread, and from there in the submit message of each stage.

| watched | does |
|---|---|
| `AsyncOmni.generate` | opens the `request` span, of the caller's headers |
| `AsyncOmniEngine._build_add_request_message` | ties it to the engine's internal id |
| `StagePool.submit_initial`, `submit_update` | say which request the next submit message is for |
| `StageEngineCoreClientBase.add_request_async` | gives the stage its ids, in the message's headers |
| `OrchestratorBase._cleanup_request_ids` | every end of a request: ends the span |
| the orchestrator's failure paths | mark the span as failed |
"""

from __future__ import annotations

import atexit
import functools
import inspect
from collections.abc import AsyncGenerator, Callable
from contextvars import ContextVar, Token
from types import ModuleType
from typing import Any, NamedTuple

from stagespan import _native
from stagespan.vllm_omni import _headers
from stagespan.vllm_omni._door import Door, caller_headers
from stagespan.vllm_omni._hooks import around, around_async, fault, is_watched
from stagespan.vllm_omni._imports import when_imported
from stagespan.vllm_omni._stage import stage_name

ASYNC_OMNI = "vllm_omni.entrypoints.async_omni"
OMNI_BASE = "vllm_omni.entrypoints.omni_base"
ENGINE = "vllm_omni.engine.async_omni_engine"
STAGE_POOL = "vllm_omni.engine.stage_pool"
CLIENT = "vllm_omni.engine.stage_engine_core_client"
ORCHESTRATOR = "vllm_omni.engine.orchestrator"

#: Requests in flight by the engine's internal id. Written by the server's thread and by the
#: orchestrator's; each operation on it is atomic.
_doors: dict[str, Door] = {}
#: Where a stage's client keeps what is known of its engine core's clock.
_CLOCK = "_stagespan_clock"
#: More than these are not in flight: the oldest was never cleaned up by the engine.
_DOORS_MAX = 65_536


class _Submit(NamedTuple):
    """What the submit message that is being sent is for."""

    request_id: str
    parent_id: str | None
    is_update: bool


_current_door: ContextVar[Door | None] = ContextVar("stagespan_door", default=None)
_submit: ContextVar[_Submit | None] = ContextVar("stagespan_submit", default=None)
_companion_role: ContextVar[str | None] = ContextVar("stagespan_companion_role", default=None)
_failure: ContextVar[tuple[str, str] | None] = ContextVar("stagespan_failure", default=None)


def install() -> None:
    """Watches the front end of this process, as soon as it is imported."""
    when_imported(ASYNC_OMNI, _watch_async_omni)
    when_imported(OMNI_BASE, _watch_omni_base)
    when_imported(ENGINE, _watch_engine)
    when_imported(STAGE_POOL, _watch_stage_pool)
    when_imported(CLIENT, _watch_client)
    when_imported(ORCHESTRATOR, _watch_orchestrator)
    # Registered after the flush, so it runs before it.
    atexit.register(end_all)


def _watch_async_omni(module: ModuleType) -> None:
    _watch_generate(module.AsyncOmni)


def _watch_omni_base(module: ModuleType) -> None:
    around(module.OmniBase, "_record_request_failure_once", before=before_record_failure)


def _watch_engine(module: ModuleType) -> None:
    around(module.AsyncOmniEngine, "_build_add_request_message", after=after_build_message)


def _watch_stage_pool(module: ModuleType) -> None:
    pool = module.StagePool
    around_async(pool, "submit_initial", before=before_submit_initial, finally_=after_submit)
    around_async(pool, "submit_update", before=before_submit_update, finally_=after_submit)


def _watch_client(module: ModuleType) -> None:
    around_async(module.StageEngineCoreClientBase, "add_request_async", before=before_send)


def _watch_orchestrator(module: ModuleType) -> None:
    base = module.OrchestratorBase
    around_async(base, "_cleanup_request_ids", before=before_cleanup, finally_=after_cleanup)
    around_async(base, "_handle_stage_error", before=before_stage_error, finally_=after_failure)
    around_async(base, "_handle_dead_replica", before=before_stage_lost, finally_=after_failure)
    around_async(base, "_fail_request_dead_stage", before=before_stage_lost, finally_=after_failure)
    around_async(base, "_fail_request_client_error", before=before_client_error, finally_=after_failure)
    around_async(
        module.Orchestrator, "_handle_add_companion", before=before_companion, finally_=after_companion
    )


# -- the door


def _watch_generate(async_omni: type) -> None:
    if is_watched(async_omni, "generate"):
        return
    original: Callable[..., AsyncGenerator[Any, None]] = async_omni.__dict__["generate"]
    signature = inspect.signature(original)

    @functools.wraps(original)
    async def generate(self: Any, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        door = None
        try:
            door = open_door(signature, self, args, kwargs)
        except Exception:
            fault("AsyncOmni.generate")
        outputs = original(self, *args, **kwargs)
        try:
            # The engine takes the request in while the first output is awaited. Set and reset in
            # one step of the generator, so always in one context.
            token = _current_door.set(door)
            try:
                output = await anext(outputs)
            except StopAsyncIteration:
                return
            finally:
                _current_door.reset(token)
            yield output
            async for output in outputs:
                yield output
        except Exception as error:
            if door is not None:
                door.fail("engine_error", type(error).__name__)
            raise
        finally:
            try:
                await outputs.aclose()
            finally:
                if door is not None and not door.is_submitted:
                    # It never reached the orchestrator, which ends the others.
                    door.end()

    setattr(generate, "__stagespan_watches__", original)  # noqa: B010
    async_omni.generate = generate  # type: ignore[attr-defined]


def open_door(signature: inspect.Signature, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Door:
    """Opens the `request` span for a call of `generate`."""
    arguments = signature.bind_partial(self, *args, **kwargs).arguments
    given = arguments.get("trace_headers")
    headers, kind = caller_headers(given)
    return Door(str(arguments.get("request_id") or ""), headers, kind)


def after_build_message(
    _token: None, message: Any, _engine: Any, request_id: str | None = None, *_args: Any, **_kwargs: Any
) -> None:
    """The engine has taken a request in, under its internal id."""
    request_id = str(message.request_id)
    if request_id in _doors:
        # A streaming update of a request that is in flight.
        return
    door = _current_door.get()
    if door is None or door.is_submitted:
        # Not through `generate`: the offline interface, or one we don't know.
        headers, kind = caller_headers(None)
        door = Door(request_id, headers, kind)
    if not door.request_id:
        door.request_id = request_id
    door.is_submitted = True
    while len(_doors) >= _DOORS_MAX:
        _doors.pop(next(iter(_doors))).end()
    _doors[request_id] = door


# -- the submit messages


def before_submit_initial(
    _pool: Any, request_id: str, req_state: Any, _request: Any, **kwargs: Any
) -> Token[_Submit | None]:
    # A session that is prewarmed again for its next segment is no new request.
    is_update = bool(getattr(getattr(req_state, "streaming", None), "enabled", False))
    return _submit.set(_Submit(request_id, kwargs.get("affinity_request_id"), is_update))


def before_submit_update(
    _pool: Any, request_id: str, _req_state: Any, _request: Any, **_kwargs: Any
) -> Token[_Submit | None]:
    return _submit.set(_Submit(request_id, None, True))


def after_submit(token: Token[_Submit | None] | None, *_args: Any, **_kwargs: Any) -> None:
    if token is not None:
        _submit.reset(token)


def before_send(client: Any, request: Any) -> None:
    """Puts the stage's headers on a request that is about to be sent to it."""
    submit = _submit.get()
    if submit is None:
        return
    parent_id = submit.parent_id if submit.parent_id != submit.request_id else None
    door = _doors.get(submit.request_id) or (_doors.get(parent_id) if parent_id else None)
    if door is None:
        return
    role = (_companion_role.get() or "companion") if parent_id else None
    stage_id = int(client.stage_id)
    config = getattr(client.vllm_config, "model_config", None)
    ours = door.headers_for(
        submit.request_id,
        stage_id,
        stage_name(config, stage_id, getattr(client, "model_stage", None)),
        clock_domain=_clock_of(client),
        upstream_ids=getattr(client, "engine_input_source", None) or (),
        companion_role=role,
        is_update=submit.is_update,
    )
    if ours:
        request.trace_headers = _headers.pack(request.trace_headers, ours, door.request_id, role)


def _clock_of(client: Any) -> str | None:
    """The clock of the stage's engine core, if it is a child of this process: then it can be read."""
    known: tuple[int, str | None] | None = client.__dict__.get(_CLOCK)
    manager = getattr(getattr(client, "resources", None), "engine_manager", None)
    for process in getattr(manager, "processes", None) or ():
        pid = process.pid
        if pid is None:
            continue
        if known is None or known[0] != pid:
            known = (pid, _native.clock_domain(pid))
            client.__dict__[_CLOCK] = known
        return known[1]
    return None


def before_companion(_orchestrator: Any, message: Any) -> Token[str | None]:
    return _companion_role.set(str(message.role))


def after_companion(token: Token[str | None] | None, *_args: Any) -> None:
    if token is not None:
        _companion_role.reset(token)


# -- failures and ends


def _failing(error_type: str, message: str) -> Token[tuple[str, str] | None] | None:
    if _failure.get() is not None:
        # The first cause: what it brings about fails in its name.
        return None
    return _failure.set((error_type, message))


def before_record_failure(_omni: Any, request_id: str, reason: str) -> None:
    """The server has given a request up; a client that left is no failure."""
    door = _doors.get(request_id)
    if door is not None and reason != "client_disconnect":
        door.fail("engine_error", f"the server gave the request up: {reason}")


def before_stage_error(
    _orchestrator: Any, stage_id: int, _output: Any, **_kwargs: Any
) -> Token[tuple[str, str] | None] | None:
    return _failing("engine_error", f"stage {stage_id} reported an error")


def before_stage_lost(_orchestrator: Any, *args: Any, **_kwargs: Any) -> Token[tuple[str, str] | None] | None:
    stage_id = next((arg for arg in args if isinstance(arg, int)), None)
    return _failing("stage_lost", f"stage {stage_id} has died")


def before_client_error(
    _orchestrator: Any, _request_id: str, stage_id: int, *_args: Any, **_kwargs: Any
) -> Token[tuple[str, str] | None] | None:
    return _failing("rejected", f"stage {stage_id} refused the request")


def after_failure(token: Token[tuple[str, str] | None] | None, *_args: Any, **_kwargs: Any) -> None:
    if token is not None:
        _failure.reset(token)


def before_cleanup(orchestrator: Any, request_ids: list[str], **_kwargs: Any) -> list[str]:
    """Whom a clean-up may end: the requests, and the parents of companions among them."""
    tracker = getattr(orchestrator, "_cfg_tracker", None)
    parents = (tracker.get_parent_id(request_id) for request_id in request_ids) if tracker else ()
    return list(dict.fromkeys([*request_ids, *(parent for parent in parents if parent)]))


def after_cleanup(
    candidates: list[str] | None, orchestrator: Any, request_ids: list[str], **_kwargs: Any
) -> None:
    failure = _failure.get()
    for request_id in request_ids if candidates is None else candidates:
        if request_id in orchestrator.request_states:
            continue
        door = _doors.pop(request_id, None)
        if door is not None:
            if failure is not None:
                door.fail(*failure)
            door.end()


def end_all() -> None:
    """The server ends with requests in flight."""
    while _doors:
        try:
            door = _doors.pop(next(iter(_doors)))
        except (KeyError, RuntimeError, StopIteration):
            # The orchestrator's thread has just ended it.
            continue
        door.fail("shutdown", "the server was shut down")
        door.end()
