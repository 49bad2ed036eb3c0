"""The hooks of an engine-core process: where a stage's scheduler tells of its requests.

| watched | tells |
|---|---|
| `Scheduler.add_request` | QUEUED; the context headers are taken off the request |
| `Request.record_event` | with statistics on: the time of each QUEUED, SCHEDULED and PREEMPTED |
| `OmniSchedulerMixin._process_pending_omni_inputs` | the gates have run: the stamp |
| `Scheduler.schedule` | the step's SCHEDULED time, where the engine records no events |
| `OmniGenerationScheduler.schedule` | its SCHEDULED time is taken before the gates |
| `Scheduler._preempt_request` | PREEMPTED, where the engine records no events |
| `_free_request` | the end, whatever it is |
| `update_from_output` | the outputs, with their time; sends the stamp along |
| `EngineCore.shutdown` | what is in flight ends; what is recorded is flushed |
"""

from __future__ import annotations

import atexit
import sys
import time
from types import ModuleType
from typing import Any

from stagespan import _lifecycle, _native
from stagespan.vllm_omni import _headers
from stagespan.vllm_omni._hooks import around
from stagespan.vllm_omni._imports import when_imported
from stagespan.vllm_omni._stage import StageWatch, Tracked, shut_down_all

#: Where a request keeps its `Tracked`, and a scheduler its `StageWatch`.
_MARK = "_stagespan"

SCHEDULER = "vllm.v1.core.sched.scheduler"
REQUEST = "vllm.v1.request"
ENGINE_CORE = "vllm.v1.engine.core"
MIXIN = "vllm_omni.core.sched.omni_scheduler_mixin"
AR = "vllm_omni.core.sched.omni_ar_scheduler"
GENERATION = "vllm_omni.core.sched.omni_generation_scheduler"


def install() -> None:
    """Watches the schedulers of this process, as soon as they are imported."""
    when_imported(SCHEDULER, _watch_scheduler)
    when_imported(REQUEST, _watch_request)
    when_imported(MIXIN, _watch_mixin)
    when_imported(AR, _watch_ar)
    when_imported(GENERATION, _watch_generation)
    when_imported(ENGINE_CORE, _watch_engine_core)
    # Where the engine is not shut down properly. Registered after the flush, so it runs before it.
    atexit.register(shut_down_all, "shutdown")


def _watch_scheduler(module: ModuleType) -> None:
    scheduler = module.Scheduler
    around(scheduler, "add_request", before=before_add_request, after=after_add_request)
    around(scheduler, "schedule", before=before_upstream_schedule, after=after_upstream_schedule)
    around(scheduler, "_preempt_request", before=before_preempt)
    around(scheduler, "_free_request", before=before_free)


def _watch_request(module: ModuleType) -> None:
    # vLLM-Omni puts its own subclass in the place of vLLM's class.
    owner = next(cls for cls in module.Request.__mro__ if "record_event" in cls.__dict__)
    around(owner, "record_event", after=after_record_event)


def _watch_mixin(module: ModuleType) -> None:
    mixin = module.OmniSchedulerMixin
    around(mixin, "_process_pending_omni_inputs", after=after_gates)
    around(mixin, "_process_chunk_receive_failures", before=before_failures, after=after_failures)
    around(mixin, "finish_requests", before=before_finish_requests)


def _watch_ar(module: ModuleType) -> None:
    around(module.OmniARScheduler, "_free_request", before=before_free)
    around(module.OmniARScheduler, "update_from_output", after=after_update)


def _watch_generation(module: ModuleType) -> None:
    scheduler = module.OmniGenerationScheduler
    around(scheduler, "schedule", before=before_generation_schedule, after=after_generation_schedule)
    around(scheduler, "update_from_output", after=after_update)


def _watch_engine_core(module: ModuleType) -> None:
    around(module.EngineCore, "shutdown", before=before_shutdown)


def watch_of(scheduler: Any) -> StageWatch | None:
    """The scheduler's watch, begun at its first request; `None` for a scheduler that isn't
    vLLM-Omni's."""
    watch: StageWatch | None = scheduler.__dict__.get(_MARK)
    if watch is None and hasattr(scheduler, "_process_pending_omni_inputs"):
        from vllm.v1.request import RequestStatus

        watch = StageWatch(scheduler, RequestStatus, hides_requests=_hides_requests(type(scheduler)))
        scheduler.__dict__[_MARK] = watch
    return watch


def _hides_requests(scheduler: type) -> bool:
    """Whether `schedule` is a subclass's own, which may keep requests from the gates."""
    owner = next(cls for cls in scheduler.__mro__ if "schedule" in cls.__dict__)
    return owner.__name__ not in ("OmniARScheduler", "OmniGenerationScheduler")


# -- QUEUED


def before_add_request(scheduler: Any, request: Any) -> tuple[Tracked, _headers.StageHeaders] | None:
    watch = watch_of(scheduler)
    if watch is None:
        return None
    headers = _headers.unpack(request, keeps_host_context=watch.keeps_host_context)
    if request.request_id in scheduler.requests:
        # A streaming update: the request that it continues has a context already.
        return None
    tracked = Tracked(request.request_id, watch)
    request.__dict__[_MARK] = tracked
    return tracked, headers


