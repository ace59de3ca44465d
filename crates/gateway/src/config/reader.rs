//! Reads a TOML table key by key, and knows line and path of each for errors. Keys that nobody asked for are errors.

use super::problem::Problem;
use super::units;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Collects problems of one file.
pub(super) struct Report<'i> {
    text: &'i str,
    problems: RefCell<Vec<Problem>>,
}

impl<'i> Report<'i> {
    pub(super) fn new(text: &'i str) -> Self {
        Self {
            text,
            problems: RefCell::default(),
        }
    }

    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        1 + self.text.bytes().take(span.start).filter(|byte| *byte == b'\n').count()
    }

    pub(super) fn add(&self, line: usize, key: impl Into<String>, message: impl Into<String>) {
        self.problems.borrow_mut().push(Problem {
            line: Some(line),
            key: key.into(),
            message: message.into(),
        });
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        problems
    }
}

/// A value with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<T> {
    /// The value.
    pub value: T,
    /// Line in the file; 0 when it does not come from a file.
    pub line: usize,
    /// Its key.
    pub key: String,
}

impl<T> Placed<T> {
    /// A value that stands in no file.
    pub fn built_in(value: T) -> Self {
        Self {
            value,
            line: 0,
            key: String::new(),
        }
    }
}

/// One table.
pub(super) struct Section<'t, 'i> {
    pub(super) report: &'t Report<'i>,
    pub(super) path: String,
    pub(super) line: usize,
    table: &'t DeTable<'i>,
    asked: RefCell<BTreeSet<&'static str>>,
}

impl<'t, 'i> Section<'t, 'i> {
    pub(super) fn new(report: &'t Report<'i>, path: String, line: usize, table: &'t DeTable<'i>) -> Self {
        Self {
            report,
            path,
            line,
            table,
            asked: RefCell::default(),
        }
    }

    pub(super) fn key(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    fn find(&self, key: &'static str) -> Option<(&'t Spanned<DeValue<'i>>, usize)> {
        self.asked.borrow_mut().insert(key);
        let (name, value) = self.table.iter().find(|(name, _)| name.get_ref().as_ref() == key)?;
        Some((value, self.report.line(&name.span())))
    }

    fn wrong<T>(&self, line: usize, key: &str, expected: &str, found: &DeValue<'_>) -> Option<T> {
        self.report
            .add(line, self.key(key), format!("expected {expected}, found {}", kind_of(found)));
        None
    }

    /// Whether the key is there, without asking for it.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.iter().any(|(name, _)| name.get_ref().as_ref() == key)
    }

    pub(super) fn problem(&self, key: &str, message: impl Into<String>) {
        let line = self
            .table
            .iter()
            .find(|(name, _)| name.get_ref().as_ref() == key)
            .map_or(self.line, |(name, _)| self.report.line(&name.span()));
        self.report.add(line, self.key(key), message);
    }

    pub(super) fn text(&self, key: &'static str) -> Option<Placed<String>> {
        let (value, line) = self.find(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(Placed {
                value: text.as_ref().to_owned(),
                line,
                key: self.key(key),
            }),
            other => self.wrong(line, key, "a string", other),
        }
    }

    /// A text that is there.
    pub(super) fn required(&self, key: &'static str) -> Option<Placed<String>> {
        if self.table.iter().all(|(name, _)| name.get_ref().as_ref() != key) {
            self.asked.borrow_mut().insert(key);
            self.report.add(self.line, self.key(key), "is missing");
            return None;
        }
        self.text(key)
    }

    pub(super) fn boolean(&self, key: &'static str) -> Option<bool> {
        let (value, line) = self.find(key)?;
        match value.get_ref() {
            DeValue::Boolean(on) => Some(*on),
            other => self.wrong(line, key, "true or false", other),
        }
    }

    pub(super) fn number(&self, key: &'static str, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
        let (value, line) = self.find(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            other => return self.wrong(line, key, "a whole number", other),
        };
        if let Some(number) = number.filter(|number| range.contains(number)) {
            Some(number)
        } else {
            self.report.add(
                line,
                self.key(key),
                format!("expected a whole number from {} to {}", range.start(), range.end()),
            );
            None
        }
    }

    pub(super) fn duration(&self, key: &'static str) -> Option<Duration> {
        let text = self.text(key)?;
        let read = units::duration(&text.value).filter(|time| !time.is_zero());
        if read.is_none() {
            self.report
                .add(text.line, text.key, "expected a duration such as \"30s\", with ms, s, m, h or d");
        }
        read
    }

