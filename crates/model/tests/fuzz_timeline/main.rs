//! Fuzzing the timeline: requests that come, end and are spoken of in any order, on any clock, at any instants.
//!
//! Beside each timeline stands what was told of it so far as a plain list (`told`), from which every figure is worked out
//! anew. `cargo test` tries the corpus and a few thousand stories; `cargo xtask test` and `deep` give it time. A failure
//! prints the bytes and a seed: run it again with `BOLERO_RANDOM_SEED=<seed>`, then keep the bytes in the corpus.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

mod story;
mod told;

use std::alloc::System;
use std::sync::atomic::{AtomicU32, Ordering};

use cap::Cap;
use stagespan_model::{
    Absent, Detail, End, FinishedTimeline, Handle, LiveTable, PhaseKind, Split, StageTimeline,
};

use story::{Op, Story};
use told::Told;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Requests that can be in flight.
const SLOTS: usize = 4;
/// The most bytes that a whole story may take: the table's vectors as they grow, whatever happens to the requests in it;
/// and a fixed amount for what the test harness's other thread takes meanwhile.
const TAKEN_MAX: usize = 4 * SLOTS * (size_of::<StageTimeline>() + 32) + (4 << 10);

/// Tries without a time limit.
const ITERATIONS: usize = 4_000;

/// One test, since the allocator counts for the whole process.
#[test]
fn fuzz_timeline() {
    let splits = AtomicU32::new(0);
    bolero::check!()
        .with_iterations(ITERATIONS)
        .for_each(|bytes: &[u8]| run(&Story::from_bytes(bytes), &splits));
    // The corpus alone reaches each of them, whatever chance brings.
    let reached = splits.load(Ordering::Relaxed);
    assert_eq!(reached, (1 << (Absent::ALL.len() + 1)) - 1, "not every reason for a missing split came up");
}

/// A request as this test sees it.
struct Request {
    handle: Handle,
    told: Told,
    records: usize,
    ended: bool,
}

fn run(story: &Story, splits: &AtomicU32) {
    let mut requests: Vec<Request> = Vec::with_capacity(story.ops.len());
    let mut live = LiveTable::new(SLOTS);
    let mut taken = 0;
    for op in &story.ops {
        let before = ALLOCATOR.total_allocated();
        match *op {
            Op::Begin { position, queued } => {
                let full = live.len() == SLOTS;
                let inserted = live.insert(StageTimeline::new(position, queued));
                taken += ALLOCATOR.total_allocated() - before;
                assert_eq!(inserted.is_err(), full, "a table of {SLOTS} takes so many and no more");
                if let Ok(handle) = inserted {
                    let told = Told::new(position, queued);
                    requests.push(Request { handle, told, records: 0, ended: false });
                }
            }
            Op::Event { whom, event } => {
                let Some(request) = pick(&mut requests, whom) else { continue };
                let timeline = live.get_mut(request.handle);
                assert_eq!(timeline.is_none(), request.ended, "a handle names a request while it lives");
                let Some(timeline) = timeline else { continue };
                let unchanged = timeline.clone();
                let result = timeline.apply(event);
                taken += ALLOCATOR.total_allocated() - before;
                assert_eq!(result, request.told.expected(event), "{event:?} after {:?}", request.told);
                if result.is_ok() {
                    request.told.accepted.push(event);
                } else {
                    assert_eq!(*timeline, unchanged, "a refused event changes nothing");
                }
                assert_eq!(timeline.waiting_for(), request.told.waiting_for());
                assert_eq!(timeline.is_scheduled(), request.told.first_scheduled_ns().is_some());
                assert_eq!(timeline.queued().as_ns(), request.told.queued_ns);
            }
            Op::End { whom, at, end } => {
                let Some(request) = pick(&mut requests, whom) else { continue };
                let timeline = live.remove(request.handle);
                let done = timeline.map(|timeline| timeline.finish(at, end));
                taken += ALLOCATOR.total_allocated() - before;
                if let Some(done) = done {
                    request.records += 1;
                    let reason = Absent::ALL.iter().position(|reason| done.split() == Split::Absent(*reason));
                    splits.fetch_or(1 << reason.unwrap_or(Absent::ALL.len()), Ordering::Relaxed);
                    check_record(&done, &request.told);
                    assert_eq!((done.end(), done.ended().as_ns()), (end, request.told.ended_ns(at)));
                }
                request.ended = true;
            }
            Op::Stranger { bits } => {
                let handle = Handle::from_bits(bits);
                if requests.iter().all(|request| request.handle != handle) {
                    assert!(live.get_mut(handle).is_none() && live.remove(handle).is_none());
                }
            }
        }
        assert_eq!(live.len(), requests.iter().filter(|request| !request.ended).count());
    }
    for request in &requests {
        assert_eq!(request.records, usize::from(request.ended), "one record for each end");
    }
    assert!(taken <= TAKEN_MAX, "{} steps took {taken} bytes", story.ops.len());
}

