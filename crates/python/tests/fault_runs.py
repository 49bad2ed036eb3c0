"""Runs one workload on real schedulers without the plug-in, with it, and with each of its hooks failing;
prints what the engine did in each run, as JSON. Every run is a fork of one process, since the plug-in
stays where it has been installed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import omni
import stagespan
from stagespan import _native
from stagespan import vllm_omni as plugin
from stagespan.vllm_omni import _engine_core, _gate, _headers, _hooks, _stage

HOOKS = [name for name in vars(_engine_core) if name.startswith(("before_", "after_"))]
CALLS = [name for name in vars(_native.Stage) if not name.startswith("_")]
METHODS = [
    (owner, name)
    for owner in (_stage.StageWatch, _gate.GateWatch)
    for name, value in vars(owner).items()
    if callable(value) and not name.startswith("__")
]
HEADERS = {
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "stagespan-span": "4bf92f3577b34da6a3ce929d0e0e4736-a0f067aa0ba902b7-01;own",
    "stagespan-request-id": "client-1",
}


def workload() -> dict[str, Any]:
    """What the engine did: everything that it told, times aside."""
    told: dict[str, Any] = {}
    for kind in ("ar", "ar_async", "generation"):
        for gate in ("full_payload", "async_chunk"):
            for log_stats in (True, False):
                told[f"{kind} {gate} {log_stats}"] = one_stage(kind, gate, log_stats)
    return told


def one_stage(kind: str, gate: str, log_stats: bool) -> list[Any]:
    omni.forget_external_ids()
    stage = omni.Stage(kind, gate=gate, log_stats=log_stats, blocks=6, max_num_seqs=2)
    told: list[Any] = []
    for i in range(4):
        stage.add(f"r{i}", prompt=1 if kind == "generation" else 30, max_tokens=12, headers=dict(HEADERS))
    if gate == "async_chunk":
        stage.scheduler.chunk_transfer_adapter.record_receive_failure("r3", "broken")
    for number in range(40):
        if number in (2, 4, 5):
            request_id = f"r{(2, 4, 5).index(number)}"
            if gate == "full_payload":
                stage.deliver(request_id)
            else:
                codes = [1, 2, 3] if kind == "generation" else None
                stage.put_chunk(request_id, finished=True, codes=codes)
        if number == 8:
            stage.abort("r2", "nobody")
        if number == 10:
            stage.add("r2", prompt=1, max_tokens=2)
            stage.abort("r2")
        with omni.input_timeout(1e-9 if number == 12 else 600.0):
            scheduled = stage.schedule()
        outputs = stage.update(scheduled)
        told.append([dict(scheduled.num_scheduled_tokens), outputs_of(outputs), statuses(stage)])
        if not stage.scheduler.requests:
            break
    stage.close()
    return told


def outputs_of(outputs: dict[int, Any]) -> list[Any]:
    return [
        [
            o.request_id,
            list(o.new_token_ids),
            str(o.finish_reason),
            o.stop_reason,
            [event.type.name for event in o.events or ()],
        ]
        for batch in outputs.values()
        for o in batch.outputs
    ] + [sorted(batch.finished_requests or ()) for batch in outputs.values()]


def statuses(stage: omni.Stage) -> dict[str, str]:
    return {request_id: request.status.name for request_id, request in stage.scheduler.requests.items()}


def forked(prepare: Callable[[], None]) -> dict[str, Any]:
    """What the workload tells in a child that `prepare` has prepared, and the faults counted there."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            prepare()
            answer = {"told": workload(), "faults": dict(_hooks.faults)}
        except BaseException as error:
            answer = {"told": f"{type(error).__name__}: {error}", "faults": {}}
        with os.fdopen(writer, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = json.load(pipe)
    os.waitpid(pid, 0)
    return answer


def install() -> None:
    assert stagespan.configure(json_file=os.devnull)
    plugin.install()


def failing(owner: Any, name: str) -> Callable[[], None]:
    def prepare() -> None:
        def fail(*_args: Any, **_kwargs: Any) -> Any:
            raise RuntimeError(f"injected into {name}")

        setattr(owner, name, fail)
        install()

    return prepare


def failing_call(name: str) -> Callable[[], None]:
    def prepare() -> None:
        class Failing:
            """A native stage, one call of which fails."""

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                self._stage = stage(*args, **kwargs)

            def __getattr__(self, called: str) -> Any:
                if called == name:
                    raise RuntimeError(f"injected into {name}")
                return getattr(self._stage, called)

        stage = _native.Stage
        _native.Stage = Failing  # type: ignore[assignment, misc]
        install()

    return prepare


def main() -> None:
    runs = {"without": forked(lambda: None), "with": forked(install)}
    for name in HOOKS:
        runs[f"hook {name}"] = forked(failing(_engine_core, name))
    for owner, name in METHODS:
        runs[f"method {owner.__name__}.{name}"] = forked(failing(owner, name))
    for name in CALLS:
        runs[f"call {name}"] = forked(failing_call(name))
    for name in ("unpack", "attach_stamp", "host_traces"):
        runs[f"headers {name}"] = forked(failing(_headers, name))
    json.dump(runs, sys.stdout)


if __name__ == "__main__":
    main()
