use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::anyhow;

use super::*;

const TOOL: Tool = Tool { name: "tool", version: "1.2.3", program: "bin/tool" };

fn root_of(variables: &[(&str, &str)]) -> anyhow::Result<PathBuf> {
    root_from(&|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)))
}

fn make_program(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir(folder.join("bin"))?;
    fs::write(folder.join("bin/tool"), "made")?;
    Ok(())
}

#[test]
fn the_root_follows_the_first_variable_that_is_set() {
    let cases: [(&[(&str, &str)], &str); 5] = [
        (&[("STAGESPAN_CACHE", "/s"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h")], "/s"),
        (&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")], "/x/stagespan"),
        (&[("HOME", "/h")], "/h/.cache/stagespan"),
        (&[("STAGESPAN_CACHE", ""), ("XDG_CACHE_HOME", ""), ("HOME", "/h")], "/h/.cache/stagespan"),
        (&[("STAGESPAN_CACHE", "/s")], "/s"),
    ];
    for (variables, expected) in cases {
        assert_eq!(root_of(variables).expect("a root"), Path::new(expected), "{variables:?}");
    }
}

#[test]
fn a_relative_own_folder_is_made_absolute_and_any_other_is_refused() {
    let root = root_of(&[("STAGESPAN_CACHE", "tools")]).expect("a root");
    assert!(root.is_absolute() && root.ends_with("tools"), "{}", root.display());
    let error = root_of(&[("XDG_CACHE_HOME", "x")]).expect_err("relative");
    assert!(error.to_string().contains("STAGESPAN_CACHE"), "{error}");
}

#[test]
fn no_variable_at_all_is_an_error_that_says_what_to_set() {
    let error = root_of(&[]).expect_err("nothing is set");
    assert!(error.to_string().contains("set STAGESPAN_CACHE"), "{error}");
}

#[test]
fn a_tool_is_built_once() {
    let root = tempfile::tempdir().expect("a folder");
    let program = ensure_built(root.path(), &TOOL, make_program).expect("built");
    assert_eq!(program, root.path().join("tool-1.2.3/bin/tool"));
    let again = ensure_built(root.path(), &TOOL, |_| Err(anyhow!("built twice"))).expect("found");
    assert_eq!(again, program);
}

#[test]
fn a_failed_build_leaves_nothing_and_the_next_one_works() {
    let root = tempfile::tempdir().expect("a folder");
    let error = ensure_built(root.path(), &TOOL, |folder| {
        make_program(folder)?;
        Err(anyhow!("no network"))
    })
    .expect_err("the build failed");
    assert_eq!(format!("{error:#}"), "building tool-1.2.3 failed: no network");
    assert_eq!(find(root.path(), &TOOL), None);
    assert!(!root.path().join("tool-1.2.3.partial").exists());
    ensure_built(root.path(), &TOOL, make_program).expect("the next one works");
}

#[test]
fn what_a_killed_build_left_is_cleared_away() {
    let root = tempfile::tempdir().expect("a folder");
    let partial = root.path().join("tool-1.2.3.partial");
    fs::create_dir_all(partial.join("bin")).expect("a leftover");
    // Without the clearing, the build below could not create `bin`.
    ensure_built(root.path(), &TOOL, make_program).expect("built");
    assert!(!partial.exists());
}

#[test]
fn a_build_that_makes_no_program_is_an_error() {
    let root = tempfile::tempdir().expect("a folder");
    let error = ensure_built(root.path(), &TOOL, |_| Ok(())).expect_err("no program");
    assert!(error.to_string().contains("left no program `bin/tool`"), "{error}");
    assert_eq!(find(root.path(), &TOOL), None);
}

#[test]
fn builders_at_the_same_time_build_once() {
    let root = tempfile::tempdir().expect("a folder");
    let builds = AtomicUsize::new(0);
    let programs: Vec<PathBuf> = std::thread::scope(|scope| {
        let builders: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    ensure_built(root.path(), &TOOL, |folder| {
                        builds.fetch_add(1, Ordering::Relaxed);
                        make_program(folder)
                    })
                    .expect("built")
                })
            })
            .collect();
        builders.into_iter().map(|builder| builder.join().expect("no panic")).collect()
    });
    assert_eq!(builds.load(Ordering::Relaxed), 1);
    assert!(programs.iter().all(|program| program == &root.path().join("tool-1.2.3/bin/tool")));
}
