//! Reads variables one by one, and keeps what is to be said of them.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Activation, Reading, log_level};
use crate::config::finding::{ConfigError, Finding, Setting, Source};
use crate::environment::Environment;
use crate::report::LogLevel;

pub(super) struct Reader<'e> {
    environment: &'e Environment,
    warnings: Vec<Finding>,
    errors: Vec<Finding>,
    settings: Vec<Setting>,
    log_level: LogLevel,
}

impl<'e> Reader<'e> {
    pub(super) fn new(environment: &'e Environment) -> Self {
        let warnings = environment
            .not_unicode()
            .map(|variable| Finding {
                variable: variable.to_owned(),
                value: None,
                problem: "is not valid UTF-8".to_owned(),
                remedy: "counts as unset".to_owned(),
            })
            .collect();
        let (errors, settings) = (Vec::new(), Vec::new());
        let mut reader = Self { environment, warnings, errors, settings, log_level: LogLevel::default() };
        // First, since it is in force even where nothing else can be.
        reader.log_level = log_level::read(&mut reader);
        reader
    }

    pub(super) fn log_level(&self) -> LogLevel {
        self.log_level
    }

    pub(super) fn environment(&self) -> &'e Environment {
        self.environment
    }

    pub(super) fn finish(self, activation: Activation) -> Reading {
        let Self { environment: _, warnings, errors, settings, log_level } = self;
        let activation =
            if errors.is_empty() { Ok(activation) } else { Err(ConfigError { findings: errors }) };
        Reading { activation, warnings, settings, log_level }
    }

    /// The variable's value without surrounding blanks; blank counts as unset.
    pub(super) fn text(&self, variable: &str) -> Option<&'e str> {
        self.environment.get(variable).map(str::trim).filter(|value| !value.is_empty())
    }

    /// The same in lower case, for values that are one word of a list.
    pub(super) fn word(&self, variable: &str) -> Option<String> {
        self.text(variable).map(str::to_lowercase)
    }

    /// A comma-separated list of words, each once, in its order.
    pub(super) fn list(&self, variable: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for word in self.word(variable).unwrap_or_default().split(',').map(str::trim) {
            if !word.is_empty() && !words.iter().any(|seen| seen == word) {
                words.push(word.to_owned());
            }
        }
        words
    }

    /// The first of these variables that is set: signal-specific ones come before general ones.
    pub(super) fn first<'v>(&self, variables: [&'v str; 2]) -> Option<(&'v str, &'e str)> {
        variables.into_iter().find_map(|variable| self.text(variable).map(|value| (variable, value)))
    }

    /// One of a few words, the first of which is the default. Others are warned of.
    pub(super) fn one_of<T: Copy, const N: usize>(
        &mut self,
        variable: &str,
        setting: &'static str,
        choices: [(&'static str, T); N],
    ) -> T {
        let (default_word, default) = choices[0];
        let (value, word, source) = match self.word(variable) {
            None => (default, default_word, Source::Default),
            Some(given) => match choices.iter().find(|(word, _)| *word == given) {
                Some(&(word, value)) => (value, word, Source::Variable(variable.to_owned())),
                None => {
                    let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
                    self.warn(
                        variable,
                        &format!("is none of {}", words.join(", ")),
                        &format!("using {default_word}"),
                    );
                    (default, default_word, Source::Default)
                }
            },
        };
        self.set(setting, word, source);
        value
    }

    /// Where a variable's value comes from.
    pub(super) fn source(&self, variable: &str) -> Source {
        self.text(variable).map_or(Source::Default, |_| Source::Variable(variable.to_owned()))
    }

    /// A whole number within bounds; others are warned of, and the default is used.
    pub(super) fn number(&mut self, variable: &str, default: u64, bounds: RangeInclusive<u64>) -> u64 {
        let Some(value) = self.text(variable) else { return default };
        match value.parse::<u64>() {
            Ok(number) if bounds.contains(&number) => number,
            _ => {
                let (least, most) = (bounds.start(), bounds.end());
                self.warn(
                    variable,
                    &format!("is not a whole number from {least} to {most}"),
                    &format!("using {default}"),
                );
                default
            }
        }
    }

    /// A timeout in milliseconds, where 0 is no limit.
    pub(super) fn timeout(
        &mut self,
        variable: &str,
        setting: &'static str,
        default_ms: u64,
    ) -> Option<Duration> {
        let timeout = match self.number(variable, default_ms, 0..=u64::from(u32::MAX)) {
            0 => None,
            ms => Some(Duration::from_millis(ms)),
        };
        let shown = timeout.map_or_else(|| "none".to_owned(), |timeout| format!("{timeout:?}"));
        self.set(setting, &shown, self.source(variable));
        timeout
    }

    pub(super) fn warn(&mut self, variable: &str, problem: &str, remedy: &str) {
        let value = self.environment.get(variable).map(str::to_owned);
        self.warnings.push(finding(variable, value, problem, remedy));
    }

    /// A warning that leaves the value out, since it may hold a secret.
    pub(super) fn warn_of_secret(&mut self, variable: &str, problem: &str, remedy: &str) {
        self.warnings.push(finding(variable, None, problem, remedy));
    }

    pub(super) fn error(&mut self, variable: &str, problem: &str, remedy: &str) {
        let value = self.environment.get(variable).map(str::to_owned);
        self.errors.push(finding(variable, value, problem, remedy));
    }

    /// An error whose value is shown as given here.
    pub(super) fn error_with(&mut self, variable: &str, value: Option<String>, problem: &str, remedy: &str) {
        self.errors.push(finding(variable, value, problem, remedy));
    }

    /// A warning whose value is shown as given here.
    pub(super) fn warn_with(&mut self, variable: &str, value: Option<String>, problem: &str, remedy: &str) {
        self.warnings.push(finding(variable, value, problem, remedy));
    }

    pub(super) fn set(&mut self, name: &'static str, value: &str, source: Source) {
        self.settings.push(Setting { name, value: value.to_owned(), source });
    }
}

fn finding(variable: &str, value: Option<String>, problem: &str, remedy: &str) -> Finding {
    Finding { variable: variable.to_owned(), value, problem: problem.to_owned(), remedy: remedy.to_owned() }
}
