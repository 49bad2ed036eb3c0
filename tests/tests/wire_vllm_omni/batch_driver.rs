//! The Python process that speaks for the real structs.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock};

use serde_json::Value;

/// Names the interpreter of an environment with vLLM-Omni.
pub(crate) const PYTHON: &str = "STAGESPAN_VLLM_OMNI_PYTHON";

/// `tests/python/batch_driver.py`, running.
pub(crate) struct BatchDriver {
    child: Child,
    commands: ChildStdin,
    results: BufReader<ChildStdout>,
}

impl BatchDriver {
    /// The one driver of this test binary: it takes half a minute to import everything.
    pub(crate) fn get() -> MutexGuard<'static, Self> {
        static DRIVER: OnceLock<Mutex<BatchDriver>> = OnceLock::new();
        let driver = DRIVER.get_or_init(|| Mutex::new(Self::start()));
        // A test that failed while it held the driver has left no command half answered.
        driver.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn start() -> Self {
        let python = std::env::var_os(PYTHON).unwrap_or_else(|| {
            panic!("{PYTHON} must name the Python of an environment with vLLM-Omni 0.32.0rc1")
        });
        let mut child = Command::new(&python)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/batch_driver.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("can't start {}: {error}", python.display()));
        let commands = child.stdin.take().unwrap();
        let results = BufReader::new(child.stdout.take().unwrap());
        Self { child, commands, results }
    }

    /// The driver's answer to a command; a Python exception fails the test with its traceback.
    pub(crate) fn ask(&mut self, command: &Value) -> Value {
        writeln!(self.commands, "{command}").unwrap();
        self.commands.flush().unwrap();
        let mut line = String::new();
        self.results.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the driver is gone: {:?}", self.child.try_wait());
        let answer: Value = serde_json::from_str(&line).unwrap();
        if let Some(error) = answer.get("error") {
            panic!("{command:.200}\n{}", error.as_str().unwrap_or_default());
        }
        answer
    }
}
