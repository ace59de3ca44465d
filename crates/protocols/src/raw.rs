//! Raw JSON of a wire object: read, changed and put back by JSON Pointer without touching what stands beside it.
//!
//! Values stay as they were written (providers cache and sign bytes), members stay in their order.

use crate::wire::{Extra, wire};
use throughline_format::Json;
use throughline_format::json::escape_pointer_token;
use throughline_format::resource::{UnmappedEntry, UnmappedPayload};

wire! {
    /// Any object.
    pub struct Members {}
}

/// An object of these members.
pub fn object(members: Vec<(String, Json)>) -> Json {
    json(&Members { extra: Extra(members) })
}

/// Any value of a wire as JSON; values of a wire always have a JSON form.
pub fn json<T: serde::Serialize + ?Sized>(value: &T) -> Json {
    Json::from_serialize(value).unwrap_or_else(|_| Json::null())
}

/// A number without a needless fraction.
pub fn number(value: f64) -> Json {
    #[allow(clippy::cast_possible_truncation)] // whole and far inside the range of i64
    if value.fract() == 0.0 && value.abs() < 1e15 {
        json(&(value as i64))
    } else {
        json(&value)
    }
}

/// The members of an object; none when it is another value.
pub fn members(value: &Json) -> Vec<(String, Json)> {
    value.decode::<Members>().map(|m| m.extra.0).unwrap_or_default()
}

/// A member of an object.
pub fn get(value: &Json, key: &str) -> Option<Json> {
    members(value)
        .into_iter()
        .find(|(name, _)| name == key)
        .map(|(_, value)| value)
        .filter(|value| value.as_str() != "null")
}

/// Members of an object as pointers and values below `prefix`.
pub fn below(prefix: &str, members: Vec<(String, Json)>) -> Vec<(String, Json)> {
    members
        .into_iter()
        .map(|(key, value)| (format!("{prefix}/{}", escape_pointer_token(&key)), value))
        .collect()
}

/// The entries of an unmapped payload.
pub fn entries(payload: &[u8]) -> Vec<UnmappedEntry> {
    serde_json::from_slice::<UnmappedPayload>(payload)
        .map(|p| p.entries)
        .unwrap_or_default()
}

/// Puts fields back into an object.
pub fn put_all(json: Json, entries: &[UnmappedEntry]) -> Json {
    entries.iter().fold(json, |json, entry| put(&json, &entry.pointer, &entry.value))
}

/// The object with the value at the pointer; `null` takes the member away. Missing objects on the way are made, what cannot
/// be placed is left out.
pub fn put(json: &Json, pointer: &str, value: &Json) -> Json {
    let Some(rest) = pointer.strip_prefix('/') else {
        return value.clone();
    };
    let (token, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let token = throughline_format::json::unescape_pointer_token(token).into_owned();
    let changed = if json.is_object() {
        let Ok(mut members) = json.decode::<Members>() else {
            return json.clone();
        };
        let list = &mut members.extra.0;
        if rest.is_empty() && value.as_str() == "null" {
            list.retain(|(key, _)| *key != token);
        } else if let Some((_, old)) = list.iter_mut().find(|(key, _)| *key == token) {
            *old = put(old, rest, value);
        } else {
            list.push((token, put(&object(Vec::new()), rest, value)));
        }
        Json::from_serialize(&members)
    } else {
        let Ok(mut list) = json.decode::<Vec<Json>>() else {
            return json.clone();
        };
        if let Some(old) = token.parse::<usize>().ok().and_then(|index| list.get_mut(index)) {
            *old = put(old, rest, value);
        }
        Json::from_serialize(&list)
    };
    changed.unwrap_or_else(|_| json.clone())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn members_are_put_replaced_and_taken_away() {
        let cases = [
            (r#"{"a":1}"#, "/b/c", "2", r#"{"a":1,"b":{"c":2}}"#),
            (r#"{"a":1.50,"b":2}"#, "/b", "null", r#"{"a":1.50}"#),
            (r#"{"a":[{"x":1},{"x":2}]}"#, "/a/1/x", "3", r#"{"a":[{"x":1},{"x":3}]}"#),
            (r#"{"a":[1]}"#, "/a/7", "3", r#"{"a":[1]}"#),
            (r#"{"a/b":1}"#, "/a~1b", "2", r#"{"a/b":2}"#),
            ("5", "/a", "2", "5"),
            (r#"{"a":1}"#, "", "[2]", "[2]"),
        ];
        for (object, pointer, value, expected) in cases {
            let text = |t: &str| Json::from_text(t.to_owned()).unwrap();
            assert_eq!(put(&text(object), pointer, &text(value)).as_str(), expected, "{object} {pointer}");
        }
    }
}
