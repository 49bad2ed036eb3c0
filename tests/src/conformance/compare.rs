//! What the two outcomes of a script disagree on.

use serde::Serialize;

use super::outcome::{Outcome, Story};
use super::script::Script;

/// One disagreement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The request; empty if it concerns the whole workload.
    pub request: String,
    /// The field.
    pub what: &'static str,
    /// Ours.
    pub ours: String,
    /// Theirs.
    pub real: String,
}

/// Every disagreement, by request.
pub fn differences(script: &Script, ours: &Outcome, real: &Outcome) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut note = |request: &str, what, ours: String, real: String| {
        if ours != real {
            found.push(Difference { request: request.to_owned(), what, ours, real });
        }
    };
    note("", "live requests", format!("{:?}", ours.live), format!("{:?}", real.live));
    // The first plan that differs says it all; later ones follow from it.
    if let Some(step) = (0..script.steps.len()).find(|&step| ours.plans.get(step) != real.plans.get(step)) {
        let plan = |outcome: &Outcome| format!("step {}: {:?}", step + 1, outcome.plans.get(step));
        note("", "tokens per step", plan(ours), plan(real));
    }
    let missing = Story::default();
    for id in ours.requests.keys().chain(real.requests.keys().filter(|id| !ours.requests.contains_key(*id))) {
        let (a, b) = (ours.requests.get(id).unwrap_or(&missing), real.requests.get(id).unwrap_or(&missing));
        note(id, "events", format!("{:?}", a.events), format!("{:?}", b.events));
        note(id, "input_ready", format!("{:?}", a.ready), format!("{:?}", b.ready));
        note(id, "tokens sent", a.sampled.to_string(), b.sampled.to_string());
        note(id, "segments", format!("{:?}", a.segments), format!("{:?}", b.segments));
        note(id, "end", format!("{:?}", a.end), format!("{:?}", b.end));
        note(id, "preemptions", a.preemptions().to_string(), b.preemptions().to_string());
        let position = script.config.position();
        note(id, "split", format!("{:?}", a.split(position)), format!("{:?}", b.split(position)));
        // Theirs may send none at all, or a bare ABORT; ours always says how it ended.
        if let (Some(a), Some(b)) = (&a.output, &b.output)
            && b.0 != "abort"
        {
            note(id, "finish reason", a.0.clone(), b.0.clone());
            // Theirs repeats the stop token of a session's earlier segment.
            if !a.1.is_null() {
                note(id, "stop reason", stop_reason(&a.1), stop_reason(&b.1));
            }
        }
    }
    found
}

/// A stop token, or what a reason's text begins with: the figures that follow are each side's own.
fn stop_reason(reason: &serde_json::Value) -> String {
    reason.as_str().map_or_else(
        || reason.to_string(),
        |text| text.split_once(':').map_or(text, |(kind, _)| kind).to_owned(),
    )
}
