"""What the plug-in costs a real scheduler's step: CPU time of the scheduler's thread, medians in µs.

    python bench_overhead.py

Three modes, each in a fork of one process, interleaved: without the plug-in, with it (exporting to a file),
and with a full scan of both queues in the plug-in's place.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import omni
import stagespan
from stagespan import vllm_omni as plugin

ROUNDS = int(os.environ.get("ROUNDS", "5"))
STEPS = 60


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.thread_time_ns()
    result = work()
    return (time.thread_time_ns() - started) / 1e3, result


def step_with_waiting(count: int, *, held: bool, log_stats: bool) -> float:
    """A step with 16 running requests, and so many that wait: for input, or ready for a slot."""
    stage = omni.Stage("ar", max_num_seqs=16, blocks=4000, log_stats=log_stats)
    running = [f"run{i}" for i in range(16)]
    for request_id in running:
        stage.add(request_id, prompt=4, max_tokens=200)
    stage.step()
    stage.deliver(*running)
    stage.step()
    waiting = [f"wait{i}" for i in range(count)]
    for request_id in waiting:
        stage.add(request_id, prompt=4)
    stage.step()
    if not held:
        stage.deliver(*waiting)
        stage.step()
    times = []
    for _ in range(STEPS if count < 5000 else STEPS // 3):
        schedule_us, scheduled = timed(stage.schedule)
        ids = list(scheduled.num_scheduled_tokens)
        assert len(ids) == 16
        output = model_output(ids)
        update_us, _ = timed(lambda: stage.scheduler.update_from_output(scheduled, output))  # noqa: B023
        times.append(schedule_us + update_us)
    return statistics.median(times)


def finishing(count: int, *, log_stats: bool) -> float:
    """The step in which so many requests finish at once."""
    stage = omni.Stage("ar", max_num_seqs=count, blocks=4000, max_tokens_per_step=2048, log_stats=log_stats)
    ids = [f"r{i}" for i in range(count)]
    for request_id in ids:
        stage.add(request_id, prompt=4, max_tokens=2)
    stage.step()
    stage.deliver(*ids)
    stage.step()
    schedule_us, scheduled = timed(stage.schedule)
    output = model_output(ids)
    update_us, _ = timed(lambda: stage.scheduler.update_from_output(scheduled, output))
    assert not stage.scheduler.requests
    return schedule_us + update_us


def model_output(ids: list[str]) -> Any:
    return omni.OmniModelRunnerOutput(
        req_ids=ids,
        req_id_to_index={request_id: i for i, request_id in enumerate(ids)},
        sampled_token_ids=[[7] for _ in ids],
        logprobs=None,
        prompt_logprobs_dict={},
        pooler_output=None,
    )


def full_scan() -> None:
    """The stamp as a scan of both queues makes it."""
    from vllm_omni.core.sched.omni_scheduler_mixin import OmniSchedulerMixin

    gates = OmniSchedulerMixin._process_pending_omni_inputs

    def gates_and_scan(self: Any, model_mode: str) -> None:
        gates(self, model_mode)
        now = time.monotonic()
        for queue in (getattr(self, "kv_holding_waiting", ()), self.waiting):
            for request in queue:
                if request.status == omni.RequestStatus.WAITING and "_ready_at" not in request.__dict__:
                    request._ready_at = now

    OmniSchedulerMixin._process_pending_omni_inputs = gates_and_scan


def with_plugin() -> None:
    assert stagespan.configure(json_file=os.devnull, environ={"OTEL_BSP_MAX_QUEUE_SIZE": "65536"})
    plugin.install()


MODES: dict[str, Callable[[], None]] = {
    "off": lambda: None,
    "on": with_plugin,
    "full scan": full_scan,
}


def measures() -> dict[str, Callable[[], float]]:
    cases: dict[str, Callable[[], float]] = {}
    for log_stats in (False, True):
        word = "log-stats" if log_stats else "no stats"
        for count in (100, 1000, 10_000):
            for held in (True, False):
                name = f"{count} {'held' if held else 'ready'}, {word}"
                cases[name] = lambda c=count, h=held, s=log_stats: step_with_waiting(c, held=h, log_stats=s)  # type: ignore[misc]
        cases[f"256 finish in one step, {word}"] = lambda s=log_stats: finishing(256, log_stats=s)  # type: ignore[misc]
    return cases


def in_fork(prepare: Callable[[], None], measure: Callable[[], float]) -> float:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        prepare()
        with os.fdopen(writer, "w") as pipe:
            json.dump(measure(), pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = float(json.load(pipe))
    os.waitpid(pid, 0)
    return answer


def main() -> None:
    print(f"{'µs of CPU per step':38}" + "".join(f"{mode:>12}" for mode in MODES) + f"{'on':>12}")
    for name, measure in measures().items():
        found: dict[str, list[float]] = {mode: [] for mode in MODES}
        for _ in range(ROUNDS):
            for mode, prepare in MODES.items():
                found[mode].append(in_fork(prepare, measure))
        medians = {mode: statistics.median(values) for mode, values in found.items()}
        difference = f"{medians['on'] / medians['off'] - 1:+.1%}"
        print(
            f"{name:38}" + "".join(f"{us:12.1f}" for us in medians.values()) + f"{difference:>12}", flush=True
        )


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
