//! The command line as people meet it: help, and what is said of bad input. Each case is a file in
//! `tests/cmd`; a new text is taken over with `TRYCMD=overwrite cargo test -p stagespan-cli`.
//!
//! None of them starts a process, writes a file or depends on the environment.

#[test]
fn cases() {
    let cases = trycmd::TestCases::new();
    cases.case("tests/cmd/*.trycmd");
    cases.case("tests/cmd/*.toml");
    // What the developer's shell asks for is not what is tested.
    for (name, _) in std::env::vars() {
        if name.starts_with("OTEL_") || name.starts_with("STAGESPAN_") || name.starts_with("VLLM_OMNI_") {
            cases.env(name, "");
        }
    }
    cases.env("COLUMNS", "100");
}
