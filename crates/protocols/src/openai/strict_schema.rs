//! What OpenAI's strict mode takes of JSON Schema, for tools and for answers.

use serde_json::Value;

/// Whether OpenAI's strict mode takes a schema; otherwise why not.
pub(crate) fn fits_strict(schema: &Value) -> Result<(), String> {
    if schema.get("type").and_then(Value::as_str) != Some("object") || schema.get("anyOf").is_some() {
        return Err("its root is not an object".into());
    }
    fits_node(schema, 0)
}

/// Keywords that strict mode refuses.
const REFUSED: &[&str] = &[
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "propertyNames",
    "prefixItems",
    "contains",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "uniqueItems",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
    "default",
];
/// String formats that strict mode knows.
const FORMATS: &[&str] = &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

fn fits_node(node: &Value, depth: usize) -> Result<(), String> {
    let Value::Object(members) = node else { return Ok(()) };
    if depth > 10 {
        return Err("it nests too deeply".into());
    }
    if let Some(key) = members.keys().find(|k| REFUSED.contains(&k.as_str())) {
        return Err(format!("keyword {key}"));
    }
    if members.contains_key("$ref") && members.len() > 1 {
        return Err("members beside $ref".into());
    }
    if members.get("format").and_then(Value::as_str).is_some_and(|f| !FORMATS.contains(&f)) {
        return Err("a string format".into());
    }
    let properties = members.get("properties").and_then(Value::as_object);
    if properties.is_some() || members.get("type").and_then(Value::as_str) == Some("object") {
        if members.get("additionalProperties") != Some(&Value::Bool(false)) {
            return Err("an object that is open".into());
        }
        let required: Vec<&str> = members
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if properties.is_some_and(|p| p.keys().any(|k| !required.contains(&k.as_str()))) {
            return Err("optional properties".into());
        }
    }
    for inner in properties.into_iter().flat_map(serde_json::Map::values) {
        fits_node(inner, depth + 1)?;
    }
    for key in ["$defs", "definitions"] {
        for inner in members
            .get(key)
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(serde_json::Map::values)
        {
            fits_node(inner, depth)?;
        }
    }
    for inner in members
        .get("anyOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .chain(members.get("items"))
    {
        fits_node(inner, depth + 1)?;
    }
    Ok(())
}

/// The schema as strict mode takes it: every object closed, every member required, what was optional also `null`. None when
/// that is not enough.
pub(crate) fn close(schema: &Value) -> Option<Value> {
    let mut closed = schema.clone();
    close_node(&mut closed, 0)?;
    fits_strict(&closed).ok().map(|()| closed)
}

fn close_node(node: &mut Value, depth: usize) -> Option<()> {
    // Strict mode itself takes no deeper ones.
    if depth > 10 {
        return None;
    }
    let Value::Object(members) = node else { return Some(()) };
    let is_object = members.contains_key("properties") || members.get("type").and_then(Value::as_str) == Some("object");
    if is_object {
        if members.get("additionalProperties").is_some_and(|open| *open != Value::Bool(false)) {
            // Members that nobody names are a meaning of their own.
            return None;
        }
        members.insert("additionalProperties".into(), Value::Bool(false));
        let required: Vec<Value> = members.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut names = Vec::new();
        if let Some(Value::Object(properties)) = members.get_mut("properties") {
            for (name, inner) in properties {
                close_node(inner, depth + 1)?;
                let name = Value::String(name.clone());
                if !required.contains(&name) {
                    make_nullable(inner);
                }
                names.push(name);
            }
        }
        members.insert("required".into(), Value::Array(names));
    }
    for key in ["$defs", "definitions"] {
        if let Some(Value::Object(inner)) = members.get_mut(key) {
            inner.values_mut().try_for_each(|inner| close_node(inner, depth))?;
        }
    }
    if let Some(Value::Array(inner)) = members.get_mut("anyOf") {
        inner.iter_mut().try_for_each(|inner| close_node(inner, depth + 1))?;
    }
    members.get_mut("items").map_or(Some(()), |inner| close_node(inner, depth + 1))
}

fn make_nullable(node: &mut Value) {
    let null = Value::String("null".into());
    if let Value::Object(members) = node
        && !members.contains_key("enum")
        && !members.contains_key("const")
    {
        match members.get_mut("type") {
            Some(Value::Array(types)) => {
                if !types.contains(&null) {
                    types.push(null);
                }
                return;
            }
            Some(kind @ Value::String(_)) => {
                *kind = Value::Array(vec![kind.take(), null]);
                return;
            }
            _ => {}
        }
    }
    let inner = node.take();
    *node = serde_json::json!({"anyOf": [inner, {"type": "null"}]});
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn open_objects_are_closed_and_what_was_optional_may_be_null() {
        let closed = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        let cases = [
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}),
                Some(closed(
                    json!({"a": {"type": "string"}, "b": {"type": ["integer", "null"]}}),
                    json!(["a", "b"]),
                )),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"c": {"enum": [1]}}}}}),
                Some(closed(
                    json!({"a": {"type": ["object", "null"], "properties": {"c": {"anyOf": [{"enum": [1]}, {"type": "null"}]}}, "additionalProperties": false, "required": ["c"]}}),
                    json!(["a"]),
                )),
            ),
            (json!({"type": "object", "properties": {}, "additionalProperties": true}), None),
            (json!({"type": "object", "properties": {"a": {"oneOf": []}}}), None),
            (json!({"type": "string"}), None),
        ];
        for (schema, expected) in cases {
            assert_eq!(close(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn closed_objects_with_all_members_required_fit() {
        let closed = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        let cases = [
            (closed(json!({"a": {"type": "string"}}), json!(["a"])), true),
            (closed(json!({"a": {"type": "string"}}), json!([])), false),
            (json!({"type": "object", "properties": {}}), false),
            (json!({"type": "string"}), false),
            (closed(json!({"a": {"oneOf": []}}), json!(["a"])), false),
            (closed(json!({"a": {"type": "string", "format": "uri"}}), json!(["a"])), false),
            (closed(json!({"a": closed(json!({"b": {}}), json!([]))}), json!(["a"])), false),
        ];
        for (schema, fits) in cases {
            assert_eq!(fits_strict(&schema).is_ok(), fits, "{schema}");
        }
    }
}
