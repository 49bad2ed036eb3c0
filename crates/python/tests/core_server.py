"""A real `StageEngineCoreProc` in a process of its own, fed over its sockets as by vLLM-Omni's front end.

    python core_server.py COMMAND...

Commands: `add:ID[:TOKENS]`, `abort:ID`, `drain` (receive until every request has ended), `sleep:SECONDS`,
`term` (SIGTERM), `kill` (SIGKILL), `wait` (for the process to end), `shutdown` (the client's own). It
prints one JSON object of what the front end has seen.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import omni

# What `StageEngineCoreProcManager` starts instead of vLLM's own.
import vllm.v1.engine.core as engine_core
from executor import WithoutModel
from vllm.v1.engine.core_client import EngineCoreClient
from vllm_omni.engine import OmniEngineCoreRequest
from vllm_omni.engine.stage_engine_core_proc import StageEngineCoreProc

KIND = os.environ.get("TEST_KIND", "ar")
CONFIG = json.loads(os.environ.get("TEST_CONFIG", "{}"))
LOG_STATS = os.environ.get("TEST_LOG_STATS", "1") == "1"


class Client:
    def __init__(self) -> None:
        engine_core.EngineCoreProc.run_engine_core = StageEngineCoreProc.run_stage_core
        config, _ = omni.stage_config(kind=KIND, **CONFIG)
        scheduler = omni.SCHEDULERS[KIND]
        config.scheduler_config.scheduler_cls = f"{scheduler.__module__}.{scheduler.__name__}"
        self.client: Any = EngineCoreClient.make_client(
            multiprocess_mode=True,
            asyncio_mode=False,
            vllm_config=config,
            executor_class=WithoutModel,
            log_stats=LOG_STATS,
        )
        self.process = self.client.resources.engine_manager.processes[0]
        self.in_flight: set[str] = set()
        self.seen: dict[str, Any] = {}

    def add(self, request_id: str, tokens: str = "3") -> None:
        request = OmniEngineCoreRequest(
            request_id=request_id,
            prompt_token_ids=[1, 2, 3],
            mm_features=None,
            sampling_params=omni.SamplingParams(max_tokens=int(tokens), ignore_eos=True, detokenize=False),
            pooling_params=None,
            arrival_time=time.time(),
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
            external_req_id=f"external-{request_id}",
        )
        self.in_flight.add(request_id)
        self.client.add_request(request)

    def abort(self, request_id: str) -> None:
        self.client.abort_requests([request_id])

    def drain(self) -> None:
        while self.in_flight:
            batch = self.client.get_output()
            for output in batch.outputs:
                entry = self.seen.setdefault(output.request_id, {"events": [], "tokens": 0, "end": None})
                entry["tokens"] += len(output.new_token_ids)
                entry["events"] += [(event.type.name, event.timestamp) for event in output.events or ()]
                if output.finish_reason is not None:
                    entry["end"] = str(output.finish_reason)
                    self.in_flight.discard(output.request_id)

    def sleep(self, seconds: str) -> None:
        time.sleep(float(seconds))

    def term(self) -> None:
        os.kill(self.process.pid, signal.SIGTERM)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)

    def wait(self) -> None:
        self.process.join(30)
        self.seen["exit"] = self.process.exitcode

    def shutdown(self) -> None:
        started = time.monotonic()
        self.client.shutdown()
        self.seen["shutdown_s"] = time.monotonic() - started

    def die(self) -> None:
        """The front end is gone from one moment to the next."""
        print(json.dumps({**self.seen, "pid": self.process.pid}), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def main(commands: list[str]) -> None:
    client = Client()
    for command in commands:
        name, *arguments = command.split(":")
        getattr(client, name)(*arguments)
    print(json.dumps(client.seen), flush=True)
    # Its monitor thread reports a killed engine in its own way; what it would say is of no interest.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
