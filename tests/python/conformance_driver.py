"""Drives the real vLLM-Omni schedulers through scripted workloads, and says what became of each request.

One JSON script per line on stdin, one JSON result per line on stdout (`{"error": ...}` if the scheduler raised). Nothing
here waits: time is the step number, the chunk receiver's thread is replaced by a poll before each step, the sender's by a
drain after it, and the model by a token wherever the real one would sample. What the real schedulers decide is theirs
alone; only `input_ready` is observed from outside, by a full scan of both waiting queues after each gate pass.
"""

import contextlib
import json
import os
import sys
import tempfile
import time
import traceback

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")

# Results go to the real stdout; whatever the libraries print goes to stderr.
RESULTS = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

import torch  # noqa: E402
from vllm.config import CacheConfig, DeviceConfig, ModelConfig, SchedulerConfig, VllmConfig  # noqa: E402
from vllm.sampling_params import SamplingParams  # noqa: E402
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec  # noqa: E402
from vllm.v1.request import Request, RequestStatus  # noqa: E402
from vllm.v1.structured_output import StructuredOutputManager  # noqa: E402

import vllm_omni  # noqa: E402,F401  (applies its patches to vLLM)
import vllm_omni.core.sched.omni_scheduler_mixin as mixin  # noqa: E402
from vllm_omni.config.model import OmniModelConfig  # noqa: E402
from vllm_omni.core.sched.omni_ar_scheduler import OmniARScheduler  # noqa: E402
from vllm_omni.core.sched.omni_generation_scheduler import OmniGenerationScheduler  # noqa: E402
from vllm_omni.distributed.omni_connectors.transfer_adapter.chunk_transfer_adapter import (  # noqa: E402
    OmniChunkTransferAdapter,
)
from vllm_omni.outputs import OmniConnectorOutput, OmniModelRunnerOutput  # noqa: E402
from vllm_omni.request import OmniRequest  # noqa: E402

TOKEN, STOP_TOKEN = 7, 99


class Clock:
    """Every reading within a step is the step's number."""

    step = 0

    def read(self):
        return float(self.step)


CLOCK = Clock()


class Connector:
    """Chunks by key, in memory."""

    def __init__(self, stage_id):
        self.stage_id = stage_id
        self.chunks = {}

    def get(self, from_stage, to_stage, key, metadata=None):
        payload = self.chunks.pop(key, None)
        return None if payload is None else (payload, 1)

    def put(self, from_stage, to_stage, put_key, data):
        return True, 1, None

    def reap_consumed(self):
        pass

    def cleanup(self, key):
        pass

    def close(self):
        pass


OmniChunkTransferAdapter.create_connector = classmethod(lambda cls, config: Connector(int(config.stage_id)))
OmniChunkTransferAdapter.recv_loop = lambda self: None
OmniChunkTransferAdapter.save_loop = lambda self: None


def model_directory():
    folder = tempfile.mkdtemp(prefix="conformance-model-")
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(
            {
                "architectures": ["LlamaForCausalLM"],
                "model_type": "llama",
                "hidden_size": 64,
                "intermediate_size": 128,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "vocab_size": 1000,
                "max_position_embeddings": 1 << 20,
                "rms_norm_eps": 1e-5,
                "bos_token_id": 1,
                "eos_token_id": 2,
                "hidden_act": "silu",
                "torch_dtype": "float32",
            },
            file,
        )
    return folder


MODEL_DIRECTORY = model_directory()