def after_add_request(
    token: tuple[Tracked, _headers.StageHeaders] | None, _result: None, _scheduler: Any, request: Any
) -> None:
    if token is None:
        return
    tracked, headers = token
    if tracked.queued_at is None:
        tracked.queued_at = time.monotonic()
    tracked.watch.enqueued(tracked, request, headers)


# -- the engine's events


def after_record_event(
    _token: None, _result: None, request: Any, event_type: Any, timestamp: float | None = None
) -> None:
    tracked: Tracked | None = request.__dict__.get(_MARK)
    if tracked is None:
        return
    at = request.events[-1].timestamp
    kind = event_type.value
    watch = tracked.watch
    if kind == 2:
        if watch.upstream_at is None:
            watch.fast_path_at = at
        watch.scheduled(tracked, at)
    elif kind == 3:
        watch.stage.preempted(tracked.handle, at)
    elif tracked.queued_at is None:
        tracked.queued_at = at


# -- the step


def after_gates(_token: None, _result: None, scheduler: Any, *_args: Any, **_kwargs: Any) -> None:
    watch = scheduler.__dict__.get(_MARK)
    if watch is not None:
        watch.gates_ran(scheduler)


def before_generation_schedule(scheduler: Any, *_args: Any, **_kwargs: Any) -> None:
    watch = scheduler.__dict__.get(_MARK)
    if watch is not None:
        watch.step_began()


def after_generation_schedule(_token: None, output: Any, scheduler: Any, *_args: Any, **_kwargs: Any) -> None:
    watch = scheduler.__dict__.get(_MARK)
    if watch is None:
        return
    if not watch.uses_events and watch.upstream_at is None and watch.entered_at is not None:
        _scheduled_now(watch, output, watch.entered_at)
    watch.step_ended()


def before_upstream_schedule(scheduler: Any, *_args: Any, **_kwargs: Any) -> None:
    watch = scheduler.__dict__.get(_MARK)
    if watch is not None:
        watch.upstream_at = time.monotonic()


def after_upstream_schedule(_token: None, output: Any, scheduler: Any, *_args: Any, **_kwargs: Any) -> None:
    watch = scheduler.__dict__.get(_MARK)
    if watch is not None and not watch.uses_events and watch.upstream_at is not None:
        _scheduled_now(watch, output, watch.upstream_at)


def _scheduled_now(watch: StageWatch, output: Any, at: float) -> None:
    """Without the engine's events: whom the step's output lists as newly running."""
    for data in output.scheduled_new_reqs:
        tracked = watch.live.get(data.req_id)
        if tracked is not None:
            watch.scheduled(tracked, at)
    resumed = getattr(output.scheduled_cached_reqs, "resumed_req_ids", ())
    for request_id in resumed:
        tracked = watch.live.get(request_id)
        if tracked is not None:
            watch.scheduled(tracked, at)


def before_preempt(_scheduler: Any, request: Any, timestamp: float, *_args: Any, **_kwargs: Any) -> None:
    tracked: Tracked | None = request.__dict__.get(_MARK)
    if tracked is not None and not tracked.watch.uses_events:
        tracked.watch.stage.preempted(tracked.handle, timestamp)


# -- outputs and ends


def before_free(_scheduler: Any, request: Any, *_args: Any, **_kwargs: Any) -> None:
    tracked: Tracked | None = request.__dict__.get(_MARK)
    if tracked is not None and not tracked.is_ended:
        tracked.watch.freed(request, tracked)


def after_update(_token: None, outputs: Any, scheduler: Any, *_args: Any, **_kwargs: Any) -> None:
    watch = scheduler.__dict__.get(_MARK)
    if watch is not None:
        watch.outputs_made(outputs.values(), sends_stamps=watch.uses_events)


def before_failures(scheduler: Any) -> StageWatch | None:
    watch: StageWatch | None = scheduler.__dict__.get(_MARK)
    if watch is not None:
        watch.is_receive_failing = True
    return watch


def after_failures(watch: StageWatch | None, _result: None, _scheduler: Any) -> None:
    if watch is not None:
        watch.is_receive_failing = False


def before_finish_requests(scheduler: Any, request_ids: Any, *_args: Any, **_kwargs: Any) -> None:
    """Counts aborts of requests that nobody knows. An iterator is left alone: reading it would
    empty it."""
    watch = scheduler.__dict__.get(_MARK)
    if (
        watch is None
        or request_ids is None
        or not isinstance(request_ids, (str, list, tuple, set, frozenset))
    ):
        return
    ids = (request_ids,) if isinstance(request_ids, str) else request_ids
    unknown = sum(1 for request_id in ids if request_id not in scheduler.requests)
    if unknown:
        _native.count_unknown(unknown)


def before_shutdown(_engine_core: Any) -> None:
    # The engine shuts down in a `finally`: an exception that is on its way is what ended it.
    cause = sys.exception() if sys.version_info >= (3, 11) else sys.exc_info()[1]
    crashed = isinstance(cause, Exception)
    shut_down_all("error" if crashed else "shutdown")
    _native.flush(_lifecycle.FLUSH_TIMEOUT_S)
