//! What a newer schema takes away from an older one. A minor version of the format only adds (spec, Versioning).

use serde_json::Value;
use std::collections::BTreeSet;

/// Members of a schema that say nothing about what it takes.
const SILENT: [&str; 3] = ["description", "$id", "title"];

/// Every change from `old` to `new` that is not an addition, each with its JSON Pointer into the old schema.
///
/// Additions are: a definition, an optional member, a word, a kind, another form of a value. Everything else that differs is
/// a change of required members or of meaning and needs a new major version. The work does not recur into references, so
/// it is linear in the schema.
pub fn breaking_changes(old: &Value, new: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let mut todo = vec![(String::new(), old, new)];
    while let Some((at, old, new)) = todo.pop() {
        let (Value::Object(old), Value::Object(new)) = (old, new) else {
            if old != new {
                out.push(format!("{at}: it is another schema"));
            }
            continue;
        };
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).filter(|key| !SILENT.contains(&key.as_str())).collect();
        for key in keys {
            let place = format!("{at}/{key}");
            match (key.as_str(), old.get(key), new.get(key)) {
                ("$defs" | "properties", Some(Value::Object(before)), Some(Value::Object(after))) => {
                    for (name, schema) in before {
                        match after.get(name) {
                            Some(found) => todo.push((format!("{place}/{name}"), schema, found)),
                            None => out.push(format!("{place}/{name}: it is gone")),
                        }
                    }
                }
                ("properties", None, Some(Value::Object(_))) => {}
                // A new required member would refuse every record that was written before.
                ("required", before, after) => {
                    let (before, after) = (words(before), words(after));
                    out.extend(before.difference(&after).map(|name| format!("{place}: {name} was required")));
                    out.extend(after.difference(&before).map(|name| format!("{place}: {name} was not required")));
                }
                ("enum", before @ Some(_), after @ Some(_)) => {
                    let (before, after) = (words(before), words(after));
                    out.extend(before.difference(&after).map(|word| format!("{place}: {word} is gone")));
                }
                ("oneOf" | "anyOf", Some(Value::Array(before)), Some(Value::Array(after))) => {
                    forms(&mut out, &mut todo, &place, before, after);
                }
                (_, Some(before), Some(after)) if key == "items" || key == "additionalProperties" => todo.push((place, before, after)),
                (_, before, after) => {
                    if before != after {
                        out.push(format!("{place}: it changed"));
                    }
                }
            }
        }
    }
    out.sort();
    out
}

/// The forms of a value: each of the old ones must still be there; those that are no reference are compared by their place.
fn forms<'a>(out: &mut Vec<String>, todo: &mut Vec<(String, &'a Value, &'a Value)>, place: &str, old: &'a [Value], new: &'a [Value]) {
    for (index, form) in old.iter().enumerate() {
        let place = format!("{place}/{index}");
        match (form.get("$ref"), new.get(index)) {
            (Some(reference), _) if new.iter().any(|f| f.get("$ref") == Some(reference)) => {}
            (None, Some(found)) => todo.push((place, form, found)),
            _ => out.push(format!("{place}: it is gone")),
        }
    }
}

fn words(list: Option<&Value>) -> BTreeSet<String> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned))
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use serde_json::json;

    fn old() -> Value {
        json!({"$defs": {
            "A": {"description": "a", "type": "object", "properties": {"x": {"type": "string"}, "y": {"$ref": "#/$defs/W"}}, "required": ["x"], "additionalProperties": false},
            "W": {"enum": ["a", "b"]},
            "U": {"oneOf": [{"$ref": "#/$defs/A"}]},
            "O": {"anyOf": [{"enum": ["p"]}, {"type": "string"}]},
        }})
    }

    /// The old schema with `value` at `pointer`, a member that need not be there yet.
    fn with(pointer: &str, value: Value) -> Value {
        let mut schema = old();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match schema.pointer_mut(parent).unwrap() {
            Value::Array(list) => list.push(value),
            parent => parent[key] = value,
        }
        schema
    }

    #[test]
    fn additions_are_no_breaking_changes() {
        for new in [
            old(),
            with("/$defs/B", json!({"type": "string"})),
            with("/$defs/A/properties/z", json!({"type": "number"})),
            with("/$defs/A/description", json!("something else")),
            with("/$defs/W/enum/-", json!("c")),
            with("/$defs/U/oneOf/-", json!({"$ref": "#/$defs/B"})),
        ] {
            assert_eq!(breaking_changes(&old(), &new), Vec::<String>::new(), "{new}");
        }
    }

    #[test]
    fn what_is_taken_away_or_changed_is_told_with_its_place() {
        for (pointer, value, place) in [
            (
                "/$defs/A/properties",
                json!({"y": {"$ref": "#/$defs/W"}}),
                "/$defs/A/properties/x: it is gone",
            ),
            (
                "/$defs/A/properties/x",
                json!({"type": "number"}),
                "/$defs/A/properties/x/type: it changed",
            ),
            (
                "/$defs/A/properties/y",
                json!({"$ref": "#/$defs/V"}),
                "/$defs/A/properties/y/$ref: it changed",
            ),
            ("/$defs/A/required/-", json!("y"), "/$defs/A/required: y was not required"),
            ("/$defs/A/required", json!([]), "/$defs/A/required: x was required"),
            (
                "/$defs/A/additionalProperties",
                json!(true),
                "/$defs/A/additionalProperties: it is another schema",
            ),
            ("/$defs/A/pattern", json!("x"), "/$defs/A/pattern: it changed"),
            ("/$defs/W/enum", json!(["a"]), "/$defs/W/enum: b is gone"),
            ("/$defs/U/oneOf", json!([]), "/$defs/U/oneOf/0: it is gone"),
            ("/$defs/O/anyOf", json!([{"enum": ["p"]}]), "/$defs/O/anyOf/1: it is gone"),
        ] {
            assert_eq!(breaking_changes(&old(), &with(pointer, value)), [place], "{pointer}");
        }
    }
}
