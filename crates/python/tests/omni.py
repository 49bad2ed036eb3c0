"""Real vLLM-Omni schedulers on a CPU: only the model is missing.

A scheduler is asked for its step and told what the model would have answered: one token for each
request. Inputs are delivered as the real connectors deliver them.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import torch
import vllm_omni
from vllm.config import CacheConfig, DeviceConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import RequestStatus
from vllm.v1.structured_output import StructuredOutputManager
from vllm_omni.config.model import OmniModelConfig
from vllm_omni.core.sched import omni_scheduler_mixin
from vllm_omni.core.sched.omni_ar_scheduler import OmniARAsyncScheduler, OmniARScheduler
from vllm_omni.core.sched.omni_generation_scheduler import OmniGenerationScheduler
from vllm_omni.data_entry_keys import CodesStruct, MetaStruct, OmniPayloadStruct
from vllm_omni.distributed.omni_connectors.transfer_adapter.chunk_transfer_adapter import (
    OmniChunkTransferAdapter,
)
from vllm_omni.outputs import OmniConnectorOutput, OmniModelRunnerOutput
from vllm_omni.request import OmniRequest

__all__ = ["RequestStatus", "vllm_omni"]

SCHEDULERS = {
    "ar": OmniARScheduler,
    "ar_async": OmniARAsyncScheduler,
    "generation": OmniGenerationScheduler,
}
BLOCK_SIZE = 16
#: (0, 32) for 0.32.0rc1: the plug-in knows three release lines, and not all can do everything.
RELEASE = tuple(int(part) for part in importlib.metadata.version("vllm-omni").split(".")[:2])

# In which step a chunk arrives must not be a matter of luck: see `Stage._receive_chunks`.
OmniChunkTransferAdapter.recv_loop = lambda self: None

_numbers = itertools.count(1)
_model_dir: str | None = None


def model_dir() -> str:
    """A model configuration without a model."""
    global _model_dir
    if _model_dir is None:
        _model_dir = tempfile.mkdtemp(prefix="stagespan-model-")
        config = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "vocab_size": 1000,
            "max_position_embeddings": 2048,
            "torch_dtype": "float32",
        }
        Path(_model_dir, "config.json").write_text(json.dumps(config))
    return _model_dir


def stage_config(
    *,
    stage_id: int = 1,
    gate: str | None = "full_payload",
    role: str | None = None,
    window: int = 0,
    kind: str = "ar",
    name: str = "talker",
    max_num_seqs: int = 16,
    max_tokens_per_step: int = 512,
    blocks: int = 1000,
    native: bool = False,
) -> tuple[VllmConfig, KVCacheConfig]:
    """The configuration of one stage's engine core."""
    model = ModelConfig(
        model=model_dir(),
        tokenizer=model_dir(),
        skip_tokenizer_init=True,
        dtype="float32",
        seed=0,
        max_model_len=256,
        trust_remote_code=False,
    )
    extra: dict[str, Any] = {"stage_id": stage_id}
    if role is not None:
        extra["role"] = role
    plane = {"use_v2_model_runner": True, "supports_native_mrv2_data_plane": True} if native else {}
    omni = OmniModelConfig.from_vllm_model_config(
        model,
        stage_id=stage_id,
        model_stage=name,
        async_chunk=gate == "async_chunk",
        requires_full_payload_input=gate == "full_payload",
        active_stream_window=window,
        worker_type="generation" if kind == "generation" else "ar",
        stage_connector_config={"name": "SharedMemoryConnector", "extra": extra},
        **plane,
    )
    scheduling = SchedulerConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_tokens_per_step,
        max_model_len=256,
        is_encoder_decoder=False,
        enable_chunked_prefill=True,
        async_scheduling=kind == "ar_async",
    )
    cache = CacheConfig(block_size=BLOCK_SIZE, gpu_memory_utilization=0.9, enable_prefix_caching=False)
    config = VllmConfig(
        model_config=model, scheduler_config=scheduling, cache_config=cache, device_config=DeviceConfig("cpu")
    )
    config.model_config = omni
    cache.num_gpu_blocks = blocks
    spec = FullAttentionSpec(block_size=BLOCK_SIZE, num_kv_heads=1, head_size=1, dtype=torch.float32)
    kv = KVCacheConfig(
        num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
    )
    return config, kv


