//! Orchestrator, stage processes and connectors of a multi-stage pipeline.
