//! The wire as a tree that keeps its spelling.
//!
//! The protocol has some thirty item types, each with members that come and go, and most of them go both ways. A record type
//! for each would be written twice, for reading and writing, and would still lose what it does not name. So a body is a tree:
//! decoders read the members that have a Unified word, encoders write them, and what is written is compared with what
//! was read ([`Node::difference`]). Whatever the record does not say is then known exactly, member by member, and kept.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use throughline_format::json::escape_pointer_token;
use throughline_format::{DecodeError, Json};

/// Members whose value belongs to the user: kept as the text that was written.
const OPAQUE: &[&str] = &["parameters", "schema", "output_schema", "input_schema"];

/// A JSON value: objects and lists open, everything else as written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// A scalar, or an opaque value, as its JSON text.
    Leaf(Json),
    /// A list.
    List(Vec<Node>),
    /// An object, in its order.
    Object(Vec<(String, Node)>),
}

/// What a written value says differently from one that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Difference {
    /// Members that only the read value has, or has with another value.
    pub set: Vec<(String, Json)>,
    /// Members that only the written value has.
    pub absent: Vec<String>,
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Leaf(raw) => raw.serialize(serializer),
            Self::List(list) => {
                let mut out = serializer.serialize_seq(Some(list.len()))?;
                list.iter().try_for_each(|node| out.serialize_element(node))?;
                out.end()
            }
            Self::Object(members) => {
                let mut out = serializer.serialize_map(Some(members.len()))?;
                members.iter().try_for_each(|(key, node)| out.serialize_entry(key, node))?;
                out.end()
            }
        }
    }
}

impl Node {
    /// Reads a body.
    ///
    /// # Errors
    /// When the bytes are not one JSON value within the bounds.
    pub(super) fn read(body: &[u8]) -> Result<Self, DecodeError> {
        throughline_format::json::decode_slice::<Json>(body).map(|raw| Self::open(&raw))
    }

    /// Reads one event of a stream.
    ///
    /// # Errors
    /// When the text is not one JSON value within the bounds.
    pub(super) fn read_str(text: &str) -> Result<Self, DecodeError> {
        throughline_format::json::decode_str::<Json>(text).map(|raw| Self::open(&raw))
    }

    /// Opens a value that is known to be JSON. Its depth is bounded by whoever decoded it.
    pub(super) fn open(raw: &Json) -> Self {
        let mut reader = Reader { text: raw.as_str(), at: 0 };
        reader.value(false)
    }

    /// A text.
    pub(super) fn text(text: &str) -> Self {
        Self::Leaf(Json::from_serialize(text).unwrap_or_else(|_| Json::null()))
    }

