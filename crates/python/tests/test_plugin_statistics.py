"""The two waits among vLLM-Omni's own statistics, through its real encoder, decoder and output processor."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import spans as spans_module

omni = pytest.importorskip("omni", reason="needs vLLM-Omni")

Read = Callable[[], spans_module.Spans]

WAIT_S = 0.02
#: A float of seconds keeps this much of an uptime of months.
CLOSE_MS = 1e-3


class FrontEnd:
    """One stage's front end: its output processor and the summary, fed by the wire."""

    def __init__(self, *, log_stats: bool = True) -> None:
        from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder
        from vllm_omni.engine import OmniEngineCoreOutputs
        from vllm_omni.engine.stage_pool import StagePool
        from vllm_omni.metrics.stats import OrchestratorAggregator
        from vllm_omni.outputs.output_processor import MultimodalOutputProcessor

        self.encoder = MsgpackEncoder()
        self.decoder = MsgpackDecoder(OmniEngineCoreOutputs)
        self.processor = MultimodalOutputProcessor(
            tokenizer=None, log_stats=log_stats, engine_core_output_type="text"
        )
        self.log_stats = log_stats
        client = SimpleNamespace(stage_type="llm", final_output_type="text", stage_id=1, replica_id=0)
        self.pool = StagePool(1, client, output_processor=self.processor)
        self.pool.collect_stage_metrics = log_stats
        self.summary = OrchestratorAggregator(2, log_stats, time.time(), 1)
        #: Bytes of each frame that was received.
        self.frames: list[int] = []
        #: The stamp of each output that has one, by whether the output carries events.
        self.stamped: list[bool] = []

    def expects(self, request: Any) -> None:
        from vllm.v1.engine import EngineCoreRequest

        engine_request = EngineCoreRequest(
            request_id=request.request_id,
            prompt_token_ids=list(request.prompt_token_ids),
            mm_features=None,
            sampling_params=omni.SamplingParams(max_tokens=request.max_tokens, detokenize=False),
            pooling_params=None,
            arrival_time=time.time(),
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
            external_req_id=request.request_id,
            resumable=request.resumable,
        )
        self.processor.add_request(engine_request, prompt=None)

    def receive(self, outputs: dict[int, Any]) -> None:
        from vllm.v1.metrics.stats import IterationStats

        for batch in outputs.values():
            frames = self.encoder.encode(batch)
            self.frames.append(sum(len(bytes(frame)) for frame in frames))
            arrived = self.decoder.decode(frames)
            for output in arrived.outputs:
                if output.trace_headers and "stagespan-input-ready" in output.trace_headers:
                    self.stamped.append(bool(output.events))
            iteration = IterationStats() if self.log_stats else None
            self.processor.process_outputs(arrived.outputs, arrived.timestamp, iteration)
            for output in arrived.outputs:
                if output.finish_reason is not None and not output.is_segment_finished:
                    self.finished(output.request_id)

    def finished(self, request_id: str) -> None:
        row = self.pool.build_stage_metrics(
            [SimpleNamespace(request_id=request_id, outputs=[])],
            submit_ts=time.time(),
            request_timestamp=time.time(),
            replica_id=0,
        )
        self.summary.on_stage_metrics(1, request_id, row, "text")

    def table(self) -> dict[str, dict[str, Any]]:
        table = self.summary.build_and_log_summary()["stage_table"]
        return {entry["request_id"]: entry["stages"][0] for entry in table}


def run(stage: Any, front: FrontEnd, limit: int = 40) -> None:
    for _ in range(limit):
        front.receive(stage.step())
        if not stage.scheduler.requests:
            return
    raise AssertionError("still in flight")


@pytest.fixture
def front(plugged: Read) -> FrontEnd:
    return FrontEnd()


@pytest.mark.parametrize("kind", ["ar", "ar_async", "generation"])
def test_the_waits_stand_in_the_table_and_equal_the_spans(plugged: Read, front: FrontEnd, kind: str) -> None:
    stage = omni.Stage(kind, max_num_seqs=1)
    for request_id in ("a", "b"):
        front.expects(stage.add(request_id, max_tokens=3, prompt=8))
    front.receive(stage.step())
    time.sleep(WAIT_S)
    stage.deliver("a", "b")
    run(stage, front)

    spans, table = plugged(), front.table()
    for request_id in ("a", "b"):
        row, span = table[request_id], spans.stage(request_id)
        assert row["vllm_input_wait_ms"] >= WAIT_S * 1e3
        assert row["vllm_input_wait_ms"] == pytest.approx(span.get("input_wait_ns") / 1e6, abs=CLOSE_MS)
        assert row["vllm_ready_queued_ms"] == pytest.approx(span.get("ready_queued_ns") / 1e6, abs=CLOSE_MS)
        total = row["vllm_input_wait_ms"] + row["vllm_ready_queued_ms"]
        assert total == pytest.approx(span.get("queued_ns") / 1e6, abs=CLOSE_MS)
        if "vllm_queued_ms" in row:
            assert row["vllm_queued_ms"] == pytest.approx(total, abs=CLOSE_MS)
            assert row["vllm_queued_ms"] == pytest.approx(span.get("queued_ns") / 1e6, abs=CLOSE_MS)
    # Once per request, and only beside events.
    assert front.stamped == [True, True]


