//! Private state that providers' packages show inside the input and output of their hosted tools.
//!
//! It is of use to its provider only, so that the record holds the rest, and the member as written stays in the private copy.

use crate::raw::{self, json, object};
use throughline_format::Json;

/// Members that hold such state, in the spelling of the packages and of the wires below them.
const PRIVATE: &[&str] = &[
    "encryptedContent",
    "encrypted_content",
    "encryptedIndex",
    "encrypted_index",
    "encryptedStdout",
    "encrypted_stdout",
    "containerId",
    "container_id",
];

/// The value without such members; none when it has none.
pub(super) fn without(value: &Json) -> Option<Json> {
    // Most values have none, and are not taken apart.
    PRIVATE
        .iter()
        .any(|key| value.as_str().contains(key))
        .then(|| stripped(value))
        .flatten()
}

fn stripped(value: &Json) -> Option<Json> {
    if let Ok(list) = value.decode::<Vec<Json>>() {
        let mut is_changed = false;
        let kept: Vec<Json> = list.into_iter().map(|inner| replaced(inner, &mut is_changed)).collect();
        return is_changed.then(|| json(&kept));
    }
    if !value.is_object() {
        return None;
    }
    let mut is_changed = false;
    let mut kept = Vec::new();
    for (key, inner) in raw::members(value) {
        if PRIVATE.contains(&key.as_str()) && inner.as_str() != "null" {
            is_changed = true;
        } else {
            kept.push((key, replaced(inner, &mut is_changed)));
        }
    }
    is_changed.then(|| object(kept))
}

fn replaced(inner: Json, is_changed: &mut bool) -> Json {
    match without(&inner) {
        Some(changed) => {
            *is_changed = true;
            changed
        }
        None => inner,
    }
}
