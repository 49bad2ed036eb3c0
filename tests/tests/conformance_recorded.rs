//! Our schedulers held to what the real ones did, without the real ones: recorded workloads of every family, and those
//! that once failed.

#![expect(clippy::expect_used, reason = "in a test a panic is the report")]

use std::collections::BTreeSet;

use stagespan_tests::conformance::Recording;
use stagespan_tests::conformance::generator::Family;
use stagespan_tests::workspace_root;

fn recordings() -> Vec<Recording> {
    let folder = workspace_root().join("tests/data/conformance");
    let entries = std::fs::read_dir(&folder).expect("the folder is in the tree");
    let files = entries.map(|entry| entry.expect("it can be listed").path());
    files
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a recording is readable");
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        })
        .collect()
}

#[test]
fn every_recorded_workload_goes_as_it_went_there() {
    for recording in recordings() {
        let differences = recording.replay().expect("our scheduler takes the configuration");
        assert_eq!(differences, [], "seed {} ({})", recording.script.seed, recording.script.family);
    }
}

#[test]
fn the_recordings_cover_every_family_and_every_kind_of_end() {
    let recordings = recordings();
    let families: BTreeSet<_> = recordings.iter().map(|recording| recording.script.family.clone()).collect();
    let wanted: BTreeSet<_> = Family::ALL.iter().map(|family| format!("{family:?}")).collect();
    assert_eq!(families, wanted);
    let mut seen = BTreeSet::new();
    for recording in &recordings {
        let position = recording.script.config.position();
        for story in recording.real.requests.values() {
            seen.extend(story.end.iter().map(|(_, status)| status.clone()));
            seen.extend(story.split(position).map(|split| split.as_str().to_owned()));
            seen.extend((story.preemptions() > 0).then(|| "preempted".to_owned()));
            seen.extend((!story.segments.is_empty()).then(|| "segments".to_owned()));
            if let Some(text) = story.output.as_ref().and_then(|(_, reason)| reason.as_str()) {
                seen.extend(text.split([' ', ':']).next().map(str::to_owned));
            }
        }
    }
    for kind in [
        "FINISHED_ABORTED",
        "FINISHED_ERROR",
        "FINISHED_LENGTH_CAPPED",
        "FINISHED_STOPPED",
        "Timed",
        "async",
        "context_length_exceeded",
        "first_stage",
        "measured",
        "not_observed",
        "not_scheduled",
        "preempted",
        "segments",
        "ungated",
    ] {
        assert!(seen.contains(kind), "no recording has {kind}: {seen:?}");
    }
}
