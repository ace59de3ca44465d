//! What a record is made of: members, types, discriminators, words. Every mistake is listed, not only the first.
//!
//! It reads text by the description of its type ([`crate::shape`]) and says what decoding would say: decoding succeeds
//! exactly when nothing is found here. The walk has a stack of its own, so nesting costs no machine stack; its work is linear in
//! the text, but for the look ahead for the `kind` of each union around a value.

use super::text::{each_member, skip_space, string_text, tag_text, text_error, value_end, whole_number, word_end};
use super::{Rule, VALIDATION, Violation, check::MAX_LISTED};
use crate::json::decode::{DecodeCode, DecodeError};
use crate::json::escape_pointer_token;
use crate::json::scan::{Keys, MAX_DEPTH, key_text, string_end};
use crate::profile::SchemaVersion;
use crate::shape::{Member, RecordShape, Scalar, Shape, ShapeOf, UnionShape, Variant};
use crate::{MAX_SAFE_INTEGER, Sha256, Timestamp, UnifiedId};
use std::borrow::Cow;

/// Longest key that a pointer names; what is wrong below a longer one is told at the object that holds it.
const MAX_KEY: usize = 128;
/// Bytes of pointers that are listed; bounds the report together with [`MAX_LISTED`].
const MAX_POINTER_BYTES: usize = 4 * 1024 * 1024;
/// Longest list of names in a message.
const MAX_MESSAGE_CHARS: usize = 400;

/// Largest item as JSON text, in bytes.
pub const MAX_ITEM_BYTES: usize = 8 * 1024 * 1024;
/// Largest event as JSON text, in bytes.
pub const MAX_EVENT_BYTES: usize = 1024 * 1024;

/// Lists everything that is wrong with the structure of `bytes` as a value of `shape`.
pub fn structure(bytes: &[u8], shape: Shape) -> Vec<Violation> {
    walk(bytes, shape, false)
}

/// [`structure`], and that no item and no event in it is larger than a store takes, which decoding does not look at.
pub fn structure_and_sizes(bytes: &[u8], shape: Shape) -> Vec<Violation> {
    walk(bytes, shape, true)
}

fn walk(bytes: &[u8], shape: Shape, has_sizes: bool) -> Vec<Violation> {
    if let Some(error) = text_error(bytes) {
        return vec![error.into()];
    }
    let mut walk = Walk {
        has_sizes,
        text: bytes,
        at: 0,
        stack: Vec::new(),
        found: Vec::new(),
        pointer_bytes: 0,
        left_off: 0,
    };
    walk.run(shape);
    walk.report()
}

/// What is expected at a place.
#[derive(Clone, Copy)]
enum Expected {
    /// A value of this shape.
    Shape(Shape),
    /// Anything: opaque JSON, or something that is wrong already. Only depth and keys are looked at.
    Anything,
}

/// What the members of an object are checked against.
#[derive(Clone, Copy)]
enum Members {
    Record(&'static RecordShape),
    /// With no variant the kind is wrong already, so that members of its own are not known.
    Union(&'static UnionShape, Option<&'static Variant>),
    Map(ShapeOf),
    Anything,
}

impl Members {
    fn member(self, key: &str) -> Option<&'static Member> {
        match self {
            Self::Record(record) => record.member(key),
            Self::Union(union, variant) => union
                .base
                .and_then(|base| base.member(key))
                .or_else(|| variant.and_then(|v| v.record.member(key))),
            Self::Map(_) | Self::Anything => None,
        }
    }

    /// The records whose members are all known.
    fn records(self) -> impl Iterator<Item = &'static RecordShape> {
        let (first, second) = match self {
            Self::Record(record) => (Some(record), None),
            Self::Union(union, variant) => (union.base, variant.map(|v| v.record)),
            Self::Map(_) | Self::Anything => (None, None),
        };
        first.into_iter().chain(second)
    }
}

enum Frame<'a> {
    Object {
        /// Where it begins.
        begin: usize,
        keys: Keys<'a>,
        /// The key whose value is being read.
        key: Cow<'a, [u8]>,
        members: Members,
    },
    Array {
        index: usize,
        element: Expected,
    },
}

struct Walk<'a> {
    /// Whether sizes are looked at too.
    has_sizes: bool,
    /// JSON text, checked to be such.
    text: &'a [u8],
    at: usize,
    stack: Vec<Frame<'a>>,
    found: Vec<Violation>,
    pointer_bytes: usize,
    left_off: usize,
}

