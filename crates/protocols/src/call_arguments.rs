//! The arguments of a call, and their schema, for wires that demand an object.

use crate::feature::Feature;
use crate::raw::{json, object};
use throughline_format::item::ToolCallItem;
use throughline_format::{Json, UnifiedToolType};

/// What stands in for the result of a call that was interrupted.
pub(crate) const NO_RESULT: &str = "The call was interrupted; there is no result.";

/// Arguments as an object, as they were written where they are one; and the feature and reason of a loss where they had to be wrapped.
pub(crate) fn object_of(call: &ToolCallItem) -> (Json, Option<(Feature, &'static str)>) {
    let wrapped = |member: &str, value: Json, feature, reason| (object(vec![(member.to_owned(), value)]), Some((feature, reason)));
    if call.tool_type == UnifiedToolType::Custom {
        let reason = "free text arguments are wrapped in an object";
        return wrapped("input", json(&call.raw_arguments), Feature::ToolCustom, reason);
    }
    let said = call.raw_arguments.trim();
    let parsed = if said.is_empty() {
        call.input.clone().or_else(|| Some(object(Vec::new())))
    } else {
        Json::of_arguments(said)
    };
    match parsed {
        Some(value) if value.is_object() => (value, None),
        Some(value) => {
            let reason = "arguments that are no object are wrapped in one";
            wrapped("value", value, Feature::ToolCallArguments, reason)
        }
        None => {
            let reason = "arguments that are no JSON by the rules of records are wrapped in an object";
            wrapped("raw", json(&call.raw_arguments), Feature::ToolCallArguments, reason)
        }
    }
}

/// The schema of a function's arguments as one of an object, where it is none; a schema of something else becomes one of any object.
/// The second value tells whether the schema had another type: one without a type only gets its name.
pub(crate) fn object_schema(schema: &Json) -> Option<(Json, bool)> {
    let mut members = match schema.parse() {
        serde_json::Value::Object(members) => members,
        _ => serde_json::Map::new(),
    };
    let is_object = |kind: &serde_json::Value| kind.as_str() == Some("object");
    let is_other = members.contains_key("type") || !schema.is_object();
    match members.get("type") {
        Some(kind) if is_object(kind) => return None,
        Some(serde_json::Value::Array(kinds)) if kinds.iter().any(is_object) => {}
        None if schema.is_object() => {}
        Some(_) | None => {
            members.clear();
            members.insert("properties".to_owned(), serde_json::json!({}));
        }
    }
    let mut made = serde_json::Map::from_iter([("type".to_owned(), serde_json::json!("object"))]);
    made.extend(members.into_iter().filter(|(key, _)| key != "type"));
    Some((Json::from_value(&serde_json::Value::Object(made)), is_other))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn schemas_of_arguments_are_of_objects() {
        let any = r#"{"type":"object","properties":{}}"#;
        for (schema, expected) in [
            (r#"{"type":"object","required":["a"]}"#, None),
            (r#"{"properties":{"a":{}}}"#, Some(r#"{"type":"object","properties":{"a":{}}}"#)),
            (
                r#"{"type":["object","null"],"title":"t"}"#,
                Some(r#"{"type":"object","title":"t"}"#),
            ),
            (
                r##"{"$ref":"#/$defs/a","$defs":{}}"##,
                Some(r##"{"type":"object","$ref":"#/$defs/a","$defs":{}}"##),
            ),
            ("{}", Some(r#"{"type":"object"}"#)),
            (r#"{"type":"string","minLength":1}"#, Some(any)),
            ("true", Some(any)),
            ("null", Some(any)),
        ] {
            let made = object_schema(&Json::from_text(schema.to_owned()).unwrap());
            let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(made.map(|(made, _)| made.parse()), expected.map(parsed), "{schema}");
        }
    }
}
