"""Records what the plug-in watches in one release of vLLM-Omni.

    python record_shapes.py SOURCES

SOURCES holds the packages `vllm` and `vllm_omni` and their `.dist-info`. Run it after reading what has
changed in the functions below, never instead.
"""

from __future__ import annotations

import json
import sys
from importlib import metadata, util
from pathlib import Path

# Loaded by its path: the package itself needs its native part.
_path = Path(__file__).parents[1] / "python/stagespan/vllm_omni/_shapes.py"
_spec = util.spec_from_file_location("_shapes", _path)
assert _spec is not None
assert _spec.loader is not None
_shapes = util.module_from_spec(_spec)
_spec.loader.exec_module(_shapes)

TARGETS = {
    "vllm.v1.core.sched.scheduler": [
        "Scheduler.add_request",
        "Scheduler.schedule",
        "Scheduler._preempt_request",
        "Scheduler.finish_requests",
        "Scheduler._free_request",
        "Scheduler._enqueue_waiting_request",
    ],
    "vllm.v1.request": ["Request.record_event", "Request.take_events"],
    "vllm.v1.engine.core": ["EngineCore.shutdown"],
    "vllm.entrypoints.serve.middleware.register": ["init_entrypoints_middleware"],
    "vllm_omni.core.sched.omni_scheduler_mixin": [
        "OmniSchedulerMixin._init_omni_io_scheduling_state",
        "OmniSchedulerMixin._consume_pending_connector_output",
        "OmniSchedulerMixin._process_pending_omni_inputs",
        "OmniSchedulerMixin._process_chunk_receive_failures",
        "OmniSchedulerMixin._finish_input_timeout_requests",
        "OmniSchedulerMixin._make_omni_engine_output",
        "OmniSchedulerMixin._attach_finished_request_sets",
        "OmniSchedulerMixin.add_request",
        "OmniSchedulerMixin.finish_requests",
    ],
    "vllm_omni.core.sched.omni_ar_scheduler": [
        "OmniARScheduler.schedule",
        "OmniARScheduler.update_from_output",
        "OmniARScheduler._free_request",
    ],
    "vllm_omni.core.sched.omni_generation_scheduler": [
        "OmniGenerationScheduler.schedule",
        "OmniGenerationScheduler.update_from_output",
    ],
    "vllm_omni.core.sched.omni_scheduling_coordinator": [
        "OmniSchedulingCoordinator.process_pending_chunks",
        "OmniSchedulingCoordinator.process_pending_full_payload_inputs",
        "OmniSchedulingCoordinator._process_chunk_queue",
        "OmniSchedulingCoordinator._request_can_run",
    ],
    "vllm_omni.distributed.omni_connectors.transfer_adapter.chunk_transfer_adapter": [
        "OmniChunkTransferAdapter.process_pending_chunks",
        "OmniChunkTransferAdapter._process_chunk_queue",
        "OmniChunkTransferAdapter._process_chunk_queue_legacy",
        "OmniChunkTransferAdapter._promote_active_streams",
        "OmniChunkTransferAdapter._ensure_active_stream",
        "OmniChunkTransferAdapter.is_done_receiving_chunks",
    ],
    "vllm_omni.entrypoints.async_omni": ["AsyncOmni.generate"],
    "vllm_omni.entrypoints.omni_base": ["OmniBase._record_request_failure_once"],
    "vllm_omni.engine.async_omni_engine": [
        "AsyncOmniEngine._build_add_request_message",
        "AsyncOmniEngine.add_request",
    ],
    "vllm_omni.engine.stage_engine_core_client": ["StageEngineCoreClientBase.add_request_async"],
    "vllm_omni.engine.stage_pool": [
        "StagePool.submit_initial",
        "StagePool.submit_update",
        "StagePool.build_stage_metrics",
    ],
    "vllm_omni.engine.orchestrator": [
        "OrchestratorBase._cleanup_request_ids",
        "OrchestratorBase._handle_stage_error",
        "OrchestratorBase._handle_dead_replica",
        "OrchestratorBase._fail_request_dead_stage",
        "OrchestratorBase._fail_request_client_error",
        "Orchestrator._handle_add_companion",
    ],
    "vllm_omni.outputs.output_processor": [
        "MultimodalOutputProcessor._update_stats_from_output",
        "MultimodalOutputProcessor._update_stats_from_finished",
        "MultimodalOutputProcessor.pop_native_text_metrics",
    ],
    "vllm_omni.metrics.stats": ["OrchestratorAggregator.build_and_log_summary"],
}


def main(sources: Path) -> None:
    version = next(iter(metadata.distributions(name="vllm-omni", path=[str(sources)]))).version
    shape: dict[str, dict[str, str]] = {}
    for module, functions in TARGETS.items():
        text = (sources / Path(*module.split("."))).with_suffix(".py").read_text("utf-8")
        shape[module] = {}
        for function in functions:
            digest = _shapes.digest_of(text, function)
            if digest is None:
                print(f"{module}.{function} is not there")
                continue
            shape[module][function] = digest
    path = _path.with_name("_shapes.json")
    recorded = json.loads(path.read_text("utf-8")) if path.exists() else {}
    recorded[_shapes.release_line(version)] = shape
    path.write_text(json.dumps(dict(sorted(recorded.items())), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
