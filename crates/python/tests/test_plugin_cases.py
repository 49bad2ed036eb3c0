"""Each thing that a request can do on a real vLLM-Omni scheduler ends in exactly one right span."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import spans as spans_module
import stagespan

omni = pytest.importorskip("omni", reason="needs vLLM-Omni")

Read = Callable[[], spans_module.Spans]

#: Long enough to be told from a scheduler step on any machine, as a wait of its own.
WAIT_S = 0.02
WAIT_NS = int(WAIT_S * 1e9)

both_sources = pytest.mark.parametrize("log_stats", [True, False], ids=["events", "hook"])
every_scheduler = pytest.mark.parametrize("kind", ["ar", "ar_async", "generation"])
both_gates = pytest.mark.parametrize("gate", ["full_payload", "async_chunk"])


def give_input(stage: Any, request_id: str) -> None:
    """The request's only input arrives, through the stage's own gate."""
    if stage.scheduler.chunk_transfer_adapter is not None:
        stage.put_chunk(request_id, finished=True, codes=[1, 2, 3] if stage.kind == "generation" else None)
    else:
        stage.deliver(request_id)


def no_faults() -> None:
    from stagespan.vllm_omni import _hooks

    assert not _hooks.faults


def check_source(span: spans_module.Span, *, log_stats: bool) -> None:
    assert span.get("clock.source") == ("events" if log_stats else "hook")


@both_sources
@both_gates
@every_scheduler
def test_the_wait_for_input_is_told_from_the_rest(
    plugged: Read, kind: str, gate: str, log_stats: bool
) -> None:
    stage = omni.Stage(kind, gate=gate, log_stats=log_stats)
    stage.add("r")
    stage.step()
    assert stage.status("r") in ("WAITING_FOR_INPUT", "WAITING_FOR_CHUNK")
    time.sleep(WAIT_S)
    give_input(stage, "r")
    stage.steps()
    stage.close()

    span = plugged().stage("r")
    check_source(span, log_stats=log_stats)
    assert span.name == "stage talker"
    assert span.get("gate") == gate
    assert span.get("split") == "measured"
    assert span.get("input_wait_ns") >= WAIT_NS
    if kind == "generation":
        # It takes its SCHEDULED time before the gates, and stamps with that very time.
        assert span.get("ready_queued_ns") == 0
        assert span.get("end") == "stop"
    else:
        assert span.get("ready_queued_ns") > 0
        assert span.get("end") == "length"
        assert span.get("tokens.output") == 3
        assert [child.name for child in span.children] == ["input_wait", "ready_queued", "prefill", "decode"]
    assert 0 < span.child("input_wait").get("input_wait.resolution_ns") <= span.get("input_wait_ns")
    assert span.get("request.internal_id") == "r"
    assert not span.is_error
    no_faults()


@both_sources
@every_scheduler
def test_a_ready_request_waits_for_a_slot(plugged: Read, kind: str, log_stats: bool) -> None:
    stage = omni.Stage(kind, log_stats=log_stats, max_num_seqs=1)
    # A generation request lives for one step: the second waits for its blocks of the budget.
    prompt = 300 if kind == "generation" else 8
    for request_id in ("first", "second"):
        stage.add(request_id, max_tokens=3, prompt=min(prompt, 200))
    stage.step()
    stage.deliver("first", "second")
    stage.step()
    time.sleep(WAIT_S)
    stage.steps()

    spans = plugged()
    first, second = spans.stage("first"), spans.stage("second")
    assert second.get("ready_queued_ns") >= WAIT_NS
    assert first.get("ready_queued_ns") < second.get("ready_queued_ns")
    # One gate pass let both through.
    assert first.child("input_wait").end == second.child("input_wait").end
    no_faults()


@both_sources
@every_scheduler
def test_input_that_was_there_first(plugged: Read, kind: str, log_stats: bool) -> None:
    """Never held, so never let go: stamped by the first pass."""
    stage = omni.Stage(kind, log_stats=log_stats)
    stage.add("r")
    stage.deliver("r")
    stage.step()
    stage.steps()

    span = plugged().stage("r")
    assert span.get("split") == "measured"
    assert span.child("input_wait").get("input_wait.resolution_ns") == span.get("input_wait_ns")
    no_faults()


@both_sources
@both_gates
@every_scheduler
def test_a_gate_gives_up(plugged: Read, kind: str, gate: str, log_stats: bool) -> None:
    stage = omni.Stage(kind, gate=gate, log_stats=log_stats)
    with omni.input_timeout(WAIT_S):
        stage.add("r")
        stage.step()
        time.sleep(2 * WAIT_S)
        stage.step()
    assert not stage.scheduler.requests
    stage.close()

    span = plugged().stage("r")
    assert span.get("end") == "timeout"
    assert span.attributes["error.type"] == "input_timeout"
    assert span.get("split") == "not_observed"
    (child,) = span.children
    assert child.name == "input_wait"
    assert child.get("truncated") is True
    assert child.get("duration_ns") >= 2 * WAIT_NS
    no_faults()


@both_sources
@both_gates
@every_scheduler
def test_aborted_while_held(plugged: Read, kind: str, gate: str, log_stats: bool) -> None:
    stage = omni.Stage(kind, gate=gate, log_stats=log_stats)
    stage.add("r")
    stage.step()
    time.sleep(WAIT_S)
    stage.abort("r")
    stage.step()
    stage.close()

    span = plugged().stage("r")
    assert span.get("end") == "aborted"
    assert span.attributes["error.type"] == "aborted"
    assert span.get("split") == "not_observed"
    assert [(c.name, c.get("truncated"), c.is_error) for c in span.children] == [("input_wait", True, True)]
    no_faults()


@both_sources
@every_scheduler
def test_aborted_before_the_first_step(plugged: Read, kind: str, log_stats: bool) -> None:
    stage = omni.Stage(kind, log_stats=log_stats)
    stage.add("r")
    stage.abort("r")
    stage.step()

    span = plugged().stage("r")
    assert span.get("end") == "aborted"
    assert span.get("split") == "not_observed"
    no_faults()


@both_sources
def test_aborted_while_ready(plugged: Read, log_stats: bool) -> None:
    stage = omni.Stage("ar", log_stats=log_stats, max_num_seqs=1)
    for request_id in ("runs", "waits"):
        stage.add(request_id, max_tokens=5)
    stage.step()
    stage.deliver("runs", "waits")
    stage.step()
    stage.abort("waits")
    stage.steps()

    span = plugged().stage("waits")
    assert span.get("split") == "not_scheduled"
    assert [(c.name, c.get("truncated")) for c in span.children] == [
        ("input_wait", None),
        ("ready_queued", True),
    ]
    assert span.attributes["error.type"] == "aborted"
    no_faults()


@both_sources
def test_aborted_while_running_is_no_failure(plugged: Read, log_stats: bool) -> None:
    """How a stop string found by the front end arrives."""
    stage = omni.Stage("ar", log_stats=log_stats)
    stage.add("r", max_tokens=50)
    stage.step()
    stage.deliver("r")
    for _ in range(4):
        stage.step()
    stage.abort("r")
    stage.step()

    span = plugged().stage("r")
    assert span.get("end") == "aborted"
    assert not span.is_error
    assert span.get("split") == "measured"
    assert span.get("tokens.output") == 4
    assert span.get("decode_ns") > 0
    assert span.child("decode").get("truncated") is True
    no_faults()


def test_an_abort_of_nobody_is_counted(plugged: Read) -> None:
    stage = omni.Stage("ar")
    stage.add("r")
    stage.abort("nobody")
    stage.deliver("r")
    stage.steps()

    assert len(plugged().stages()) == 1
    assert stagespan.stats()["python"]["unknown_requests"] == 1
    no_faults()


@both_sources
def test_an_id_used_again_right_after_an_abort(plugged: Read, log_stats: bool) -> None:
    stage = omni.Stage("ar", log_stats=log_stats)
    stage.add("r")
    stage.step()
    stage.abort("r")
    stage.add("r")
    stage.step()
    stage.deliver("r")
    stage.steps()

    first, second = plugged().stages()
    assert (first.get("end"), second.get("end")) == ("aborted", "length")
    assert first.end <= second.start
    no_faults()


@both_sources
def test_preempted_and_resumed(plugged: Read, log_stats: bool) -> None:
    stage = omni.Stage("ar", log_stats=log_stats, blocks=6, max_num_seqs=4)
    for request_id in ("p1", "p2"):
        stage.add(request_id, prompt=30, max_tokens=12)
    stage.step()
    stage.deliver("p1", "p2")
    stage.steps(80)

    spans = plugged()
    counts = [spans.stage(request_id).get("preemption.count") for request_id in ("p1", "p2")]
    assert sum(counts) > 0
    for request_id in ("p1", "p2"):
        span = spans.stage(request_id)
        # The later SCHEDULED changed neither wait.
        assert span.get("split") == "measured"
        assert span.get("queued_ns") + span.get("prefill_ns") + span.get("decode_ns") <= span.length
        assert span.get("tokens.output") == 12
    no_faults()


@both_sources
def test_one_window_slot_for_two(plugged: Read, log_stats: bool) -> None:
    """Waiting for a slot of the window is waiting for input."""
    stage = omni.Stage("ar", gate="async_chunk", window=1, log_stats=log_stats)
    for request_id in ("w1", "w2"):
        stage.add(request_id, max_tokens=2)
    for request_id in ("w1", "w2"):
        stage.put_chunk(request_id, finished=True)
    stage.step()
    stage.step()
    assert stage.status("w1") == "RUNNING"
    time.sleep(WAIT_S)
    stage.steps()
    stage.close()

    spans = plugged()
    assert spans.stage("w2").get("input_wait_ns") >= WAIT_NS
    assert spans.stage("w2").get("input_wait_ns") > spans.stage("w1").get("input_wait_ns")
    no_faults()


@both_sources
@pytest.mark.parametrize(
    ("config", "reason", "gate"),
    [
        ({"stage_id": 0, "gate": None}, "first_stage", "none"),
        ({"stage_id": 0, "gate": "async_chunk"}, "first_stage", "async_chunk"),
        ({"gate": None}, "ungated", "none"),
        ({"gate": "async_chunk", "role": "sender"}, "ungated", "async_chunk"),
        ({"gate": "async_chunk", "role": "sender", "native": True}, "ungated", "async_chunk"),
    ],
)
def test_a_stage_that_waits_for_no_input(
    plugged: Read, config: dict[str, Any], reason: str, gate: str, log_stats: bool
) -> None:
    if config.get("native") and omni.RELEASE < (0, 31):
        pytest.skip("this release holds such a stage's requests for ever")
    stage = omni.Stage("ar", log_stats=log_stats, **config)
    stage.add("r", max_tokens=2)
    stage.steps()
    stage.close()

    span = plugged().stage("r")
    assert (span.get("split"), span.get("gate")) == (reason, gate)
    assert [child.name for child in span.children] == ["queued", "prefill", "decode"]
    assert span.get("queued_ns") > 0
    no_faults()


@both_sources
def test_a_streaming_session_is_split_once(plugged: Read, log_stats: bool) -> None:
    stage = omni.Stage("ar", gate="async_chunk", log_stats=log_stats)
    stage.add("s", max_tokens=1, resumable=True)
    stage.step()
    stage.put_chunk("s", segment=True)
    stage.step()
    time.sleep(WAIT_S)
    stage.add("s", max_tokens=1, resumable=True)
    stage.step()
    stage.put_chunk("s", finished=True)
    for _ in range(4):
        stage.step()
    if stage.scheduler.requests:
        stage.abort("s")
        stage.step()
    stage.close()

    span = plugged().stage("s")
    assert span.get("split") == "measured"
    assert span.length >= span.get("queued_ns") + WAIT_NS
    assert span.get("tokens.output") == 2
    no_faults()


@both_sources
def test_later_chunks_stay_inside_the_running_time(plugged: Read, log_stats: bool) -> None:
    stage = omni.Stage("generation", gate="async_chunk", log_stats=log_stats)
    stage.add("g", prompt=1)
    stage.step()
    stage.put_chunk("g", codes=[5, 6, 7])
    stage.step()
    stage.step()
    time.sleep(WAIT_S)
    stage.put_chunk("g", finished=True, codes=[8, 9])
    stage.steps()
    stage.close()

    span = plugged().stage("g")
    assert span.get("split") == "measured"
    assert span.length >= span.get("queued_ns") + WAIT_NS
    assert span.get("end") == "stop"
    no_faults()


@both_sources
@pytest.mark.parametrize("kind", ["ar", "generation"])
def test_a_chunk_that_violates_its_contract(plugged: Read, kind: str, log_stats: bool) -> None:
    stage = omni.Stage(kind, gate="async_chunk", log_stats=log_stats)
    stage.add("r")
    stage.step()
    stage.scheduler.chunk_transfer_adapter.record_receive_failure("r", "a chunk of another request")
    stage.step()
    stage.close()

    span = plugged().stage("r")
    assert (span.get("end"), span.attributes["error.type"]) == ("error", "connector_failure")
    no_faults()


@pytest.mark.skipif(omni.RELEASE < (0, 32), reason="this release splits such a chunk")
@both_sources
def test_a_chunk_that_no_step_can_hold(plugged: Read, log_stats: bool) -> None:
    stage = omni.Stage("generation", gate="async_chunk", log_stats=log_stats, max_tokens_per_step=64)
    stage.add("r", prompt=1)
    stage.step()
    stage.put_chunk("r", finished=True, codes=list(range(100)))
    stage.step()
    stage.close()

    span = plugged().stage("r")
    assert (span.get("end"), span.attributes["error.type"]) == ("rejected", "rejected")
    # The gate had let it through before the scheduler refused it.
    assert span.get("split") == "not_scheduled"
    no_faults()


@both_sources
@pytest.mark.parametrize("kind", ["ar", "generation"])
def test_the_native_coordinator(plugged: Read, kind: str, log_stats: bool) -> None:
    from vllm_omni.outputs import OmniConnectorOutput

    stage = omni.Stage(kind, gate="async_chunk", native=True, log_stats=log_stats)
    stage.add("n", max_tokens=2)
    stage.step()
    assert stage.status("n") == "WAITING_FOR_CHUNK"
    time.sleep(WAIT_S)
    metadata = {"n": {"code_predictor_codes": [1, 2, 3], "input_terminal": True}}
    stage.scheduler.enqueue_omni_connector_output(
        OmniConnectorOutput(
            chunk_ready_req_ids={"n"},
            chunk_finished_req_ids={"n"},
            request_metadata=metadata if kind == "generation" else {},
        )
    )
    stage.steps()

    span = plugged().stage("n")
    assert span.get("gate") == "async_chunk"
    assert span.get("input_wait_ns") >= WAIT_NS
    no_faults()


@pytest.mark.skipif(omni.RELEASE < (0, 31), reason="this release has one queue for both")
@both_sources
def test_a_request_that_holds_blocks_already(plugged: Read, log_stats: bool) -> None:
    """It waits in the other queue, `kv_holding_waiting`."""
    stage = omni.Stage("ar", log_stats=log_stats)
    request = omni.make_request("r", prompt=32)
    request.num_computed_tokens = 16
    stage.scheduler.kv_cache_manager.allocate_slots(request, 16)
    stage.scheduler.add_request(request)
    assert request in stage.scheduler.kv_holding_waiting
    stage.step()
    assert stage.status("r") == "WAITING_FOR_INPUT"
    time.sleep(WAIT_S)
    stage.deliver("r")
    stage.steps()

    span = plugged().stage("r")
    assert span.get("split") == "measured"
    assert span.get("input_wait_ns") >= WAIT_NS
    no_faults()


@pytest.mark.parametrize(("end", "error"), [("shutdown", "shutdown"), ("error", "engine_error")])
def test_shut_down_in_flight(plugged: Read, end: Any, error: str) -> None:
    from stagespan.vllm_omni import _stage

    stage = omni.Stage("ar", max_num_seqs=1)
    for request_id in ("runs", "ready", "held"):
        stage.add(request_id, max_tokens=50)
    stage.step()
    stage.deliver("runs", "ready")
    stage.step()
    _stage.shut_down_all(end)

    spans = plugged()
    for request_id, last in (("runs", "decode"), ("ready", "ready_queued"), ("held", "input_wait")):
        span = spans.stage(request_id)
        assert (span.get("end"), span.attributes["error.type"]) == (end, error)
        assert span.children[-1].name == last
        assert span.children[-1].get("truncated") is True
        assert span.children[-1].is_error
    no_faults()
