//! One pass over raw JSON that refuses what the parser would let through: deep nesting and duplicate keys.
//!
//! The scan keeps its own stack, so hostile depth costs no machine stack, and its work is linear in the input.
//! It checks structure only as far as it must to find keys and depth; the parser that follows reports syntax errors.

use super::decode::{DecodeCode, DecodeError};
use super::escape_pointer_token;
use std::borrow::Cow;
use std::collections::HashSet;

/// Nesting that a record or wire body may have (architecture.md, Limits).
pub const MAX_DEPTH: usize = 64;

/// Nesting of a value that records and wire bodies are put around: what stands around it must not exceed [`MAX_DEPTH`].
pub const MAX_EMBEDDED_DEPTH: usize = 48;

/// Members of one object up to which duplicates are found by comparing all pairs; beyond it a set is used.
const LINEAR_KEYS: usize = 16;

enum Frame<'a> {
    Object {
        keys: Keys<'a>,
        key: Cow<'a, [u8]>,
        expect_key: bool,
    },
    Array {
        index: usize,
    },
}

/// The keys of one object.
#[derive(Default)]
pub(crate) struct Keys<'a> {
    few: Vec<Cow<'a, [u8]>>,
    many: HashSet<Cow<'a, [u8]>>,
}

impl<'a> Keys<'a> {
    /// Adds a key; false when it was there.
    pub(crate) fn insert(&mut self, key: Cow<'a, [u8]>) -> bool {
        if self.many.is_empty() && self.few.len() < LINEAR_KEYS {
            if self.few.contains(&key) {
                return false;
            }
            self.few.push(key);
            return true;
        }
        if self.many.is_empty() {
            self.many.extend(self.few.drain(..));
        }
        self.many.insert(key)
    }

    /// Whether a key is there.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.few.iter().any(|known| **known == *key) || self.many.contains(key)
    }
}

/// Checks depth and duplicate keys of one JSON text.
///
/// Keys are compared as their decoded text, so `"a"` and `"\u0061"` are duplicates.
///
/// # Errors
/// [`DecodeCode::TooDeep`] or [`DecodeCode::DuplicateKey`] with the JSON Pointer of the place.
pub fn check(bytes: &[u8]) -> Result<(), DecodeError> {
    check_depth(bytes, MAX_DEPTH)
}

/// [`check`] with a depth of the caller's choice.
///
/// # Errors
/// As [`check`].
pub fn check_depth(bytes: &[u8], max_depth: usize) -> Result<(), DecodeError> {
    let mut stack: Vec<Frame<'_>> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let (end, escapes) = string_end(bytes, at);
                if let Some(Frame::Object { keys, key, expect_key }) = stack.last_mut()
                    && *expect_key
                {
                    *key = key_text(bytes.get(at..end).unwrap_or_default(), escapes);
                    *expect_key = false;
                    if !keys.insert(key.clone()) {
                        return Err(DecodeError::new(
                            DecodeCode::DuplicateKey,
                            pointer(&stack),
                            "this key stands twice in its object; keep one",
                        ));
                    }
                }
                at = end;
                continue;
            }
            b'{' | b'[' => {
                if stack.len() >= max_depth {
                    return Err(DecodeError::new(
                        DecodeCode::TooDeep,
                        pointer(&stack),
                        format!("nesting goes beyond {max_depth} levels"),
                    ));
                }
                stack.push(if byte == b'{' {
                    Frame::Object {
                        keys: Keys::default(),
                        key: Cow::Borrowed(&[]),
                        expect_key: true,
                    }
                } else {
                    Frame::Array { index: 0 }
                });
            }
            b'}' | b']' => {
                stack.pop();
            }
            b',' => match stack.last_mut() {
                Some(Frame::Object { expect_key, .. }) => *expect_key = true,
                Some(Frame::Array { index }) => *index += 1,
                None => {}
            },
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// The key that a quoted text spells; as it stands when its escapes are none of JSON's, which the parser then says.
pub(crate) fn key_text(quoted: &[u8], escapes: bool) -> Cow<'_, [u8]> {
    if escapes && let Ok(text) = serde_json::from_slice::<String>(quoted) {
        return Cow::Owned(text.into_bytes());
    }
    Cow::Borrowed(quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default())
}

/// Position after the closing quote of the string that starts at `at`, and whether it holds an escape.
pub(crate) fn string_end(bytes: &[u8], at: usize) -> (usize, bool) {
    let mut escapes = false;
    let mut end = at + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(end..).unwrap_or_default()) {
        if bytes.get(end + found) == Some(&b'"') {
            return (end + found + 1, escapes);
        }
        escapes = true;
        end += found + 2;
    }
    (bytes.len().max(at + 1), escapes)
}

fn pointer(stack: &[Frame<'_>]) -> String {
    let mut out = String::new();
    for frame in stack {
        out.push('/');
        match frame {
            Frame::Object { key, .. } => out.push_str(&escape_pointer_token(&String::from_utf8_lossy(key))),
            Frame::Array { index } => out.push_str(&index.to_string()),
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    fn problem(text: &str) -> Option<(DecodeCode, String)> {
        check(text.as_bytes()).err().map(|e| (e.code, e.pointer))
    }

    #[test]
    fn depth_and_duplicates_are_found_with_their_place() {
        assert_eq!(problem(r#"{"a":[1,{"b":2}]}"#), None);
        assert_eq!(
            problem(r#"{"a":[1,{"b":2,"b":3}]}"#),
            Some((DecodeCode::DuplicateKey, "/a/1/b".into()))
        );
        assert_eq!(problem(r#"{"a":{"x":1},"b":{"x":1}}"#), None);
        assert_eq!(problem(r#"{"a/b":1,"a/b":1}"#), Some((DecodeCode::DuplicateKey, "/a~1b".into())));
        assert_eq!(problem(r#"{"a":1,"\u0061":1}"#), Some((DecodeCode::DuplicateKey, "/a".into())));
        assert_eq!(
            problem(r#"[0,{"x":{"a\u0062":1,"ab":1}}]"#),
            Some((DecodeCode::DuplicateKey, "/1/x/ab".into()))
        );
        assert_eq!(problem(r#"{"a":"{\"a\":1,\"a\":2}"}"#), None);
        let many: Vec<String> = (0..40).map(|i| format!("\"k{i}\":0")).collect();
        assert_eq!(problem(&format!("{{{}}}", many.join(","))), None);
        assert_eq!(
            problem(&format!("{{{},\"k7\":1}}", many.join(","))).map(|p| p.0),
            Some(DecodeCode::DuplicateKey)
        );
    }

    #[test]
    fn hostile_depth_costs_no_stack() {
        assert!(problem(&"[".repeat(MAX_DEPTH)).is_none());
        let deep = "[".repeat(3_000_000);
        assert_eq!(problem(&deep).map(|p| p.0), Some(DecodeCode::TooDeep));
    }
}