def build(config):
    extra = {"stage_id": config["stage_id"]}
    if config["sender_only"]:
        extra["role"] = "sender"
    if config["admission_min_batch"]:
        extra["ar_prefill_admission_min_batch"] = config["admission_min_batch"]
        extra["ar_prefill_admission_max_wait_ms"] = config["admission_max_wait_steps"] * 1000
        extra["ar_prefill_admission_min_running"] = config["admission_min_running"]
    base = ModelConfig(
        model=MODEL_DIRECTORY,
        tokenizer=MODEL_DIRECTORY,
        skip_tokenizer_init=True,
        dtype="float32",
        seed=0,
        max_model_len=config["max_model_len"],
        trust_remote_code=False,
    )
    generation = config["kind"] == "generation"
    model = OmniModelConfig.from_vllm_model_config(
        base,
        stage_id=config["stage_id"],
        async_chunk=config["gate"] == "async_chunk",
        requires_full_payload_input=config["gate"] == "full_payload",
        active_stream_window=config["active_stream_window"],
        worker_type="generation" if generation else "ar",
        stage_connector_config={"name": "SharedMemoryConnector", "extra": extra},
    )
    # vLLM refuses a budget below the slots or the model's length in some set-ups; set it past the check.
    scheduler = SchedulerConfig(
        max_num_seqs=config["max_num_seqs"],
        max_num_batched_tokens=max(config["token_budget"], config["max_model_len"], config["max_num_seqs"]),
        max_model_len=config["max_model_len"],
        is_encoder_decoder=False,
        enable_chunked_prefill=True,
        async_scheduling=False,
    )
    cache = CacheConfig(block_size=config["block_size"], gpu_memory_utilization=0.9, enable_prefix_caching=False)
    vllm = VllmConfig(
        model_config=base, scheduler_config=scheduler, cache_config=cache, device_config=DeviceConfig("cpu")
    )
    vllm.model_config = model
    scheduler.max_num_batched_tokens = config["token_budget"]
    scheduler.max_num_scheduled_tokens = config["token_budget"]
    scheduler.enable_chunked_prefill = config["chunked_prefill"]
    # One block of vLLM's pool is its null block, which no request gets.
    blocks = config["kv_blocks"] + 1
    cache.num_gpu_blocks = blocks
    spec = FullAttentionSpec(block_size=config["block_size"], num_kv_heads=1, head_size=1, dtype=torch.float32)
    kv = KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])
    cls = OmniGenerationScheduler if generation else OmniARScheduler
    return cls(
        vllm_config=vllm,
        kv_cache_config=kv,
        structured_output_manager=StructuredOutputManager(vllm),
        block_size=config["block_size"],
        log_stats=True,
    )


