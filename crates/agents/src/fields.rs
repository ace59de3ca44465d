//! [`Fields`]: a JSON object of a transcript, read leniently and without copying its values.
//!
//! Runtimes add fields and change types between versions. What has another type than expected is as if absent; what is not an object
//! at all is damage, and that is for the caller to say.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use throughline_format::json::CowStr;
use throughline_format::{Json, Timestamp};

/// The members of an object, in order. The last of two members with one name counts, as in the runtimes themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(16);
                while let Some(CowStr(key)) = map.next_key()? {
                    members.push((key, map.next_value()?));
                }
                Ok(Fields(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl<'a> Fields<'a> {
    /// The object that a text holds, within the bounds of the format on depth; `None` for anything else.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        throughline_format::json::scan::check_depth(text.as_bytes(), MAX_DEPTH).ok()?;
        serde_json::from_str(text).ok()
    }

    /// The object that a value of another object is.
    fn of(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }

    /// The text of a member, whatever it is; `null` is as if absent.
    pub(crate) fn raw(&self, key: &str) -> Option<&'a str> {
        let (_, raw) = self.0.iter().rev().find(|(name, _)| name == key)?;
        Some(raw.get()).filter(|text| *text != "null")
    }

    /// A member as JSON; `null` is as if absent.
    pub(crate) fn json(&self, key: &str) -> Option<Json> {
        Json::from_text(self.raw(key)?.to_owned()).ok()
    }

    /// A text.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.raw(key)?).ok()
    }

    /// A text that is not empty.
    pub(crate) fn word(&self, key: &str) -> Option<String> {
        self.text(key).filter(|text| !text.is_empty())
    }

    /// Whether a flag is set.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.raw(key) == Some("true")
    }

    /// A number.
    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        serde_json::from_str(self.raw(key)?).ok()
    }

    /// An object.
    pub(crate) fn object(&self, key: &str) -> Option<Self> {
        let (_, raw) = self.0.iter().rev().find(|(name, _)| name == key)?;
        Self::of(raw)
    }

    /// The elements of a list; none when it is no list.
    pub(crate) fn list(&self, key: &str) -> Vec<&'a RawValue> {
        self.raw(key).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The objects of a list; other elements are left out.
    pub(crate) fn objects(&self, key: &str) -> Vec<Self> {
        self.list(key).into_iter().filter_map(Self::of).collect()
    }

    /// A time: RFC 3339 text, or milliseconds since the epoch.
    pub(crate) fn time(&self, key: &str) -> Option<Timestamp> {
        if let Some(text) = self.text(key) {
            return Timestamp::parse(&text).ok();
        }
        let millis: i64 = serde_json::from_str(self.raw(key)?).ok().or_else(|| {
            #[allow(clippy::cast_possible_truncation)] // bounded
            self.number(key).filter(|n| n.abs() < 1e15).map(|n| n as i64)
        })?;
        Some(Timestamp::from_millis(millis))
    }

    /// The members in order.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(key, raw)| (key.as_ref(), *raw))
    }
}

/// Deepest nesting that is read: that of the format and the levels that a transcript puts around a payload.
pub(crate) const MAX_DEPTH: usize = 96;

/// A member of an object in the making.
pub(crate) fn member<T: serde::Serialize + ?Sized>(key: &str, value: &T) -> (String, Json) {
    (key.to_owned(), throughline_protocols::raw::json(value))
}
