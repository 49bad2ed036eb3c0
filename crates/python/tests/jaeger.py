"""A real Jaeger, on ports that the system gives, named by STAGESPAN_JAEGER."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

import spans as spans_module

ROOT = Path(__file__).resolve().parents[3]
SERVICE = "stagespan-python-test"
_PORTS = ("HEALTH", "QUERY_HTTP", "QUERY_GRPC", "OTLP_GRPC", "OTLP_HTTP")
#: Straight to the loopback interface, whatever proxy the environment names.
_http = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Jaeger:
    """Started from the file that users get; its addresses are read from its log."""

    def __enter__(self) -> Jaeger:
        self._log = tempfile.NamedTemporaryFile("w+b", suffix=".log")
        environment = {f"JAEGER_{port}_PORT": "0" for port in _PORTS}
        self._process = subprocess.Popen(
            [os.environ["STAGESPAN_JAEGER"], "--config", "collector-config/jaeger.yaml"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        deadline = time.monotonic() + 60.0
        while "Everything is ready" not in self._said():
            assert self._process.poll() is None, self._said()
            assert time.monotonic() < deadline, self._said()
            time.sleep(0.02)
        self.endpoint = "http://" + self._address("otlpreceiver", "Starting HTTP server", "endpoint")
        self._query = "http://" + self._address("app/server.go", "Query server started", "http_addr")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def _said(self) -> str:
        return Path(self._log.name).read_text("utf-8", "replace")

    def _address(self, source: str, message: str, field: str) -> str:
        line = next(line for line in self._said().splitlines() if source in line and message in line)
        return str(json.loads(line.rsplit("\t", 1)[1])[field])

    def environment(self, **more: str) -> dict[str, str]:
        """The variables with which a process exports here, beside its ordinary ones."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OTEL_", "STAGESPAN_", "TRACEPARENT"))
        }
        # No Rust on the path: the wheel must do without.
        kept["PATH"] = os.pathsep.join(p for p in kept["PATH"].split(os.pathsep) if "cargo" not in p)
        return {
            **kept,
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint,
            "OTEL_SERVICE_NAME": SERVICE,
            "STAGESPAN_SPANS": "phases",
            **more,
        }

    def spans(self) -> spans_module.Spans:
        """Every span that is there."""
        query = urllib.parse.urlencode(
            {
                "query.service_name": SERVICE,
                "query.start_time_min": "1970-01-01T00:00:00Z",
                "query.start_time_max": "2200-01-01T00:00:00Z",
                "query.num_traces": "10000",
                "query.raw_traces": "true",
            }
        )
        try:
            with _http.open(f"{self._query}/api/v3/traces?{query}", timeout=30) as answer:
                documents: list[dict[str, Any]] = [json.loads(answer.read())["result"]]
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            documents = []
        return spans_module.from_otlp(*documents)

    def wait_for(self, count: int, *, within_s: float = 30.0) -> spans_module.Spans:
        """The spans, as soon as there are so many stage spans."""
        deadline = time.monotonic() + within_s
        while True:
            spans = self.spans()
            if len(spans.stages()) >= count:
                return spans
            assert time.monotonic() < deadline, f"{len(spans.stages())} of {count} stage spans came"
            time.sleep(0.05)
