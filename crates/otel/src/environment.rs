//! The environment variables, as values that can be passed in.

use std::collections::BTreeMap;

/// A snapshot of environment variables.
///
/// Configuration is read from a snapshot, never from the process behind the caller's back: tests
/// give pairs, and a process is read once, before any thread could change it.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    not_unicode: Vec<String>,
}

/// Only these are kept, so that nothing else of the process can end up in a message.
const PREFIXES: [&str; 2] = ["OTEL_", "STAGESPAN_"];

impl Environment {
    /// The variables of this process that concern tracing (`OTEL_*`, `STAGESPAN_*`).
    pub fn of_this_process() -> Self {
        let mut environment = Self::default();
        for (name, value) in std::env::vars_os() {
            let Ok(name) = name.into_string() else { continue };
            if !PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
                continue;
            }
            match value.into_string() {
                Ok(value) => drop(environment.variables.insert(name, value)),
                Err(_) => environment.not_unicode.push(name),
            }
        }
        environment
    }

    /// The variables given as pairs; of a repeated name the last one counts.
    pub fn from_pairs<K: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        let variables = pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { variables, not_unicode: Vec::new() }
    }

    /// The variable's value, untouched. Empty counts as unset, as OpenTelemetry says.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The names of the variables whose value is not valid UTF-8; they count as unset.
    pub fn not_unicode(&self) -> impl Iterator<Item = &str> {
        self.not_unicode.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_is_unset_and_the_last_pair_counts() {
        let env = Environment::from_pairs([("A", ""), ("B", "1"), ("B", "2"), ("C", " ")]);
        assert_eq!(env.get("A"), None);
        assert_eq!(env.get("B"), Some("2"));
        assert_eq!(env.get("C"), Some(" "));
        assert_eq!(env.get("D"), None);
    }
}
