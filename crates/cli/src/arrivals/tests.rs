use proptest::prelude::*;

use super::*;

const HEAD: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

fn rows(text: &str) -> Result<Vec<Arrival>, String> {
    parse(text.as_bytes(), "t.csv").map_err(|error| error.to_string())
}

fn error(row: &str) -> String {
    rows(&format!("{HEAD}2023-11-16 18:15:46,1,1\n{row}\n")).unwrap_err()
}

#[test]
fn the_embedded_rows_are_the_published_ones() {
    assert!(
        EMBEDDED
            .starts_with("TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n")
    );
    assert!(!EMBEDDED.ends_with('\n'));
    let rows = embedded().unwrap();
    assert_eq!(rows.len(), 300);
    assert_eq!(rows[0], Arrival { at_ns: 0, prompt_tokens: 374, output_tokens: 44 });
    assert_eq!(rows[1], Arrival { at_ns: 4_314_579_000, prompt_tokens: 396, output_tokens: 109 });
}

#[test]
fn line_ends_fractions_and_order_do_not_matter() {
    let expected = [
        Arrival { at_ns: 0, prompt_tokens: 1, output_tokens: 2 },
        Arrival { at_ns: 500_000_001, prompt_tokens: 3, output_tokens: 4 },
        Arrival { at_ns: 86_400_000_000_000, prompt_tokens: 5, output_tokens: 6 },
    ];
    let lf =
        format!("{HEAD}2024-02-28 00:00:00,1,2\n2024-02-29 00:00:00,5,6\n2024-02-28 00:00:00.500000001,3,4");
    for text in [
        lf.clone(),
        format!("{lf}\n"),
        lf.replace('\n', "\r\n"),
        format!("\u{feff}{lf}"),
        format!("\n{lf}\n\n"),
    ] {
        assert_eq!(rows(&text).unwrap(), expected, "{text:?}");
    }
}

#[test]
fn bad_rows_are_named_by_line_column_and_value() {
    let table = [
        ("yesterday,1,1", "column 1: \"yesterday\" is no timestamp"),
        ("2023-02-29 00:00:00,1,1", "column 1: \"2023-02-29 00:00:00\" is no timestamp"),
        (
            "2023-11-16 18:15:46.1234567890,1,1",
            "column 1: \"2023-11-16 18:15:46.1234567890\" is no timestamp",
        ),
        ("2023-11-16 18:15:46Z,1,1", "column 1: \"2023-11-16 18:15:46Z\" is no timestamp"),
        ("2023-11-16T18:15:46,1,1", "column 1: \"2023-11-16T18:15:46\" is no timestamp"),
        ("2023-11-16 18:15:46,0,1", "column 21: \"0\" is no number of tokens; ContextTokens is 1 to 1000000"),
        ("2023-11-16 18:15:46,-3,1", "column 21: \"-3\" is no number"),
        ("2023-11-16 18:15:46,+3,1", "column 21: \"+3\" is no number"),
        ("2023-11-16 18:15:46,,1", "column 21: \"\" is no number"),
        ("2023-11-16 18:15:46,12,1e3", "column 24: \"1e3\" is no number of tokens; GeneratedTokens is"),
        ("2023-11-16 18:15:46,12,1000001", "column 24: \"1000001\" is no number"),
        ("2023-11-16 18:15:46,12,99999999999999999999", "column 24: \"99999999999999999999\" is no number"),
        ("2023-11-16 18:15:46,12", "column 24: the row ends before GeneratedTokens"),
        ("2023-11-16 18:15:46,12,3,4", "column 26: \"4\" is one field too many"),
        ("2023-11-16 18:15:46,é,3", "column 21: \"é\" is no number"),
        ("\"2023-11-16 18:15:46\",1,3", "column 1: \"\\\"2023-11-16"),
    ];
    for (row, says) in table {
        let error = error(row);
        assert!(error.starts_with("trace t.csv, line 3, column "), "{error}");
        assert!(error.contains(says), "{row}: {error}");
        let crlf = format!("{HEAD}2023-11-16 18:15:46,1,1\n{row}").replace('\n', "\r\n");
        assert_eq!(rows(&crlf).unwrap_err(), error, "whatever the line ends");
    }
    let escapes = error(&format!("{},1,1", "x\u{1b}".repeat(1000)));
    assert!(escapes.len() < 300 && !escapes.contains('\u{1b}'), "{escapes}");
    let long = error(&"1".repeat(10_000));
    assert!(long.ends_with("line 3, column 1: a line of more than 4096 bytes: is this a trace?"), "{long}");
}

#[test]
fn what_is_no_trace_at_all() {
    let table = [
        ("", "trace t.csv: no request in it"),
        (HEAD, "trace t.csv: no request in it"),
        ("a,b\n1,2\n", "trace t.csv, line 1, column 1: \"a\" stands where the header TIMESTAMP should"),
        (
            "TIMESTAMP,ContextTokens\n",
            "line 1, column 25: \"\" stands where the header GeneratedTokens should",
        ),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens,More\n",
            "line 1, column 41: \"More\" is one field too many",
        ),
    ];
    for (text, says) in table {
        let error = rows(text).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
    let binary = parse(&[0xff, 0xfe, 0x00, 0x0a][..], "t.csv").unwrap_err().to_string();
    assert!(binary.starts_with("trace t.csv, line 1, column 1: "), "{binary}");
    let missing = read(Path::new("no/such/trace.csv")).unwrap_err().to_string();
    assert!(missing.starts_with("can't read the trace no/such/trace.csv: "), "{missing}");
    let directory = read(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap_err().to_string();
    assert!(directory.starts_with("can't read the trace "), "{directory}");
}

proptest! {
    #[test]
    fn any_bytes_give_rows_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let with_header = [HEAD.as_bytes(), &bytes].concat();
        for input in [bytes, with_header] {
            if let Ok(rows) = parse(&input[..], "t.csv") {
                prop_assert!(!rows.is_empty());
            }
        }
    }

    #[test]
    fn written_rows_come_back(mut offsets in proptest::collection::vec((0_u64..3_600_000_000_000, 1_u32..=TOKENS_MAX, 1_u32..=TOKENS_MAX), 1..20)) {
        let text: String = offsets.iter().fold(HEAD.to_owned(), |text, (ns, prompt, output)| {
            let (s, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
            format!("{text}2023-11-16 18:{:02}:{:02}.{ns:09},{prompt},{output}\r\n", s / 60, s % 60)
        });
        offsets.sort_by_key(|(ns, ..)| *ns);
        let first = offsets[0].0;
        let expected: Vec<Arrival> = offsets
            .iter()
            .map(|&(ns, prompt_tokens, output_tokens)| Arrival { at_ns: ns - first, prompt_tokens, output_tokens })
            .collect();
        prop_assert_eq!(rows(&text).unwrap(), expected);
    }
}
