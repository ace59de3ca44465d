//! What a request asks for: every field of generation and output, through every protocol that has it and past every one that has not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "../support/mod.rs"]
mod support;
mod wishes;
mod words;

use serde_json::{Value, json};
use throughline_format::shape::{RecordShape, Shape};

/// A value without what is no wish: IDs that the reader gives, and whether a figure has a fraction.
pub(crate) fn plain(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let wishes = members.iter().filter(|(name, _)| !matches!(name.as_str(), "partId" | "itemId"));
            Value::Object(wishes.map(|(name, member)| (name.clone(), plain(member))).collect())
        }
        Value::Array(elements) => elements.iter().map(plain).collect(),
        Value::Number(figure) => json!(figure.as_f64()),
        other => other.clone(),
    }
}

/// Names of the members of a record that are wishes, those of the records in it included.
pub(crate) fn members(record: &'static RecordShape, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for member in record.members {
        let at = format!("{path}/{}", member.name);
        match (member.shape)() {
            Shape::Record(inner) if inner.name != "UnifiedIntent" => found.extend(members(inner, &at)),
            _ => {
                assert!(member.written.starts_with("UnifiedIntent<"), "{at} carries no strength");
                found.push(at);
            }
        }
    }
    found
}