impl<'a> Walk<'a> {
    fn run(&mut self, shape: Shape) {
        self.space();
        self.value(Expected::Shape(shape));
        loop {
            self.space();
            match self.peek() {
                Some(b'}') => {
                    self.end_object();
                    self.at += 1;
                }
                Some(b']') => {
                    self.stack.pop();
                    self.at += 1;
                }
                Some(b',') => {
                    self.at += 1;
                    if let Some(Frame::Array { index, .. }) = self.stack.last_mut() {
                        *index += 1;
                    }
                }
                Some(_) => self.entry(),
                None => return,
            }
        }
    }

    fn report(mut self) -> Vec<Violation> {
        if self.left_off > 0 {
            self.found.push(Violation {
                code: VALIDATION,
                path: String::new(),
                message: format!("{}: {} more violations are not listed", Rule::Unlisted, self.left_off),
            });
        }
        self.found
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        self.at = skip_space(self.text, self.at);
    }

    /// An element of the array, or a key with its value of the object, that is open.
    fn entry(&mut self) {
        let element = match self.stack.last() {
            Some(Frame::Array { element, .. }) => *element,
            Some(Frame::Object { .. }) => self.key(),
            // The text is one value, so that nothing stands outside of it.
            None => {
                self.at = self.text.len();
                return;
            }
        };
        self.space();
        self.value(element);
    }

    /// Reads a key and its colon; says what is expected after it.
    fn key(&mut self) -> Expected {
        let (begin, (end, escapes)) = (self.at, string_end(self.text, self.at));
        let quoted = self.text.get(begin..end).unwrap_or_default();
        self.at = skip_space(self.text, end);
        if self.peek() == Some(b':') {
            self.at += 1;
        }
        let name = key_text(quoted, escapes);
        let Some(Frame::Object { keys, key, members, .. }) = self.stack.last_mut() else {
            return Expected::Anything;
        };
        let members = *members;
        key.clone_from(&name);
        let is_new = keys.insert(name.clone());
        if !is_new {
            self.mistake(DecodeCode::DuplicateKey, "this key stands twice in its object; keep one");
        }
        if matches!(members, Members::Anything) {
            return Expected::Anything;
        }
        if escapes && serde_json::from_slice::<String>(quoted).is_err() {
            self.mistake(DecodeCode::Json, "an escape in this key is no character");
            return Expected::Anything;
        }
        let name = String::from_utf8_lossy(&name);
        if let Members::Union(union, _) = members
            && name == UnionShape::TAG
        {
            self.tag(union);
            return Expected::Anything;
        }
        if let Some(member) = members.member(&name) {
            return Expected::Shape((member.shape)());
        }
        match members {
            Members::Map(element) => return Expected::Shape(element()),
            // Which members there are is not known without the kind.
            Members::Union(_, None) | Members::Anything => {}
            Members::Record(_) | Members::Union(_, Some(_)) => {
                let known: Vec<String> = members.records().flat_map(|r| r.members).map(|m| format!("`{}`", m.name)).collect();
                let known = if known.is_empty() {
                    "there are none".to_owned()
                } else {
                    known.join(", ")
                };
                self.mistake(DecodeCode::UnknownField, &format!("unknown member; known are: {known}"));
            }
        }
        Expected::Anything
    }

    /// Checks the discriminator that follows.
    fn tag(&mut self, union: &UnionShape) {
        self.space();
        match tag_text(self.text, self.at) {
            None => self.mistake(DecodeCode::WrongType, "expected a string"),
            Some(kind) if union.variant(&kind).is_none() => self.error(union.unknown()),
            Some(_) => {}
        }
    }

    /// Checks a value and goes past it; of an object or array only past its opening.
    fn value(&mut self, expected: Expected) {
        match self.peek() {
            Some(b'{') => {
                let members = self.members(expected);
                self.open(Frame::Object {
                    begin: self.at,
                    keys: Keys::default(),
                    key: Cow::Borrowed(&[]),
                    members,
                });
            }
            Some(b'[') => {
                let element = match self.form(expected, |_| None) {
                    Expected::Shape(Shape::List(element)) => Expected::Shape(element()),
                    other => {
                        self.refuse_unless_opaque(other);
                        Expected::Anything
                    }
                };
                self.open(Frame::Array { index: 0, element });
            }
            Some(b'"') => {
                let (begin, (end, escapes)) = (self.at, string_end(self.text, self.at));
                self.at = end;
                if let Expected::Shape(shape) = self.form(expected, |either| either.text) {
                    self.string(self.text.get(begin..end).unwrap_or_default(), escapes, shape);
                }
            }
            Some(b't' | b'f') => {
                self.at = word_end(self.text, self.at);
                let expected = self.form(expected, |_| None);
                if !matches!(expected, Expected::Shape(Shape::Scalar(Scalar::Boolean))) {
                    self.refuse_unless_opaque(expected);
                }
            }
            Some(b'n') => {
                self.at = word_end(self.text, self.at);
                let expected = self.form(expected, |_| None);
                self.refuse_unless_opaque(expected);
            }
            _ => {
                let (begin, end) = (self.at, word_end(self.text, self.at).max(self.at + 1));
                self.at = end;
                if let Expected::Shape(shape) = self.form(expected, |either| either.number) {
                    let text = self
                        .text
                        .get(begin..end)
                        .and_then(|t| std::str::from_utf8(t).ok())
                        .unwrap_or_default();
                    self.number(text, shape);
                }
            }
        }
    }

