//! The files in `collector-config/` are for users to take: each must parse, say what it promises, agree with the others, and be
//! loaded by the program that it is for.

mod agreement;
mod loaded;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use saphyr::{LoadableYamlNode, Yaml};
use serde_json::Value;

use super::verdict;
use crate::plan::Context;
use crate::report::Verdict;

/// Checks every file in `collector-config/`.
///
/// # Errors
/// If one does not parse, does not say what it is for, names an environment variable without a default, contradicts another, or
/// is refused by its program.
pub(crate) fn check(context: &Context) -> anyhow::Result<Verdict> {
    let folder = context.root.join("collector-config");
    let files = read(&folder)?;
    let mut findings: Vec<String> = files.iter().flat_map(|(name, text)| complaints(name, text)).collect();
    findings.extend(agreement::complaints(&files));
    let guides = context.root.join("docs");
    for entry in fs::read_dir(&guides).with_context(|| format!("cannot read {}", guides.display()))? {
        let path = entry.with_context(|| format!("cannot read {}", guides.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let unknown = agreement::unknown_attributes(&text);
            findings.extend(unknown.map(|unknown| format!("{}: no span has `{unknown}`", path.display())));
        }
    }
    let note = match verdict(&findings, format!("{} files parse and agree", files.len()))? {
        Verdict::Passed { note } => note,
        other => return Ok(other),
    };
    loaded::check(context, note)
}

/// Names and texts of all files in the folder, those in folders below it included.
fn read(folder: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![(folder.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
            let (path, name) = (entry.path(), format!("{prefix}{}", entry.file_name().to_string_lossy()));
            if path.is_dir() {
                folders.push((path, format!("{name}/")));
                continue;
            }
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            files.insert(name, text);
        }
    }
    Ok(files)
}

/// What is wrong with one file.
fn complaints(name: &str, text: &str) -> Vec<String> {
    let found = match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("yaml") => match Yaml::load_from_str(text) {
            Err(error) => vec![error.to_string()],
            // Kubernetes' objects come several in a file.
            Ok(documents) if documents.len() != 1 && !name.starts_with("kubernetes/") => {
                vec![format!("{} documents, not one", documents.len())]
            }
            Ok(_) => without_default(text).into_iter().chain(without_promises(text)).collect(),
        },
        Some("json") => match serde_json::from_str::<Value>(text) {
            Err(error) => vec![error.to_string()],
            Ok(value) if name == "jaeger-ui.json" => link_pattern_complaints(&value),
            Ok(_) => Vec::new(),
        },
        _ => vec!["neither .yaml nor .json; configuration files only".to_owned()],
    };
    found.into_iter().map(|complaint| format!("collector-config/{name}: {complaint}")).collect()
}

/// A file opens with a comment that says what it guarantees and what it does not.
fn without_promises(text: &str) -> Option<String> {
    let comment: String = text.lines().take_while(|line| line.starts_with('#')).collect();
    let is_there = ["What it guarantees", "What it does not"].iter().all(|words| comment.contains(words));
    (!is_there).then(|| "its first comment lacks `What it guarantees` or `What it does not`".to_owned())
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

    const PROMISES: &str = "# What it guarantees: all\n# What it does not: nothing\n";

    fn complaint(name: &str, text: &str) -> String {
        complaints(name, text).join("\n")
    }

    #[test]
    fn good_files_pass() {
        let yaml = format!("{PROMISES}a: {{b: [1, \"${{env:PORT:-4317}}\"]}}\nc: ${{env:UI:-}}\n");
        assert_eq!(complaint("a.yaml", &yaml), "");
        assert_eq!(complaint("kubernetes/a.yaml", &format!("{PROMISES}a: 1\n---\nb: 2\n")), "");
        assert_eq!(complaint("grafana/a.json", "{}"), "");
        let json = r##"{"linkPatterns": [{"type": "tags", "key": "k", "url": "/trace/#{k}", "text": "open #{k}"}]}"##;
        assert_eq!(complaint("jaeger-ui.json", json), "");
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
            ("a.yaml", "# What it guarantees: all\na: 1\n".to_owned(), "lacks"),
            ("jaeger-ui.json", "{}".to_owned(), "no list `linkPatterns`"),
            ("jaeger-ui.json", r#"{"linkPatterns": [{"type": "tags"}]}"#.to_owned(), "not a link"),
            ("jaeger-ui.json", pattern("/trace/1"), "does not use its value"),
            ("jaeger-ui.json", pattern("/trace/#{k}/#{other}"), "needs `other`"),
            ("a.txt", String::new(), "neither .yaml nor .json"),
        ];
        for (name, text, expected) in cases {
            let found = complaint(name, &text);
            assert!(found.contains(expected), "{name}: {text}\nsaid: {found}");
        }
    }
}