class Run:
    """One workload on one scheduler."""

    def __init__(self, script):
        self.script = script
        self.config = script["config"]
        timeout = self.config["input_wait_timeout_steps"]
        mixin.DEFAULT_INPUT_WAIT_TIMEOUT_S = timeout + 0.5 if timeout else 0.0
        CLOCK.step = 1
        self.scheduler = build(self.config)
        self.adapter = getattr(self.scheduler, "chunk_transfer_adapter", None)
        self.ar = self.config["kind"] == "ar"
        self.requests = {}
        self.chunks_sent = {}
        self.sampled = {}
        self.stop_after = {}
        self.plans = []
        self.observe()

    def story(self, rid):
        return self.requests.setdefault(
            rid,
            {"events": [], "ready": None, "segments": [], "end": None, "output": None, "sampled": 0},
        )

    def observe(self):
        scheduler, run = self.scheduler, self
        original_gates, original_free = scheduler._process_pending_omni_inputs, scheduler._free_request
        stage = self.config["stage_id"]
        gated = stage > 0 and (
            scheduler.input_coordinator is not None or (self.adapter is not None and self.adapter.receives_chunks)
        )

        def gates(*args, **kwargs):
            result = original_gates(*args, **kwargs)
            if gated:
                for queue in (scheduler.kv_holding_waiting, scheduler.waiting):
                    for request in queue:
                        story = run.story(request.request_id)
                        if request.status == RequestStatus.WAITING and story["ready"] is None:
                            story["ready"] = CLOCK.step
            return result

        def free(request, *args, **kwargs):
            story = run.story(request.request_id)
            if story["end"] is None:
                story["end"] = [CLOCK.step, request.status.name]
            return original_free(request, *args, **kwargs)

        scheduler._process_pending_omni_inputs = gates
        scheduler._free_request = free

    def make_request(self, op):
        params = SamplingParams(
            max_tokens=op["max_tokens"], temperature=0.0, ignore_eos=True, stop_token_ids=[STOP_TOKEN]
        )
        return OmniRequest(
            request_id=op["id"],
            prompt_token_ids=[3] * op["prompt_tokens"],
            sampling_params=params,
            pooling_params=None,
            external_req_id="x-" + op["id"],
            resumable=op.get("resumable", False),
            arrival_time=CLOCK.read(),
        )

    def apply(self, op):
        scheduler, kind, rid = self.scheduler, op["op"], op["id"]
        if kind == "add":
            self.story(rid)
            self.stop_after[rid] = op["stop_after"]
            scheduler.add_request(self.make_request(op))
        elif rid not in scheduler.requests:
            return
        elif kind == "chunk":
            number = self.chunks_sent.get(rid, 0)
            self.chunks_sent[rid] = number + 1
            key = f"x-{rid}_{self.config['stage_id'] - 1}_{number}"
            payload = {"meta": {"finished": op["finished"], "is_segment_finished": op["segment_finished"]}}
            if not self.ar:
                payload["codes"] = {"audio": [5] * op["tokens"]}
            self.adapter.connector.chunks[key] = payload
        elif kind == "payload":
            metadata = {}
            if op["prompt_tokens"] is not None:
                field = "next_stage_prompt_len" if self.ar else "code_predictor_codes"
                metadata = {rid: {field: op["prompt_tokens"] if self.ar else [5] * op["prompt_tokens"]}}
            scheduler.enqueue_omni_connector_output(
                OmniConnectorOutput(stage_recv_req_ids={rid}, request_metadata=metadata)
            )
        elif kind == "fail":
            self.adapter.record_receive_failure(rid, "lost")
        elif kind == "abort":
            scheduler.finish_requests(rid, RequestStatus.FINISHED_ABORTED)
        elif kind == "update":
            scheduler.add_request(self.make_request(op | {"resumable": True}))
        elif kind == "close":
            scheduler.add_request(self.make_request(op | {"prompt_tokens": 1, "max_tokens": 1}))
        else:
            raise ValueError(kind)

    def poll(self):
        """What the receiver's thread would do between two steps: ask until nothing more comes."""
        if self.adapter is None:
            return
        pending, progress = self.adapter._pending_load_reqs, True
        while progress:
            progress = False
            for _ in range(len(pending)):
                entry = pending.popleft()
                before = self.adapter.get_req_chunk.get(entry.request_id, 0)
                if self.adapter._poll_single_request(entry):
                    progress = True
                else:
                    pending.append(entry)
                    progress |= self.adapter.get_req_chunk.get(entry.request_id, 0) != before

    def drain_sender(self):
        if self.adapter is not None:
            while self.adapter._pending_save_reqs:
                self.adapter._send_single_request(self.adapter._pending_save_reqs.popleft())

    def sample(self, rid):
        request = self.scheduler.requests.get(rid)
        if not self.ar or request is None or request.is_prefill_chunk:
            return []
        self.sampled[rid] = self.sampled.get(rid, 0) + 1
        return [STOP_TOKEN if self.sampled[rid] == self.stop_after[rid] else TOKEN]

    def step(self):
        output = self.scheduler.schedule()
        self.plans.append(list(output.num_scheduled_tokens.items()))
        ids = list(output.num_scheduled_tokens)
        result = OmniModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={rid: index for index, rid in enumerate(ids)},
            sampled_token_ids=[self.sample(rid) for rid in ids],
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=None,
        )
        for batch in self.scheduler.update_from_output(output, result).values():
            for item in batch.outputs:
                story = self.story(item.request_id)
                story["sampled"] += len(item.new_token_ids)
                if item.finish_reason is not None and getattr(item, "is_segment_finished", False):
                    story["segments"].append([CLOCK.step, str(item.finish_reason)])
                elif item.finish_reason is not None:
                    # A bare ABORT that follows another terminal output says nothing new.
                    if story["output"] is None or str(item.finish_reason) != "abort":
                        story["output"] = [str(item.finish_reason), item.stop_reason]
        self.drain_sender()

    def run(self):
        recorded = Request.record_event

        def record_event(request, event_type, timestamp=None):
            stamp = CLOCK.read() if timestamp is None else timestamp
            self.story(request.request_id)["events"].append([event_type.name, int(stamp)])
            return recorded(request, event_type, timestamp)

        monotonic, wall = time.monotonic, time.time
        Request.record_event = record_event
        time.monotonic = time.time = CLOCK.read
        try:
            for number, operations in enumerate(self.script["steps"], start=1):
                CLOCK.step = number
                for operation in operations:
                    self.apply(operation)
                self.poll()
                self.step()
            live = sorted(self.scheduler.requests)
        finally:
            Request.record_event = recorded
            time.monotonic, time.time = monotonic, wall
            with contextlib.suppress(Exception):
                if self.adapter is not None:
                    self.adapter.shutdown()
        return {"requests": self.requests, "plans": self.plans, "live": live}


def main():
    for line in sys.stdin:
        try:
            result = Run(json.loads(line)).run()
        except Exception:
            result = {"error": traceback.format_exc()}
        RESULTS.write(json.dumps(result) + "\n")
        RESULTS.flush()


if __name__ == "__main__":
    main()
