//! Records as the native API shows them: without `principalRef`, with members that only answers have. Values stay the text
//! that the format wrote.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::value::RawValue;
use throughline_format::{ErrorCategory, UnifiedError};

/// Members that no answer shows.
const HIDDEN: &[&str] = &["principalRef"];

/// The members of a record in their order.
pub(super) struct View(Vec<(String, Box<RawValue>)>);

impl View {
    /// The view of a record.
    pub(super) fn of(record: &impl Serialize) -> Result<Self, UnifiedError> {
        let failed = |_| UnifiedError::new(ErrorCategory::Internal, "json", "a record cannot be written");
        let text = serde_json::to_string(record).map_err(failed)?;
        let mut view: Self = serde_json::from_str(&text).map_err(failed)?;
        view.0.retain(|(name, _)| !HIDDEN.contains(&name.as_str()));
        Ok(view)
    }

    /// Adds a member.
    pub(super) fn with(mut self, name: &str, value: &impl Serialize) -> Result<Self, UnifiedError> {
        let value = serde_json::value::to_raw_value(value)
            .map_err(|_| UnifiedError::new(ErrorCategory::Internal, "json", "a record cannot be written"))?;
        self.0.push((name.to_owned(), value));
        Ok(self)
    }

    /// About how long its JSON text is.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.get().len() + 4).sum()
    }

    /// Its JSON text.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Serialize for View {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for View {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = View;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a record")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<View, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(View(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}
