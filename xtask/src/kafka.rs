//! The real Kafka that one end-to-end test puts between collectors and store: its jars, fetched once by Maven.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::cache::{self, Tool};
use crate::command;

/// The release that is tested with. The program is the broker's own jar.
const KAFKA: Tool = Tool { name: "kafka", version: VERSION, program: "lib/kafka_2.13-4.0.0.jar" };

const VERSION: &str = "4.0.0";

/// What Maven fetches: broker, its command-line tools, and a logger that writes to standard error.
const MODULES: &[(&str, &str, &str)] = &[
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
];

/// The folder of Kafka's jars, fetched first if need be; why not, if it can't be had here.
///
/// # Errors
/// If Maven is there and fails all the same.
pub(crate) fn find_or_fetch(cache_root: &Path) -> anyhow::Result<Result<PathBuf, String>> {
    if !command::exists("java", "-version") {
        return Ok(Err("`java` is not installed, and Kafka needs it".to_owned()));
    }
    let folder = |program: PathBuf| program.parent().map(Path::to_owned).context("a jar without a folder");
    if let Some(program) = cache::find(cache_root, &KAFKA) {
        return folder(program).map(Ok);
    }
    if !command::exists("mvn", "--version") {
        return Ok(Err("`mvn` is not installed, and Kafka is fetched with it".to_owned()));
    }
    folder(cache::ensure_built(cache_root, &KAFKA, fetch)?).map(Ok)
}

fn fetch(folder: &Path) -> anyhow::Result<()> {
    let file = folder.join("pom.xml");
    std::fs::write(&file, project()).with_context(|| format!("cannot write {}", file.display()))?;
    let mut maven = Command::new("mvn");
    maven.current_dir(folder).args(["--quiet", "--batch-mode", "dependency:copy-dependencies"]);
    command::run_quietly(maven.arg("-DoutputDirectory=lib"))
}

fn project() -> String {
    let tag = |name: &str, text: &str| format!("<{name}>{text}</{name}>");
    let module = |(group, artifact, version): &(&str, &str, &str)| {
        let parts = [tag("groupId", group), tag("artifactId", artifact), tag("version", version)];
        tag("dependency", &parts.concat())
    };
    let dependencies: String = MODULES.iter().map(module).collect();
    let parts = [
        tag("modelVersion", "4.0.0"),
        tag("groupId", "stagespan"),
        tag("artifactId", "kafka-for-tests"),
        tag("version", "1"),
        tag("packaging", "pom"),
        tag("dependencies", &dependencies),
    ];
    tag("project", &parts.concat())
}
