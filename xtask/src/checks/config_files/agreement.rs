//! What one file says of another: mounts, ports, variables and names in the Docker files, and the names of our attributes.
//!
//! Docker, Grafana and Tempo are not run by this project's checks, so this is all that holds their files to the others.

use std::collections::{BTreeMap, BTreeSet};

use saphyr::{LoadableYamlNode, Yaml};

/// Names and texts of the files.
type Files = BTreeMap<String, String>;

/// The source that defines the names of our attributes.
const ATTRIBUTES: &str = include_str!("../../../../crates/otel/src/attributes.rs");

/// Ports of programs that no file of ours gives them.
const DEFAULT_PORTS: &[(&str, &str)] = &[("prometheus", "9090"), ("grafana", "3000")];

/// Every contradiction between these files. Those that are not there contradict nothing.
pub(super) fn complaints(files: &Files) -> Vec<String> {
    let mut found = Vec::new();
    for (name, text) in files {
        found.extend(unknown_attributes(text).map(|unknown| format!("{name}: no span has `{unknown}`")));
        if name.starts_with("docker-compose") {
            found.extend(compose_complaints(name, text, files));
        }
    }
    found.extend(collector_complaints(files));
    found.extend(tempo_complaints(files));
    found.into_iter().map(|complaint| format!("collector-config/{complaint}")).collect()
}

/// Attributes of ours that a file names and no span carries.
pub(crate) fn unknown_attributes(text: &str) -> impl Iterator<Item = String> {
    let known: BTreeSet<&str> = ATTRIBUTES.split('"').filter(|name| name.starts_with("stagespan.")).collect();
    let mut unknown = BTreeSet::new();
    for (start, _) in text.match_indices("stagespan.") {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_-/".contains(c);
        if text[..start].chars().next_back().is_some_and(is_part) {
            continue;
        }
        let rest = &text[start..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_.".contains(c))).unwrap_or(rest.len());
        let name = rest[..end].trim_end_matches('.');
        let is_file = name.ends_with(".json") || name.ends_with(".yaml");
        if !is_file && name != "stagespan" && !known.contains(name) && !name.starts_with("stagespan.link.") {
            unknown.insert(name.to_owned());
        }
    }
    unknown.into_iter()
}

/// A service of a Docker file.
struct Service<'a> {
    name: String,
    yaml: &'a Yaml<'a>,
}

impl Service<'_> {
    fn texts(&self, key: &str) -> Vec<String> {
        texts(self.yaml.as_mapping_get(key))
    }

    /// Files of ours by where they are in the container.
    fn mounts(&self) -> BTreeMap<String, String> {
        let parts = |volume: String| {
            let mut parts = volume.split(':');
            Some((parts.next()?.strip_prefix("./")?.to_owned(), parts.next()?.to_owned()))
        };
        self.texts("volumes").into_iter().filter_map(parts).map(|(file, place)| (place, file)).collect()
    }

    fn environment(&self) -> BTreeMap<String, String> {
        let entries = self.yaml.as_mapping_get("environment").and_then(Yaml::as_mapping);
        let text = |(key, value): (&Yaml<'_>, &Yaml<'_>)| Some((key.as_str()?.to_owned(), scalar(value)?));
        entries.into_iter().flatten().filter_map(text).collect()
    }
}

fn scalar(yaml: &Yaml<'_>) -> Option<String> {
    yaml.as_str().map(str::to_owned).or_else(|| yaml.as_integer().map(|number| number.to_string()))
}

fn texts(yaml: Option<&Yaml<'_>>) -> Vec<String> {
    yaml.and_then(Yaml::as_sequence).into_iter().flatten().filter_map(scalar).collect()
}

