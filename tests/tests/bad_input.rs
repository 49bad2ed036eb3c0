//! Bad input ends with exit code 2, a stage that can't be had with 1: each with a message that names it, soon, and with
//! nothing left behind.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use stagespan_tests::command_run::{Ended, Run};
use stagespan_tests::demo_run::Demo;

/// A stage that says nothing is given up after 20 s.
const WITHIN: Duration = Duration::from_secs(60);

fn end(arguments: &[&str], files: &[(&str, &str)], variables: &[(&str, &str)]) -> anyhow::Result<Ended> {
    let mut run = Run::stagespan(arguments)?;
    for (name, text) in files {
        run = run.file(name, text)?;
    }
    for (name, value) in variables {
        run = run.env(name, value);
    }
    run.end(WITHIN)
}

fn check(ended: &Ended, code: i32, expected: &[&str]) -> anyhow::Result<()> {
    let Ended { status, stdout, stderr, .. } = ended;
    ensure!(status.code() == Some(code), "{status}, not {code}: {stdout}{stderr}");
    for part in expected {
        ensure!(stderr.contains(part), "{part:?} is not in: {stderr}");
    }
    ensure!(!stderr.contains("panicked"), "{stderr}");
    ended.check_nothing_left()
}

#[test]
fn arguments() -> anyhow::Result<()> {
    let cases: &[(&[&str], &[&str])] = &[
        (&["demo", "--scenario", "nonsense"], &["nonsense", "cold-start", "backlog", "both"]),
        (&["demo", "--requests", "0"], &["--requests", "0"]),
        (&["demo", "--requests", "many"], &["--requests", "many"]),
        (&["demo", "--requests", "1000000"], &["--requests", "1000000"]),
        (&["demo", "--speed", "0"], &["--speed", "0"]),
        (&["demo", "--speed=-1"], &["--speed", "-1"]),
        (&["demo", "--speed", "NaN"], &["--speed", "NaN"]),
        (&["demo", "--speed", "inf"], &["--speed", "inf"]),
        (&["demo", "--trace", "not-there.csv"], &["not-there.csv"]),
        (&["demo", "--pipeline", "not-there.toml"], &["not-there.toml"]),
        (&["demo", "--trace", "."], &["."]),
        (&["demo", "--nonsense"], &["--nonsense"]),
        (&["nonsense"], &["nonsense"]),
    ];
    for (arguments, expected) in cases {
        check(&end(arguments, &[], &[])?, 2, expected).with_context(|| format!("{arguments:?}"))?;
    }
    Ok(())
}

#[test]
fn a_file_that_cannot_be_written() -> anyhow::Result<()> {
    let ended = Demo::default().run(&["--out", "no/such/directory/t.json"])?.end(WITHIN)?;
    ensure!(ended.status.code() == Some(2), "{}: {}", ended.status, ended.stderr);
    ensure!(ended.stderr.contains("no/such/directory/t.json"), "{}", ended.stderr);
    ended.check_nothing_left()
}

#[test]
fn trace_files() -> anyhow::Result<()> {
    const HEADER: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n";
    let cases: &[(&str, &[&str])] = &[
        ("", &["rows.csv"]),
        ("TIMESTAMP,ContextTokens,GeneratedTokens", &["rows.csv"]),
        ("TIMESTAMP;ContextTokens\r\n", &["rows.csv", "line 1", "column 1"]),
        (&[HEADER, "yesterday,1,1"].concat(), &["rows.csv", "line 3", "column 1", "yesterday"]),
        (&[HEADER, "2023-11-16 18:15:47,-5,1"].concat(), &["line 3", "column 21", "-5"]),
        (&[HEADER, "2023-11-16 18:15:47,5,0"].concat(), &["line 3", "column 23", "GeneratedTokens"]),
        (&[HEADER, "2023-11-16 18:15:47,5"].concat(), &["line 3", "GeneratedTokens"]),
        (&[HEADER, "2023-11-16 18:15:47,5,6,7"].concat(), &["line 3", "column 25"]),
        (&[HEADER, "2023-11-16 18:15:47,99999999999999999999,6"].concat(), &["line 3", "column 21"]),
    ];
    for (text, expected) in cases {
        let ended = end(&["demo", "--trace", "rows.csv"], &[("rows.csv", text)], &[])?;
        check(&ended, 2, expected).with_context(|| format!("{text:?}"))?;
    }
    Ok(())
}

