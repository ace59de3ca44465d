//! Discriminated unions whose tag may stand anywhere, without losing raw JSON inside them.
//!
//! serde's own internally tagged enums buffer their content, which destroys [`super::Json`] members. Here an object is
//! first read as a list of raw members; then the common members and those of the variant are decoded from their raw text.

use super::decode::{DecodeCode, DecodeError, nested};
use crate::shape::RecordShape;
use serde::de::value::MapDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The members of one JSON object as raw text, in the order in which they stand.
pub struct RawMembers<'de>(Vec<(Cow<'de, str>, &'de RawValue)>);

impl<'de> RawMembers<'de> {
    /// Removes the member `tag` and returns its string value.
    ///
    /// # Errors
    /// When it is absent or not a string.
    pub fn take_tag(&mut self, tag: &'static str) -> Result<Cow<'de, str>, DecodeError> {
        let Some(at) = self.0.iter().position(|(key, _)| key == tag) else {
            return Err(DecodeError::new(DecodeCode::MissingField, "", format!("missing field `{tag}`")));
        };
        let (_, raw) = self.0.remove(at);
        let mut text = serde_json::Deserializer::from_str(raw.get());
        CowStr::deserialize(&mut text)
            .map(|s| s.0)
            .map_err(|_| DecodeError::new(DecodeCode::WrongType, format!("/{tag}"), "expected a string"))
    }

    /// Moves the members that `record` has into a list of their own.
    #[must_use]
    pub fn split_off(&mut self, record: &RecordShape) -> Self {
        let (taken, rest) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(key, _)| record.member(key).is_some());
        self.0 = rest;
        Self(taken)
    }

    /// Decodes these members as one record.
    ///
    /// # Errors
    /// A marked error of type `E` whose path starts at this object.
    pub fn decode<T: Deserialize<'de>, E: serde::de::Error>(&self) -> Result<T, E> {
        nested(
            || T::deserialize(self.deserializer()),
            || serde_path_to_error::deserialize(self.deserializer()),
        )
    }

    fn deserializer(&self) -> MapDeserializer<'de, impl Iterator<Item = (&str, &'de RawValue)>, serde_json::Error> {
        MapDeserializer::new(self.0.iter().map(|(key, raw)| (key.as_ref(), *raw)))
    }
}

impl<'de> Deserialize<'de> for RawMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RawMembers<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(map.size_hint().unwrap_or(12));
                while let Some(key) = map.next_key::<CowStr<'de>>()? {
                    members.push((key.0, map.next_value::<&'de RawValue>()?));
                }
                Ok(RawMembers(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// A string borrowed from the input when it has no escapes; serde's own [`Cow`] never borrows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CowStr<'de>(pub Cow<'de, str>);

impl<'de> Deserialize<'de> for CowStr<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = CowStr<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(CowStr(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(CowStr(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}
