//! Decoding with a place for every error.
//!
//! The fast path is plain `serde_json`. Only when it fails is the input decoded once more with path tracking, from the
//! outermost value on: whatever nests in it follows the same pass, so that a mistake costs two passes and not two per level.
//! Discriminated unions ([`super::tagged`]) decode their members from raw text, where an outer tracker cannot see; they
//! hand the inner path up inside the error text between two marks, and [`DecodeError`] joins the pieces.

use super::escape_pointer_token;
use super::scan;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::fmt::Write as _;

/// Mark around a code and a path inside an error text; never part of a message that a user sees.
const MARK: char = '\u{1f}';

/// What is wrong with the input; the stable code is `invalid-request.<detail>` (contract.md, section 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeCode {
    /// The text is not JSON.
    Json,
    /// Nesting beyond the limit.
    TooDeep,
    /// One key twice in one object.
    DuplicateKey,
    /// A discriminator (`kind`, `type`) has a value that this version does not know.
    UnknownDiscriminator,
    /// A required member is absent.
    MissingField,
    /// A member that the record does not have.
    UnknownField,
    /// A value of another JSON type than expected.
    WrongType,
    /// A value of the right type outside its range or alphabet.
    InvalidValue,
}

impl DecodeCode {
    const ALL: [Self; 8] = [
        Self::Json,
        Self::TooDeep,
        Self::DuplicateKey,
        Self::UnknownDiscriminator,
        Self::MissingField,
        Self::UnknownField,
        Self::WrongType,
        Self::InvalidValue,
    ];

    /// The stable code.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "invalid-request.json",
            Self::TooDeep => "invalid-request.too-deep",
            Self::DuplicateKey => "invalid-request.duplicate-key",
            Self::UnknownDiscriminator => "invalid-request.unknown-discriminator",
            Self::MissingField => "invalid-request.missing-field",
            Self::UnknownField => "invalid-request.unknown-field",
            Self::WrongType => "invalid-request.wrong-type",
            Self::InvalidValue => "invalid-request.invalid-value",
        }
    }
}

/// Why input could not be decoded, and where. The message quotes no value of the input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (at {pointer:?})")]
pub struct DecodeError {
    /// What kind of mistake it is.
    pub code: DecodeCode,
    /// JSON Pointer of the place; empty for the whole input.
    pub pointer: String,
    /// What was expected there.
    pub message: String,
}

impl DecodeError {
    /// Builds an error at `pointer`.
    pub fn new(code: DecodeCode, pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            pointer: pointer.into(),
            message: message.into(),
        }
    }

    /// The same error seen from a container: `prefix` is the pointer of the place that was decoded.
    #[must_use]
    pub fn within(mut self, prefix: &str) -> Self {
        self.pointer.insert_str(0, prefix);
        self
    }

    /// As text that survives a trip through `serde::de::Error::custom`.
    pub fn to_marked(&self) -> String {
        format!("{MARK}{}{MARK}{}{MARK}{}", self.code.as_str(), self.pointer, self.message)
    }

    fn from_serde(error: &serde_json::Error, outer: &str) -> Self {
        let text = error.to_string();
        if let Some(inner) = Self::from_marked(&text) {
            return inner.within(outer);
        }
        if error.is_syntax() || error.is_eof() {
            return Self::new(DecodeCode::Json, outer, sanitised(&text));
        }
        let bare = strip_position(&text);
        let (code, message) = classify(bare);
        Self::new(code, outer, message)
    }

    fn from_marked(text: &str) -> Option<Self> {
        // A pointer may hold the mark, since it names keys of the input; code and message never do.
        let (code, rest) = text.strip_prefix(MARK)?.split_once(MARK)?;
        let (pointer, message) = rest.rsplit_once(MARK)?;
        let code = DecodeCode::ALL.into_iter().find(|c| c.as_str() == code)?;
        Some(Self::new(code, pointer, strip_position(message)))
    }
}

/// Cuts serde_json's ` at line L column C`.
fn strip_position(text: &str) -> &str {
    match text.rfind(" at line ") {
        Some(at) => text.get(..at).unwrap_or(text),
        None => text,
    }
}

