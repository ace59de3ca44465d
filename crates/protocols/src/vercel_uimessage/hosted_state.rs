//! Private state that providers' packages show inside the input and output of their hosted tools.
//!
//! It is of use to its provider only, so that the record holds the rest, and the member as written stays in the private copy.

use crate::raw::{self, json, object};
use throughline_format::Json;

/// Members that hold such state, without the marks and the case that packages and wires spell them with.
const PRIVATE: &[&str] = &["container", "containerid", "redacteddata", "signature", "thoughtsignature"];
/// How the names of the others begin.
const SEALED: &str = "encrypted";
/// How deep JSON inside of texts is looked into.
const DEPTH: usize = 4;

/// The value without such members; none when it has none.
pub(super) fn without(value: &Json) -> Option<Json> {
    stripped(value, DEPTH)
}

fn is_private(key: &str) -> bool {
    let plain: String = key
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect::<String>()
        .to_ascii_lowercase();
    plain.starts_with(SEALED) || PRIVATE.contains(&plain.as_str())
}

fn stripped(value: &Json, depth: usize) -> Option<Json> {
    if let Ok(text) = value.decode::<String>() {
        // Some packages give their output as the text of a value.
        let begins = text.trim_start().starts_with(['{', '[']);
        let inner = begins.then(|| Json::from_text(text).ok()).flatten()?;
        return stripped(&inner, depth.checked_sub(1)?).map(|changed| json(changed.as_str()));
    }
    if let Ok(list) = value.decode::<Vec<Json>>() {
        let mut is_changed = false;
        let kept: Vec<Json> = list.into_iter().map(|inner| replaced(inner, depth, &mut is_changed)).collect();
        return is_changed.then(|| json(&kept));
    }
    if !value.is_object() {
        return None;
    }
    let mut is_changed = false;
    let mut kept = Vec::new();
    for (key, inner) in raw::members(value) {
        if is_private(&key) && inner.as_str() != "null" {
            is_changed = true;
        } else {
            kept.push((key, replaced(inner, depth, &mut is_changed)));
        }
    }
    is_changed.then(|| object(kept))
}

fn replaced(inner: Json, depth: usize, is_changed: &mut bool) -> Json {
    match stripped(&inner, depth) {
        Some(changed) => {
            *is_changed = true;
            changed
        }
        None => inner,
    }
}
