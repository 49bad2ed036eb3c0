use proptest::prelude::*;

use super::*;

fn gated(queued_ns: u64, ready: Option<u64>, scheduled: Option<u64>) -> QueuedInterval {
    QueuedInterval {
        position: Position::Gated,
        queued_ns,
        input_ready_ns: ready,
        first_scheduled_ns: scheduled,
        invalid_time: false,
    }
}

#[test]
fn known_cases() {
    use Absent::*;
    let plain = gated(10, Some(10), Some(10));
    let table = [
        (plain, Ok((0, 0))),
        (gated(100, Some(101), Some(102)), Ok((1, 1))),
        (gated(100, Some(100), Some(103)), Ok((0, 3))),
        (gated(100, Some(103), Some(103)), Ok((3, 0))),
        (gated(100, Some(99), Some(103)), Err(OutOfInterval)),
        (gated(100, Some(104), Some(103)), Err(OutOfInterval)),
        (gated(100, None, Some(103)), Err(NotObserved)),
        (gated(100, None, None), Err(NotObserved)),
        (gated(100, Some(101), None), Err(NotScheduled)),
        (QueuedInterval { invalid_time: true, ..plain }, Err(InvalidTime)),
        (QueuedInterval { position: Position::First, invalid_time: true, ..plain }, Err(FirstStage)),
        (QueuedInterval { position: Position::Ungated, invalid_time: true, ..plain }, Err(Ungated)),
    ];
    for (interval, expected) in table {
        assert_eq!(Split::waits(interval), expected, "{interval:?}");
    }
}

#[test]
fn the_names_of_reasons() {
    let names: Vec<_> = Absent::ALL.iter().map(|r| r.as_str()).collect();
    let expected =
        ["first_stage", "ungated", "invalid_time", "not_observed", "not_scheduled", "out_of_interval"];
    assert_eq!(names, expected);
    assert_eq!(Split::of(gated(1, Some(2), Some(3))).as_str(), "measured");
    assert_eq!(Split::Absent(Absent::Ungated).as_str(), "ungated");
}

fn any_interval() -> impl Strategy<Value = QueuedInterval> {
    let position = prop_oneof![Just(Position::First), Just(Position::Ungated), Just(Position::Gated)];
    // Small numbers, so that equal instants and every order come up.
    (position, 1u64..6, proptest::option::of(1u64..6), proptest::option::of(1u64..6), any::<bool>()).prop_map(
        |(position, queued_ns, input_ready_ns, first_scheduled_ns, invalid_time)| QueuedInterval {
            position,
            queued_ns,
            input_ready_ns,
            first_scheduled_ns,
            invalid_time,
        },
    )
}

proptest! {
    #[test]
    fn both_waits_or_neither_and_an_exact_sum(interval in any_interval()) {
        let split = Split::of(interval);
        match (split.input_wait_ns(), split.ready_queued_ns()) {
            (Some(input), Some(ready)) => {
                prop_assert_eq!(Some(interval.queued_ns + input + ready), interval.first_scheduled_ns);
                prop_assert_eq!(Some(interval.queued_ns + input), interval.input_ready_ns);
                prop_assert_eq!(interval.position, Position::Gated);
                prop_assert!(!interval.invalid_time);
            }
            (None, None) => prop_assert_ne!(split.as_str(), "measured"),
            one => prop_assert!(false, "one wait without the other: {:?}", one),
        }
    }
}
