"""The six calls, and what they refuse."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import spans as spans_module
import stagespan

Read = Callable[[], spans_module.Spans]


def stage(name: str = "talker", **more: Any) -> stagespan.Stage:
    options: dict[str, Any] = {"stage_id": 1, "gate": "async_chunk", **more}
    return stagespan.Stage(name, options.pop("stage_id"), **options)


def test_one_request(traced: Read) -> None:
    talker = stage()
    now = time.monotonic()
    handle = talker.enqueue("r", at=now - 10, tokens_input=17)
    talker.input_ready(handle, now - 4, unready_at=now - 4.5)
    talker.scheduled(handle, now - 3)
    talker.preempted(handle, now - 2.5)
    talker.scheduled(handle, now - 2.25)
    talker.tokens(handle, 1, now - 2)
    talker.tokens(handle, 9, now - 1)
    assert talker.live == 1
    assert talker.finish(handle, "stop", now - 0.5) is True
    assert talker.live == 0

    span = traced().stage("r")
    assert span.get("input_wait_ns") == pytest.approx(6e9, abs=2)
    assert span.get("ready_queued_ns") == pytest.approx(1e9, abs=2)
    assert span.get("prefill_ns") == pytest.approx(1e9, abs=2)
    assert span.get("decode_ns") == pytest.approx(1e9, abs=2)
    assert span.child("input_wait").get("input_wait.resolution_ns") == pytest.approx(5e8, abs=2)
    assert span.length == pytest.approx(9.5e9, abs=2)
    assert (span.get("tokens.input"), span.get("tokens.output")) == (17, 10)
    assert span.get("preemption.count") == 1
    assert (span.get("end"), span.is_error) == ("stop", False)


def test_the_waits_add_up_to_the_nanosecond(traced: Read) -> None:
    talker = stage()
    for i in range(200):
        at = 1000.0 + i / 7
        handle = talker.enqueue(f"r{i}", at=at)
        talker.input_ready(handle, at + i / 11)
        talker.scheduled(handle, at + i / 11 + i / 13)
        talker.finish(handle)
    for span in traced().stages():
        assert span.get("input_wait_ns") + span.get("ready_queued_ns") == span.get("queued_ns")


@pytest.mark.parametrize(
    ("end", "word", "error"),
    [
        ("stop", "stop", None),
        ("length", "length", None),
        ("aborted", "aborted", "aborted"),
        ("timeout", "timeout", "input_timeout"),
        ("connector_failure", "error", "connector_failure"),
        ("error", "error", "engine_error"),
        ("rejected", "rejected", "rejected"),
        ("shutdown", "shutdown", "shutdown"),
    ],
)
def test_every_end(traced: Read, end: Any, word: str, error: str | None) -> None:
    talker = stage()
    talker.finish(talker.enqueue("r"), end)
    span = traced().stage("r")
    assert span.get("end") == word
    assert span.attributes.get("error.type") == error


def test_stages_of_a_request_are_its_children(traced: Read) -> None:
    caller = {"TraceParent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "stagespan-span": "x"}
    request = stagespan.open_request("r", caller, door="http")
    assert request.trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert request.is_sampled
    domain = stagespan.clock_domain()
    thinker, talker = stage("thinker", stage_id=0, gate="none"), stage()
    headers = [
        request.assign("thinker", clock_domain=domain),
        request.assign("talker", clock_domain=domain, upstreams=["thinker"]),
    ]
    for one, given in zip((thinker, talker), headers, strict=True):
        handle = one.enqueue("r", headers=given)
        one.scheduled(handle)
        one.finish(handle)
    request.usage(3, 4)
    request.end()
    request.end()

    spans = traced()
    (root,) = spans.requests("r")
    assert root.parent_id == "00f067aa0ba902b7"
    assert {child.name for child in root.children} == {"stage thinker", "stage talker"}
    assert root.attributes["gen_ai.usage.input_tokens"] == 3
    upstream = spans.stage("r", "thinker")
    ((trace_id, span_id, attributes),) = spans.stage("r", "talker").links
    assert (trace_id, span_id) == (upstream.trace_id, upstream.span_id)
    assert attributes["stagespan.link"] == "upstream"


def test_a_stage_on_another_clock_has_a_trace_of_its_own(traced: Read) -> None:
    request = stagespan.open_request("r")
    talker = stage()
    talker.finish(talker.enqueue("r", headers=request.assign("talker", clock_domain="another-boot")))
    request.end()

    spans = traced()
    (root,) = spans.requests("r")
    span = spans.stage("r")
    assert span.trace_id != root.trace_id
    assert [(link[0], link[1]) for link in span.links] == [(root.trace_id, root.span_id)]
    assert [(link[0], link[1]) for link in root.links] == [(span.trace_id, span.span_id)]


def test_a_failed_request(traced: Read) -> None:
    request = stagespan.open_request("r")
    request.fail("stage_lost", "stage 1 has died")
    request.end()
    (root,) = traced().requests("r")
    assert root.is_error
    assert root.attributes["error.type"] == "stage_lost"


def test_what_comes_in_the_wrong_order_is_counted(traced: Read) -> None:
    talker = stage()
    now = time.monotonic()
    handle = talker.enqueue("r", at=now - 5)
    talker.scheduled(handle, now - 6)  # before QUEUED
    talker.preempted(handle, now - 4)  # before any SCHEDULED
    talker.tokens(handle, 1, now - 4)  # likewise
    talker.input_ready(handle, now - 3)
    talker.input_ready(handle, now - 2)  # once only
    talker.finish(handle)
    talker.finish(handle)  # has ended
    talker.scheduled(handle)  # likewise
    talker.scheduled(123456789)  # never was

    traced()
    figures = stagespan.stats()["python"]
    assert figures["ignored_events"] == 4
    assert figures["unknown_handles"] == 3


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -1.0, 0.0, 1.8e9, 1e300])
def test_what_is_no_instant_is_no_time(traced: Read, at: float) -> None:
    talker = stage()
    assert talker.enqueue("never", at=at) == 0
    handle = talker.enqueue("r")
    talker.input_ready(handle, at)
    talker.scheduled(handle)
    talker.finish(handle, "stop", at)

    spans = traced()
    assert spans.stage("r").get("split") == "invalid_time"
    assert len(spans.stages()) == 1
    assert stagespan.stats()["python"]["invalid_times"] == 3
    assert stagespan.stats()["counters"]["never_queued"] == 1


def test_the_future_is_no_time(traced: Read) -> None:
    talker = stage()
    handle = talker.enqueue("r")
    talker.scheduled(handle, time.monotonic() + 60)
    talker.finish(handle)
    assert traced().stage("r").get("queued_ns") is None


def test_bad_arguments_raise_an_ordinary_exception(traced: Read) -> None:
    talker = stage()
    handle = talker.enqueue("r")
    calls: list[tuple[type[Exception], Callable[[], object]]] = [
        (TypeError, lambda: talker.enqueue(None)),  # type: ignore[arg-type]
        (TypeError, lambda: talker.enqueue("r", headers=7)),  # type: ignore[arg-type]
        (OverflowError, lambda: talker.scheduled(-1)),
        (TypeError, lambda: talker.scheduled("x")),  # type: ignore[arg-type]
        (ValueError, lambda: talker.finish(handle, "done")),  # type: ignore[arg-type]
        (ValueError, lambda: stagespan.Stage("Talker", 1)),
        (ValueError, lambda: stagespan.Stage("talker", 1, gate="door")),  # type: ignore[arg-type]
        (ValueError, lambda: stagespan.open_request("r", door="window")),  # type: ignore[arg-type]
        (ValueError, lambda: stagespan.open_request("r").fail("bad luck", "")),  # type: ignore[arg-type]
        (ValueError, lambda: stagespan.flush(-1.0)),
        (ValueError, lambda: stagespan.flush(float("nan"))),
    ]
    for error, call in calls:
        with pytest.raises(error):
            call()
    talker.finish(handle)
    traced()


def test_texts_of_any_kind(traced: Read) -> None:
    talker = stage()
    for request_id in ("", "\ud800", "a\nb", "é" * 500):
        talker.finish(talker.enqueue(request_id, headers={"traceparent": "\ud800", "x": 1}))  # type: ignore[dict-item]
    spans = traced()
    assert len(spans.stages()) == 4
    assert spans.stage("a\\u{a}b")
    assert max(len(span.get("request.id").encode()) for span in spans.stages()) == 256


def test_malformed_headers_make_a_root(traced: Read) -> None:
    talker = stage()
    headers = {"traceparent": "00-1-1-01", "stagespan-span": "nonsense"}
    talker.finish(talker.enqueue("r", headers=headers))
    assert traced().stage("r").parent_id == ""
    assert stagespan.stats()["python"]["bad_stage_headers"] == 1


def test_from_many_threads(traced: Read) -> None:
    talker = stage()

    def work(number: int) -> None:
        for i in range(100):
            handle = talker.enqueue(f"{number}-{i}")
            talker.input_ready(handle)
            talker.scheduled(handle)
            assert talker.finish(handle)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({span.get("request.id") for span in traced().stages()}) == 800


def test_from_coroutines(traced: Read) -> None:
    talker = stage()

    async def one(i: int) -> None:
        request = stagespan.open_request(f"r{i}")
        handle = talker.enqueue(
            f"r{i}", headers=request.assign("talker", clock_domain=stagespan.clock_domain())
        )
        await asyncio.sleep(0)
        talker.scheduled(handle)
        talker.finish(handle)
        request.end()

    async def every() -> None:
        await asyncio.gather(*(one(i) for i in range(50)))

    asyncio.run(every())
    spans = traced()
    for i in range(50):
        (root,) = spans.requests(f"r{i}")
        assert [child.get("request.id") for child in root.children] == [f"r{i}"]


def test_off_is_off() -> None:
    assert stagespan.configure(environ={"OTEL_TRACES_EXPORTER": "none"}) is False
    talker = stage()
    assert talker.enqueue("r") == 0
    talker.scheduled(0)
    assert talker.finish(0) is False
    request = stagespan.open_request("r")
    assert request.assign("talker") == {}
    assert request.trace_id is None
    request.end()
    assert stagespan.output() == "off"
    assert stagespan.stats()["produced"] == 0


def test_what_is_not_sampled_is_not_produced(tmp_path: Path) -> None:
    environ = {"OTEL_TRACES_SAMPLER": "always_off"}
    assert stagespan.configure(json_file=tmp_path / "x.json", environ=environ)
    request = stagespan.open_request("r")
    talker = stage()
    talker.finish(
        talker.enqueue("r", headers=request.assign("talker", clock_domain=stagespan.clock_domain()))
    )
    request.end()
    assert stagespan.flush()
    assert stagespan.stats()["produced"] == 0
    assert stagespan.stats()["counters"]["unsampled"] == 1


def test_a_bad_variable_disables_tracing_and_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    assert stagespan.configure(environ={"OTEL_EXPORTER_OTLP_ENDPOINT": "c:4318"}) is False
    said = capfd.readouterr().err
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in said
    assert "c:4318" in said