class Stage:
    """One stage's real scheduler, stepped by hand."""

    def __init__(self, kind: str = "ar", *, log_stats: bool = True, **config: Any) -> None:
        self.kind = kind
        vllm_config, kv = stage_config(kind=kind, **config)
        self.scheduler: Any = SCHEDULERS[kind](
            vllm_config=vllm_config,
            kv_cache_config=kv,
            structured_output_manager=StructuredOutputManager(vllm_config),
            block_size=BLOCK_SIZE,
            log_stats=log_stats,
        )
        self._deliver: set[str] = set()
        self._chunks: dict[str, int] = {}
        #: What each step put out: (request id, tokens, finish reason, stop reason).
        self.outputs: list[list[tuple[str, int, Any, Any]]] = []

    def add(self, request_id: str, *, prompt: int = 8, max_tokens: int = 3, **more: Any) -> Any:
        """Adds a request, or an update of a resumable one."""
        request = make_request(request_id, prompt=prompt, max_tokens=max_tokens, **more)
        self.scheduler.add_request(request)
        return request

    def deliver(self, *request_ids: str) -> None:
        """The connector delivers the full payload of these requests, or a ready chunk."""
        coordinator = self.scheduler.input_coordinator
        if coordinator is not None and coordinator._async_chunk:
            output = OmniConnectorOutput(chunk_ready_req_ids=set(request_ids))
        else:
            output = OmniConnectorOutput(stage_recv_req_ids=set(request_ids))
        self.scheduler.enqueue_omni_connector_output(output)

    def put_chunk(
        self,
        request_id: str,
        *,
        finished: bool = False,
        segment: bool = False,
        codes: list[int] | None = None,
    ) -> None:
        """The upstream stage sends a chunk through the real shared-memory connector."""
        adapter = self.scheduler.chunk_transfer_adapter
        external = external_id(request_id)
        number = self._chunks.get(request_id, 0)
        self._chunks[request_id] = number + 1
        payload = OmniPayloadStruct()
        payload.meta = MetaStruct()
        payload.meta.finished = torch.tensor(finished)
        payload.meta.is_segment_finished = torch.tensor(segment)
        if codes is not None:
            payload.codes = CodesStruct()
            payload.codes.audio = torch.tensor(codes, dtype=torch.long)
        sent, *_ = adapter.connector.put("0", "1", f"{external}_0_{number}", payload)
        assert sent

    def _receive_chunks(self) -> None:
        """What the connector's own thread does all the time, done once, before a step."""
        adapter = self.scheduler.chunk_transfer_adapter
        if adapter is None:
            return
        for _ in range(len(adapter._pending_load_reqs)):
            entry = adapter._pending_load_reqs.popleft()
            if not adapter._poll_single_request(entry):
                adapter._pending_load_reqs.append(entry)

    def schedule(self) -> Any:
        self._receive_chunks()
        return self.scheduler.schedule()

    def update(self, scheduled: Any, *, without_tokens: Iterable[str] = ()) -> dict[int, Any]:
        """The model has run what was scheduled."""
        ids = list(scheduled.num_scheduled_tokens)
        silent = set(ids) if self.kind == "generation" else set(without_tokens)
        output = OmniModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: i for i, request_id in enumerate(ids)},
            sampled_token_ids=[[] if request_id in silent else [7] for request_id in ids],
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=None,
        )
        outputs: dict[int, Any] = self.scheduler.update_from_output(scheduled, output)
        self.outputs.append(
            [
                (o.request_id, len(o.new_token_ids), o.finish_reason, o.stop_reason)
                for batch in outputs.values()
                for o in batch.outputs
            ]
        )
        return outputs

    def step(self) -> dict[int, Any]:
        """One step of the engine."""
        return self.update(self.schedule())

    def steps(self, limit: int = 50) -> None:
        """Steps until nothing is left to do."""
        for _ in range(limit):
            self.step()
            if not self.scheduler.requests:
                return
        raise AssertionError(f"still in flight after {limit} steps: {list(self.scheduler.requests)}")

    def status(self, request_id: str) -> str:
        return str(self.scheduler.requests[request_id].status.name)

    def abort(self, *request_ids: str) -> None:
        self.scheduler.finish_requests(list(request_ids), RequestStatus.FINISHED_ABORTED)

    def close(self) -> None:
        if self.scheduler.chunk_transfer_adapter is not None:
            self.scheduler.chunk_transfer_adapter.shutdown()


_external: dict[str, str] = {}


def external_id(request_id: str) -> str:
    """The id that the connector's keys carry: of this run alone, since they are files."""
    return _external.setdefault(request_id, f"{request_id}-{os.getpid()}-{next(_numbers)}")


def new_external_id(request_id: str) -> None:
    """The id begins a new life: nothing of the old one's chunks may reach it."""
    _external.pop(request_id, None)


def forget_external_ids() -> None:
    _external.clear()


def make_request(
    request_id: str,
    *,
    prompt: int = 8,
    max_tokens: int = 3,
    resumable: bool = False,
    headers: dict[str, str] | None = None,
    params: SamplingParams | None = None,
) -> Any:
    return OmniRequest(
        request_id=request_id,
        prompt_token_ids=list(range(3, 3 + prompt)),
        sampling_params=params or SamplingParams(max_tokens=max_tokens, temperature=0.0, ignore_eos=True),
        pooling_params=None,
        external_req_id=external_id(request_id),
        resumable=resumable,
        trace_headers=headers,
    )


@contextmanager
def input_timeout(seconds: float) -> Iterator[None]:
    """The gates give up after this long."""
    before = omni_scheduler_mixin.DEFAULT_INPUT_WAIT_TIMEOUT_S
    omni_scheduler_mixin.DEFAULT_INPUT_WAIT_TIMEOUT_S = seconds
    try:
        yield
    finally:
        omni_scheduler_mixin.DEFAULT_INPUT_WAIT_TIMEOUT_S = before
