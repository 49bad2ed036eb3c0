"""Speaks for the real msgspec structs, schedulers and output processor of a vLLM-Omni.

One JSON command per line on stdin, one JSON result per line on stdout (`{"error": ...}` if it raised):

- `{"op": "versions"}`: which vLLM-Omni, vLLM and msgspec this is.
- `{"op": "vectors"}`: what a few structs encode to, by name, in hex.
- `{"op": "decode", "kind": "outputs" | "request" | "abort", "hex": ..., "stamped": bool}`: the fields that a message
  decodes to. `stamped` decodes outputs by a struct that has `input_ready_ts` after the real fields.
- `{"op": "process", "steps": [...]}`: what the real output processor makes of the steps of a story (below), by request.
- `{"op": "capture"}`: stories. A story is what one stage was sent and answered, in order, and what the real output
  processor and aggregator made of it.

Floats travel as the hex digits of their eight bytes, so that equal means equal to the bit.
"""

import json
import os
import struct
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

import importlib.metadata  # noqa: E402

import msgspec  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from vllm.config import CacheConfig, DeviceConfig, ModelConfig, SchedulerConfig, VllmConfig  # noqa: E402
from vllm.sampling_params import SamplingParams  # noqa: E402
from vllm.v1.engine import EngineCoreEvent, EngineCoreEventType, EngineCoreOutput, FinishReason  # noqa: E402
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec  # noqa: E402
from vllm.v1.metrics.stats import IterationStats  # noqa: E402
from vllm.v1.outputs import LogprobsLists  # noqa: E402
from vllm.v1.request import RequestStatus  # noqa: E402
from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder  # noqa: E402
from vllm.v1.structured_output import StructuredOutputManager  # noqa: E402

import vllm_omni  # noqa: E402,F401  (applies its patches to vLLM)
import vllm_omni.core.sched.omni_scheduler_mixin as mixin  # noqa: E402
from vllm_omni.config.model import OmniModelConfig  # noqa: E402
from vllm_omni.core.sched.omni_ar_scheduler import OmniARScheduler  # noqa: E402
from vllm_omni.core.sched.omni_generation_scheduler import OmniGenerationScheduler  # noqa: E402
from vllm_omni.engine import OmniEngineCoreOutput, OmniEngineCoreOutputs, OmniEngineCoreRequest  # noqa: E402
from vllm_omni.metrics.stats import OrchestratorAggregator, StageRequestStats, StageStats  # noqa: E402
from vllm_omni.outputs import OmniConnectorOutput, OmniModelRunnerOutput  # noqa: E402
from vllm_omni.outputs.output_processor import MultimodalOutputProcessor  # noqa: E402
from vllm_omni.request import OmniRequest  # noqa: E402

# In an older version a stamp after its fields would have the place of another field of 0.32's.
STAMPED = "is_coalesced" in OmniEngineCoreOutput.__struct_fields__
FIGURES = ("vllm_queued_ms", "vllm_prefill_ms", "vllm_decode_ms", "vllm_num_preemptions")
TOKEN = 7


class StampedOutput(OmniEngineCoreOutput):
    """The real output with the stamp as its last field."""

    input_ready_ts: float | None = None


class StampedOutputs(OmniEngineCoreOutputs):
    """A batch of these."""

    outputs: list[StampedOutput] = []


class EightFields(msgspec.Struct, array_like=True, omit_defaults=True):
    """A batch as it was before `weight_version`, which an output of today never stood in."""

    engine_index: int = 0
    outputs: list[OmniEngineCoreOutput] = []
    scheduler_stats: None = None
    timestamp: float = 0.0
    utility_output: None = None
    finished_requests: set[str] | None = None
    wave_complete: int | None = None
    start_wave: int | None = None


def bits(number):
    return None if number is None else struct.pack(">d", number).hex()


def encode(message):
    """The message's first frame; large tensors would follow in frames of their own."""
    return bytes(MsgpackEncoder().encode(message)[0])


def stamped(output, stamp):
    """The same output with the stamp, which rides only on outputs that carry events."""
    fields = {name: getattr(output, name) for name in output.__struct_fields__}
    return StampedOutput(**fields, input_ready_ts=stamp if output.events else None)


