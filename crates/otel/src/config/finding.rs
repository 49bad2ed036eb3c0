//! What was found in a variable: a problem with its remedy, or the value in force.

use std::fmt;

/// A problem with one variable, said so that whoever set it can mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The variable.
    pub variable: String,
    /// Its value; `None` where that may be secret.
    pub value: Option<String>,
    /// What is wrong with it.
    pub problem: String,
    /// What happens now, or what to do.
    pub remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.variable)?;
        if let Some(value) = &self.value {
            write!(f, "={value:?}")?;
        }
        write!(f, " {}: {}", self.problem, self.remedy)
    }
}

/// The environment asks for something that can't be done. One finding per variable, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// What is wrong.
    pub findings: Vec<Finding>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, finding) in self.findings.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            finding.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Where a value in force comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nothing was set.
    Default,
    /// This variable.
    Variable(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Variable(name) => write!(f, "from {name}"),
        }
    }
}

/// One value in force, for people: secrets are masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What it is, such as `endpoint`.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Where it comes from.
    pub source: Source,
}
