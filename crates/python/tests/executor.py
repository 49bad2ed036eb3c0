"""The one thing that is not real in an engine-core process: the model."""

from __future__ import annotations

import os
import time
from concurrent.futures import Future
from typing import Any

import torch
import vllm_omni  # noqa: F401  (its patches come first)
from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm_omni.outputs import OmniConnectorOutput, OmniModelRunnerOutput

#: How long after it was registered the input of a request arrives, and how long a step takes.
INPUT_DELAY_S = float(os.environ.get("TEST_INPUT_DELAY_S", "0.15"))
STEP_S = float(os.environ.get("TEST_STEP_S", "0.002"))


class WithoutModel(Executor):
    """One token for each scheduled request; a full payload arrives some time after its registration.

    The input of a request whose id contains "never" never arrives.
    """

    def _init_executor(self) -> None:
        self._registered: dict[str, float] = {}

    def initialize_from_config(self, *_: Any) -> None: ...

    def compile_or_warm_up_model(self) -> None: ...

    def determine_available_memory(self) -> list[int]:
        return [1 << 28]

    def get_kv_cache_specs(self) -> list[dict[str, Any]]:
        spec = FullAttentionSpec(block_size=16, num_kv_heads=2, head_size=32, dtype=torch.float32)
        return [{"layer.0": spec}]

    def get_supported_kv_cache_layouts(self) -> list[list[str]]:
        return [["NHD"]]

    def set_kv_cache_layout(self, *_: Any) -> None: ...

    def collective_rpc(self, *_: Any, **__: Any) -> list[Any]:
        return [None]

    def check_health(self) -> None: ...

    def shutdown(self) -> None: ...

    def take_draft_token_ids(self) -> None: ...

    def execute_model(self, scheduled: Any, non_block: bool = False) -> Any:
        now = time.monotonic()
        for handle in scheduled.pending_input_registrations:
            self._registered.setdefault(handle.request_id, now)
        arrived = {
            request_id
            for request_id, since in self._registered.items()
            if now - since >= INPUT_DELAY_S and "never" not in request_id
        }
        for request_id in arrived:
            del self._registered[request_id]
        time.sleep(STEP_S)
        ids = list(scheduled.num_scheduled_tokens)
        output = OmniModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: i for i, request_id in enumerate(ids)},
            sampled_token_ids=[[7] for _ in ids],
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=None,
        )
        output.omni_connector_output = OmniConnectorOutput(stage_recv_req_ids=arrived) if arrived else None
        if not non_block:
            return output
        future: Future[Any] = Future()
        future.set_result(output)
        return future