    pub(super) fn size(&self, key: &'static str) -> Option<u64> {
        let text = self.text(key)?;
        let read = units::size(&text.value).filter(|size| *size > 0);
        if read.is_none() {
            self.report.add(
                text.line,
                text.key,
                "expected a size such as \"32MiB\", with B, KiB, MiB, GiB, kB, MB or GB",
            );
        }
        read
    }

    pub(super) fn texts(&self, key: &'static str) -> Option<Vec<Placed<String>>> {
        let (value, line) = self.find(key)?;
        let DeValue::Array(list) = value.get_ref() else {
            return self.wrong(line, key, "a list of strings", value.get_ref());
        };
        let mut texts = Vec::new();
        for element in list {
            let line = self.report.line(&element.span());
            match element.get_ref() {
                DeValue::String(text) => texts.push(Placed {
                    value: text.as_ref().to_owned(),
                    line,
                    key: self.key(key),
                }),
                other => return self.wrong(line, key, "a list of strings", other),
            }
        }
        Some(texts)
    }

    /// The table under a key.
    pub(super) fn section(&self, key: &'static str) -> Option<Section<'t, 'i>> {
        let (value, line) = self.find(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(Section::new(self.report, self.key(key), line, table)),
            other => self.wrong(line, key, "a table", other),
        }
    }

    /// The tables of a list; the path carries the number, from 0.
    pub(super) fn sections(&self, key: &'static str) -> Vec<Section<'t, 'i>> {
        let Some((value, line)) = self.find(key) else { return Vec::new() };
        let DeValue::Array(list) = value.get_ref() else {
            self.wrong::<()>(line, key, "a list of tables", value.get_ref());
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (index, element) in list.iter().enumerate() {
            let line = self.report.line(&element.span());
            let path = format!("{}[{index}]", self.key(key));
            match element.get_ref() {
                DeValue::Table(table) => sections.push(Section::new(self.report, path, line, table)),
                other => self.report.add(line, path, format!("expected a table, found {}", kind_of(other))),
            }
        }
        sections
    }

    /// Every entry as a table, for tables whose keys are names.
    pub(super) fn named_sections(&self) -> Vec<(String, Section<'t, 'i>)> {
        let mut sections = Vec::new();
        for (name, value) in self.table {
            let line = self.report.line(&name.span());
            match value.get_ref() {
                DeValue::Table(table) => sections.push((
                    name.get_ref().as_ref().to_owned(),
                    Section::new(self.report, self.key(name.get_ref()), line, table),
                )),
                other => self.report.add(
                    line,
                    self.key(name.get_ref()),
                    format!("expected a table, found {}", kind_of(other)),
                ),
            }
        }
        sections.sort_by_key(|(_, section)| section.line);
        sections
    }

    /// Every entry as an untyped value, for tables whose keys are words of a list elsewhere.
    pub(super) fn values(&self) -> Vec<(String, Placed<serde_json::Value>)> {
        let mut values = Vec::new();
        for (name, value) in self.table {
            let (line, key) = (self.report.line(&name.span()), self.key(name.get_ref()));
            match json(value.get_ref()) {
                Some(value) => values.push((name.get_ref().as_ref().to_owned(), Placed { value, line, key })),
                None => self.report.add(
                    line,
                    key,
                    format!("expected a string, number, switch or list, found {}", kind_of(value.get_ref())),
                ),
            }
        }
        values.sort_by_key(|(_, value)| value.line);
        values
    }

    /// Reports keys that nobody asked for. `hints` say more about some of them.
    pub(super) fn finish(&self, hints: &[(&str, &str)]) {
        let asked = self.asked.borrow();
        for (name, _) in self.table {
            let name_text = name.get_ref().as_ref();
            if asked.contains(name_text) {
                continue;
            }
            let known = || asked.iter().copied().collect::<Vec<_>>().join(", ");
            let message = hints.iter().find(|(key, _)| *key == name_text).map_or_else(
                || format!("unknown key; known here are {}", known()),
                |(_, hint)| (*hint).to_owned(),
            );
            self.report.add(self.report.line(&name.span()), self.key(name_text), message);
        }
    }
}

fn json(value: &DeValue<'_>) -> Option<serde_json::Value> {
    Some(match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Boolean(on) => (*on).into(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok()?.into(),
        DeValue::Float(number) => number.as_str().parse::<f64>().ok()?.into(),
        DeValue::Array(list) => list
            .iter()
            .map(|element| json(element.get_ref()))
            .collect::<Option<Vec<_>>>()?
            .into(),
        _ => return None,
    })
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a decimal number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
