//! Our schedulers held to the real ones. More workloads: `cargo xtask conformance`.
//!
//! Needs STAGESPAN_VLLM_OMNI_PYTHON: the Python of an environment with vLLM-Omni.

use stagespan_tests::conformance::{Driver, Report};

#[test]
fn a_hundred_random_workloads_differ_nowhere() {
    let mut driver = Driver::from_environment().expect("the driver starts");
    let report = Report::run(&mut driver, 1, 100).expect("both schedulers run");
    assert_eq!(report.failures, [], "`cargo xtask conformance --workloads 1 --seed S` runs one again");
    assert_eq!(report.families.values().map(|tally| tally.workloads).sum::<u64>(), 100);
}