    /// The shape that counts where a value may be of several types; refuses a type that it may not be of.
    fn form(&mut self, expected: Expected, pick: impl Fn(&crate::shape::EitherShape) -> Option<ShapeOf>) -> Expected {
        let Expected::Shape(Shape::Either(either)) = expected else {
            return expected;
        };
        if let Some(form) = pick(either) {
            return Expected::Shape(form());
        }
        self.mistake(DecodeCode::WrongType, &format!("expected {}", either.expected));
        Expected::Anything
    }

    /// What the members of the object here are checked against.
    fn members(&mut self, expected: Expected) -> Members {
        match self.form(expected, |either| either.object) {
            Expected::Shape(Shape::Record(record)) => Members::Record(record),
            Expected::Shape(Shape::Union(union)) => {
                let mut variant = None;
                each_member(self.text, self.at, |key, value| {
                    let is_tag = *key == *UnionShape::TAG.as_bytes();
                    if is_tag {
                        variant = tag_text(self.text, value).and_then(|kind| union.variant(&kind));
                    }
                    !is_tag
                });
                Members::Union(union, variant)
            }
            Expected::Shape(Shape::Map(element)) => Members::Map(element),
            other => {
                self.refuse_unless_opaque(other);
                Members::Anything
            }
        }
    }

    fn open(&mut self, frame: Frame<'a>) {
        if self.stack.len() >= MAX_DEPTH {
            self.mistake(DecodeCode::TooDeep, &format!("nesting goes beyond {MAX_DEPTH} levels"));
            self.at = value_end(self.text, self.at);
            return;
        }
        self.stack.push(frame);
        self.at += 1;
    }

    fn end_object(&mut self) {
        let Some(Frame::Object { begin, keys, members, .. }) = self.stack.pop() else {
            return;
        };
        if self.has_sizes
            && let Members::Union(union, _) = members
        {
            self.size(union, self.at + 1 - begin);
        }
        let tag = matches!(members, Members::Union(..)).then_some(UnionShape::TAG);
        let required = members.records().flat_map(|r| r.members).filter(|m| !m.is_optional).map(|m| m.name);
        for name in tag.into_iter().chain(required) {
            if !keys.contains(name.as_bytes()) {
                self.mistake(DecodeCode::MissingField, &format!("missing field `{name}`"));
            }
        }
    }

    /// Checks the size of an item or event.
    fn size(&mut self, union: &UnionShape, bytes: usize) {
        let (code, what, limit) = match union.name {
            "UnifiedItem" => ("too-large.item", "an item", MAX_ITEM_BYTES),
            "UnifiedEventV2" => ("too-large.event", "an event", MAX_EVENT_BYTES),
            _ => return,
        };
        if bytes > limit {
            self.note(code, format!("{what} has at most {limit} bytes"));
        }
    }

