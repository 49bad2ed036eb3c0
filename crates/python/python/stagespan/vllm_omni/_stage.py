"""One stage's scheduler, watched: its requests from QUEUED to their end."""

from __future__ import annotations

import os
import re
import time
import weakref
from collections.abc import Iterable
from typing import Any

from stagespan import _native
from stagespan.vllm_omni import _headers
from stagespan.vllm_omni._gate import GateWatch

#: Every scheduler of this process that is watched.
_watches: weakref.WeakSet[StageWatch] = weakref.WeakSet()


class Tracked:
    """What is remembered of a request in flight beside its timeline.

    It hangs on the engine's `Request`, and never points back: a cycle would keep the request's
    tensors alive until the garbage collector runs.
    """

    __slots__ = (
        "handle",
        "has_tokens",
        "is_ended",
        "is_scheduled",
        "is_sent",
        "queued_at",
        "ready_at",
        "request_id",
        "tokens",
        "tokens_at",
        "unready_at",
        "watch",
    )

    def __init__(self, request_id: str, watch: StageWatch) -> None:
        self.request_id = request_id
        self.watch = watch
        self.handle = 0
        self.queued_at: float | None = None
        self.ready_at: float | None = None
        self.unready_at: float | None = None
        self.is_scheduled = False
        #: Whether the stamp has been sent to the front end.
        self.is_sent = False
        self.has_tokens = False
        #: Tokens after the first output's, and when the last of them came.
        self.tokens = 0
        self.tokens_at = 0.0
        self.is_ended = False


