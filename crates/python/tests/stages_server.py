"""A whole pipeline of real vLLM-Omni: `AsyncOmni`, its engine, the orchestrator's thread, and three spawned
`StageEngineCoreProc` processes over ZMQ. Not real are the model, the resolution of a checkpoint's
configuration and the tokenizer.

    python stages_server.py SCENARIO...

It prints one JSON object: what each scenario saw.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import omni
import vllm.v1.engine.core as engine_core
import vllm_omni.engine.omni_engine_base as engine_base
from executor import WithoutModel
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine import EngineCoreRequest
from vllm_omni.engine.async_omni_engine import AsyncOmniEngine, StageRuntimeInfo
from vllm_omni.engine.stage_engine_core_client import StageEngineCoreClientBase
from vllm_omni.engine.stage_engine_core_proc import StageEngineCoreProc
from vllm_omni.engine.stage_init_utils import StageMetadata, prepare_engine_environment
from vllm_omni.engine.stage_pool import StagePool
from vllm_omni.entrypoints.async_omni import AsyncOmni
from vllm_omni.outputs.output_processor import MultimodalOutputProcessor

NAMES = ("thinker", "talker", "code2wav")
#: Whether the orchestrator submits a request to all of its stages at once, or to each after the one before.
TOGETHER = os.environ.get("TEST_TOGETHER", "0") == "1"
LOG_STATS = os.environ.get("TEST_LOG_STATS", "1") == "1"

# Applies to every stage process that is spawned, and the client-side pool of stage 1 knows no other class.
engine_core.EngineCoreProc.run_engine_core = StageEngineCoreProc.run_stage_core
engine_base.StageConfigFactory.get_pipeline_config = staticmethod(lambda **_: None)


def sampling(max_tokens: int = 3) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, ignore_eos=True, detokenize=False, temperature=0.0)


class WithoutTokenizer:
    """Stands for vLLM's input processor: prompts are tokens already."""

    def process_inputs(self, request_id: str, prompt: Any, params: Any, **more: Any) -> EngineCoreRequest:
        return EngineCoreRequest(
            request_id=request_id,
            prompt_token_ids=prompt["prompt_token_ids"],
            mm_features=None,
            sampling_params=params.clone(),
            pooling_params=None,
            arrival_time=more.get("arrival_time") or time.time(),
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
            trace_headers=more.get("trace_headers"),
            external_req_id=request_id,
            resumable=more.get("resumable", False),
        )


class Engine(AsyncOmniEngine):
    """The real engine with three stages that need no checkpoint."""

    def _resolve_stage_configs(self, *_: Any, **__: Any) -> Any:
        return "", [
            SimpleNamespace(
                stage_id=i,
                stage_type="llm",
                final_output=i == 2,
                is_comprehension=False,
                sampling_constraints={},
                engine_args=SimpleNamespace(async_chunk=False),
            )
            for i in range(3)
        ]

    def _set_pipeline_runtime_config(self, *_: Any) -> None: ...

    def _detect_pd_config(self) -> None: ...

    def _initialize_stages(self, *_: Any) -> None:
        # As `StageRuntime` does before it builds its stages: here the plug-ins are loaded.
        prepare_engine_environment()
        self.async_chunk = TOGETHER
        self._runtime = SimpleNamespace(create_membership_controller=lambda: None, shutdown=lambda: None)
        self.stage_vllm_configs = []
        for i, name in enumerate(NAMES):
            config, _ = omni.stage_config(stage_id=i, name=name, gate="full_payload" if i else None)
            config.scheduler_config.scheduler_cls = "vllm_omni.core.sched.omni_ar_scheduler.OmniARScheduler"
            self.stage_vllm_configs.append(config)
            metadata = StageMetadata(
                stage_id=i,
                stage_type="llm",
                engine_output_type=None,
                is_comprehension=i == 0,
                requires_multimodal_data=False,
                engine_input_source=[i - 1] if i else [],
                final_output=i == 2,
                final_output_type="text",
                default_sampling_params=sampling(),
                custom_process_input_func=None,
                model_stage=name,
                runtime_cfg=None,
            )
            client = StageEngineCoreClientBase.make_async_mp_client(
                config, WithoutModel, log_stats=LOG_STATS, metadata=metadata
            )
            processor = MultimodalOutputProcessor(
                tokenizer=None, log_stats=LOG_STATS, engine_core_output_type="text"
            )
            pool_config = SimpleNamespace(
                model_config=SimpleNamespace(
                    max_model_len=256,
                    stage_id=i,
                    async_chunk=TOGETHER,
                    hf_config=None,
                    use_v2_model_runner=False,
                    stage_connector_config=config.model_config.stage_connector_config,
                )
            )
            self.stage_pools.append(
                StagePool(i, client, output_processor=processor, stage_vllm_config=pool_config)
            )
        self.stage_clients = [pool.stage_client for pool in self.stage_pools]
        self.input_processor = WithoutTokenizer()
        self.default_sampling_params_list = [sampling()] * 3
        self.stage_metadata = [
            StageRuntimeInfo(
                final_output=i == 2, final_output_type="text", stage_type="llm", model_stage=name
            )
            for i, name in enumerate(NAMES)
        ]


class Server(AsyncOmni):
    def _create_engine(self, **_: Any) -> Engine:
        return Engine(**_)

    def _get_comprehension_stage_index(self) -> None: ...


def traceparent(number: int) -> str:
    return f"00-{number:032x}-{number:016x}-01"