    /// A scalar, or any value of this program.
    pub(super) fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        Self::Leaf(Json::from_serialize(value).unwrap_or_else(|_| Json::null()))
    }

    /// `null`.
    pub(super) fn null() -> Self {
        Self::Leaf(Json::null())
    }

    /// An object with these members, without those that are `None`.
    pub(super) fn object<'a>(members: impl IntoIterator<Item = (&'a str, Option<Self>)>) -> Self {
        let there = members.into_iter().filter_map(|(key, node)| Some((key.to_owned(), node?)));
        Self::Object(there.collect())
    }

    /// An object with a `type` and these members.
    pub(super) fn typed<'a>(kind: &'a str, members: impl IntoIterator<Item = (&'a str, Option<Self>)>) -> Self {
        Self::object(std::iter::once(("type", Some(Self::text(kind)))).chain(members))
    }

    /// The value as compact JSON.
    pub(super) fn to_json(&self) -> Json {
        match self {
            Self::Leaf(raw) => raw.clone(),
            Self::List(_) | Self::Object(_) => Json::from_serialize(self).unwrap_or_else(|_| Json::null()),
        }
    }

    /// The value as compact JSON text.
    pub(super) fn to_text(&self) -> String {
        self.to_json().as_str().to_owned()
    }

    /// A member that is there and not `null`.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        let (_, node) = members.iter().find(|(k, _)| k == key)?;
        (!node.is_null()).then_some(node)
    }

    /// Whether the object has a member, be it `null`.
    pub(super) fn has(&self, key: &str) -> bool {
        matches!(self, Self::Object(members) if members.iter().any(|(k, _)| k == key))
    }

    /// A member of a member.
    pub(super) fn at(&self, keys: &[&str]) -> Option<&Self> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Takes a member away.
    pub(super) fn take(&mut self, key: &str) -> Option<Self> {
        let Self::Object(members) = self else { return None };
        let at = members.iter().position(|(k, _)| k == key)?;
        Some(members.remove(at).1)
    }

    /// Sets a member; a new one stands last.
    pub(super) fn put(&mut self, key: &str, node: Self) {
        let Self::Object(members) = self else { return };
        match members.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = node,
            None => members.push((key.to_owned(), node)),
        }
    }

    /// Sets all members of another object.
    pub(super) fn extend(&mut self, other: Self) {
        let Self::Object(members) = other else { return };
        for (key, node) in members {
            self.put(&key, node);
        }
    }

    /// Whether this is `null`.
    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Leaf(raw) if raw.as_str() == "null")
    }

    /// Whether this is an object.
    pub(super) const fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// The text of a string.
    pub(super) fn as_text(&self) -> Option<String> {
        match self {
            Self::Leaf(raw) if raw.as_str().starts_with('"') => raw.decode().ok(),
            _ => None,
        }
    }

    /// The elements of a list.
    pub(super) fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    /// A member that is a string.
    pub(super) fn str(&self, key: &str) -> Option<String> {
        self.get(key)?.as_text()
    }

    /// The type word of an object, or an empty text.
    pub(super) fn kind(&self) -> String {
        self.str("type").unwrap_or_default()
    }

    /// A member that is a list; empty when it is absent.
    pub(super) fn list(&self, key: &str) -> &[Self] {
        self.get(key).and_then(Self::as_list).unwrap_or_default()
    }

    /// A member of another type.
    pub(super) fn value<T: serde::de::DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.get(key)?.to_json().decode().ok()
    }

    /// Compares this value, as it was read, with what an encoder wrote of its record. A `null` counts as absent.
    pub(super) fn difference(&self, written: &Self) -> Difference {
        let mut found = Difference::default();
        self.compare(written, String::new(), &mut found);
        found
    }

    fn compare(&self, written: &Self, path: String, found: &mut Difference) {
        match (self, written) {
            (Self::Object(mine), Self::Object(theirs)) => {
                for (key, node) in mine.iter().filter(|(_, node)| !node.is_null()) {
                    let path = format!("{path}/{}", escape_pointer_token(key));
                    match written.get(key) {
                        Some(other) => node.compare(other, path, found),
                        None => found.set.push((path, node.to_json())),
                    }
                }
                for (key, node) in theirs {
                    if !node.is_null() && self.get(key).is_none() {
                        found.absent.push(format!("{path}/{}", escape_pointer_token(key)));
                    }
                }
            }
            (Self::List(mine), Self::List(theirs)) if mine.len() == theirs.len() => {
                for (n, (node, other)) in mine.iter().zip(theirs).enumerate() {
                    node.compare(other, format!("{path}/{n}"), found);
                }
            }
            _ => {
                let (mine, theirs) = (self.to_json(), written.to_json());
                if mine != theirs && mine.parse() != theirs.parse() {
                    found.set.push((path, mine));
                }
            }
        }
    }

    /// Puts a value at a pointer; objects on the way are made, list elements are not.
    pub(super) fn set(&mut self, pointer: &str, value: &Json) {
        let mut place = self;
        for token in pointer.split('/').skip(1) {
            let next = match place {
                Self::List(list) => token.parse::<usize>().ok().and_then(|n| list.get_mut(n)),
                Self::Leaf(raw) if raw.as_str() != "null" => None,
                other => {
                    if !other.is_object() {
                        *other = Self::Object(Vec::new());
                    }
                    let Self::Object(members) = other else { return };
                    let key = throughline_format::json::unescape_pointer_token(token).into_owned();
                    let at = members.iter().position(|(k, _)| *k == key).unwrap_or_else(|| {
                        members.push((key, Self::null()));
                        members.len() - 1
                    });
                    members.get_mut(at).map(|(_, node)| node)
                }
            };
            let Some(next) = next else { return };
            place = next;
        }
        *place = Self::open(value);
    }

    /// Takes the member at a pointer away.
    pub(super) fn remove(&mut self, pointer: &str) {
        let Some((parent, last)) = pointer.rsplit_once('/') else { return };
        let mut place = self;
        for token in parent.split('/').skip(1) {
            let key = throughline_format::json::unescape_pointer_token(token).into_owned();
            let next = match place {
                Self::List(list) => token.parse::<usize>().ok().and_then(|n| list.get_mut(n)),
                Self::Object(members) => members.iter_mut().find(|(k, _)| *k == key).map(|(_, node)| node),
                Self::Leaf(_) => None,
            };
            let Some(next) = next else { return };
            place = next;
        }
        place.take(&throughline_format::json::unescape_pointer_token(last));
    }
}

