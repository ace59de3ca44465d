//! What a record says about itself and no wire has a place for.
//!
//! A projection leaves these members behind whatever the target is: who wrote an item and when, our IDs of tools and sources,
//! whose a private payload is, where a call stands, whether a span is one of the answer or of its source. That loses nothing of the conversation, so the entries are remarks and change no disposition; a reader
//! of the report can still account for every member of the record.

use crate::feature::Feature;
use serde::Serialize;
use serde_json::Value;
use throughline_format::UnifiedFinishReason;
use throughline_format::json::escape_pointer_token;
use throughline_format::loss::{LossSeverity, UnifiedLossEntry};

/// Members that describe the record, wherever they stand outside opaque JSON.
const MEMBERS: &[&str] = &[
    "auditHash",
    "author",
    "covers",
    "execution",
    "form",
    "issuer",
    "lifecycle",
    "loss",
    "of",
    "ownerFingerprint",
    "placement",
    "profile",
    "provenance",
    "providerExecuted",
    "relation",
    "replaces",
    "resourceType",
    "sourceId",
    "toolId",
    "toolType",
];

/// Members whose value is opaque JSON of the user, where every key is content.
const OPAQUE: &[&str] = &[
    "input",
    "inputSchema",
    "outputSchema",
    "inputExamples",
    "schema",
    "value",
    "filter",
    "actions",
];

/// One remark for each such member of a request or result.
pub fn remarks<T: Serialize>(record: &T) -> Vec<UnifiedLossEntry> {
    let Ok(value) = serde_json::to_value(record) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    // An own stack: a record is bounded in depth, and its members are visited in order.
    let mut open: Vec<(String, &Value)> = vec![(String::new(), &value)];
    while let Some((path, value)) = open.pop() {
        let mut inner = Vec::new();
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let at = format!("{path}/{}", escape_pointer_token(name));
                    let is_source_of_request = path.is_empty() && name == "source";
                    if is_source_of_request || MEMBERS.contains(&name.as_str()) {
                        found.push(remark(at, "stays in the record; the wire has no place for it"));
                    } else if path.is_empty() && name == "state" && member.get("invalidated").is_some() {
                        found.push(remark(at, "checkpoints and handles of a result stay with their provider"));
                    } else if name == "finishReason" && member == UnifiedFinishReason::Unknown.as_str() {
                        found.push(remark(at, "the source does not say how the answer ended"));
                    } else if !OPAQUE.contains(&name.as_str()) {
                        inner.push((at, member));
                    }
                }
            }
            Value::Array(elements) => inner.extend(
                elements
                    .iter()
                    .enumerate()
                    .map(|(index, element)| (format!("{path}/{index}"), element)),
            ),
            _ => {}
        }
        open.extend(inner.into_iter().rev());
    }
    found
}

fn remark(path: String, reason: &str) -> UnifiedLossEntry {
    UnifiedLossEntry {
        path,
        feature: Feature::RecordBookkeeping.as_str().to_owned(),
        severity: LossSeverity::Info,
        reason: reason.into(),
        source_item_id: None,
        target_capability: None,
    }
}