/// A syntax message names tokens only, but is cut to one line of bounded length anyhow.
fn sanitised(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

fn classify(text: &str) -> (DecodeCode, String) {
    // What stands before the last "expected" may quote the input.
    let expected = text.rsplit_once(", expected ").map_or("another value", |(_, after)| after);
    if text.starts_with("missing field") {
        return (DecodeCode::MissingField, sanitised(text));
    }
    if text.starts_with("unknown field") {
        let known = if expected == "another value" { "there are none" } else { expected };
        return (DecodeCode::UnknownField, sanitised(&format!("unknown member; known are: {known}")));
    }
    if text.starts_with("duplicate field") {
        return (DecodeCode::DuplicateKey, "this key stands twice in its object; keep one".to_owned());
    }
    if text.starts_with("unknown variant") {
        return (DecodeCode::InvalidValue, sanitised(&format!("expected {expected}")));
    }
    if text.starts_with("invalid type") || text.starts_with("invalid length") {
        return (DecodeCode::WrongType, sanitised(&format!("expected {}", plain(expected))));
    }
    if text.starts_with("invalid value") {
        return (DecodeCode::InvalidValue, sanitised(&format!("expected {}", plain(expected))));
    }
    (DecodeCode::InvalidValue, sanitised(text))
}

/// serde's names of shapes in JSON's words.
fn plain(expected: &str) -> String {
    match expected {
        "a sequence" => "an array".into(),
        "a map" => "an object".into(),
        "a borrowed string" | "string" => "a string".into(),
        "a boolean" => "true or false".into(),
        "any valid JSON value" => "a JSON value".into(),
        struct_name if struct_name.starts_with("struct ") => "an object".into(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "a number without sign or fraction".into(),
        "i8" | "i16" | "i32" | "i64" => "a whole number".into(),
        "f32" | "f64" => "a number".into(),
        other => other.into(),
    }
}

/// Decodes one JSON document after the structural scan.
///
/// # Errors
/// [`DecodeError`] with code, JSON Pointer and message.
pub fn decode_slice<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    scan::check(bytes)?;
    decode_unscanned(bytes)
}

/// [`decode_slice`] for text.
///
/// # Errors
/// As [`decode_slice`].
pub fn decode_str<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, DecodeError> {
    decode_slice(text.as_bytes())
}

/// Which pass over the outermost value is going on in this thread, and how many raw values deep it is.
#[derive(Clone, Copy)]
struct Progress {
    pass: Pass,
    depth: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// No value of this format is being decoded.
    None,
    /// The fast one, which needs no places.
    Fast,
    /// The one that finds the place of a mistake.
    Tracked,
}

thread_local! {
    static PROGRESS: Cell<Progress> = const { Cell::new(Progress { pass: Pass::None, depth: 0 }) };
}

/// Restores what went on before, also when a decode panics.
struct Restore(Progress);

impl Drop for Restore {
    fn drop(&mut self) {
        PROGRESS.set(self.0);
    }
}

fn enter(pass: Pass) -> Restore {
    let before = PROGRESS.get();
    PROGRESS.set(Progress {
        pass,
        depth: before.depth + 1,
    });
    Restore(before)
}

/// Decodes by the pass that is going on; starts with the fast one when none is.
///
/// `plain` decodes without places, `tracked` with them.
fn in_pass<T>(
    plain: impl Fn() -> Result<T, serde_json::Error>,
    tracked: impl Fn() -> Result<T, serde_path_to_error::Error<serde_json::Error>>,
) -> Result<T, DecodeError> {
    let Progress { pass, depth } = PROGRESS.get();
    if depth > scan::MAX_DEPTH {
        // The scan refuses such text; this holds for callers that decode without it.
        return Err(DecodeError::new(
            DecodeCode::TooDeep,
            "",
            format!("nesting goes beyond {} levels", scan::MAX_DEPTH),
        ));
    }
    if pass != Pass::Tracked {
        let guard = enter(Pass::Fast);
        match plain() {
            Ok(value) => return Ok(value),
            Err(error) if pass == Pass::Fast || error.is_syntax() || error.is_eof() => return Err(DecodeError::from_serde(&error, "")),
            Err(_) => drop(guard),
        }
    }
    let _guard = enter(Pass::Tracked);
    tracked().map_err(|error| DecodeError::from_serde(error.inner(), &pointer_of(error.path())))
}

/// [`in_pass`] inside another deserialiser: the error carries its place in the text.
pub(crate) fn nested<T, E: serde::de::Error>(
    plain: impl Fn() -> Result<T, serde_json::Error>,
    tracked: impl Fn() -> Result<T, serde_path_to_error::Error<serde_json::Error>>,
) -> Result<T, E> {
    in_pass(plain, tracked).map_err(|e| E::custom(e.to_marked()))
}

/// Decodes without the scan: for bytes that this program wrote itself, or that were scanned as part of a larger text.
///
/// # Errors
/// As [`decode_slice`].
pub fn decode_unscanned<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    let result = in_pass(
        || serde_json::from_slice(bytes),
        || serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(bytes)),
    );
    result.map_err(|error| {
        // A wrong type may be found before text that is no JSON; that it is none comes first.
        syntax_error(bytes).unwrap_or(error)
    })
}

/// Why bytes are no JSON text; this needs no machine stack for its nesting.
pub(crate) fn syntax_error(bytes: &[u8]) -> Option<DecodeError> {
    let error = serde_json::from_slice::<serde::de::IgnoredAny>(bytes).err()?;
    Some(DecodeError::from_serde(&error, ""))
}

/// Decodes a value from an untyped one; used where a value was edited in memory.
///
/// # Errors
/// As [`decode_slice`].
pub fn decode_value<T: DeserializeOwned>(value: &serde_json::Value) -> Result<T, DecodeError> {
    decode_unscanned(value.to_string().as_bytes())
}

/// Decodes raw text inside another deserialiser, so that an error carries the path inside the text.
///
/// # Errors
/// A marked error of type `E`; [`decode_slice`] joins its path with the one that leads to the text.
pub fn decode_raw<'a, T: Deserialize<'a>, E: serde::de::Error>(text: &'a str) -> Result<T, E> {
    nested(
        || serde_json::from_str(text),
        || serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text)),
    )
}

fn pointer_of(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut out = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => {
                // Writing to a `String` cannot fail.
                let _ = write!(out, "/{index}");
            }
            Segment::Map { key } => {
                out.push('/');
                out.push_str(&escape_pointer_token(key));
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    out
}
