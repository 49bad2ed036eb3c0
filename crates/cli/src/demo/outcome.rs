//! What the pipeline tells of a request, as figures.

use stagespan_model::ErrorType;
use stagespan_pipeline::pipeline_file::{SchedulerKind, Stage};
use stagespan_pipeline::{RequestOutcome, StageOutcome};

use crate::figures::{RequestFigures, StageFacts, StageFigures, Times};

/// A request's figures.
pub(super) fn request_figures(outcome: &RequestOutcome) -> RequestFigures {
    RequestFigures {
        id: outcome.request_id.to_string(),
        trace_id: outcome.trace_id.map(|id| id.to_string()),
        error: outcome.error.map(ErrorType::as_str),
        stages: outcome.stages.iter().map(stage_figures).collect(),
    }
}

fn stage_figures(outcome: &StageOutcome) -> StageFigures {
    StageFigures {
        stage_id: outcome.stage_id,
        end: outcome.end,
        times: outcome.timeline.as_ref().map(Times::of),
        tokens_in: outcome.tokens_input,
        tokens_out: outcome.tokens_output,
    }
}

/// What is known of a stage from its pipeline.
pub(super) fn stage_facts(stage_id: u32, stage: &Stage) -> StageFacts {
    StageFacts {
        name: stage.name.clone(),
        position: stage.position(stage_id),
        is_ar: stage.scheduler == SchedulerKind::Ar,
    }
}
