//! The files in `collector-config/` are for users to take: each must parse, and Jaeger must load its own.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use saphyr::{LoadableYamlNode, Yaml};
use serde_json::Value;

use super::verdict;
use crate::command;
use crate::plan::Context;
use crate::report::Verdict;

/// Checks every file in `collector-config/`.
///
/// # Errors
/// If one does not parse, names an environment variable without a default, or is refused by Jaeger.
pub(crate) fn check(context: &Context) -> anyhow::Result<Verdict> {
    let folder = context.root.join("collector-config");
    let (mut findings, mut files) = (Vec::new(), 0);
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        files += 1;
        findings.extend(complaints(&path, &text));
    }
    let parsed = verdict(&findings, format!("{files} files parse"))?;
    let note = match parsed {
        Verdict::Passed { note } => note,
        other => return Ok(other),
    };
    match context.jaeger()? {
        Err(reason) => Ok(Verdict::Partly { note, skipped: vec![("loaded by Jaeger".to_owned(), reason)] }),
        Ok(jaeger) => {
            let mut validate = Command::new(jaeger);
            // No environment: the file must do without.
            validate.current_dir(&context.root).env_clear();
            command::run(validate.args(["validate", "--config", "collector-config/jaeger.yaml"]))?;
            Ok(Verdict::Passed { note: format!("{note}, Jaeger loads jaeger.yaml") })
        }
    }
}

/// What is wrong with one file.
fn complaints(path: &Path, text: &str) -> Vec<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let found = match path.extension().and_then(|extension| extension.to_str()) {
        Some("yaml") => match Yaml::load_from_str(text) {
            Err(error) => vec![error.to_string()],
            Ok(documents) if documents.len() != 1 => vec![format!("{} documents, not one", documents.len())],
            Ok(_) => without_default(text),
        },
        Some("json") => match serde_json::from_str::<Value>(text) {
            Err(error) => vec![error.to_string()],
            Ok(value) => link_pattern_complaints(&value),
        },
        _ => vec!["neither .yaml nor .json; configuration files only".to_owned()],
    };
    found.into_iter().map(|complaint| format!("collector-config/{name}: {complaint}")).collect()
}

/// Every `${env:NAME}` that has no `:-default`: a file that users get must start with no environment set.
fn without_default(text: &str) -> Vec<String> {
    let references = text.split("${env:").skip(1).map(|rest| rest.split('}').next().unwrap_or_default());
    let bare: BTreeSet<&str> = references.filter(|reference| !reference.contains(":-")).collect();
    bare.into_iter()
        .map(|name| format!("${{env:{name}}} has no default; write ${{env:{name}:-...}}"))
        .collect()
}

/// Jaeger's UI drops a malformed link pattern without a word, and one whose parameters it cannot fill as well.
fn link_pattern_complaints(value: &Value) -> Vec<String> {
    let Some(patterns) = value.get("linkPatterns").and_then(Value::as_array) else {
        return vec!["no list `linkPatterns`".to_owned()];
    };
    let mut found = Vec::new();
    for pattern in patterns {
        let text = |key| pattern.get(key).and_then(Value::as_str);
        let (Some("tags"), Some(key), Some(url), Some(label)) =
            (text("type"), text("key"), text("url"), text("text"))
        else {
            found.push(format!("not a link on a span's attribute with type, key, url and text: {pattern}"));
            continue;
        };
        if !url.contains(&format!("#{{{key}}}")) {
            found.push(format!("the url of `{key}` does not use its value"));
        }
        let parameters = url.split("#{").skip(1).chain(label.split("#{").skip(1));
        for parameter in parameters.filter_map(|rest| rest.split('}').next()).filter(|name| *name != key) {
            found.push(format!("the link of `{key}` needs `{parameter}`, which a span may not have"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(name: &str, text: &str) -> String {
        complaints(Path::new(name), text).join("\n")
    }

    #[test]
    fn good_files_pass() {
        assert_eq!(complaint("a.yaml", "a: {b: [1, \"${env:PORT:-4317}\"]}\nc: ${env:UI:-}\n"), "");
        let json = r##"{"linkPatterns": [{"type": "tags", "key": "k", "url": "/trace/#{k}", "text": "open #{k}"}]}"##;
        assert_eq!(complaint("a.json", json), "");
    }

    #[test]
    fn each_mistake_is_named_with_its_file() {
        let pattern = |url: &str| {
            format!(r##"{{"linkPatterns": [{{"type": "tags", "key": "k", "url": "{url}", "text": "t"}}]}}"##)
        };
        let cases = [
            ("a.yaml", "a: [1".to_owned(), "collector-config/a.yaml: "),
            ("a.yaml", "a: 1\n---\nb: 2\n".to_owned(), "2 documents"),
            ("a.yaml", "a: ${env:PORT}\n".to_owned(), "${env:PORT} has no default"),
            ("a.json", "{".to_owned(), "EOF"),
            ("a.json", "{}".to_owned(), "no list `linkPatterns`"),
            ("a.json", r#"{"linkPatterns": [{"type": "tags"}]}"#.to_owned(), "not a link"),
            ("a.json", pattern("/trace/1"), "does not use its value"),
            ("a.json", pattern("/trace/#{k}/#{other}"), "needs `other`"),
            ("a.txt", String::new(), "neither .yaml nor .json"),
        ];
        for (name, text, expected) in cases {
            let found = complaint(name, &text);
            assert!(found.contains(expected), "{name}: {text}\nsaid: {found}");
        }
    }
}