def versions():
    return {name: importlib.metadata.version(name) for name in ("vllm-omni", "vllm", "msgspec")}


def vectors():
    plain = lambda rid, tokens: OmniEngineCoreOutput(request_id=rid, new_token_ids=tokens)  # noqa: E731
    three = [plain(f"r{i}", [i]) for i in range(3)]
    request = OmniEngineCoreRequest(
        request_id="r",
        prompt_token_ids=[1, 2],
        mm_features=None,
        sampling_params=None,
        pooling_params=None,
        arrival_time=1.0,
        lora_request=None,
        cache_salt=None,
        data_parallel_rank=None,
        trace_headers={"traceparent": "x"},
    )
    structs = {
        "output": plain("r", []),
        "output_unset": StampedOutput(request_id="r", new_token_ids=[]),
        "output_set": StampedOutput(request_id="r", new_token_ids=[], input_ready_ts=1.0),
        "batch_of_8_fields": EightFields(outputs=three, timestamp=1.0),
        "batch_of_8_fields_stamped": EightFields(outputs=[stamped(output, None) for output in three], timestamp=1.0),
        "batch": OmniEngineCoreOutputs(outputs=three, timestamp=1.0),
        "batch_stamped": StampedOutputs(outputs=[stamped(output, None) for output in three], timestamp=1.0),
        "request": request,
        "abort": ["r1", "r2"],
    }
    return {name: encode(value).hex() for name, value in structs.items()}


def describe_output(output):
    """The fields that Stagespan types, as JSON."""
    return {
        "request_id": output.request_id,
        "new_token_ids": list(output.new_token_ids),
        "finish_reason": None if output.finish_reason is None else int(output.finish_reason),
        "stop_reason": output.stop_reason,
        "events": None if output.events is None else [[int(e.type), bits(e.timestamp)] for e in output.events],
        "num_nans_in_logits": output.num_nans_in_logits,
        "is_segment_finished": output.is_segment_finished,
        "new_prompt_len_snapshot": output.new_prompt_len_snapshot,
        "num_generation_tokens": output.num_generation_tokens,
        "is_coalesced": getattr(output, "is_coalesced", False),
        "input_ready_ts": bits(getattr(output, "input_ready_ts", None)),
        "kv_transfer_params": output.kv_transfer_params,
        "mm_cache_miss_hashes": output.mm_cache_miss_hashes,
    }


def decode(command):
    message = bytes.fromhex(command["hex"])
    if command["kind"] == "abort":
        return msgspec.msgpack.decode(message)
    if command["kind"] == "request":
        request = MsgpackDecoder(OmniEngineCoreRequest).decode([message])
        params = request.sampling_params
        return {
            "request_id": request.request_id,
            "prompt_token_ids": request.prompt_token_ids,
            "arrival_time": bits(request.arrival_time),
            "client_index": request.client_index,
            "current_wave": request.current_wave,
            "priority": request.priority,
            "trace_headers": None if request.trace_headers is None else dict(request.trace_headers),
            "resumable": request.resumable,
            "external_req_id": request.external_req_id,
            "abort_immediately": request.abort_immediately,
            "session_id": request.session_id,
            "max_tokens": None if params is None else params.max_tokens,
            "ignore_eos": None if params is None else params.ignore_eos,
            "stop_token_ids": None if params is None else params.stop_token_ids,
        }
    batch = MsgpackDecoder(StampedOutputs if command["stamped"] else OmniEngineCoreOutputs).decode([message])
    return {
        "engine_index": batch.engine_index,
        "timestamp": bits(batch.timestamp),
        "finished_requests": None if batch.finished_requests is None else sorted(batch.finished_requests),
        "wave_complete": batch.wave_complete,
        "start_wave": batch.start_wave,
        "outputs": [describe_output(output) for output in batch.outputs],
    }


def model_directory():
    folder = tempfile.mkdtemp(prefix="batch-model-")
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
        "rms_norm_eps": 1e-5,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_act": "silu",
        "torch_dtype": "float32",
    }
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    return folder


