//! A small language for closed shapes. It has no open object, so that none can be registered.

use crate::json::Json;
use crate::validate::{Check, Rule};
use serde_json::{Value, json};

/// The shape of a value. Texts count characters.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Text.
    Text {
        /// Most characters.
        max: usize,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// A JSON Pointer.
    Pointer {
        /// Most characters.
        max: usize,
    },
    /// A finite number.
    Number,
    /// A whole number within ±(2^53-1).
    Whole,
    /// True or false.
    Flag,
    /// A list.
    List {
        /// Most elements.
        max: usize,
        /// Shape of each.
        of: &'static Shape,
    },
    /// An object with these members and no others.
    Object(&'static [Member]),
    /// Any value, of bounded size; only in schemas that are owner-private.
    Opaque {
        /// Most bytes of JSON text.
        max: usize,
    },
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// Its shape.
    pub shape: Shape,
    /// Whether it is there always.
    pub required: bool,
}

pub(super) const fn member(name: &'static str, shape: Shape) -> Member {
    Member {
        name,
        shape,
        required: true,
    }
}

pub(super) const fn optional(name: &'static str, shape: Shape) -> Member {
    Member {
        name,
        shape,
        required: false,
    }
}

impl Shape {
    /// Checks a value whose depth and size are known to be bounded.
    pub(crate) fn check(&self, check: &mut Check, payload: &Json) {
        let value = payload.parse();
        // Values to look at, with their place: no recursion, whatever the shapes are.
        let mut open: Vec<(String, &Self, &Value)> = vec![(String::new(), self, &value)];
        while let Some((at, shape, value)) = open.pop() {
            check.below(&at, |check| shape.check_one(check, &at, value, &mut open));
        }
    }

    fn check_one<'v>(&self, check: &mut Check, at: &str, value: &'v Value, open: &mut Vec<(String, &Self, &'v Value)>) {
        let mut wrong = |expected: &str| check.broken(Rule::AnnotationShape, format_args!("expected {expected}"));
        match (self, value) {
            (Self::Text { max }, Value::String(text)) if text.chars().count() <= *max => {}
            (Self::Text { max }, _) => wrong(&format!("text of at most {max} characters")),
            (Self::Word(words), Value::String(text)) if words.contains(&text.as_str()) => {}
            (Self::Word(words), _) => wrong(&format!("one of {}", words.join(", "))),
            (Self::Pointer { max }, Value::String(text)) if text.chars().count() <= *max && crate::json::is_pointer(text) => {}
            (Self::Pointer { max }, _) => wrong(&format!("a JSON Pointer of at most {max} characters")),
            (Self::Number, Value::Number(_)) | (Self::Flag, Value::Bool(_)) => {}
            (Self::Number, _) => wrong("a number"),
            (Self::Flag, _) => wrong("true or false"),
            (Self::Whole, Value::Number(n)) if n.as_i64().is_some_and(|n| n.unsigned_abs() <= crate::MAX_SAFE_INTEGER) => {}
            (Self::Whole, _) => wrong("a whole number within 2^53-1"),
            (Self::List { max, of }, Value::Array(list)) if list.len() <= *max => {
                open.extend(list.iter().enumerate().rev().map(|(i, v)| (format!("{at}/{i}"), *of, v)));
            }
            (Self::List { max, .. }, _) => wrong(&format!("a list of at most {max}")),
            (Self::Object(members), Value::Object(found)) => {
                for known in *members {
                    match found.get(known.name) {
                        Some(v) => open.push((format!("{at}/{}", known.name), &known.shape, v)),
                        None if known.required => check.broken(Rule::AnnotationShape, format_args!("the member {} is missing", known.name)),
                        None => {}
                    }
                }
                for key in found.keys().filter(|key| members.iter().all(|m| m.name != key.as_str())) {
                    check.broken_at(key, Rule::AnnotationShape, "the schema has no such member");
                }
            }
            (Self::Object(_), _) => wrong("an object"),
            (Self::Opaque { max }, value) => {
                if value.to_string().len() > *max {
                    wrong(&format!("at most {max} bytes of JSON text"));
                }
            }
        }
    }

    /// Whether the shape holds a value of any shape.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Opaque { .. } => true,
            Self::List { of, .. } => of.is_open(),
            Self::Object(members) => members.iter().any(|m| m.shape.is_open()),
            Self::Text { .. } | Self::Word(_) | Self::Pointer { .. } | Self::Number | Self::Whole | Self::Flag => false,
        }
    }

    /// As JSON Schema.
    pub(super) fn to_json_schema(self) -> Value {
        match self {
            Self::Text { max } => json!({"type": "string", "maxLength": max}),
            Self::Word(words) => json!({"enum": words}),
            Self::Pointer { max } => json!({"type": "string", "format": "json-pointer", "maxLength": max}),
            Self::Number => json!({"type": "number"}),
            Self::Whole => json!({"type": "integer", "minimum": -9_007_199_254_740_991_i64, "maximum": 9_007_199_254_740_991_i64}),
            Self::Flag => json!({"type": "boolean"}),
            Self::List { max, of } => json!({"type": "array", "maxItems": max, "items": of.to_json_schema()}),
            Self::Object(members) => {
                let properties: serde_json::Map<_, _> = members.iter().map(|m| (m.name.to_owned(), m.shape.to_json_schema())).collect();
                let required: Vec<_> = members.iter().filter(|m| m.required).map(|m| m.name).collect();
                json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
            }
            Self::Opaque { max } => json!({"description": format!("Any value of at most {max} bytes of JSON text.")}),
        }
    }
}

/// What is left of a list or object that is being walked, and where it stands.
enum Frame<'v> {
    List {
        place: usize,
        next: usize,
        rest: std::slice::Iter<'v, Value>,
    },
    Object {
        place: usize,
        rest: serde_json::map::Iter<'v>,
    },
}

/// No text or key in the payload is a credential, and no member has a credential's name.
pub(super) fn credentials(check: &mut Check, payload: &Json) {
    let value = payload.parse();
    let root = check.place();
    let mut open = Vec::new();
    enter(check, &value, &mut open);
    while let Some(frame) = open.last_mut() {
        let value = match frame {
            Frame::List { place, next, rest } => {
                check.back_to(*place);
                let Some(value) = rest.next() else {
                    open.pop();
                    continue;
                };
                check.go(&next.to_string());
                *next += 1;
                value
            }
            Frame::Object { place, rest } => {
                check.back_to(*place);
                let Some((key, value)) = rest.next() else {
                    open.pop();
                    continue;
                };
                let named = crate::secrets::is_credential_name(key) && value.as_str().is_some_and(|v| !v.is_empty());
                if named || crate::secrets::find(key).is_some() {
                    check.broken(Rule::Secret, "a member is named as credentials are, or is one");
                }
                check.go(key);
                value
            }
        };
        enter(check, value, &mut open);
    }
    check.back_to(root);
}

fn enter<'v>(check: &mut Check, value: &'v Value, open: &mut Vec<Frame<'v>>) {
    let place = check.place();
    match value {
        Value::String(text) => {
            if let Some(kind) = crate::secrets::find(text) {
                check.broken(Rule::Secret, format_args!("it looks like {kind}"));
            }
        }
        Value::Array(list) => open.push(Frame::List {
            place,
            next: 0,
            rest: list.iter(),
        }),
        Value::Object(members) => open.push(Frame::Object {
            place,
            rest: members.iter(),
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
