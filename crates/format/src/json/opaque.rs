//! [`Json`]: an opaque value, kept as the text that was written.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::sync::Arc;

/// An embedded JSON value that keeps its own spelling: key order, number spelling and white space inside it.
///
/// Tool schemas, tool inputs and JSON parts are of this type, because providers cache and sign bytes.
/// Equality is equality of text. Cloning is cheap.
#[derive(Clone)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// The text exactly as it was written, without surrounding white space.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Takes `text` as it is, after checking that it is one JSON value.
    ///
    /// # Errors
    /// When `text` is not exactly one JSON value.
    pub fn from_text(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(|raw| Self(Arc::from(raw)))
    }

    /// The parsed form of argument text that a model wrote (open-types.md, rule `call-input`).
    ///
    /// `None` when the text is no JSON, repeats a key, or nests deeper than [`super::scan::MAX_EMBEDDED_DEPTH`]: a record with such an
    /// `input` would be refused, while the text itself is kept beside it.
    pub fn of_arguments(text: &str) -> Option<Self> {
        super::scan::check_depth(text.as_bytes(), super::scan::MAX_EMBEDDED_DEPTH).ok()?;
        Self::from_text(text.trim().to_owned()).ok()
    }

    /// Copies a borrowed raw value.
    pub fn from_raw(raw: &RawValue) -> Self {
        Self(Arc::from(raw.to_owned()))
    }

    /// Spells any serialisable value as compact JSON.
    ///
    /// # Errors
    /// When the value has no JSON form (a map with keys that are not strings, a non-finite number).
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(|raw| Self(Arc::from(raw)))
    }

    /// Spells an untyped value as compact JSON; this cannot fail.
    pub fn from_value(value: &serde_json::Value) -> Self {
        // `Value` displays as its compact JSON text, which is always one valid value.
        Self::from_text(value.to_string()).unwrap_or_else(|_| Self::null())
    }

    /// The value `null`.
    pub fn null() -> Self {
        Self(Arc::from(RawValue::NULL.to_owned()))
    }

    /// Parses the text into an untyped value. Number spelling is lost there, so never write it back.
    pub fn parse(&self) -> serde_json::Value {
        serde_json::from_str(self.as_str()).unwrap_or(serde_json::Value::Null)
    }

    /// Parses the text into a type.
    ///
    /// # Errors
    /// When the text does not have the shape of `T`.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// Tells whether the value is a JSON object.
    pub fn is_object(&self) -> bool {
        self.as_str().starts_with('{')
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl std::fmt::Debug for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(Arc::from(raw)))
    }
}