fn services<'a>(document: &'a Yaml<'a>) -> Vec<Service<'a>> {
    let services = document.as_mapping_get("services").and_then(Yaml::as_mapping);
    let service = |(name, yaml): (&Yaml<'_>, &'a Yaml<'a>)| Some(Service { name: scalar(name)?, yaml });
    services.into_iter().flatten().filter_map(service).collect()
}

fn compose_complaints(name: &str, text: &str, files: &Files) -> Vec<String> {
    let Ok(documents) = Yaml::load_from_str(text) else { return Vec::new() };
    let Some(document) = documents.first() else { return Vec::new() };
    let services = services(document);
    let names: BTreeSet<&str> = services.iter().map(|service| service.name.as_str()).collect();
    let mut found = Vec::new();
    for service in &services {
        let mut complain = |what: String| found.push(format!("{name}: service {}: {what}", service.name));
        let mounts = service.mounts();
        for file in mounts.values().filter(|file| !files.contains_key(*file)) {
            complain(format!("mounts {file}, which is not there"));
        }
        let mounted = |wanted: &dyn Fn(&str) -> bool| {
            mounts.values().filter_map(|file| files.get(file)).any(|text| wanted(text))
        };
        for argument in service.texts("command") {
            let path = argument.rsplit('=').next().unwrap_or_default();
            if path.starts_with("/etc/") && !mounts.contains_key(path) {
                complain(format!("is given {path}, which is not mounted"));
            }
        }
        for (variable, value) in service.environment() {
            let reference = format!("${{env:{variable}:-");
            if !variable.starts_with("GF_") && !mounted(&|text| text.contains(&reference)) {
                complain(format!("sets {variable}, which none of its files reads"));
            }
            let host = value.split_once(':').map(|(host, _)| host);
            if host.is_some_and(|host| !names.contains(host)) {
                complain(format!("sets {variable}={value}, which is no service"));
            }
        }
        for published in service.texts("ports") {
            let port = published.rsplit(':').next().unwrap_or_default().to_owned();
            let is_default = DEFAULT_PORTS.contains(&(service.name.as_str(), port.as_str()));
            if !published.starts_with("127.0.0.1:") {
                complain(format!("publishes {published} to every network"));
            }
            if !is_default && !mounted(&|text| has_port(text, &port)) {
                complain(format!("publishes port {port}, on which none of its files listens"));
            }
        }
    }
    found
}

/// Whether an address or a setting in the text ends with this port.
fn has_port(text: &str, port: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_digit());
    let leads = |before: &str| before.ends_with([':', ' ', '-']);
    text.match_indices(port).any(|(at, _)| leads(&text[..at]) && ends(&text[at + port.len()..]))
}

/// Collectors in containers: their release is the one that the files are tested with, and what Kubernetes sets is read.
fn collector_complaints(files: &Files) -> Vec<String> {
    const IMAGE: &str = "image: otel/opentelemetry-collector-contrib:";
    let release = files.get("builder.yaml").and_then(|text| values_after(text, "  version: ").next());
    let mut found = Vec::new();
    for (name, text) in files {
        for tag in values_after(text, IMAGE).filter(|tag| release.is_some_and(|release| release != *tag)) {
            found.push(format!("{name}: the collector's image is {tag}, and builder.yaml's release another"));
        }
        if !name.starts_with("kubernetes/") {
            continue;
        }
        let is_ours = |variable: &&str| ["AGENT_", "LB_", "SAMPLER_"].iter().any(|p| variable.starts_with(p));
        for variable in values_after(text, "- name: ").filter(is_ours) {
            let reference = format!("${{env:{variable}:-");
            if !files.values().any(|text| text.contains(&reference)) {
                found.push(format!("{name}: sets {variable}, which no file reads"));
            }
        }
    }
    found
}

/// Tempo's Docker file against Prometheus' targets, Grafana's data sources, the dashboard and the tenant.
fn tempo_complaints(files: &Files) -> Vec<String> {
    let get = |name: &str| files.get(name).map(String::as_str);
    let (Some(compose), Some(prometheus), Some(sources), Some(tempo), Some(to_tempo), Some(dashboard)) = (
        get("docker-compose.tempo.yaml"),
        get("prometheus.yaml"),
        get("grafana/datasources.yaml"),
        get("tempo.yaml"),
        get("to-tempo.yaml"),
        get("grafana/stagespan.json"),
    ) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let service = |host: &str| compose.contains(&format!("\n  {host}:\n"));
    let sampler = get("gateway-sampler.yaml").unwrap_or_default();
    for target in values_after(prometheus, "targets: [") {
        let (host, port) = target.trim_end_matches(']').split_once(':').unwrap_or((target, ""));
        if !service(host) || !has_port(sampler, port) {
            found.push(format!(
                "prometheus.yaml: no service of docker-compose.tempo.yaml listens at {target}"
            ));
        }
    }
    for url in values_after(sources, "url: http://") {
        let (host, port) = url.split_once(':').unwrap_or((url, ""));
        let listens = DEFAULT_PORTS.contains(&(host, port)) || has_port(tempo, port);
        if !service(host) || !listens {
            found.push(format!("grafana/datasources.yaml: no service listens at {url}"));
        }
    }
    let tenant = values_after(sources, "httpHeaderValue1: ").next().unwrap_or_default();
    if tenant.is_empty() || !to_tempo.contains(&format!("${{env:TEMPO_TENANT:-{tenant}}}")) {
        found.push(format!(
            "to-tempo.yaml writes for another tenant than grafana/datasources.yaml reads: {tenant}"
        ));
    }
    let uids: BTreeSet<&str> = values_after(sources, " uid: ").collect();
    for uid in values_after(dashboard, "\"uid\": \"stagespan-").map(|rest| rest.trim_end_matches([',', '"']))
    {
        let uid = format!("stagespan-{uid}");
        if !uids.contains(uid.as_str()) {
            found.push(format!("grafana/stagespan.json: no data source has the uid {uid}"));
        }
    }
    found
}

/// What stands after each `key`, to the end of its line.
fn values_after<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| line.split_once(key)).map(|(_, value)| value.trim())
}

#[cfg(test)]
#[path = "agreement/tests.rs"]
mod tests;
