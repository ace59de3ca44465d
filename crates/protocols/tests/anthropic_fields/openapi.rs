//! Bodies against the provider's own description, where it is at hand.

use super::*;
use crate::support::{fold_response, result_of};
use std::path::PathBuf;

/// The description, or `None` where the shared folder is absent; in CI it has to be there.
fn description() -> Option<Value> {
    let root = std::env::var_os("THROUGHLINE_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = root.join("specs/anthropic-openapi-subset.json");
    if let Ok(text) = std::fs::read(&path) {
        return Some(serde_json::from_slice(&text).unwrap());
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "the description is missing");
    eprintln!("skipped: no description at {}", path.display());
    None
}

/// What is wrong with a value by a schema of the description: the keywords that it uses for shapes.
fn faults(all: &Value, schema: &Value, value: &Value, path: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let target = all
            .pointer(name.trim_start_matches('#'))
            .unwrap_or_else(|| panic!("{name} is not described"));
        return faults(all, target, value, path);
    }
    for any in ["anyOf", "oneOf"] {
        if let Some(list) = schema[any].as_array() {
            let tries: Vec<_> = list.iter().map(|one| faults(all, one, value, path)).collect();
            // The alternative that got furthest says what is meant.
            return tries
                .iter()
                .find(|t| t.is_empty())
                .or_else(|| tries.iter().max_by_key(|t| depth(t)))
                .cloned()
                .unwrap_or_default();
        }
    }
    let mut found = Vec::new();
    for one in schema["allOf"].as_array().into_iter().flatten() {
        found.extend(faults(all, one, value, path));
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => value.is_null(),
    };
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| is(kind)) {
        found.push(format!("{path}: expected {kinds:?}"));
        return found;
    }
    if schema.get("const").is_some_and(|only| only != value) || schema["enum"].as_array().is_some_and(|list| !list.contains(value)) {
        found.push(format!("{path}: not one of the values"));
    }
    if let Some(object) = value.as_object() {
        for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            // A member that may be nothing is left out on the wire, although the description demands it.
            let property = &schema["properties"][key];
            let may_be_nothing = property.get("default").is_some() || faults(all, property, &Value::Null, "").is_empty();
            if !object.contains_key(key) && !may_be_nothing {
                found.push(format!("{path}: {key} is missing"));
            }
        }
        for (key, member) in object {
            let known = &schema["properties"][key];
            if known.is_object() {
                found.extend(faults(all, known, member, &format!("{path}/{key}")));
            } else if schema["additionalProperties"] == json!(false) {
                found.push(format!("{path}: {key} is not described"));
            }
        }
    }
    for (n, element) in value.as_array().into_iter().flatten().enumerate() {
        if schema["items"].is_object() {
            found.extend(faults(all, &schema["items"], element, &format!("{path}/{n}")));
        }
    }
    let length = |limit: &str, length: usize| schema[limit].as_u64().map(|bound| (bound, length as u64));
    let size = value.as_str().map(|text| text.chars().count());
    if size
        .and_then(|size| length("maxLength", size))
        .is_some_and(|(bound, size)| size > bound)
        || size
            .and_then(|size| length("minLength", size))
            .is_some_and(|(bound, size)| size < bound)
    {
        found.push(format!("{path}: a length out of bounds"));
    }
    let figure = value.as_f64();
    if figure.zip(schema["minimum"].as_f64()).is_some_and(|(n, bound)| n < bound)
        || figure.zip(schema["maximum"].as_f64()).is_some_and(|(n, bound)| n > bound)
    {
        found.push(format!("{path}: a figure out of bounds"));
    }
    found
}

/// How far into the value the deepest fault lies.
fn depth(faults: &[String]) -> usize {
    faults.iter().map(|fault| fault.matches('/').count()).max().unwrap_or(0)
}

fn check(all: &Value, schema: &str, body: &Value) {
    let schema = json!({"$ref": format!("#/components/schemas/{schema}")});
    let found = faults(all, &schema, body, "");
    assert!(found.is_empty(), "{found:#?}\n{body:#}");
}

/// A request with every kind of member and block that a foreign conversation can bring.
fn rich_request() -> Value {
    request(&json!({
        "system": [{"type": "text", "text": "be brief"}],
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u"},
        "service_tier": "auto",
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "tools": [
            {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}}, "cache_control": {"type": "ephemeral"}},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 3, "allowed_domains": ["a.example"]}
        ],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral", "ttl": "5m"}},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}, "title": "t", "citations": {"enabled": true}},
                {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "words"}]}
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "text", "text": "a"},
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "x"}]},
                {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": "x"}}
            ]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "r", "is_error": false}]}
        ]
    }))
}

#[test]
fn requests_are_as_described() {
    let Some(all) = description() else { return };
    let decoded = decode(&rich_request());
    for context in [owner(&decoded.resources), stranger()] {
        let (body, _) = encode(&decoded, &context);
        check(&all, "BetaCreateMessageParams", &body);
    }
}

#[test]
fn answers_are_as_described() {
    let Some(all) = description() else { return };
    let content = json!([
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}}
    ]);
    let body = super::answers::answer(&json!({"content": content, "stop_reason": "tool_use"}));
    let fold = fold_response(&CODEC, body.to_string().as_bytes());
    for context in [owner(&fold.resources), stranger()] {
        let encoded = CODEC.encode_response(&result_of(&fold), &context).unwrap();
        let made: Value = serde_json::from_str(&encoded.body).unwrap();
        check(&all, "BetaMessage", &made);
    }
}

#[test]
fn the_check_finds_what_is_wrong() {
    let Some(all) = description() else { return };
    let good = rich_request();
    let schema = json!({"$ref": "#/components/schemas/BetaCreateMessageParams"});
    for (pointer, value) in [
        ("/max_tokens", json!("9")),
        ("/messages/0/role", json!("robot")),
        ("/messages/0/content/1/source/media_type", json!("image/bmp")),
        ("/tools/1/max_uses", json!("3")),
        ("/tool_choice", json!({"type": "auto", "later": 1})),
    ] {
        let mut wrong = good.clone();
        *wrong.pointer_mut(pointer).unwrap() = value;
        assert!(!faults(&all, &schema, &wrong, "").is_empty(), "{pointer}");
    }
}
