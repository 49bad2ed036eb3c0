"""A toy pipeline of two stages, each with a scheduler of its own, told of to Stagespan in six calls.

    pip install stagespan
    python examples/python_scheduler.py

The first stage ("thinker") runs one request after another. The second ("talker") starts a request only when
the thinker's whole output for it is there, and has one slot. Which of its waits is long, and why, is what the
spans tell. They are written to `python-scheduler-trace.json`, which Jaeger's UI opens by "Upload"; with
OTEL_EXPORTER_OTLP_ENDPOINT set they go there instead.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from dataclasses import dataclass, field

import stagespan

REQUESTS = 4
THINK_S = 0.10
TALK_S = 0.15


@dataclass
class Request:
    """What a stage's scheduler knows of a request."""

    request_id: str
    headers: dict[str, str]
    #: Answered by `enqueue`, and all that the other calls need.
    handle: int = 0
    #: Set by the upstream stage, from its own thread.
    input: threading.Event = field(default_factory=threading.Event)


class Scheduler(threading.Thread):
    """One stage: a queue, an input gate and one slot, in a thread of its own."""

    def __init__(self, stage: stagespan.Stage, seconds: float, downstream: Scheduler | None) -> None:
        super().__init__(name=stage.name)
        self.stage = stage
        self.seconds = seconds
        self.downstream = downstream
        self.waiting: deque[Request] = deque()
        self.ready: deque[Request] = deque()
        self.left = REQUESTS

    def submit(self, request: Request) -> None:
        request.handle = self.stage.enqueue(request.request_id, headers=request.headers, tokens_input=8)
        self.waiting.append(request)

    def run(self) -> None:
        last_pass = None
        while self.left:
            # The gate: whose input is there? Everybody who passes in this step is told of with its time.
            now = time.monotonic()
            for request in list(self.waiting):
                if request.input.is_set():
                    self.waiting.remove(request)
                    self.ready.append(request)
                    self.stage.input_ready(request.handle, now, unready_at=last_pass)
            last_pass = now
            if not self.ready:
                time.sleep(0.002)
                continue
            self.run_one(self.ready.popleft())

    def run_one(self, request: Request) -> None:
        self.stage.scheduled(request.handle)
        time.sleep(self.seconds / 2)
        self.stage.tokens(request.handle, 1)
        time.sleep(self.seconds / 2)
        self.stage.tokens(request.handle, 19)
        self.stage.finish(request.handle, "stop")
        self.left -= 1
        if self.downstream is not None:
            self.downstream.input_of(request.request_id).set()

    def input_of(self, request_id: str) -> threading.Event:
        return next(r.input for r in (*self.waiting, *self.ready) if r.request_id == request_id)


def main() -> None:
    if not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        stagespan.configure(json_file="python-scheduler-trace.json")

    talker = Scheduler(stagespan.Stage("talker", 1, gate="full_payload"), TALK_S, None)
    thinker = Scheduler(stagespan.Stage("thinker", 0), THINK_S, talker)

    # Both schedulers run in this process, so they read the clock that the requests' spans are timed by.
    clock = stagespan.clock_domain()
    spans = []
    for i in range(REQUESTS):
        request_id = f"req-{i}"
        span = stagespan.open_request(request_id)
        first = Request(request_id, span.assign("thinker", clock_domain=clock))
        second = Request(request_id, span.assign("talker", clock_domain=clock, upstreams=["thinker"]))
        first.input.set()
        # The downstream stage knows of the request from the start: its wait for input begins here.
        talker.submit(second)
        thinker.submit(first)
        spans.append(span)

    talker.start()
    thinker.start()
    thinker.join()
    talker.join()
    for span in spans:
        span.end()

    complete = stagespan.flush()
    account = stagespan.stats()
    print(f"{account['produced']} spans produced, {account['exported']} exported: {stagespan.output()}")
    assert complete, account


if __name__ == "__main__":
    main()