def build_scheduler(cls, stage_id, full_payload, kv_blocks=1000, max_num_seqs=16):
    folder = model_directory()
    base = ModelConfig(
        model=folder, tokenizer=folder, skip_tokenizer_init=True, dtype="float32", seed=0, max_model_len=256
    )
    model = OmniModelConfig.from_vllm_model_config(
        base,
        stage_id=stage_id,
        async_chunk=False,
        requires_full_payload_input=full_payload,
        active_stream_window=0,
        worker_type="generation" if cls is OmniGenerationScheduler else "ar",
        stage_connector_config={"name": "SharedMemoryConnector", "extra": {"stage_id": stage_id}},
    )
    scheduler = SchedulerConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=512,
        max_model_len=256,
        is_encoder_decoder=False,
        enable_chunked_prefill=True,
        async_scheduling=False,
    )
    cache = CacheConfig(block_size=16, gpu_memory_utilization=0.9, enable_prefix_caching=False)
    vllm = VllmConfig(
        model_config=base, scheduler_config=scheduler, cache_config=cache, device_config=DeviceConfig("cpu")
    )
    vllm.model_config = model
    cache.num_gpu_blocks = kv_blocks
    spec = FullAttentionSpec(block_size=16, num_kv_heads=1, head_size=1, dtype=torch.float32)
    return cls(
        vllm_config=vllm,
        kv_cache_config=KVCacheConfig(
            num_blocks=kv_blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
        ),
        structured_output_manager=StructuredOutputManager(vllm),
        block_size=16,
        include_finished_set=True,
        log_stats=True,
    )


