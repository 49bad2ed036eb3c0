"""The real engine-core process of a stage, exporting to a real Jaeger, and the ways it may end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import spans as spans_module
from jaeger import Jaeger

pytest.importorskip("vllm_omni")
if "STAGESPAN_JAEGER" not in os.environ:
    pytest.skip("needs a Jaeger, named by STAGESPAN_JAEGER", allow_module_level=True)

SCRIPT = Path(__file__).with_name("core_server.py")


@pytest.fixture
def jaeger() -> Iterator[Jaeger]:
    with Jaeger() as running:
        yield running


def run(jaeger: Jaeger, *commands: str, **environment: str) -> dict[str, Any]:
    """Runs an engine core through these commands; what its front end saw."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *commands],
        cwd=SCRIPT.parent,
        env=jaeger.environment(**environment),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    last = (done.stdout.strip().splitlines() or [""])[-1]
    assert last.startswith("{"), done.stderr[-4000:]
    assert "stagespan: hook" not in done.stderr, done.stderr[-4000:]
    seen: dict[str, Any] = json.loads(last)
    return seen


def check(spans: spans_module.Spans) -> None:
    for span in spans.stages():
        spans_module.check(span)


@pytest.mark.parametrize("log_stats", ["1", "0"], ids=["events", "hook"])
@pytest.mark.parametrize("kind", ["ar", "ar_async", "generation"])
def test_spans_in_jaeger(jaeger: Jaeger, kind: str, log_stats: str) -> None:
    seen = run(
        jaeger,
        *(
            "add:a",
            "add:b",
            "add:never",
            "sleep:0.5",
            "abort:never",
            "drain" if kind != "generation" else "sleep:2",
        ),
        "shutdown",
        TEST_KIND=kind,
        TEST_LOG_STATS=log_stats,
    )
    spans = jaeger.wait_for(3)
    check(spans)
    assert len(spans.stages()) == 3
    for request_id in ("a", "b"):
        span = spans.stage(f"external-{request_id}")
        assert span.get("request.internal_id") == request_id
        assert span.get("split") == "measured"
        assert span.get("input_wait_ns") >= 150_000_000
        assert span.resource["service.name"] == "stagespan-python-test"
        assert span.resource["service.instance.id"].startswith("stage1.0-")
        assert span.resource["service.version"].startswith("0.3")
        if kind != "generation" and log_stats == "1":
            events = dict(reversed(seen[request_id]["events"]))
            queued_ns = (events["SCHEDULED"] - events["QUEUED"]) * 1e9
            assert abs(span.get("queued_ns") - queued_ns) <= 1000
    never = spans.stage("external-never")
    assert (never.get("end"), never.get("split")) == ("aborted", "not_observed")


def test_both_gates_give_up(jaeger: Jaeger) -> None:
    for gate in ("full_payload", "async_chunk"):
        run(
            jaeger,
            *("add:never", "drain", "shutdown"),
            TEST_CONFIG=json.dumps({"gate": gate, "name": gate}),
            VLLM_OMNI_INPUT_WAIT_TIMEOUT_S="0.3",
        )
    spans = jaeger.wait_for(2)
    check(spans)
    for gate in ("full_payload", "async_chunk"):
        (span,) = spans.stages(stage=gate)
        assert span.get("end") == "timeout"
        assert span.child("input_wait").get("duration_ns") >= 300_000_000


def in_flight_and_finished(spans: spans_module.Spans) -> None:
    check(spans)
    assert spans.stage("external-done").get("end") == "length"
    for request_id, last in (("runs", "decode"), ("never", "input_wait")):
        span = spans.stage(f"external-{request_id}")
        assert span.get("end") == "shutdown"
        assert span.children[-1].name == last
        assert span.children[-1].get("truncated") is True


FINISHED_THEN_BUSY = ("add:done", "drain", "add:runs:200", "add:never", "sleep:0.6")


def test_sigterm_in_the_middle(jaeger: Jaeger) -> None:
    seen = run(jaeger, *FINISHED_THEN_BUSY, "term", "wait", TEST_STEP_S="0.05")
    assert seen["exit"] == 128 + 15
    in_flight_and_finished(jaeger.wait_for(3))


def test_sigterm_twice(jaeger: Jaeger) -> None:
    seen = run(jaeger, *FINISHED_THEN_BUSY, "term", "sleep:0.02", "term", "wait", TEST_STEP_S="0.05")
    assert seen["exit"] is not None
    spans = jaeger.wait_for(1)
    check(spans)
    assert spans.stage("external-done").get("end") == "length"


def test_the_client_shuts_it_down(jaeger: Jaeger) -> None:
    run(jaeger, *FINISHED_THEN_BUSY, "shutdown", TEST_STEP_S="0.05")
    in_flight_and_finished(jaeger.wait_for(3))


def test_the_front_end_is_killed(jaeger: Jaeger) -> None:
    run(jaeger, *FINISHED_THEN_BUSY, "die", TEST_STEP_S="0.05")
    # Linux tells the orphan by SIGTERM.
    in_flight_and_finished(jaeger.wait_for(3))


def test_sigkill_loses_what_is_younger_than_the_delay(jaeger: Jaeger) -> None:
    run(
        jaeger,
        "add:done",
        "drain",
        "sleep:1.0",
        "add:runs:200",
        "sleep:0.5",
        "kill",
        "wait",
        TEST_STEP_S="0.05",
    )
    spans = jaeger.wait_for(1)
    check(spans)
    assert [span.get("end") for span in spans.stages()] == ["length"]


def test_a_dead_receiver_costs_two_seconds_at_most(jaeger: Jaeger) -> None:
    """Nothing listens on the discard port, and the exit code is the engine's own."""
    without = run(jaeger, *FINISHED_THEN_BUSY, "term", "wait", TEST_STEP_S="0.05", OTEL_SDK_DISABLED="true")
    started = time.monotonic()
    seen = run(
        jaeger,
        *FINISHED_THEN_BUSY,
        *("term", "wait"),
        TEST_STEP_S="0.05",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
    )
    assert seen["exit"] == without["exit"]
    assert time.monotonic() - started < 200
    assert not jaeger.spans().all
