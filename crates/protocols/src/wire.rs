//! Building blocks of wire types: records that keep unknown members, unions that keep unknown variants, text or list.
//!
//! `wire!` writes a record of a wire with its provider's member names; unknown members go to `extra` as raw JSON, and a
//! `null` counts as absent. `wire_union!` is a union by a `type` member whose unknown variants are kept raw.

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use throughline_format::json::{CowStr, Json, escape_pointer_token};

/// Members of a wire object that its type does not know, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra(pub Vec<(String, Json)>);

impl Extra {
    /// Removes and returns a member.
    pub fn take(&mut self, key: &str) -> Option<Json> {
        let at = self.0.iter().position(|(k, _)| k == key)?;
        Some(self.0.remove(at).1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The members as pointers into the object and values, for [`crate::side::unmapped`].
    pub fn into_unmapped(self) -> impl Iterator<Item = (String, Json)> {
        self.0
            .into_iter()
            .map(|(key, value)| (format!("/{}", escape_pointer_token(&key)), value))
    }

    /// Writes the members after those that the type knows.
    pub fn serialize_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.0.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))
    }
}

/// Content that is either one text or a list.
#[derive(Clone, Debug, PartialEq)]
pub enum TextOr<T> {
    /// One text.
    Text(String),
    /// A list.
    List(Vec<T>),
}

impl<T: Serialize> Serialize for TextOr<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(list) => list.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Visit<T> {
            type Value = TextOr<T>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string or an array")
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(TextOr::Text(text.to_owned()))
            }
            fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
                Ok(TextOr::Text(text))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(element) = seq.next_element()? {
                    list.push(element);
                }
                Ok(TextOr::List(list))
            }
        }
        deserializer.deserialize_any(Visit(std::marker::PhantomData))
    }
}

/// The string value of a member of a raw object, found without decoding the rest.
pub fn peek_tag(raw: &str, tag: &str) -> Option<String> {
    struct Peek<'t> {
        tag: &'t str,
        found: &'t mut Option<String>,
    }
    impl<'de> Visitor<'de> for Peek<'_> {
        type Value = ();
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(key) = map.next_key::<CowStr<'de>>()? {
                if key.0 == self.tag {
                    *self.found = map.next_value::<Option<String>>()?;
                    break;
                }
                map.next_value::<serde::de::IgnoredAny>()?;
            }
            Ok(())
        }
    }
    let mut found = None;
    // An error after the tag is that there is more of the object, which nobody asked for.
    let _ = serde_json::Deserializer::from_str(raw).deserialize_map(Peek { tag, found: &mut found });
    found
}

/// Defines a record of a wire: `name: T` is required, `name?: T` optional, `name = "wireName"` renames, and the rest is kept in `extra`.
macro_rules! wire {
    ($(#[$meta:meta])* pub struct $name:ident { $($body:tt)* }) => {
        $crate::wire::wire!(@munch [$(#[$meta])*] $name {} $($body)*);
    };
    (@munch $m:tt $n:ident {$($d:tt)*} $(#[$fm:meta])* $f:ident = $w:literal ? : $t:ty, $($r:tt)*) => {
        $crate::wire::wire!(@munch $m $n {$($d)* [$(#[$fm])*] $f [$w] opt [Option<$t>] $t;} $($r)*);
    };
    (@munch $m:tt $n:ident {$($d:tt)*} $(#[$fm:meta])* $f:ident = $w:literal : $t:ty, $($r:tt)*) => {
        $crate::wire::wire!(@munch $m $n {$($d)* [$(#[$fm])*] $f [$w] req [$t] $t;} $($r)*);
    };
    (@munch $m:tt $n:ident {$($d:tt)*} $(#[$fm:meta])* $f:ident ? : $t:ty, $($r:tt)*) => {
        $crate::wire::wire!(@munch $m $n {$($d)* [$(#[$fm])*] $f [stringify!($f)] opt [Option<$t>] $t;} $($r)*);
    };
    (@munch $m:tt $n:ident {$($d:tt)*} $(#[$fm:meta])* $f:ident : $t:ty, $($r:tt)*) => {
        $crate::wire::wire!(@munch $m $n {$($d)* [$(#[$fm])*] $f [stringify!($f)] req [$t] $t;} $($r)*);
    };
    (@munch [$($m:tt)*] $name:ident {$([$($fm:tt)*] $f:ident [$w:expr] $kind:ident [$stored:ty] $t:ty;)*}) => {
        $($m)*
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::struct_field_names)] // the provider's words
        pub struct $name {
            $($($fm)* pub $f: $stored,)*
            /// Members that this type does not know.
            pub extra: $crate::wire::Extra,
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visit;
                impl<'de> serde::de::Visitor<'de> for Visit {
                    type Value = $name;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                        $(let mut $f: Option<$t> = None;)*
                        let mut extra = $crate::wire::Extra::default();
                        while let Some(throughline_format::json::CowStr(key)) = map.next_key()? {
                            $(if key == $w { $f = map.next_value::<Option<$t>>()?; continue; })*
                            extra.0.push((key.into_owned(), map.next_value()?));
                        }
                        Ok($name { $($f: $crate::wire::wire!(@take $kind $f $w),)* extra })
                    }
                }
                deserializer.deserialize_map(Visit)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                self.serialize_members(&mut map)?;
                serde::ser::SerializeMap::end(map)
            }
        }

        impl $name {
            /// Writes the members into a map that may have others already.
            pub fn serialize_members<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                $($crate::wire::wire!(@put $kind self map $f $w);)*
                self.extra.serialize_into(map)
            }
        }
    };
    (@take req $f:ident $w:expr) => { $f.ok_or_else(|| serde::de::Error::missing_field($w))? };
    (@take opt $f:ident $w:expr) => { $f };
    (@put req $self:ident $map:ident $f:ident $w:expr) => { $map.serialize_entry($w, &$self.$f)? };
    (@put opt $self:ident $map:ident $f:ident $w:expr) => { if let Some(value) = &$self.$f { $map.serialize_entry($w, value)?; } };
}
pub(crate) use wire;

/// Defines a union by the member `type`; a variant that is not known is kept as raw JSON in `Unknown`.
macro_rules! wire_union {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$vm:meta])* $variant:ident($t:ty) = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $($(#[$vm])* #[doc = concat!("`", $word, "`")] $variant($t),)+
            /// A type that this version does not know, as it was written.
            Unknown(throughline_format::Json),
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let raw = <&'de serde_json::value::RawValue as serde::Deserialize>::deserialize(deserializer)?;
                if !raw.get().starts_with('{') {
                    let error = throughline_format::DecodeError::new(throughline_format::json::decode::DecodeCode::WrongType, "", "expected an object");
                    return Err(serde::de::Error::custom(error.to_marked()));
                }
                match $crate::wire::peek_tag(raw.get(), "type").as_deref() {
                    $(Some($word) => {
                        let mut value: $t = throughline_format::json::decode::decode_raw(raw.get())?;
                        value.extra.take("type");
                        Ok(Self::$variant(value))
                    })+
                    _ => Ok(Self::Unknown(throughline_format::Json::from_raw(raw))),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(value) => {
                        let mut map = serializer.serialize_map(None)?;
                        serde::ser::SerializeMap::serialize_entry(&mut map, "type", $word)?;
                        value.serialize_members(&mut map)?;
                        serde::ser::SerializeMap::end(map)
                    })+
                    Self::Unknown(raw) => raw.serialize(serializer),
                }
            }
        }
    };
}
pub(crate) use wire_union;
