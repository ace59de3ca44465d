//! JSON pointers, paths with `*`, and `where` patterns of the case format.

use serde_json::Value;
use throughline_format::json::unescape_pointer_token;

/// Compact JSON, not escaped beyond what JSON demands.
pub(crate) fn compact(value: &Value) -> String {
    value.to_string()
}

/// One step of a pointer; a negative index counts from the end.
fn step<'a>(value: &'a Value, token: &str) -> Option<&'a Value> {
    match value {
        Value::Array(elements) => {
            let index: i64 = token.parse().ok()?;
            let length = i64::try_from(elements.len()).ok()?;
            let index = if index < 0 { index + length } else { index };
            elements.get(usize::try_from(index).ok()?)
        }
        Value::Object(members) => members.get(token),
        _ => None,
    }
}

/// The value at a pointer.
pub(crate) fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer
        .split('/')
        .skip(1)
        .try_fold(value, |value, token| step(value, &unescape_pointer_token(token)))
}

/// Every value at a path in which `*` matches any key or index.
pub(crate) fn select<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = vec![value];
    for token in path.split('/').skip(1) {
        let token = unescape_pointer_token(token);
        found = found
            .into_iter()
            .flat_map(|node| match (token.as_ref(), node) {
                ("*", Value::Array(elements)) => elements.iter().collect(),
                ("*", Value::Object(members)) => members.values().collect(),
                ("*", _) => Vec::new(),
                (token, node) => step(node, token).into_iter().collect(),
            })
            .collect();
    }
    found
}

/// Whether a value contains a pattern. `"*"`: there and not null; `{one_of}`, `{present}`; a key may be a path.
pub(crate) fn fits(value: Option<&Value>, pattern: &Value) -> bool {
    match pattern {
        Value::String(star) if star == "*" => value.is_some_and(|v| !v.is_null()),
        Value::Object(members) => {
            if let (1, Some(Value::Array(choices))) = (members.len(), members.get("one_of")) {
                return value.is_some_and(|v| choices.iter().any(|choice| equal(v, choice)));
            }
            if let (1, Some(Value::Bool(present))) = (members.len(), members.get("present")) {
                return value.is_some() == *present;
            }
            value.is_some_and(|v| v.is_object() && members.iter().all(|(key, sub)| fits(at(v, &format!("/{key}")), sub)))
        }
        pattern => value.is_some_and(|v| equal(v, pattern)),
    }
}

/// JSON equality: key order does not matter, and 1 is 1.0.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| equal(v, w))),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(v, w)| equal(v, w)),
        (Value::Number(n), Value::Number(m)) => n == m || (n.as_f64().is_some() && n.as_f64() == m.as_f64()),
        (a, b) => a == b,
    }
}

/// Number of object keys of a name anywhere.
pub(crate) fn count_keys(value: &Value, name: &str) -> usize {
    match value {
        Value::Object(members) => members.iter().map(|(k, v)| usize::from(k == name) + count_keys(v, name)).sum(),
        Value::Array(elements) => elements.iter().map(|v| count_keys(v, name)).sum(),
        _ => 0,
    }
}

/// Whether some string of the value contains a text.
pub(crate) fn has_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string.contains(text),
        Value::Object(members) => members.values().any(|v| has_text(v, text)),
        Value::Array(elements) => elements.iter().any(|v| has_text(v, text)),
        _ => false,
    }
}

/// A member as text, empty when there is none.
pub(crate) fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pointers_count_from_both_ends_and_stars_match_everything() {
        let value = json!({"a": [{"b": 1}, {"b": 2}], "x/y": {"~": null}});
        for (pointer, expected) in [
            ("/a/0/b", Some(json!(1))),
            ("/a/-1/b", Some(json!(2))),
            ("/a/-3", None),
            ("/a/2", None),
            ("/x~1y/~0", Some(json!(null))),
            ("", Some(value.clone())),
        ] {
            assert_eq!(at(&value, pointer).cloned(), expected, "{pointer}");
        }
        assert_eq!(select(&value, "/a/*/b"), [&json!(1), &json!(2)]);
        assert_eq!(select(&value, "/*/~0"), [&json!(null)]);
    }

    #[test]
    fn patterns_fit_what_they_describe_and_nothing_else() {
        let value = json!({"type": "x", "n": 1, "none": null, "in": {"k": ""}});
        for (pattern, expected) in [
            (json!({"type": "x"}), true),
            (json!({"type": "y"}), false),
            (json!({"n": 1.0}), true),
            (json!({"none": "*"}), false),
            (json!({"in": "*"}), true),
            (json!({"in/k": ""}), true),
            (json!({"type": {"one_of": ["a", "x"]}}), true),
            (json!({"gone": {"present": false}}), true),
            (json!({"none": {"present": false}}), false),
        ] {
            assert_eq!(fits(Some(&value), &pattern), expected, "{pattern}");
        }
        assert!(!equal(&json!(true), &json!(1)));
    }
}
