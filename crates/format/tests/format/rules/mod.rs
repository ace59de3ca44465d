//! Rules across members: a valid record, and per line one change of it with everything that must be found.
//!
//! `"/place" = value, … => "/path" "rule", …;` sets members (`null` removes, `/-` appends) and names every violation that
//! follows: a table fails on one that is missing and on one too many.

mod annotations;
mod events;
mod export;
mod items;
mod records;
mod request;
mod result;
mod samples;

use crate::support::parse;
use serde::de::DeserializeOwned;
use serde_json::Value;
use throughline_format::validate::{Rule, VALIDATION, Violation, rules_page};

/// One line of a table: what is set, and what is found.
pub(crate) struct Row {
    pub(crate) set: Vec<(&'static str, Value)>,
    pub(crate) found: Vec<(&'static str, &'static str)>,
}

macro_rules! rows {
    ($($($at:literal = $value:tt),+ => $($path:literal $rule:literal),*;)+) => {
        vec![$($crate::rules::Row { set: vec![$(($at, serde_json::json!($value))),+], found: vec![$(($path, $rule)),*] }),+]
    };
}
pub(crate) use rows;

/// Sets a member, appends an element, or removes a member.
pub(crate) fn set(record: &mut Value, at: &str, value: Value) {
    let (parent, last) = at.rsplit_once('/').unwrap_or_else(|| panic!("{at} is no pointer"));
    let place = record.pointer_mut(parent).unwrap_or_else(|| panic!("nothing at {parent}"));
    match place {
        Value::Object(members) if value.is_null() => drop(members.shift_remove(last).unwrap_or_else(|| panic!("nothing at {at}"))),
        Value::Object(members) => drop(members.insert(last.replace("~1", "/"), value)),
        Value::Array(list) if last == "-" => list.push(value),
        Value::Array(list) if value.is_null() => drop(list.remove(last.parse().unwrap())),
        Value::Array(list) => list[last.parse::<usize>().unwrap()] = value,
        _ => panic!("{at} is inside a leaf"),
    }
}

/// Paths and rules, in order.
pub(crate) fn found(violations: &[Violation]) -> Vec<(String, &'static str)> {
    let mut found: Vec<_> = violations
        .iter()
        .map(|v| {
            assert_eq!(v.code, VALIDATION);
            (v.path.clone(), v.rule().unwrap_or_else(|| panic!("no rule in {v}")).as_str())
        })
        .collect();
    found.sort();
    found
}

/// Checks a table over a record that breaks no rule.
pub(crate) fn check<T: DeserializeOwned>(valid: &Value, validate: impl Fn(&T) -> Vec<Violation>, rows: Vec<Row>) {
    assert_eq!(found(&validate(&parse(valid))), [], "the sample itself is valid");
    let mut wrong = Vec::new();
    for row in rows {
        let mut record = valid.clone();
        for (at, value) in &row.set {
            set(&mut record, at, value.clone());
        }
        let got = found(&validate(&parse(&record)));
        let mut expected: Vec<_> = row.found.iter().map(|(path, rule)| ((*path).to_owned(), *rule)).collect();
        expected.sort();
        if got != expected {
            wrong.push(format!("{:?}\n   expected {expected:?}\n   found    {got:?}", row.set));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_rule_has_one_word_and_stands_on_the_page() {
    let page = rules_page();
    for rule in Rule::ALL {
        assert_eq!(Rule::from_word(rule.as_str()), Some(*rule));
        assert!(page.contains(&format!("| `{rule}` |")), "{rule}");
        assert!(rule.as_str().bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
    }
}

#[test]
fn the_page_of_rules_is_fresh() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, rules_page()).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == rules_page(),
        "docs/rules.md is not what the rules say; run this test with UPDATE_DOCS=1"
    );
}

/// What stands in the tables of this folder, as text.
const TABLES: &[&str] = &[
    include_str!("annotations.rs"),
    include_str!("events.rs"),
    include_str!("export.rs"),
    include_str!("items.rs"),
    include_str!("records.rs"),
    include_str!("request.rs"),
    include_str!("result.rs"),
];

#[test]
fn every_rule_has_a_case() {
    throughline_format::clause!("VAL-01");
    for rule in Rule::ALL.iter().filter(|rule| **rule != Rule::Unlisted) {
        let quoted = format!("\"{rule}\"");
        assert!(TABLES.iter().any(|table| table.contains(&quoted)), "no table expects {rule}");
    }
}

#[test]
fn what_is_not_listed_is_counted() {
    let mut record = samples::request();
    record["source"]["transport"]["betas"] = serde_json::json!(vec!["a, b"; 10_007]);
    let violations = throughline_format::validate::semantics::request(&parse(&record));
    assert_eq!(violations.len(), 10_001);
    let last = violations.last().unwrap();
    assert_eq!((last.rule(), last.path.as_str()), (Some(Rule::Unlisted), ""));
    assert!(last.message.contains("7 more"), "{}", last.message);
}
