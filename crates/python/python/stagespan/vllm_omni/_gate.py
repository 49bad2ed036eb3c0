"""When a gate let a request through: the stamp of input readiness.

A gate keeps the requests that it holds in a dict, `_waiting_since`, and takes each out when it lets
it through. A subclass of that dict notes who was taken out, so a step looks only at those, at the
requests that have not met a gate yet, and at the few that passed but cannot be scheduled for another
reason (a grammar that is still compiled). Requests that go on waiting cost nothing.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stagespan.vllm_omni._stage import StageWatch, Tracked


class ReleasingDict(dict[str, float]):
    """A gate's `_waiting_since` that notes whom the gate let go."""

    def __init__(self, held: dict[str, float]) -> None:
        super().__init__(held)
        #: Appended to by the gate's threads, emptied by the scheduler's: both are atomic.
        self.released: deque[str] = deque()

    def pop(self, key: str, *default: Any) -> Any:
        if key in self:
            self.released.append(key)
        return super().pop(key, *default)


class GateWatch:
    """The gate of one scheduler."""

    def __init__(self, scheduler: Any, statuses: Any, *, hides_requests: bool) -> None:
        owner = scheduler.chunk_transfer_adapter or scheduler.input_coordinator
        released = ReleasingDict(owner._waiting_since)
        owner._waiting_since = released
        self._released = released.released
        #: With a window of active streams, a request without a slot is parked though it is WAITING.
        self._adapter = scheduler.chunk_transfer_adapter
        #: A scheduler whose own `schedule` keeps requests from the gate.
        self._hides_requests = hides_requests
        self._waiting = statuses.WAITING
        self._held = (statuses.WAITING_FOR_CHUNK, statuses.WAITING_FOR_INPUT)
        #: Not stamped, and not known to be held.
        self.unsettled: dict[str, Tracked] = {}
        #: Not stamped, held or not.
        self.unstamped = 0
        self._last_pass_at: float | None = None

    def arrived(self, tracked: Tracked) -> None:
        """A request that has not met the gate yet."""
        self.unsettled[tracked.request_id] = tracked
        self.unstamped += 1

    def left(self, tracked: Tracked) -> None:
        """A request that ended."""
        if tracked.ready_at is None:
            self.unstamped -= 1
            if self.unsettled.get(tracked.request_id) is tracked:
                del self.unsettled[tracked.request_id]

    def passed(self, scheduler: Any, watch: StageWatch, entered_at: float | None) -> list[Tracked]:
        """Stamps who is ready now that the gate has run; `entered_at` is the stamp of a scheduler
        that takes its SCHEDULED time before the gate."""
        released = self._released
        while released:
            request_id = released.popleft()
            tracked = watch.live.get(request_id)
            if tracked is not None and tracked.ready_at is None:
                self.unsettled[request_id] = tracked
        if not self.unstamped:
            self._last_pass_at = None
            return []
        ready = self._ready(scheduler) if self.unsettled else []
        at = time.monotonic() if entered_at is None else entered_at
        for tracked in ready:
            tracked.ready_at = at
            tracked.unready_at = self._last_pass_at
            del self.unsettled[tracked.request_id]
        self.unstamped -= len(ready)
        self._last_pass_at = at
        return ready

    def _ready(self, scheduler: Any) -> list[Tracked]:
        requests = scheduler.requests
        waiting, held = self._waiting, self._held
        window = self._adapter is not None and self._adapter._active_window > 0
        seen: set[str] | None = None
        ready, settled = [], []
        for request_id, tracked in self.unsettled.items():
            request = requests.get(request_id)
            if request is None:
                continue
            status = request.status
            if status == waiting:
                if window and request_id not in self._adapter._active_streams:
                    # Once it gets a slot, the gate holds it first and lets it go later.
                    settled.append(request_id)
                    continue
                if self._hides_requests:
                    if seen is None:
                        seen = queued_ids(scheduler)
                    if request_id not in seen:
                        continue
                ready.append(tracked)
            elif status in held:
                settled.append(request_id)
        for request_id in settled:
            del self.unsettled[request_id]
        return ready


def queued_ids(scheduler: Any) -> set[str]:
    """The ids in the scheduler's waiting queues."""
    # The second queue has had two names.
    queues = (
        scheduler.waiting,
        getattr(scheduler, "kv_holding_waiting", ()),
        getattr(scheduler, "skipped_waiting", ()),
    )
    return {request.request_id for queue in queues for request in queue}
