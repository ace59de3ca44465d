//! [`Object`]: a JSON object in the making whose values keep their text, so that numbers and key order of opaque values stay as
//! they were written.

use crate::raw::{json, members};
use serde::ser::{Serialize, SerializeMap, Serializer};
use throughline_format::Json;
use throughline_format::json::unescape_pointer_token;

/// A JSON object in the making.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Object(Vec<(String, Json)>);

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl Object {
    /// An object with this `type`.
    pub(crate) fn of_type(kind: &str) -> Self {
        Self::default().with("type", &kind)
    }

    /// The members of a JSON object; `None` for another value.
    pub(crate) fn of(json: &Json) -> Option<Self> {
        json.is_object().then(|| Self(members(json)))
    }

    /// Whether there are no members.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets a member, in its place when it is there.
    pub(crate) fn set(&mut self, key: &str, value: Json) {
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, place)) => *place = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// The object with a member.
    #[must_use]
    pub(crate) fn with<T: Serialize + ?Sized>(mut self, key: &str, value: &T) -> Self {
        self.set(key, json(value));
        self
    }

    /// The object with a member, when there is a value.
    #[must_use]
    pub(crate) fn with_some<T: Serialize>(self, key: &str, value: Option<&T>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// A member.
    pub(crate) fn get(&self, key: &str) -> Option<&Json> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// The first member.
    pub(crate) fn first(&self) -> Option<(&str, &Json)> {
        self.0.first().map(|(key, value)| (key.as_str(), value))
    }

    /// Takes a member away.
    pub(crate) fn remove(&mut self, key: &str) {
        self.0.retain(|(known, _)| known != key);
    }

    /// Merges another object into this one, objects in objects too.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (key, value) in &other.0 {
            match (self.get(key).and_then(Self::of), Self::of(value)) {
                (Some(mut known), Some(more)) => {
                    known.merge(&more);
                    self.set(key, known.to_json());
                }
                _ => self.set(key, value.clone()),
            }
        }
    }

    /// Puts a value at a JSON Pointer; missing objects on the way are made, lists are left alone.
    pub(crate) fn put(&mut self, pointer: &str, value: Json) {
        let mut tokens = pointer.splitn(3, '/').skip(1);
        let Some(key) = tokens.next().map(unescape_pointer_token) else {
            return;
        };
        let Some(rest) = tokens.next() else {
            self.set(&key, value);
            return;
        };
        let inner = match self.get(&key) {
            None => Some(Self::default()),
            Some(known) => Self::of(known),
        };
        if let Some(mut inner) = inner {
            inner.put(&format!("/{rest}"), value);
            self.set(&key, inner.to_json());
        }
    }

    /// The object as JSON.
    pub(crate) fn to_json(&self) -> Json {
        json(self)
    }
}

/// The JSON on one line, for the data of an event: values that are kept as written may stand on several.
pub(crate) fn one_line(value: &Json) -> String {
    value.as_str().replace(['\n', '\r'], " ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_text_wherever_they_are_put() {
        let raw = |text: &str| Json::from_text(text.to_owned()).unwrap();
        let mut object = Object::of(&raw(r#"{"a":1.0,"b":{"c":[1e2]}}"#)).unwrap();
        object.put("/b/d~1e", raw("2.50"));
        object.put("/f/g", raw("null"));
        object.put("/a/x", raw("3"));
        object.put("/a", raw("4.00"));
        object.remove("nothing");
        assert_eq!(object.to_json().as_str(), r#"{"a":4.00,"b":{"c":[1e2],"d/e":2.50},"f":{"g":null}}"#);
        assert!(Object::of(&raw("[]")).is_none());
    }
}
