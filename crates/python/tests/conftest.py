"""Fixtures: tracing into a file of this test, and the plug-in in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import spans as spans_module
import stagespan


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Callable[[], spans_module.Spans]]:
    """Tracing is on; what it answers reads the spans recorded so far."""
    path = tmp_path / "trace.json"
    assert stagespan.configure(json_file=path, environ={"STAGESPAN_SPANS": "phases"})

    def read() -> spans_module.Spans:
        assert stagespan.flush(10.0), stagespan.stats()
        spans = spans_module.from_file(path)
        for span in spans.stages():
            spans_module.check(span)
        account = stagespan.stats()
        assert account["produced"] == account["exported"] == len(spans.all), account
        return spans

    yield read
    stagespan.configure(environ={"OTEL_TRACES_EXPORTER": "none"})


@pytest.fixture
def plugged(traced: Callable[[], spans_module.Spans]) -> Callable[[], spans_module.Spans]:
    """As `traced`, with the plug-in in this process."""
    pytest.importorskip("vllm_omni")
    import omni
    from stagespan import vllm_omni as plugin

    plugin.install()
    omni.forget_external_ids()
    return traced