class StageWatch:
    """The stage that a scheduler runs, and its requests in flight."""

    def __init__(self, scheduler: Any, statuses: Any, *, hides_requests: bool) -> None:
        config = scheduler.vllm_config.model_config
        stage_id = int(getattr(config, "stage_id", 0) or 0)
        gate, sender_only = _gate_of(scheduler, config)
        #: With statistics on, the engine's own events are the instants.
        self.uses_events = bool(scheduler.log_stats)
        self.stage = _native.Stage(
            stage_name(config, stage_id),
            stage_id,
            replica_id=_replica_id(),
            gate=gate,
            sender_only=sender_only,
            clock_source="events" if self.uses_events else "hook",
            engine_version=_engine_version(),
        )
        self.gate: GateWatch | None = None
        if self.stage.is_gated:
            self.gate = GateWatch(scheduler, statuses, hides_requests=hides_requests)
        self.keeps_host_context = _headers.host_traces(scheduler.vllm_config)
        self.live: dict[str, Tracked] = {}
        #: Ended, but the output that says so has not been sent: (request, end, instant, input tokens).
        self.ended: dict[str, tuple[Tracked, _native.End, float, int | None]] = {}
        #: When the present `schedule()` began, in a scheduler that takes its SCHEDULED time first.
        self.entered_at: float | None = None
        #: When upstream's `schedule()` began in this step, if it has.
        self.upstream_at: float | None = None
        #: The SCHEDULED time of this step's fast path, as the engine's events give it.
        self.fast_path_at: float | None = None
        #: Stamped in this step; handed over when the step's SCHEDULED time is known.
        self.stamped: list[Tracked] = []
        #: Whether what ends now ends since its input could not be received.
        self.is_receive_failing = False
        _watches.add(self)

    # -- the queued interval

    def enqueued(self, tracked: Tracked, request: Any, headers: _headers.StageHeaders) -> None:
        """QUEUED."""
        leftover = self.ended.pop(tracked.request_id, None)
        if leftover is not None:
            self._finish(*leftover)
        tracked.handle = self.stage.enqueue(
            headers.request_id or getattr(request, "external_req_id", None) or tracked.request_id,
            at=tracked.queued_at,
            headers=headers.context,
            internal_id=tracked.request_id,
            companion_role=headers.companion_role,
        )
        self.live[tracked.request_id] = tracked
        if self.gate is not None:
            self.gate.arrived(tracked)

    def step_began(self) -> None:
        """A scheduler that takes its SCHEDULED time before the gates has begun a step."""
        self.entered_at = time.monotonic()
        self.upstream_at = None
        self.fast_path_at = None

    def gates_ran(self, scheduler: Any) -> None:
        """The gates have run in this step."""
        if self.gate is None:
            return
        self.stamped += self.gate.passed(scheduler, self, self.entered_at)
        if self.entered_at is None:
            self.hand_stamps_over()

    def step_ended(self) -> None:
        """The step that `step_began` is over. What its fast path scheduled has one SCHEDULED time,
        which is the stamp's as well."""
        if self.fast_path_at is not None:
            for tracked in self.stamped:
                tracked.ready_at = self.fast_path_at
        self.hand_stamps_over()
        self.entered_at = None

    def hand_stamps_over(self) -> None:
        for tracked in self.stamped:
            self.stage.input_ready(tracked.handle, tracked.ready_at, tracked.unready_at)
        self.stamped.clear()

    def scheduled(self, tracked: Tracked, at: float) -> None:
        """SCHEDULED; only the first one of a request counts."""
        if not tracked.is_scheduled:
            tracked.is_scheduled = True
            self.stage.scheduled(tracked.handle, at)

    # -- outputs and ends

    def freed(self, request: Any, tracked: Tracked) -> None:
        """The scheduler has finished a request, for whatever reason."""
        tracked.is_ended = True
        if self.live.get(tracked.request_id) is tracked:
            del self.live[tracked.request_id]
        if self.gate is not None:
            self.gate.left(tracked)
        end = self._end_of(request)
        self.ended[tracked.request_id] = (tracked, end, time.monotonic(), int(request.num_prompt_tokens))

    def _end_of(self, request: Any) -> _native.End:
        if self.is_receive_failing:
            return "connector_failure"
        reason = request.get_finished_reason()
        if request.status.name == "FINISHED_IGNORED":
            return "rejected"
        return _native.end_of(3 if reason is None else reason.value, request.stop_reason)

    def outputs_made(self, batches: Iterable[Any], *, sends_stamps: bool) -> None:
        """The outputs of a step, ready to be sent."""
        live, ended = self.live, self.ended
        for batch in batches:
            at = batch.timestamp
            for output in batch.outputs:
                request_id = output.request_id
                if ended and (entry := ended.get(request_id)) is not None:
                    tracked = entry[0]
                    if output.finish_reason is not None:
                        ended[request_id] = (tracked, entry[1], at, entry[3])
                else:
                    known = live.get(request_id)
                    if known is None:
                        continue
                    tracked = known
                count = len(output.new_token_ids)
                if count:
                    if tracked.has_tokens:
                        tracked.tokens += count
                        tracked.tokens_at = at
                    else:
                        tracked.has_tokens = True
                        self.stage.tokens(tracked.handle, count, at)
                if sends_stamps and output.events and tracked.ready_at is not None and not tracked.is_sent:
                    tracked.is_sent = True
                    _headers.attach_stamp(output, tracked.ready_at)
        if ended:
            self._finish_all()

    def _finish_all(self) -> None:
        """Hands over what has ended."""
        entries = list(self.ended.values())
        # First, so that one that fails is not tried again in every step to come.
        self.ended.clear()
        for entry in entries:
            self._finish(*entry)

    def _finish(self, tracked: Tracked, end: _native.End, at: float, tokens_input: int | None) -> None:
        if tracked.tokens:
            self.stage.tokens(tracked.handle, tracked.tokens, tracked.tokens_at)
        self.stage.finish(tracked.handle, end, at, tokens_input)

    def shut_down(self, end: _native.End) -> None:
        """Ends what is in flight."""
        self._finish_all()
        at = time.monotonic()
        for tracked in self.live.values():
            tracked.is_ended = True
            self.ended[tracked.request_id] = (tracked, end, at, None)
        self.live.clear()
        self._finish_all()


def shut_down_all(end: _native.End) -> None:
    """Ends whatever is in flight on any scheduler of this process."""
    for watch in list(_watches):
        watch.shut_down(end)


def _gate_of(scheduler: Any, config: Any) -> tuple[_native.Gate, bool]:
    """The stage's gate, and whether it only sends chunks."""
    adapter = scheduler.chunk_transfer_adapter
    coordinator = scheduler.input_coordinator
    if adapter is not None:
        return "async_chunk", not adapter.receives_chunks
    if coordinator is not None:
        return ("async_chunk" if coordinator._async_chunk else "full_payload"), False
    # Chunks without any of the two: a stage that is fed by the orchestrator and only sends.
    return ("async_chunk" if getattr(config, "async_chunk", False) else "none"), True


def stage_name(config: Any, stage_id: int, fallback: str | None = None) -> str:
    """The stage's name as spans carry it, from its model configuration."""
    name = str(getattr(config, "model_stage", None) or fallback or f"stage{stage_id}")
    return re.sub(r"[^a-z0-9_.-]", "_", name.lower())[:64]


def _replica_id() -> int:
    try:
        return max(0, int(os.environ.get("VLLM_OMNI_REPLICA_ID", "0")))
    except ValueError:
        return 0


def _engine_version() -> str | None:
    from importlib import metadata

    try:
        return metadata.version("vllm-omni")
    except metadata.PackageNotFoundError:
        return None
