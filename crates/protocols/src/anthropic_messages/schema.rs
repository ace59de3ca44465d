//! JSON Schemas as the wire takes them.

use super::wire::Members;
use crate::raw::{json, object};
use throughline_format::Json;

/// Keywords that the strict subset refuses.
const REFUSED: &[&str] = &[
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
    "unevaluatedItems",
    "prefixItems",
    "dependencies",
];
/// Keywords whose value maps names to schemas.
const MAPS: &[&str] = &["properties", "$defs", "definitions", "patternProperties", "dependentSchemas"];
/// Keywords whose value is a schema or a list of schemas.
const NESTED: &[&str] = &[
    "items",
    "anyOf",
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "additionalProperties",
    "contains",
    "prefixItems",
    "propertyNames",
];

/// The schema as an object schema without a union at its root; the second value tells whether it had to be changed.
pub(super) fn object_schema(schema: &Json) -> (Json, bool) {
    let Ok(mut members) = schema.decode::<Members>() else {
        return (object(vec![("type".into(), json("object"))]), true);
    };
    let typed = members
        .extra
        .0
        .iter()
        .any(|(key, value)| key == "type" && value.decode::<String>().is_ok_and(|t| t == "object"));
    let before = members.extra.0.len();
    members
        .extra
        .0
        .retain(|(key, _)| !matches!(key.as_str(), "oneOf" | "anyOf" | "allOf"));
    let unions = before != members.extra.0.len();
    if typed && !unions {
        return (schema.clone(), false);
    }
    // A missing type means any type; naming the only one that the wire takes changes nothing for the model.
    let untyped = !members.extra.0.iter().any(|(key, _)| key == "type");
    members.extra.0.retain(|(key, _)| key != "type");
    members.extra.0.insert(0, ("type".into(), json("object")));
    (json(&members), unions || !untyped)
}

/// Whether the schema is inside the strict subset.
pub(super) fn is_strict(schema: &Json) -> bool {
    let value = schema.parse();
    let mut todo = vec![&value];
    while let Some(node) = todo.pop() {
        let Some(map) = node.as_object() else { continue };
        let closed = map.get("type").and_then(|t| t.as_str()) != Some("object")
            || map.get("additionalProperties") == Some(&serde_json::Value::Bool(false));
        let items = map.get("minItems").is_none_or(|n| matches!(n.as_u64(), Some(0 | 1)));
        if !closed || !items || map.keys().any(|key| REFUSED.contains(&key.as_str())) {
            return false;
        }
        todo.extend(children(map));
    }
    true
}

/// Schemas directly below a schema.
fn children(map: &serde_json::Map<String, serde_json::Value>) -> Vec<&serde_json::Value> {
    let mut found = Vec::new();
    for (key, value) in map {
        if MAPS.contains(&key.as_str()) {
            found.extend(value.as_object().into_iter().flat_map(serde_json::Map::values));
        } else if NESTED.contains(&key.as_str()) {
            match value {
                serde_json::Value::Array(list) => found.extend(list),
                other => found.push(other),
            }
        }
    }
    found
}

/// The schema moved into the strict subset: objects closed, refused keywords told in the description, `oneOf` as `anyOf`.
pub(super) fn strict(schema: &Json) -> Json {
    if is_strict(schema) {
        return schema.clone();
    }
    let mut value = schema.parse();
    tighten(&mut value, 0);
    Json::from_value(&value)
}

/// Deepest nesting that is rewritten; bodies are refused long before.
const MAX_DEPTH: usize = 128;

fn tighten(value: &mut serde_json::Value, depth: usize) {
    let Some(map) = value.as_object_mut().filter(|_| depth < MAX_DEPTH) else {
        return;
    };
    if let Some(one_of) = map.remove("oneOf") {
        map.insert("anyOf".into(), one_of);
    }
    let mut told = Vec::new();
    for key in REFUSED {
        if let Some(gone) = map.remove(*key) {
            told.push(format!("{key}: {gone}"));
        }
    }
    if map.get("minItems").is_some_and(|n| !matches!(n.as_u64(), Some(0 | 1)))
        && let Some(gone) = map.remove("minItems")
    {
        told.push(format!("minItems: {gone}"));
    }
    if !told.is_empty() {
        let old = map.get("description").and_then(|d| d.as_str()).unwrap_or_default();
        let text = format!("{old} ({})", told.join(", "));
        map.insert("description".into(), text.trim().into());
    }
    if map.get("type").and_then(|t| t.as_str()) == Some("object") || map.contains_key("properties") {
        map.insert("additionalProperties".into(), false.into());
    }
    for (key, child) in map.iter_mut() {
        if MAPS.contains(&key.as_str()) {
            child
                .as_object_mut()
                .into_iter()
                .flat_map(serde_json::Map::values_mut)
                .for_each(|c| tighten(c, depth + 1));
        } else if NESTED.contains(&key.as_str()) {
            match child {
                serde_json::Value::Array(list) => list.iter_mut().for_each(|c| tighten(c, depth + 1)),
                other => tighten(other, depth + 1),
            }
        }
    }
}