/// Reads text that is known to be JSON.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// The raw text of the next value.
    fn raw(&mut self) -> Json {
        self.peek();
        let rest = self.text.get(self.at..).unwrap_or_default();
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Json>();
        let value = values.next().and_then(Result::ok);
        // The iterator stands behind the value; where there is none, the text is used up.
        self.at += if value.is_some() { values.byte_offset() } else { rest.len() };
        value.unwrap_or_else(Json::null)
    }

    fn value(&mut self, is_opaque: bool) -> Node {
        match self.peek() {
            Some(b'{') if !is_opaque => self.object(),
            Some(b'[') if !is_opaque => {
                let mut list = Vec::new();
                self.at += 1;
                while let Some(next) = self.peek() {
                    match next {
                        b']' => {
                            self.at += 1;
                            break;
                        }
                        b',' => self.at += 1,
                        _ => list.push(self.value(false)),
                    }
                }
                Node::List(list)
            }
            _ => Node::Leaf(self.raw()),
        }
    }

    fn object(&mut self) -> Node {
        let mut members = Vec::new();
        self.at += 1;
        while let Some(next) = self.peek() {
            match next {
                b'}' => {
                    self.at += 1;
                    break;
                }
                b',' => self.at += 1,
                _ => {
                    let key: String = self.raw().decode().unwrap_or_default();
                    if self.peek() == Some(b':') {
                        self.at += 1;
                    }
                    let node = self.value(OPAQUE.contains(&key.as_str()));
                    members.push((key, node));
                }
            }
        }
        Node::Object(members)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn node(text: &str) -> Node {
        Node::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_tree_keeps_spelling_and_order() {
        let cases = [
            r#"{"b":1.0,"a":[1e3,{"x":"\u0041é"}],"parameters":{ "k" : 1 }}"#,
            "[]",
            r#""text""#,
            "{}",
            "-0.50",
            r#"{"":{"~/":null}}"#,
        ];
        for text in cases {
            assert_eq!(node(text).to_text(), text);
        }
    }

    #[test]
    fn applying_a_difference_gives_back_what_was_read() {
        let cases = [
            (r#"{"a":1,"b":{"c":[{"d":2},{"e":3}]}}"#, r#"{"a":1,"b":{"c":[{"d":2},{}]},"f":0}"#),
            (r#"{"a~/b":{"x":[1,2]}}"#, r#"{"a~/b":{"x":[1]}}"#),
            (r#"{"a":"x"}"#, r#"{"a":["x"]}"#),
            (r#"{"a":{"b":1}}"#, "{}"),
        ];
        for (read, written) in cases {
            let (read, mut made) = (node(read), node(written));
            let difference = read.difference(&made);
            for (pointer, value) in &difference.set {
                made.set(pointer, value);
            }
            for pointer in &difference.absent {
                made.remove(pointer);
            }
            assert_eq!(read.to_json().parse(), made.to_json().parse());
        }
        assert_eq!(node(r#"{"a":null,"b":1}"#).difference(&node(r#"{"b":1.0}"#)).set.len(), 1);
        assert_eq!(node(r#"{"a":null}"#).difference(&node(r#"{"b":null}"#)), Difference::default());
    }
}
