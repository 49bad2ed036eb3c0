"""The stamp is that of a full scan, for any workload.

The scan looks at both waiting queues after every gate pass, and stamps whoever is WAITING there for the
first time. The plug-in looks at none of them, and must stamp the same requests in the same passes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import spans as spans_module
import stagespan

omni = pytest.importorskip("omni", reason="needs vLLM-Omni")

#: Workloads per configuration.
SEEDS = 25
STEPS = 60

CONFIGURATIONS: list[tuple[str, dict[str, Any]]] = [
    ("ar", {"gate": "full_payload"}),
    ("ar", {"gate": "full_payload", "max_num_seqs": 2, "blocks": 8}),
    ("ar", {"gate": "async_chunk"}),
    ("ar", {"gate": "async_chunk", "window": 1}),
    ("ar", {"gate": "async_chunk", "window": 2, "max_num_seqs": 2}),
    ("ar", {"gate": "async_chunk", "native": True}),
    ("ar_async", {"gate": "full_payload", "max_num_seqs": 3}),
    ("generation", {"gate": "full_payload", "max_num_seqs": 2}),
    ("generation", {"gate": "async_chunk"}),
    ("generation", {"gate": "async_chunk", "window": 1}),
    ("generation", {"gate": "async_chunk", "native": True, "max_num_seqs": 2}),
]


class FullScan:
    """Stamps as a scan of both queues would, and compares after each pass."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.passes = 0
        self.stamped: dict[str, int] = {}
        self.ours: dict[str, int] = {}
        self._compare_with: dict[str, Any] = {}
        gates = scheduler._process_pending_omni_inputs

        def gates_and_scan(model_mode: str) -> None:
            gates(model_mode)
            self.scan()

        scheduler._process_pending_omni_inputs = gates_and_scan

    def knows(self, key: str, request: Any) -> None:
        """A request that may be stamped; `key` tells apart those that use one id in turn."""
        request.test_key = key
        self._compare_with[key] = request

    def scan(self) -> None:
        self.passes += 1
        scheduler = self.scheduler
        for queue in (
            scheduler.waiting,
            getattr(scheduler, "kv_holding_waiting", ()),
            getattr(scheduler, "skipped_waiting", ()),
        ):
            for request in queue:
                if request.status == omni.RequestStatus.WAITING:
                    self.stamped.setdefault(request.test_key, self.passes)
        for key, request in self._compare_with.items():
            if request.__dict__["_stagespan"].ready_at is not None:
                self.ours.setdefault(key, self.passes)
        assert self.ours == self.stamped, f"in pass {self.passes}"


class Workload:
    """Random things that may happen to one stage."""

    def __init__(self, kind: str, config: dict[str, Any], seed: int) -> None:
        self.random = random.Random(seed)
        self.stage = omni.Stage(kind, log_stats=self.random.random() < 0.5, **config)
        self.scan = FullScan(self.stage.scheduler)
        self.kind = kind
        self.added = 0
        self.in_flight: list[Any] = []
        self.compiling: list[Any] = []

    def run(self) -> None:
        try:
            for _ in range(STEPS):
                for _ in range(self.random.randrange(3)):
                    self.random.choice(
                        [self.add, self.add, self.input, self.input, self.abort, self.compiled]
                    )()
                self.step()
            for request in list(self.in_flight):
                self.stage.abort(request.request_id)
            self.step()
        finally:
            self.stage.close()

    def add(self) -> None:
        self.added += 1
        # An id may come back right after its request has ended.
        request_id = f"r{self.random.randrange(6)}"
        if request_id in self.stage.scheduler.requests:
            return
        self.stage._chunks.pop(request_id, None)
        omni.new_external_id(request_id)
        request = omni.make_request(
            request_id,
            prompt=1 if self.kind == "generation" else self.random.randrange(1, 40),
            max_tokens=self.random.randrange(1, 6),
        )
        if self.random.random() < 0.2 and self.kind != "generation":
            # Its grammar is being compiled: no gate sees it meanwhile.
            request.status = omni.RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
            request.structured_output_request = SimpleNamespace(grammar=None, reasoning_ended=None)
            self.compiling.append(request)
        self.stage.scheduler.add_request(request)
        self.scan.knows(f"{request_id}#{self.added}", request)
        self.in_flight.append(request)

    def compiled(self) -> None:
        if self.compiling:
            request = self.compiling.pop(self.random.randrange(len(self.compiling)))
            request.structured_output_request.grammar = object()

    def input(self) -> None:
        live = [r for r in self.in_flight if r.request_id in self.stage.scheduler.requests]
        if not live:
            return
        request = self.random.choice(live)
        adapter = self.stage.scheduler.chunk_transfer_adapter
        if adapter is None:
            self.stage.deliver(request.request_id)
        else:
            codes = [1, 2, 3] if self.kind == "generation" else None
            self.stage.put_chunk(request.request_id, finished=self.random.random() < 0.5, codes=codes)

    def abort(self) -> None:
        if self.in_flight and self.random.random() < 0.5:
            self.stage.abort(self.random.choice(self.in_flight).request_id)

    def step(self) -> None:
        scheduled = self.stage.schedule()
        compiling = omni.RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
        for request in self.in_flight:
            # Its tokens are not checked here: there is no grammar.
            if request.structured_output_request is not None and request.status != compiling:
                request.structured_output_request = None
        self.stage.update(scheduled)
        self.in_flight = [r for r in self.in_flight if not r.is_finished()]
        self.compiling = [r for r in self.compiling if not r.is_finished()]


@pytest.mark.parametrize(("kind", "config"), CONFIGURATIONS, ids=lambda value: str(value))
def test_the_stamp_is_that_of_a_full_scan(
    plugged: Callable[[], spans_module.Spans], kind: str, config: dict[str, Any]
) -> None:
    stamped = total = 0
    for seed in range(SEEDS):
        workload = Workload(kind, config, seed)
        try:
            workload.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        stamped += len(workload.scan.stamped)
        total += workload.added
    # The workloads do reach what is compared.
    assert stamped > 3 * SEEDS
    spans = plugged()
    assert spans.stages()
    from stagespan.vllm_omni import _hooks

    assert not _hooks.faults
    figures = stagespan.stats()["python"]
    assert (figures["unknown_handles"], figures["ignored_events"], figures["invalid_times"]) == (0, 0, 0)


def test_input_that_came_while_a_grammar_was_compiled(plugged: Callable[[], spans_module.Spans]) -> None:
    """No gate saw the request until then; afterwards it lacks blocks, and is ready all the same."""
    stage = omni.Stage("ar", gate="full_payload", blocks=6)
    scan = FullScan(stage.scheduler)
    scan.knows("runs", stage.add("runs", prompt=60, max_tokens=8))
    stage.step()
    stage.deliver("runs")
    stage.step()
    assert stage.status("runs") == "RUNNING"

    request = omni.make_request("r", prompt=30, max_tokens=2)
    request.status = omni.RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
    request.structured_output_request = SimpleNamespace(grammar=None, reasoning_ended=None)
    stage.scheduler.add_request(request)
    scan.knows("r", request)
    stage.deliver("r")
    stage.step()
    assert stage.status("r") == "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR"
    request.structured_output_request.grammar = object()
    stage.step()
    request.structured_output_request = None
    assert stage.status("r") == "WAITING"
    assert "r" not in scan.stamped
    stage.step()
    assert "r" in scan.stamped
    stage.steps()

    span = plugged().stage("r")
    assert span.get("split") == "measured"
    assert span.get("ready_queued_ns") > 0