#[test]
fn pipeline_files() -> anyhow::Result<()> {
    const STAGE: &str = "[[stage]]\nname = \"a\"\nscheduler = \"ar\"\n";
    let cases: &[(&str, &[&str])] = &[
        ("", &["p.toml"]),
        ("[[stage]\n", &["p.toml", "line 1", "column"]),
        ("[[stage]]\nname = \"a\"\n", &["p.toml", "scheduler"]),
        (&[STAGE, "slots = 3\n"].concat(), &["line 4", "column 1", "slots"]),
        (&[STAGE, "max_num_seqs = 0\n"].concat(), &["line 4", "column 16", "nonzero"]),
        (&[STAGE, "step_us = -5\n"].concat(), &["line 4", "column 11", "-5"]),
        (&[STAGE, "kv_blocks = 99999999999\n"].concat(), &["line 4", "column 13", "99999999999"]),
        (&[STAGE, "gate = \"payload\"\n"].concat(), &["line 4", "column 8", "payload"]),
        (&[STAGE, "gate = \"async_chunk\"\n"].concat(), &["\"a\"", "gate"]),
        (&[STAGE, STAGE].concat(), &["\"a\"", "two stages"]),
        ("[[stage]]\nname = \"A b\"\nscheduler = \"ar\"\n", &["line 2", "column 8", "A b"]),
        (&["[pipeline]\nconnector = \"udp\"\n", STAGE].concat(), &["line 2", "column 13", "udp"]),
    ];
    for (text, expected) in cases {
        let ended = end(&["demo", "--pipeline", "p.toml"], &[("p.toml", text)], &[])?;
        check(&ended, 2, expected).with_context(|| format!("{text:?}"))?;
    }
    Ok(())
}

#[test]
fn variables() -> anyhow::Result<()> {
    let cases = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"),
        ("OTEL_TRACES_EXPORTER", "carrier-pigeon"),
        ("STAGESPAN_TRACE_SHAPE", "round"),
    ];
    for (name, value) in cases {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
        let ended = end(&["demo", "--requests", "2"], &[], &[endpoint, (name, value)])?;
        check(&ended, 2, &[name, value]).with_context(|| format!("{name}={value}"))?;
    }
    Ok(())
}

/// The first stage's process is the last to be started: those of the others are there and must go.
#[test]
fn a_stage_that_cannot_be_had() -> anyhow::Result<()> {
    let cases: &[(&str, &[&str])] = &[
        (r#"["no-program-has-this-name"]"#, &["thinker", "no-program-has-this-name"]),
        (r#"["false"]"#, &["thinker", "code 1"]),
        (r#"["sh", "-c", "kill -9 $$"]"#, &["thinker", "signal 9"]),
        // It ends well, and never was a stage.
        (r#"["true"]"#, &["thinker", "code 0"]),
        // It never says anything.
        (r#"["sh", "-c", "exec sleep 600"]"#, &["thinker", "20 s"]),
    ];
    for connector in ["unix", "tcp"] {
        for (launch, expected) in cases {
            let pipeline = format!(
                "[pipeline]\nconnector = \"{connector}\"\n\
                 [[stage]]\nname = \"thinker\"\nscheduler = \"ar\"\nlaunch = {launch}\n\
                 [[stage]]\nname = \"talker\"\nscheduler = \"ar\"\ngate = \"async_chunk\"\n"
            );
            // Once is enough for the one that takes 20 s.
            if connector == "tcp" && launch.contains("sleep") {
                continue;
            }
            let ended = end(&["demo", "--pipeline", "p.toml"], &[("p.toml", &pipeline)], &[])?;
            check(&ended, 1, expected).with_context(|| format!("{launch} by {connector}"))?;
        }
    }
    Ok(())
}

/// No place for the sockets, or one whose path is longer than a socket's may be.
#[test]
fn a_directory_for_sockets_that_cannot_be_had() -> anyhow::Result<()> {
    for directory in ["no-such-directory".to_owned(), "long".repeat(30)] {
        let run = Demo::default().run(&[])?;
        let path = run.path().join(&directory);
        if directory.starts_with("long") {
            std::fs::create_dir(&path)?;
        }
        let ended = run.env("TMPDIR", &path.display().to_string()).end(WITHIN)?;
        check(&ended, 1, &[&directory]).with_context(|| directory.clone())?;
    }
    Ok(())
}

/// In the directory of its sockets nobody else may look, or connect.
#[cfg(unix)]
#[test]
fn sockets_are_the_users_alone() -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let mut running = Demo { requests: 100, talker_step_us: 5000, ..Demo::default() }.run(&[])?.start()?;
    stagespan_tests::demo_run::stage_process(&mut running, "thinker", WITHIN)?;
    let directories = running.temporary_files();
    let [directory] = &directories[..] else { anyhow::bail!("{directories:?}") };
    let mode = std::fs::metadata(directory)?.permissions().mode();
    ensure!(mode & 0o7777 == 0o700, "{} has mode {mode:o}", directory.display());
    running.process()?.signal("INT")?;
    running.end(WITHIN)?.check_nothing_left()
}