def make_request(rid, prompt, max_tokens, resumable, **params):
    return OmniEngineCoreRequest(
        request_id=rid,
        prompt_token_ids=list(range(3, 3 + prompt)),
        mm_features=None,
        sampling_params=SamplingParams(max_tokens=max_tokens, temperature=0.0, ignore_eos=True, **params),
        pooling_params=None,
        arrival_time=time.time(),
        lora_request=None,
        cache_salt=None,
        data_parallel_rank=None,
        external_req_id="x-" + rid,
        resumable=resumable,
        trace_headers={"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
    )


def figures_as_json(figures):
    count = "vllm_num_preemptions"
    return {name: figures.get(name) if name == count else bits(figures.get(name)) for name in FIGURES}


def process(command):
    processor = MultimodalOutputProcessor(None, log_stats=True)
    submitted = []
    for step in command["steps"]:
        if "batch" in step:
            batch = MsgpackDecoder(StampedOutputs).decode([bytes.fromhex(step["batch"])])
            processor.process_outputs(batch.outputs, batch.timestamp, IterationStats())
            continue
        rid = step.get("submit") or step["update"]
        if rid in processor.request_states or "submit" in step:
            processor.add_request(make_request(rid, 1, 16, step["resumable"]), prompt=None)
        if "submit" in step:
            submitted.append(rid)
    ended = [rid for rid in submitted if rid not in processor.request_states]
    return {rid: figures_as_json(processor.pop_native_text_metrics("x-" + rid)) for rid in ended}


class Story:
    """One stage: a real scheduler, and the real output processor in front of it."""

    def __init__(self, name, cls, stage_id, **config):
        self.name, self.stage_id = name, stage_id
        self.scheduler = build_scheduler(cls, stage_id, full_payload=stage_id > 0, **config)
        self.processor = MultimodalOutputProcessor(None, log_stats=True)
        self.aggregator = OrchestratorAggregator(2, True, time.time(), 1)
        self.steps, self.stats, self.stamps, self.external = [], {}, {}, {}
        self.ar = cls is OmniARScheduler
        self.observe_gates()

    def observe_gates(self):
        """Stamps a request in the first step whose gate pass leaves it waiting for a slot: a full scan, as an oracle."""
        scheduler, gates = self.scheduler, self.scheduler._process_pending_omni_inputs

        def observed(*args, **kwargs):
            result = gates(*args, **kwargs)
            if self.stage_id > 0:
                # The generation scheduler takes its SCHEDULED time before the gates, so the stamp must be no later.
                now = time.monotonic() if self.ar else self.entered
                for queue in (getattr(scheduler, "kv_holding_waiting", ()), scheduler.waiting):
                    for request in queue:
                        if request.status == RequestStatus.WAITING:
                            self.stamps.setdefault(request.request_id, now)
            return result

        scheduler._process_pending_omni_inputs = observed

    def submit(self, rid, prompt=8, max_tokens=3, resumable=False, update=False, **params):
        request = make_request(rid, prompt, max_tokens, resumable, **params)
        message = encode(request)
        self.external[rid] = request.external_req_id
        self.steps.append({"update" if update else "submit": rid, "resumable": resumable, "request": message.hex()})
        request = MsgpackDecoder(OmniEngineCoreRequest).decode([message])
        self.processor.add_request(request, prompt=None)
        self.scheduler.add_request(OmniRequest.from_engine_core_request(request, None))

    def payload(self, *rids):
        output = OmniConnectorOutput(stage_recv_req_ids=set(rids))
        self.scheduler.enqueue_omni_connector_output(output)

    def abort(self, rid):
        self.scheduler.finish_requests(rid, RequestStatus.FINISHED_ABORTED)

    def step(self, times=1):
        for _ in range(times):
            self.entered = time.monotonic()
            scheduled = self.scheduler.schedule()
            ids = list(scheduled.num_scheduled_tokens)
            result = OmniModelRunnerOutput(
                req_ids=ids,
                req_id_to_index={rid: index for index, rid in enumerate(ids)},
                sampled_token_ids=[self.sample(rid) for rid in ids],
                logprobs=None,
                prompt_logprobs_dict={},
                pooler_output=None,
            )
            for batch in self.scheduler.update_from_output(scheduled, result).values():
                if batch.outputs or batch.finished_requests:
                    self.batch(batch)

    def sample(self, rid):
        return [TOKEN] if self.ar and not self.scheduler.requests[rid].is_prefill_chunk else []

    def batch(self, batch):
        message = encode(batch)
        with_stamps = [
            stamped(output, self.stamps.get(output.request_id))
            if isinstance(output, OmniEngineCoreOutput)
            else output
            for output in batch.outputs
        ]
        fields = {name: getattr(batch, name) for name in batch.__struct_fields__} | {"outputs": with_stamps}
        self.steps.append({"batch": message.hex()})
        if STAMPED:
            self.steps[-1]["stamped"] = encode(StampedOutputs(**fields)).hex()
        decoded = MsgpackDecoder(OmniEngineCoreOutputs).decode([message])
        self.processor.process_outputs(decoded.outputs, decoded.timestamp, IterationStats())
        for output in decoded.outputs:
            if output.request_id in self.processor.request_states or output.request_id in self.stats:
                continue
            record = self.processor.pop_native_text_metrics(self.external[output.request_id])
            if not record:
                continue  # The front end had let go of it before.
            figures = {name: record.get(name) for name in FIGURES}
            self.stats[output.request_id] = figures
            row = StageRequestStats(1, 1, 0, 0, 0.0, 0, 0.0, 0.0, StageStats())
            for name, value in figures.items():
                if hasattr(row, name):
                    setattr(row, name, value)
            self.aggregator.on_stage_metrics(self.stage_id, output.request_id, row)

    def finish(self):
        table = self.aggregator.build_and_log_summary()["stage_table"]
        for request in table:
            for row in request["stages"]:
                shown = {name: row.get(name) for name in FIGURES}
                assert shown == self.stats[request["request_id"]], (shown, self.stats)
        assert len(table) == len(self.stats)
        return {
            "name": self.name,
            "stage_id": self.stage_id,
            "steps": self.steps,
            # A version without these figures has nothing to compare with.
            "stats": {rid: figures_as_json(figures) for rid, figures in self.stats.items()}
            if FIGURES[0] in StageRequestStats.__dataclass_fields__
            else None,
        }


def first_stage():
    story = Story("first stage", OmniARScheduler, 0)
    story.submit("a", max_tokens=4)
    story.step()
    story.submit("b", prompt=20, stop_token_ids=[TOKEN])
    story.step(5)
    return story.finish()


def full_payload():
    story = Story("full payload, a slot too few", OmniARScheduler, 1, max_num_seqs=1)
    for rid in ("ready", "behind", "aborted"):
        story.submit(rid)
    story.step(2)
    story.payload("ready", "behind")
    story.step(2)
    story.abort("aborted")
    story.step(6)
    return story.finish()


def timeout():
    story = Story("input timeout", OmniARScheduler, 1)
    default, mixin.DEFAULT_INPUT_WAIT_TIMEOUT_S = mixin.DEFAULT_INPUT_WAIT_TIMEOUT_S, 1e-9
    try:
        story.submit("late")
        story.step(4)
    finally:
        mixin.DEFAULT_INPUT_WAIT_TIMEOUT_S = default
    return story.finish()


def preempted():
    story = Story("preempted", OmniARScheduler, 1, kv_blocks=6, max_num_seqs=4)
    for rid in ("p1", "p2"):
        story.submit(rid, prompt=30, max_tokens=12)
    story.step()
    story.payload("p1", "p2")
    for _ in range(60):
        story.step()
        if not story.scheduler.requests:
            break
    return story.finish()


def generation():
    story = Story("generation", OmniGenerationScheduler, 1)
    for rid in ("g1", "g2", "aborted"):
        story.submit(rid)
    story.step()
    story.payload("g1")
    story.step(2)
    story.abort("aborted")
    story.payload("g2")
    story.step(4)
    return story.finish()


def session():
    story = Story("streaming session", OmniARScheduler, 0)
    story.submit("s", max_tokens=2, resumable=True)
    story.step(4)
    story.submit("s", max_tokens=2, resumable=True, update=True)
    story.step(2)
    # While its second segment runs, a third is on its way, and then the session's end.
    story.submit("s", max_tokens=2, resumable=True, update=True)
    story.submit("s", prompt=1, max_tokens=1, update=True)
    story.step(8)
    return story.finish()


def idle_session():
    story = Story("session closed while idle", OmniARScheduler, 0)
    story.submit("i", max_tokens=2, resumable=True)
    story.step(4)
    story.submit("i", prompt=1, max_tokens=1, update=True)
    story.step(2)
    return story.finish()


def carrying():
    """Fields that no scheduler fills here, by hand: each of a type that vLLM really puts there."""
    one = LogprobsLists(np.array([[7, 8]]), np.array([[-0.5, -1.5]], dtype=np.float32), np.array([0]), None)
    output = OmniEngineCoreOutput(
        request_id="c",
        new_token_ids=[7, 200, 70000],
        new_logprobs=one,
        pooling_output=torch.tensor([1.0, 2.0]),
        finish_reason=FinishReason.REPETITION,
        stop_reason=7,
        events=[EngineCoreEvent(EngineCoreEventType.QUEUED, 1.5), EngineCoreEvent(EngineCoreEventType.PREEMPTED, 2.5)],
        kv_transfer_params={"remote": {"block_ids": [1, 2, [3, None]], "port": -1}},
        trace_headers={"traceparent": "x"},
        num_nans_in_logits=300,
        mm_cache_miss_hashes=["h"],
        multimodal_output={"audio": torch.zeros(3), "sr": torch.tensor(24000)},
        is_segment_finished=True,
        new_prompt_len_snapshot=5,
        num_generation_tokens=3,
    )
    stop_text = EngineCoreOutput(request_id="é", new_token_ids=[], finish_reason=FinishReason.STOP, stop_reason="\n\n")
    batch = OmniEngineCoreOutputs(
        engine_index=3,
        outputs=[output, stop_text],
        timestamp=99.5,
        finished_requests={"c"},
        wave_complete=1,
        start_wave=2,
    )
    fields = {name: getattr(batch, name) for name in batch.__struct_fields__}
    stamped_batch = StampedOutputs(**fields | {"outputs": [stamped(output, 2.25), stop_text]})
    steps = [{"batch": encode(batch).hex()} | ({"stamped": encode(stamped_batch).hex()} if STAMPED else {})]
    return {"name": "carrying", "stage_id": 1, "steps": steps, "stats": None}


def capture():
    stories = (first_stage, full_payload, timeout, preempted, generation, session, idle_session, carrying)
    return {"versions": versions(), "stories": [story() for story in stories]}


COMMANDS = {
    "versions": lambda command: versions(),
    "vectors": lambda command: vectors(),
    "decode": decode,
    "process": process,
    "capture": lambda command: capture(),
}


def main():
    for line in sys.stdin:
        command = json.loads(line)
        try:
            result = COMMANDS[command["op"]](command)
        except Exception:
            result = {"error": traceback.format_exc()}
        RESULTS.write(json.dumps(result) + "\n")
        RESULTS.flush()


if __name__ == "__main__":
    main()
