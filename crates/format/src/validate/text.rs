//! Places in JSON text: where a value ends, which members an object has. Everything but [`text_error`] takes text that is JSON.

use crate::json::decode::{DecodeCode, DecodeError, syntax_error};
use crate::json::scan::{key_text, string_end};
use std::borrow::Cow;

/// Why bytes are no JSON text at all.
pub(super) fn text_error(bytes: &[u8]) -> Option<DecodeError> {
    if let Err(error) = std::str::from_utf8(bytes) {
        let message = format!("the input is not UTF-8: bad byte at offset {}", error.valid_up_to());
        return Some(DecodeError::new(DecodeCode::Json, "", message));
    }
    syntax_error(bytes)
}

/// The members of the object that the text begins with; nothing when it is no object. The text must be JSON.
pub(super) fn member_names(text: &[u8]) -> Option<Vec<Cow<'_, [u8]>>> {
    let mut names = Vec::new();
    let is_object = each_member(text, skip_space(text, 0), |key, _| {
        names.push(key);
        true
    });
    is_object.then_some(names)
}

/// A number that is written without fraction and exponent and fits 64 bits; the parser takes any other one as a fraction.
pub(super) fn whole_number(text: &str) -> Option<i128> {
    if text == "-0" {
        return None;
    }
    let number: i128 = text.parse().ok()?;
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&number).then_some(number)
}

/// The text of a string, when its escapes are characters.
pub(super) fn string_text(quoted: &[u8], escapes: bool) -> Option<Cow<'_, str>> {
    if escapes {
        return serde_json::from_slice::<String>(quoted).ok().map(Cow::Owned);
    }
    let inner = quoted.get(1..quoted.len().saturating_sub(1))?;
    std::str::from_utf8(inner).ok().map(Cow::Borrowed)
}

/// The text of the string at `at`; nothing when another value stands there.
pub(super) fn tag_text(text: &[u8], at: usize) -> Option<Cow<'_, str>> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let (end, escapes) = string_end(text, at);
    string_text(text.get(at..end)?, escapes)
}

/// Shows the members of the object at `at`, each with the place of its value, until `go_on` has enough. False when there is no object.
pub(super) fn each_member<'a>(text: &'a [u8], at: usize, mut go_on: impl FnMut(Cow<'a, [u8]>, usize) -> bool) -> bool {
    if text.get(at) != Some(&b'{') {
        return false;
    }
    let mut at = skip_space(text, at + 1);
    while text.get(at) == Some(&b'"') {
        let (end, escapes) = string_end(text, at);
        let key = key_text(text.get(at..end).unwrap_or_default(), escapes);
        let colon = skip_space(text, end);
        let value = skip_space(text, colon + 1);
        if !go_on(key, value) {
            break;
        }
        at = skip_space(text, value_end(text, value));
        if text.get(at) == Some(&b',') {
            at = skip_space(text, at + 1);
        }
    }
    true
}

pub(super) fn skip_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = text.get(at) {
        at += 1;
    }
    at
}

/// Place after the number or literal at `at`.
pub(super) fn word_end(text: &[u8], mut at: usize) -> usize {
    while text
        .get(at)
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
    {
        at += 1;
    }
    at
}

/// Place after the value at `at`.
pub(super) fn value_end(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at = string_end(text, at).0;
            }
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            _ => at = word_end(text, at).max(at + 1),
        }
        if depth == 0 {
            break;
        }
    }
    at
}
