use super::*;

const GOOD: &str = r#"
[pipeline]
connector = "tcp"

[[stage]]
name = "thinker"
scheduler = "ar"

[[stage]]
name = "talker"
scheduler = "ar"
gate = "async_chunk"
max_num_seqs = 2
launch = ["unshare", "--time", "--fork", "--monotonic", "100000"]
"#;

fn error_of(text: &str) -> String {
    Pipeline::parse(text, "p.toml").unwrap_err().to_string()
}

#[test]
fn a_good_file_is_read_with_its_defaults() {
    let pipeline = Pipeline::parse(GOOD, "p.toml").unwrap();
    assert_eq!(pipeline.pipeline.connector, Connector::Tcp);
    let [thinker, talker] = pipeline.stages.as_slice() else { panic!("two stages") };
    assert_eq!((thinker.gate, thinker.max_num_seqs.get(), thinker.step_us), (Gate::None, 16, 500));
    assert_eq!((talker.gate, talker.max_num_seqs.get(), talker.launch.len()), (Gate::AsyncChunk, 2, 5));
    assert_eq!(talker.position(1), Position::Gated);
    let json = serde_json::to_string(&pipeline).unwrap();
    assert_eq!(serde_json::from_str::<Pipeline>(&json).unwrap(), pipeline);
}

#[test]
fn bad_files_are_refused_with_line_and_column() {
    let table = [
        ("max_num_seqs = 2", "max_num_seqs = 0", "nonzero", "line 13, column 16"),
        ("max_num_seqs = 2", "step_us = -5", "-5", "line 13, column 11"),
        ("max_num_seqs = 2", "slots = 2", "unknown field `slots`", "line 13, column 1"),
        ("scheduler = \"ar\"", "scheduler = \"fifo\"", "unknown variant `fifo`", "line 7, column 13"),
        ("\"talker\"", "\"Talker\"", "not a stage name", "line 10, column 8"),
        ("[[stage]]", "[[stage", "", "line 5, column"),
    ];
    for (good, bad, says, place) in table {
        let error = error_of(&GOOD.replacen(good, bad, 1));
        assert!(error.starts_with("pipeline file p.toml: "), "{error}");
        assert!(error.contains(says) && error.contains(place), "{bad}: {error}");
    }
}

#[test]
fn what_no_single_key_can_say() {
    let table = [
        (GOOD.replace("talker", "thinker"), "two stages are named \"thinker\""),
        (
            GOOD.replacen("scheduler = \"ar\"", "scheduler = \"ar\"\ngate = \"full_payload\"", 1),
            "drop its gate",
        ),
        (GOOD.replace("gate = \"async_chunk\"", "active_stream_window = 3"), "needs gate"),
        (GOOD.replace("gate = \"async_chunk\"", "role = \"sender\""), "needs gate"),
        (GOOD.replace("\"unshare\"", "\"\""), "empty command"),
        ("stage = []".to_owned(), "0 stages"),
        (String::new(), "missing field `stage`"),
    ];
    for (text, says) in table {
        let error = error_of(&text);
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn an_unreadable_file_is_named() {
    let error = Pipeline::read(Path::new("no/such/pipeline.toml")).unwrap_err().to_string();
    assert!(error.starts_with("can't read the pipeline file no/such/pipeline.toml: "), "{error}");
}