async def ask(server: Server, request_id: str, **more: Any) -> int:
    outputs = 0
    prompt = more.pop("prompt", {"prompt_token_ids": [1, 2, 3, 4]})
    async for _ in server.generate(prompt, request_id=request_id, output_modalities=["text"], **more):
        outputs += 1
    return outputs


# -- scenarios


async def concurrent(server: Server) -> Any:
    """Four at once; one without any context."""
    contexts = [{"trace_headers": {"TraceParent": traceparent(i + 1), "tracestate": "v=x"}} for i in range(4)]
    contexts[2] = {}
    return await asyncio.gather(*(ask(server, f"user{i}", **more) for i, more in enumerate(contexts)))


async def http(server: Server) -> Any:
    """vLLM's real middleware chain around routes that ask as its own do."""
    import httpx
    import vllm.entrypoints.launchers.app as launcher
    from fastapi import FastAPI, Request
    from fastapi.responses import StreamingResponse

    app = FastAPI()

    @app.post("/stream")
    async def stream(raw: Request) -> StreamingResponse:
        outputs = server.generate(
            {"prompt_token_ids": [1, 2, 3]}, request_id="http-stream", output_modalities=["text"]
        )

        async def body() -> AsyncIterator[bytes]:
            async for _ in outputs:
                yield b"x"

        return StreamingResponse(body())

    @app.post("/plain/{request_id}")
    async def plain(request_id: str) -> int:
        return await ask(server, request_id)

    arguments = SimpleNamespace(
        api_key=None,
        middleware=[],
        enable_request_id_headers=False,
        allowed_origins=["*"],
        allow_credentials=False,
        allowed_methods=["*"],
        allowed_headers=["*"],
        enable_server_load_tracking=False,
    )
    launcher.init_entrypoints_middleware(arguments, app, ("generate",))
    # A client's own headers of ours are a forgery, and its other ones none of our business.
    forged = {
        "stagespan-span": "4bf92f3577b34da6a3ce929d0e0e4736-a0f067aa0ba902b7-01;own",
        "authorization": "Bearer secret",
    }
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        answers = [
            await client.post(
                "/stream", headers={"traceparent": traceparent(21), "tracestate": "a=b", **forged}
            ),
            await client.post("/plain/http-plain", headers={"traceparent": traceparent(22), **forged}),
            await client.post("/plain/http-bare"),
            await client.post("/plain/http-bad", headers={"traceparent": "00-1-1-01"}),
        ]
    return [answer.status_code for answer in answers]


async def aborted(server: Server) -> Any:
    """The client leaves while a stage holds its request."""
    task = asyncio.create_task(ask(server, "ab", trace_headers={"traceparent": traceparent(31)}))
    await asyncio.sleep(0.25)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.5)
    return task.cancelled()


async def streaming(server: Server) -> Any:
    """Input that comes in two pieces."""
    from vllm.engine.protocol import StreamingInput

    async def pieces() -> AsyncIterator[Any]:
        for i in range(2):
            yield StreamingInput(prompt={"prompt_token_ids": [5, 6, 7 + i]})
            await asyncio.sleep(0.3)

    params = [
        SamplingParams(
            max_tokens=2,
            ignore_eos=True,
            detokenize=False,
            temperature=0.0,
            output_kind=RequestOutputKind.DELTA,
        )
        for _ in range(3)
    ]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(8):
            return await ask(
                server,
                "streamed",
                prompt=pieces(),
                sampling_params_list=params,
                trace_headers={"traceparent": traceparent(41)},
            )


async def companions(server: Server) -> Any:
    """A guided request brings a companion along."""

    class Unconditioned:
        request_id_suffix = "__cfg"
        prompt: Any = {"prompt_token_ids": [9, 9]}  # noqa: RUF012
        role = "negative"

        def apply_overrides(self, first: Any, every: Any) -> Any:
            return first, every

    server.engine.prompt_expand_func = lambda *_: [Unconditioned()]
    try:
        async with asyncio.timeout(8):
            return await ask(server, "guided", trace_headers={"traceparent": traceparent(42)})
    except TimeoutError:
        return None
    finally:
        server.engine.prompt_expand_func = None


async def refused(server: Server) -> Any:
    """The server refuses the request before any stage sees it."""
    try:
        await ask(server, "refused", sampling_params_list=[sampling()])
    except Exception as error:
        return type(error).__name__


async def lost(server: Server) -> Any:
    """A stage's process dies with a request on it."""
    client = server.engine.stage_pools[1].clients[0]
    process = client.resources.engine_manager.processes[0]
    task = asyncio.create_task(ask(server, "lost", trace_headers={"traceparent": traceparent(51)}))
    await asyncio.sleep(0.3)
    os.kill(process.pid, signal.SIGKILL)
    try:
        async with asyncio.timeout(20):
            await task
    except BaseException as error:
        await asyncio.sleep(0.5)
        return type(error).__name__


SCENARIOS: dict[str, Callable[[Server], Any]] = {
    f.__name__: f for f in (concurrent, http, aborted, streaming, companions, refused, lost)
}


async def main(names: list[str]) -> None:
    server = Server(model=omni.model_dir(), log_stats=LOG_STATS, init_timeout=900)
    seen: dict[str, Any] = {}
    for name in names:
        seen[name] = await SCENARIOS[name](server)
    if "stagespan" in sys.modules:
        import stagespan
        from stagespan.vllm_omni import _front, _hooks

        seen["left"] = list(_front._doors)
        seen["faults"] = dict(_hooks.faults)
        stagespan.flush()
        seen["stats"] = stagespan.stats()
    seen["rows"] = getattr(server, "rows", None)
    server.shutdown()
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
    sys.stdout.flush()
    os._exit(0)
