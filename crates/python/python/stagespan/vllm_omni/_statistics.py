"""The two waits among vLLM-Omni's own statistics, with `--log-stats`.

| watched | does |
|---|---|
| `MultimodalOutputProcessor._update_stats_from_output` | takes the stamp off an output |
| `MultimodalOutputProcessor._update_stats_from_finished` | splits the queued time |
| `MultimodalOutputProcessor.pop_native_text_metrics` | the split leaves with the request's other figures |
| `StagePool.build_stage_metrics` | puts it into `StageRequestStats` |

`StageRequestStats` gets two fields more, so every row of the stage table has both keys.
"""

from __future__ import annotations

import dataclasses
import functools
from types import ModuleType
from typing import Any

from stagespan.vllm_omni._headers import take_stamp
from stagespan.vllm_omni._hooks import around
from stagespan.vllm_omni._imports import when_imported

OUTPUT_PROCESSOR = "vllm_omni.outputs.output_processor"
STAGE_POOL = "vllm_omni.engine.stage_pool"
STATS = "vllm_omni.metrics.stats"
DUPLEX = "vllm_omni.engine.duplex.session.engine_session"

INPUT_WAIT_MS = "vllm_input_wait_ms"
READY_QUEUED_MS = "vllm_ready_queued_ms"
_FIELDS = (INPUT_WAIT_MS, READY_QUEUED_MS)

#: Where the statistics of a request keep its stamp, and an output processor what it gave away last.
_READY_AT = "_stagespan_ready_at"
_POPPED = "_stagespan_popped"


def install() -> None:
    """Watches the statistics of this process, as soon as they are imported."""
    when_imported(STATS, _extend_stats)
    when_imported(OUTPUT_PROCESSOR, _watch_output_processor)
    when_imported(STAGE_POOL, _watch_stage_pool)
    when_imported(DUPLEX, _extend_duplex)


def _watch_output_processor(module: ModuleType) -> None:
    processor = module.MultimodalOutputProcessor
    around(processor, "_update_stats_from_output", before=before_update_stats)
    around(processor, "_update_stats_from_finished", after=after_finished_stats)
    around(processor, "pop_native_text_metrics", after=after_pop)


def _watch_stage_pool(module: ModuleType) -> None:
    around(module.StagePool, "build_stage_metrics", before=before_build, after=after_build)


# -- from an output to the request's statistics


def before_update_stats(_processor: Any, req_state: Any, output: Any, *_args: Any, **_kwargs: Any) -> None:
    ready_at = take_stamp(output)
    statistics = getattr(req_state, "native_text_stats", None)
    if ready_at is not None and statistics is not None:
        # A streaming update starts new statistics, which then have no stamp.
        setattr(statistics, _READY_AT, ready_at)


def after_finished_stats(
    _token: None, _result: None, processor: Any, req_state: Any, finish_reason: Any, iteration_stats: Any
) -> None:
    statistics = getattr(req_state, "native_text_stats", None)
    if finish_reason is None or iteration_stats is None or statistics is None:
        return
    waits = split(statistics)
    if waits is not None:
        processor._native_text_metric_record(req_state.external_req_id).update(waits)


def split(statistics: Any) -> dict[str, float] | None:
    """The two waits of a request's statistics in milliseconds; `None` where they can't be told."""
    ready_at = getattr(statistics, _READY_AT, None)
    queued_at, scheduled_at = statistics.queued_ts, statistics.scheduled_ts
    if ready_at is None or not 0.0 < queued_at <= ready_at <= scheduled_at:
        return None
    return {
        INPUT_WAIT_MS: (ready_at - queued_at) * 1000.0,
        READY_QUEUED_MS: (scheduled_at - ready_at) * 1000.0,
    }


# -- from there into the row of a stage


def after_pop(_token: None, record: dict[str, Any], processor: Any, _request_id: str) -> None:
    processor.__dict__[_POPPED] = record


def before_build(pool: Any, *_args: Any, **_kwargs: Any) -> None:
    pool.output_processor.__dict__.pop(_POPPED, None)


def after_build(_token: None, row: Any, pool: Any, *_args: Any, **_kwargs: Any) -> None:
    record = pool.output_processor.__dict__.pop(_POPPED, None)
    if record and pool.collect_stage_metrics:
        for field in _FIELDS:
            setattr(row, field, record.get(field))


def _extend_stats(module: Any) -> None:
    _add_fields(module.StageRequestStats)
    module.STAGE_FIELDS = module._build_field_defs(
        module.StageRequestStats, module.STAGE_EXCLUDE, module.FIELD_TRANSFORMS
    )
    # Where the version folds the chunks of a request into one row, ours go with its own split.
    if hasattr(module, "_PHASE_SPLIT_FIELDS"):
        module._PHASE_SPLIT_FIELDS = (*module._PHASE_SPLIT_FIELDS, *_FIELDS)
    _extend_duplex(module)


def _extend_duplex(module: Any) -> None:
    """The table of a duplex response leaves the phases of a vLLM request out."""
    excluded = getattr(module, "DUPLEX_STAGE_TABLE_EXCLUDE", None)
    if excluded is not None:
        module.DUPLEX_STAGE_TABLE_EXCLUDE = excluded | frozenset(_FIELDS)


def _add_fields(row: Any) -> None:
    if INPUT_WAIT_MS in row.__dataclass_fields__:
        return
    for name in _FIELDS:
        # What `dataclass` makes of `name: float | None = None`; it can't be applied a second time.
        field: Any = dataclasses.field(default=None)
        field.name = name
        field.type = "float | None"
        field._field_type = row.__dataclass_fields__["stage_id"]._field_type
        field.kw_only = True
        setattr(row, name, None)
        row.__dataclass_fields__[name] = field
    original = row.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        ours = {name: kwargs.pop(name) for name in _FIELDS if name in kwargs}
        original(self, *args, **kwargs)
        self.__dict__.update(ours)

    row.__init__ = init
