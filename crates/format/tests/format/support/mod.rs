//! Samples of every record and what walks over them.

pub(crate) mod events;
pub(crate) mod fields;
pub(crate) mod log;
pub(crate) mod parts;
pub(crate) mod records;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use throughline_format::json::decode_str;

/// Decodes a sample; the sample is at fault when that fails.
pub(crate) fn parse<T: DeserializeOwned>(sample: &Value) -> T {
    decode_str(&sample.to_string()).unwrap_or_else(|e| panic!("{e} in {sample}"))
}

/// The JSON of a record as a value.
pub(crate) fn json_of<T: Serialize>(record: &T) -> Value {
    serde_json::from_str(&serde_json::to_string(record).unwrap()).unwrap()
}

/// Opaque JSON in a sample is an object with this key alone, so that walkers know it.
pub(crate) const OPAQUE: &str = "opaque";
/// Keys of free maps in samples begin so.
pub(crate) const MAP_KEY: &str = "map:";

pub(crate) fn is_opaque(value: &Value) -> bool {
    value.as_object().is_some_and(|o| o.len() == 1 && o.contains_key(OPAQUE))
}

pub(crate) fn is_map(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|o| !o.is_empty() && o.keys().all(|k| k.starts_with(MAP_KEY)))
}

/// JSON Pointers of every value of a sample, opaque values not entered.
pub(crate) fn pointers(sample: &Value) -> Vec<String> {
    fn walk(value: &Value, at: &str, out: &mut Vec<String>) {
        out.push(at.to_owned());
        match value {
            Value::Object(members) if !is_opaque(value) => members.iter().for_each(|(key, v)| walk(v, &format!("{at}/{key}"), out)),
            Value::Array(items) => items.iter().enumerate().for_each(|(i, v)| walk(v, &format!("{at}/{i}"), out)),
            _ => {}
        }
    }
    let mut out = Vec::new();
    walk(sample, "", &mut out);
    out
}

/// The pointer's parent and last token.
pub(crate) fn split(pointer: &str) -> (&str, &str) {
    pointer.rsplit_once('/').unwrap_or(("", pointer))
}
