//! The way back: a proto `Schema` as JSON Schema.

use super::MAX_DEPTH;
use serde_json::{Map, Value};
use throughline_format::Json;

/// Type words in lower case, with `null` among them when the schema is nullable.
pub(super) fn lower(value: &Value, nullable: bool) -> Value {
    let word = |v: &Value| v.as_str().map_or_else(|| v.clone(), |s| s.to_ascii_lowercase().into());
    let made = match value {
        Value::Array(list) => Value::Array(list.iter().map(word).collect()),
        other => word(other),
    };
    if !nullable {
        return made;
    }
    let mut list = match made {
        Value::Array(list) => list,
        one => vec![one],
    };
    if !list.iter().any(|v| v == "null") {
        list.push("null".into());
    }
    list.into()
}

/// A proto `Schema` as JSON Schema; the schema itself where nothing has to change.
pub(in crate::gemini_generate_content) fn from_proto(schema: &Json) -> Json {
    let given = schema.parse();
    let made = opened(&given, 0);
    if made == given { schema.clone() } else { Json::from_value(&made) }
}

fn opened(schema: &Value, depth: usize) -> Value {
    let Some(given) = schema.as_object().filter(|_| depth <= MAX_DEPTH) else {
        return schema.clone();
    };
    let nullable = given.get("nullable") == Some(&Value::Bool(true));
    let mut out = Map::new();
    for (key, value) in given {
        let one = |v: &Value| opened(v, depth + 1);
        let name = match key.as_str() {
            "any_of" => "anyOf",
            "min_items" => "minItems",
            "max_items" => "maxItems",
            "min_length" => "minLength",
            "max_length" => "maxLength",
            "min_properties" => "minProperties",
            "max_properties" => "maxProperties",
            "property_ordering" => "propertyOrdering",
            "additional_properties" => "additionalProperties",
            "defs" => "$defs",
            other => other,
        };
        match name {
            "type" if value == "TYPE_UNSPECIFIED" => {}
            "type" => {
                out.insert(key.clone(), lower(value, nullable));
            }
            "nullable" if given.contains_key("type") || given.contains_key("anyOf") || !nullable => {}
            "ref" => {
                let text = value.as_str().unwrap_or_default().replacen("#/defs/", "#/$defs/", 1);
                out.insert("$ref".into(), text.into());
            }
            "properties" | "$defs" => {
                let inner = value.as_object().into_iter().flatten();
                let inner: Map<_, _> = inner.map(|(n, v)| (n.clone(), one(v))).collect();
                out.insert(name.into(), inner.into());
            }
            "items" | "additionalProperties" => {
                out.insert(name.into(), one(value));
            }
            "anyOf" | "oneOf" | "allOf" => {
                let mut list: Vec<_> = value.as_array().into_iter().flatten().map(one).collect();
                if nullable && !given.contains_key("type") && name == "anyOf" {
                    list.push(serde_json::json!({"type": "null"}));
                }
                out.insert(name.into(), list.into());
            }
            // 64-bit numbers travel as text.
            "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties" => {
                let number = value.as_str().and_then(|s| s.parse::<u64>().ok());
                out.insert(name.into(), number.map_or_else(|| value.clone(), Value::from));
            }
            "example" => {
                out.insert("examples".into(), vec![value.clone()].into());
            }
            "format" if value == "enum" => {}
            _ => {
                out.insert(name.into(), value.clone());
            }
        }
    }
    Value::Object(out)
}
