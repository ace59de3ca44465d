//! [`ConfigError`]: what is wrong with a configuration, each problem with file, line and key.

use std::fmt;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line in the file, from 1; absent when there is none, as for a file that cannot be read.
    pub line: Option<usize>,
    /// The key, as `providers.anthropic.api_key`; empty for the file as a whole.
    pub key: String,
    /// What is wrong and what would be right. It never quotes a value that may be a secret.
    pub message: String,
}

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Name of the file as the user gave it.
    pub file: String,
    /// At least one, in the order of the file.
    pub problems: Vec<Problem>,
}

impl ConfigError {
    /// An error about the file as a whole.
    pub fn whole(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            problems: vec![Problem {
                line: None,
                key: String::new(),
                message: message.into(),
            }],
        }
    }

    /// Every problem as a line `file:line: key: message`.
    pub fn lines(&self) -> Vec<String> {
        self.problems
            .iter()
            .map(|problem| {
                let line = problem.line.map(|line| format!(":{line}")).unwrap_or_default();
                let key = if problem.key.is_empty() {
                    String::new()
                } else {
                    format!("{}: ", problem.key)
                };
                format!("{}{line}: {key}{}", self.file, problem.message)
            })
            .collect()
    }

    /// Key of the first problem, as a JSON Pointer.
    pub fn pointer(&self) -> Option<String> {
        let key = &self.problems.first()?.key;
        (!key.is_empty()).then(|| format!("/{}", key.replace('.', "/")))
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("\n"))
    }
}

impl std::error::Error for ConfigError {}