    fn string(&mut self, quoted: &[u8], escapes: bool, shape: Shape) {
        if matches!(shape, Shape::Scalar(Scalar::Json)) {
            return;
        }
        let takes_text = matches!(
            shape,
            Shape::Words(_)
                | Shape::Scalar(
                    Scalar::Id | Scalar::Time | Scalar::Digest | Scalar::Version | Scalar::Bytes | Scalar::Text | Scalar::Decimal
                )
        );
        if !takes_text {
            self.refuse(shape);
            return;
        }
        let Some(text) = string_text(quoted, escapes) else {
            self.mistake(DecodeCode::Json, "an escape in this text is no character");
            return;
        };
        let invalid = |message: String| DecodeError::new(DecodeCode::InvalidValue, "", message);
        let error = match shape {
            Shape::Words(words) => (!words.takes(&text)).then(|| words.unknown()),
            Shape::Scalar(Scalar::Id) => UnifiedId::parse(&text).err().map(|e| invalid(e.to_string())),
            Shape::Scalar(Scalar::Time) => Timestamp::parse(&text).err().map(|e| invalid(e.to_string())),
            Shape::Scalar(Scalar::Digest) => Sha256::from_hex(&text).is_none().then(|| invalid("expected 64 hex digits".into())),
            Shape::Scalar(Scalar::Version) => SchemaVersion::parse(&text).err().map(invalid),
            Shape::Scalar(Scalar::Bytes) => crate::media::decode_base64(&text)
                .is_none()
                .then(|| invalid("expected standard base64".into())),
            Shape::Scalar(Scalar::Decimal) => text.parse::<i64>().err().map(|_| invalid("a seed is a 64-bit whole number".into())),
            _ => None,
        };
        if let Some(error) = error {
            self.error(error);
        }
    }

    fn number(&mut self, text: &str, shape: Shape) {
        let Shape::Scalar(scalar) = shape else {
            self.refuse(shape);
            return;
        };
        if scalar == Scalar::Json {
            return;
        }
        if !text.parse::<f64>().is_ok_and(f64::is_finite) {
            self.mistake(DecodeCode::Json, "number out of range");
            return;
        }
        let whole = whole_number(text);
        let fits = match scalar {
            Scalar::Number => return,
            Scalar::Count => whole.map(|n| u64::try_from(n).is_ok()),
            Scalar::Byte => whole.map(|n| u8::try_from(n).is_ok()),
            Scalar::Integer => whole.map(|n| i64::try_from(n).is_ok()),
            Scalar::SafeInteger => whole.map(|n| n.unsigned_abs() <= u128::from(MAX_SAFE_INTEGER)),
            _ => None,
        };
        match fits {
            Some(true) => {}
            Some(false) => self.mistake(DecodeCode::InvalidValue, &format!("expected {}", expectation(&shape))),
            None => self.refuse(shape),
        }
    }

    fn refuse_unless_opaque(&mut self, expected: Expected) {
        match expected {
            Expected::Anything | Expected::Shape(Shape::Scalar(Scalar::Json)) => {}
            Expected::Shape(shape) => self.refuse(shape),
        }
    }

    fn refuse(&mut self, shape: Shape) {
        self.mistake(DecodeCode::WrongType, &format!("expected {}", expectation(&shape)));
    }

    /// Notes a mistake at the place of the walk.
    fn mistake(&mut self, code: DecodeCode, message: &str) {
        self.error(DecodeError::new(code, "", message));
    }

    fn error(&mut self, error: DecodeError) {
        self.note(error.code.as_str(), error.message);
    }

    fn note(&mut self, code: &'static str, message: String) {
        if self.found.len() >= MAX_LISTED || self.pointer_bytes > MAX_POINTER_BYTES {
            self.left_off += 1;
            return;
        }
        let path = self.pointer();
        self.pointer_bytes += path.len();
        let message = message.chars().take(MAX_MESSAGE_CHARS).collect();
        self.found.push(Violation { code, path, message });
    }

    fn pointer(&self) -> String {
        let mut out = String::new();
        for frame in &self.stack {
            match frame {
                Frame::Object { key, .. } if key.len() > MAX_KEY => break,
                Frame::Object { key, .. } => {
                    out.push('/');
                    out.push_str(&escape_pointer_token(&String::from_utf8_lossy(key)));
                }
                Frame::Array { index, .. } => {
                    out.push('/');
                    out.push_str(&index.to_string());
                }
            }
        }
        out
    }
}

/// What to say to a value of another type.
fn expectation(shape: &Shape) -> &'static str {
    match shape {
        Shape::Record(_) | Shape::Union(_) | Shape::Map(_) => "an object",
        Shape::List(_) => "an array",
        Shape::Words(_) => "a string",
        Shape::Either(either) => either.expected,
        Shape::Scalar(scalar) => match scalar {
            Scalar::Id | Scalar::Time | Scalar::Digest | Scalar::Version | Scalar::Bytes | Scalar::Text | Scalar::Decimal => "a string",
            Scalar::Count | Scalar::Byte => "a number without sign or fraction",
            Scalar::Integer | Scalar::SafeInteger => "a whole number",
            Scalar::Number => "a number",
            Scalar::Boolean => "true or false",
            Scalar::Json => "a JSON value",
        },
    }
}
