//! Processes as `/proc` shows them: by whose run they were started, what their threads are called, whether they are gone.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

/// A process that was seen. Its start time tells it from a later one with the same number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    state: char,
    start_ticks: u64,
}

impl Process {
    /// The process of this number, if there is one.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Whether it has ended. One that has ended and was not waited for yet counts as gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        Self::of(self.pid).is_none_or(|now| now.start_ticks != self.start_ticks || now.state == 'Z')
    }

    /// A variable of the environment it was started with.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<String> {
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).ok()?;
        environment.split(|byte| *byte == 0).find_map(|pair| {
            let pair = String::from_utf8_lossy(pair);
            let (key, value) = pair.split_once('=')?;
            (key == name).then(|| value.to_owned())
        })
    }

    /// The names of its threads now.
    #[must_use]
    pub fn thread_names(&self) -> BTreeSet<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
        let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.map(|name| name.trim_end().to_owned()).collect()
    }

    /// Sends it a signal, `KILL` or `INT` say.
    ///
    /// # Errors
    /// If the signal can't be sent: it is gone already, most likely.
    pub fn signal(&self, name: &str) -> anyhow::Result<()> {
        // The shell's own `kill` is there on every system, and needs no code that the compiler can't check.
        let status = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", self.pid)).status();
        ensure!(status.context("`sh` does not start")?.success(), "{name} can't be sent to {self:?}");
        Ok(())
    }
}

/// Every living process whose environment has this variable with this value, which children inherit, also those whose
/// parent is gone.
#[must_use]
pub fn with_variable(name: &str, value: &str) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let all = entries.filter_map(|entry| entry.to_str()?.parse().ok()).filter_map(Process::of);
    all.filter(|process| !process.is_gone() && process.variable(name).as_deref() == Some(value)).collect()
}

/// How long processors have worked for this process, in steps of 10 ms; `None` if there is no such process.
#[must_use]
pub fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split_ascii_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    // Linux tells user space of hundredths of a second on every machine, whatever its kernel counts in.
    Some(Duration::from_millis(10 * ticks))
}

fn parse_stat(stat: &str) -> Option<Process> {
    // The program's name stands in brackets and may hold anything, brackets too.
    let (head, tail) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    Some(Process {
        pid: head.split_once(' ')?.0.parse().ok()?,
        state: fields.first()?.chars().next()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_have_any_name() {
        let stat = "42 (a) R 1 (b)) S 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
        let expected = Process { pid: 42, state: 'S', start_ticks: 987_654 };
        assert_eq!(parse_stat(stat), Some(expected));
        assert_eq!(parse_stat("42 (a"), None);
    }

    #[test]
    fn a_child_is_found_by_its_environment_and_gone_after_its_end() {
        let marker = format!("of-{}", std::process::id());
        assert_eq!(with_variable("E2E_MARKER", &marker), []);
        let mut child = Command::new("sleep").arg("600").env("E2E_MARKER", &marker).spawn().expect("sleep");
        // The child may not have become `sleep` yet, and then still has our environment.
        let found = loop {
            match with_variable("E2E_MARKER", &marker).pop() {
                Some(found) => break found,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(found.pid, child.id());
        assert_eq!(found.variable("E2E_OTHER"), None);
        assert_eq!(found.thread_names(), BTreeSet::from(["sleep".to_owned()]));
        found.signal("KILL").expect("it is there");
        while !found.is_gone() {
            std::thread::yield_now();
        }
        assert_eq!(with_variable("E2E_MARKER", &marker), []);
        child.wait().expect("it was killed");
        assert!(found.signal("KILL").is_err());
    }
}