fn pick(requests: &mut [Request], whom: usize) -> Option<&mut Request> {
    let count = requests.len().max(1);
    requests.get_mut(whom % count)
}

/// Every figure and phase of a finished request is what was told of it.
fn check_record(done: &FinishedTimeline, told: &Told) {
    let split = done.split();
    assert_eq!(split, told.split(), "{told:?}");
    assert_eq!(done.queued_ns(), told.first_scheduled_ns().map(|ns| ns - told.queued_ns));
    if let Split::Measured { input_wait_ns, ready_queued_ns } = split {
        assert_eq!(Some(input_wait_ns + ready_queued_ns), done.queued_ns(), "the sum is exact");
    }
    assert_eq!((done.prefill_ns(), done.decode_ns()), told.prefill_and_decode_ns());
    assert_eq!(done.resolution_ns(), told.resolution_ns());
    assert_eq!(done.preemptions(), told.preemptions());
    assert_eq!(done.tokens_output(), told.tokens());
    assert_eq!(done.queued().as_ns(), told.queued_ns);
    for detail in [Detail::Waits, Detail::Phases] {
        check_phases(done, told, detail);
    }
}

fn check_phases(done: &FinishedTimeline, told: &Told, detail: Detail) {
    let all = done.phases(detail);
    let phases: Vec<_> = all.iter().copied().collect();
    assert_eq!((phases.len(), all.is_empty()), (all.len(), false));
    let mut edge_ns = told.queued_ns;
    for (index, phase) in phases.iter().enumerate() {
        assert_eq!(phase.start.as_ns(), edge_ns, "phases share edges: {phases:?}");
        assert_eq!(phase.duration_ns(), phase.end.as_ns() - phase.start.as_ns());
        assert!(!phase.truncated || index == phases.len() - 1, "only the last is cut: {phases:?}");
        edge_ns = phase.end.as_ns();
    }
    assert!(edge_ns <= done.ended().as_ns(), "inside the stage: {phases:?}");
    let kinds: Vec<_> = phases.iter().map(|phase| phase.kind).collect();
    let running = kinds.iter().filter(|kind| matches!(kind, PhaseKind::Prefill | PhaseKind::Decode)).count();
    let queued = &kinds[..kinds.len() - running];
    match done.split() {
        Split::Measured { input_wait_ns, ready_queued_ns } => {
            assert_eq!(queued, [PhaseKind::InputWait, PhaseKind::ReadyQueued]);
            assert_eq!(phases[0].duration_ns(), input_wait_ns);
            assert_eq!(phases[1].duration_ns(), ready_queued_ns);
        }
        Split::Absent(_) if done.queued_ns().is_some() => assert_eq!(queued, [PhaseKind::Queued]),
        // Never scheduled: the wait that it was in is cut.
        Split::Absent(_) => assert!(phases.last().is_some_and(|phase| phase.truncated), "{phases:?}"),
    }
    let expected = match (detail, done.queued_ns(), done.prefill_ns()) {
        (Detail::Waits, ..) | (_, None, _) => 0,
        (Detail::Phases, Some(_), Some(_)) => 2,
        (Detail::Phases, Some(_), None) => usize::from(!matches!(done.end(), End::Stop | End::Length)),
    };
    assert_eq!(running, expected, "{phases:?} of {told:?}");
}
