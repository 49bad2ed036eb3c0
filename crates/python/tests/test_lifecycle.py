"""However a process ends, what it has recorded is exported; and a fork is a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest


class Receiver:
    """Takes OTLP over HTTP, and finds request ids in what it was sent."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                receiver.bodies.append(self.rfile.read(length))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def has(self, request_id: str) -> bool:
        return any(f"<{request_id}>".encode() in body for body in self.bodies)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    running = Receiver()
    yield running
    running.close()


PRELUDE = """
import os, signal, sys, threading, time, json
import stagespan
stage = stagespan.Stage("talker", 1)
def record(request_id):
    handle = stage.enqueue("<" + request_id + ">")
    assert handle, "tracing is off"
    stage.scheduled(handle)
    stage.finish(handle)
"""


def run(receiver: Receiver, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "STAGESPAN_"))}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", PRELUDE + textwrap.dedent(program)],
        env={
            **kept,
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
            # Long enough that nothing leaves by itself: what comes was flushed.
            "OTEL_BSP_SCHEDULE_DELAY": "60000",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def ok(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


ENDS = {
    "return": 'record("r")',
    "sys.exit": 'record("r"); sys.exit(0)',
    "in a thread": 't = threading.Thread(target=record, args=("r",)); t.start(); t.join()',
    "late atexit": 'import atexit; atexit.register(record, "r"); record("first")',
}


@pytest.mark.parametrize("program", ENDS.values(), ids=ENDS)
def test_exit_flushes(receiver: Receiver, program: str) -> None:
    ok(run(receiver, program))
    assert receiver.has("r")


def test_an_exception_flushes_too(receiver: Receiver) -> None:
    done = run(receiver, 'record("r"); raise ValueError("of the program itself")')
    assert done.returncode == 1
    assert receiver.has("r")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing(receiver: Receiver, method: str, tmp_path: object) -> None:
    script = f"{tmp_path}/child.py"
    with open(script, "w") as file:
        file.write(
            PRELUDE
            + textwrap.dedent(
                f"""
                import multiprocessing
                def child(name):
                    record(name)
                if __name__ == "__main__":
                    context = multiprocessing.get_context({method!r})
                    record("before")
                    children = [context.Process(target=child, args=(f"child{{i}}",)) for i in range(3)]
                    for c in children: c.start()
                    for c in children: c.join()
                    assert [c.exitcode for c in children] == [0, 0, 0]
                    record("after")
                """
            )
        )
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "60000"}
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    ok(done)
    assert all(receiver.has(name) for name in ("before", "after", "child0", "child1", "child2"))


def test_os_fork_and_forks_of_forks(receiver: Receiver) -> None:
    ok(
        run(
            receiver,
            """
            record("parent")
            if os.fork() == 0:
                record("child")
                if os.fork() == 0:
                    record("grandchild")
                    assert stagespan.flush()
                    os._exit(0)
                os.wait()
                assert stagespan.flush()
                os._exit(0)
            os.wait()
            record("again")
            """,
        )
    )
    assert all(receiver.has(name) for name in ("parent", "child", "grandchild", "again"))


def test_many_forks_under_load(receiver: Receiver) -> None:
    ok(
        run(
            receiver,
            """
            stop = threading.Event()
            def busy():
                while not stop.is_set():
                    record("busy")
            threads = [threading.Thread(target=busy) for _ in range(2)]
            for t in threads: t.start()
            for i in range(40):
                if os.fork() == 0:
                    record(f"child{i}")
                    os._exit(0 if stagespan.flush(20.0) else 1)
                assert os.wait()[1] == 0
            stop.set()
            for t in threads: t.join()
            """,
            PYTHONWARNINGS="ignore::DeprecationWarning",
        )
    )
    assert all(receiver.has(f"child{i}") for i in range(40))


def test_handles_and_requests_of_the_parent_are_not_the_childs(receiver: Receiver) -> None:
    ok(
        run(
            receiver,
            """
            handle = stage.enqueue("<inherited>")
            request = stagespan.open_request("<live>")
            if os.fork() == 0:
                assert stage.live == 0
                own = stage.enqueue("<own>")
                assert own != handle
                assert stage.finish(handle) is False
                assert stage.finish(own) is True
                assert request.trace_id is None
                assert request.assign("talker") == {}
                request.end()
                del request
                assert stagespan.stats()["python"]["unknown_handles"] == 1
                os._exit(0 if stagespan.flush() else 1)
            assert os.wait()[1] == 0
            assert stage.finish(handle) is True
            request.end()
            """,
        )
    )
    assert receiver.has("own")
    assert receiver.has("inherited")
    assert sum(body.count(b"<live>") for body in receiver.bodies) >= 1


@pytest.mark.parametrize("first", ["stage.finish(handle)", "request = stagespan.open_request('<r>')"])
def test_no_thread_before_the_first_record(receiver: Receiver, first: str) -> None:
    said = ok(
        run(
            receiver,
            f"""
            def threads(): return len(os.listdir("/proc/self/task"))
            before = threads()
            assert stagespan.is_on()
            handle = stage.enqueue("<r>")
            stage.scheduled(handle)
            assert threads() == before, "a thread before the first span"
            {first}
            assert threads() > before
            # The interpreter's main thread takes every signal: ours block them all.
            blocked = []
            for task in os.listdir("/proc/self/task"):
                if int(task) != os.getpid():
                    lines = open("/proc/self/task/" + task + "/status").read().splitlines()
                    blocked.append(int(next(l for l in lines if l.startswith("SigBlk")).split()[1], 16))
            term = 1 << (signal.SIGTERM - 1)
            assert all(mask & term for mask in blocked), blocked
            mine = open("/proc/self/status").read().splitlines()
            assert not int(next(l for l in mine if l.startswith("SigBlk")).split()[1], 16)
            print("ok")
            """,
        )
    )
    assert said.strip() == "ok"


def test_no_signal_handler_is_touched(receiver: Receiver) -> None:
    said = ok(
        run(
            receiver,
            """
            def handlers(): return [str(signal.getsignal(s)) for s in signal.valid_signals()]
            wakeup = signal.set_wakeup_fd(-1)
            record("r")
            stagespan.flush()
            assert signal.set_wakeup_fd(-1) == -1 == wakeup
            print(json.dumps(handlers()))
            """,
        )
    )
    program = (
        "import signal, json\nprint(json.dumps([str(signal.getsignal(s)) for s in signal.valid_signals()]))"
    )
    bare = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(said) == json.loads(bare.stdout)


def test_a_hung_receiver_keeps_nobody(receiver: Receiver) -> None:
    """It accepts and never answers; the interpreter is free meanwhile, and exit takes two seconds."""
    said = ok(
        run(
            receiver,
            """
            import socket
            server = socket.create_server(("127.0.0.1", 0))
            assert stagespan.configure(
                environ={"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.getsockname()[1]}"}
            )
            record("r")
            ticks = []
            def tick():
                while not ticks or ticks[-1] is not None:
                    ticks.append(time.monotonic()); time.sleep(0.01)
            thread = threading.Thread(target=tick, daemon=True); thread.start()
            started = time.monotonic()
            assert stagespan.flush(0.5) is False
            assert time.monotonic() - started >= 0.5
            assert len(ticks) > 5, "the interpreter was held"
            print("ok")
            """,
        )
    )
    assert said.strip() == "ok"


def test_killed_by_a_signal_without_a_handler(receiver: Receiver) -> None:
    done = run(
        receiver, 'record("r"); stagespan.flush(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)'
    )
    assert done.returncode == -signal.SIGTERM
    assert receiver.has("r")


def test_a_process_that_records_nothing_is_left_alone(receiver: Receiver) -> None:
    ok(run(receiver, ""))
    assert receiver.bodies == []


def test_importing_costs_little() -> None:
    """No module of weight comes along."""
    heavy = {"multiprocessing", "asyncio", "socket", "ssl", "concurrent.futures", "logging", "inspect"}
    program = """
        import sys
        before = set(sys.modules)
        import stagespan
        print(",".join(set(sys.modules) - before))
    """
    loaded = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    ).stdout
    assert "stagespan._native" in loaded
    assert not heavy & set(loaded.strip().split(","))