def test_a_stage_without_a_gate_has_both_keys_and_no_value(plugged: Read, front: FrontEnd) -> None:
    stage = omni.Stage("ar", stage_id=0, gate=None)
    front.expects(stage.add("r", max_tokens=2))
    run(stage, front)

    row = front.table()["r"]
    assert row["vllm_input_wait_ms"] is None
    assert row["vllm_ready_queued_ms"] is None
    assert front.stamped == []


def test_without_statistics_nothing_is_sent(plugged: Read) -> None:
    front = FrontEnd(log_stats=False)
    stage = omni.Stage("ar", log_stats=False)
    front.expects(stage.add("r", max_tokens=2))
    front.receive(stage.step())
    stage.deliver("r")
    run(stage, front)

    assert front.stamped == []
    assert plugged().stage("r").get("split") == "measured"


def test_a_streaming_update_starts_new_statistics(plugged: Read, front: FrontEnd) -> None:
    stage = omni.Stage("ar", gate="async_chunk")
    front.expects(stage.add("s", max_tokens=1, resumable=True))
    front.receive(stage.step())
    stage.put_chunk("s", segment=True)
    front.receive(stage.step())
    update = stage.add("s", max_tokens=1, resumable=True)
    front.expects(update)
    front.receive(stage.step())
    stage.put_chunk("s", finished=True)
    run(stage, front)
    stage.close()

    row = front.table()["s"]
    assert row["vllm_input_wait_ms"] is None
    assert row["vllm_ready_queued_ms"] is None
    assert plugged().stage("s").get("split") == "measured"


def test_headers_are_not_echoed(plugged: Read) -> None:
    """256 outputs of one step: as many bytes as of requests that came without headers."""
    headers = {
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "stagespan-span": "4bf92f3577b34da6a3ce929d0e0e4736-a0f067aa0ba902b7-01;own",
        "stagespan-clock": "d=unknown;a=1000,1767225600000000000,20;h=machine",
        "stagespan-request-id": "r",
    }
    bytes_of = {}
    for given in (None, headers):
        stage = omni.Stage(
            "ar", stage_id=0, gate=None, log_stats=False, max_num_seqs=256, max_tokens_per_step=2048
        )
        front = FrontEnd(log_stats=False)
        for i in range(256):
            front.expects(stage.add(f"r{i:03}", prompt=4, max_tokens=3, headers=dict(given or {}) or None))
        for _ in range(2):
            front.receive(stage.step())
        bytes_of[given is None] = front.frames
        assert len(stage.outputs[-1]) == 256
        stage.abort(*(f"r{i:03}" for i in range(256)))
        stage.step()
    assert bytes_of[True] == bytes_of[False]
    spans = plugged()
    assert len(spans.stages()) == 512
    assert sum(span.trace_id == "4bf92f3577b34da6a3ce929d0e0e4736" for span in spans.stages()) > 0


def test_the_hosts_own_headers_stay(plugged: Read) -> None:
    """With the engine's own tracing on, its context is left in place, and ours is beside it."""
    from stagespan.vllm_omni import _headers

    host = {"traceparent": "00-11111111111111111111111111111111-2222222222222222-01", "x-other": "1"}
    ours = {
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "stagespan-span": "4bf92f3577b34da6a3ce929d0e0e4736-a0f067aa0ba902b7-01;own",
    }
    packed = _headers.pack({**host, "Stagespan-Evil": "x"}, ours, "client-1", None)
    assert packed["traceparent"] == host["traceparent"]
    request = SimpleNamespace(trace_headers=dict(packed))
    unpacked = _headers.unpack(request, keeps_host_context=True)
    assert request.trace_headers == host
    assert unpacked.request_id == "client-1"
    assert unpacked.context is not None
    assert unpacked.context["traceparent"] == ours["traceparent"]
    assert "Stagespan-Evil" not in unpacked.context
    # Headers that are none of ours are not touched at all.
    request = SimpleNamespace(trace_headers=dict(host))
    assert _headers.unpack(request, keeps_host_context=False).context is None
    assert request.trace_headers == host


@pytest.mark.parametrize("text", ["nan", "inf", "0.0", "-1.0", "1767225600.5", "x", ""])
def test_a_stamp_that_is_no_instant_is_refused(text: str) -> None:
    from stagespan.vllm_omni import _headers

    output = SimpleNamespace(trace_headers={"stagespan-input-ready": text, "other": "1"})
    assert _headers.take_stamp(output) is None
    assert output.trace_headers == {"other": "1"}
