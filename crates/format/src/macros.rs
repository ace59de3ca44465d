//! The three shapes of this crate's types: records, words and tagged unions.
//!
//! One text defines a type, its JSON form and its description ([`crate::shape`]): schema, declarations, validation and
//! documentation all read the description, so that no list of members or words exists twice.
//!
//! `record!` writes optional members as the spec does (`name?: Type`): absent and present are two states, and a literal
//! `null` is refused unless the member's type is opaque JSON. `words!` is a closed enumeration, `open_words!` one that
//! keeps vendor words it does not know. `tagged_union!` is a union by discriminator.

/// Marks a test as showing a clause of the ledger. It expands to nothing; `xtask clauses` reads the source.
#[macro_export]
macro_rules! clause {
    ($($id:literal),+ $(,)?) => {};
}

/// The documentation that attributes hold, as [`crate::shape::Doc`].
macro_rules! doc_text {
    (@lines [$($line:literal)*]) => { concat!($($line, "\n",)*) };
    (@lines [$($line:literal)*] #[doc = $next:literal] $($rest:tt)*) => { $crate::macros::doc_text!(@lines [$($line)* $next] $($rest)*) };
    (@lines $lines:tt #[$($other:tt)*] $($rest:tt)*) => { $crate::macros::doc_text!(@lines $lines $($rest)*) };
    ($($attributes:tt)*) => { $crate::shape::Doc::new($crate::macros::doc_text!(@lines [] $($attributes)*)) };
}
pub(crate) use doc_text;

/// The description of one member.
macro_rules! member {
    ([$($meta:tt)*] $field:ident, $ty:ty, $is_optional:literal) => {
        $crate::shape::Member {
            name: {
                const FIELD: &str = stringify!($field);
                const NAME: [u8; $crate::shape::wire_name_length(FIELD)] = $crate::shape::wire_name(FIELD);
                $crate::shape::text(&NAME)
            },
            doc: $crate::macros::doc_text!($($meta)*),
            is_optional: $is_optional,
            written: stringify!($ty),
            shape: <$ty as $crate::shape::Shaped>::shape,
        }
    };
}
pub(crate) use member;

/// Defines a record: camelCase member names, no unknown members, `name?: T` for members that may be absent.
macro_rules! record {
    ($(#[$($meta:tt)*])* pub struct $name:ident $(<$generic:ident>)? { $($body:tt)* }) => {
        $crate::macros::record!(@munch [$(#[$($meta)*])*] $name [$($generic)?] {} [] $($body)*);
    };
    (@munch $metas:tt $name:ident $generic:tt {$($done:tt)*} [$($members:tt)*] $(#[$($fm:tt)*])* $field:ident ? : $ty:ty, $($rest:tt)*) => {
        $crate::macros::record!(@munch $metas $name $generic {
            $($done)*
            $(#[$($fm)*])*
            #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::macros::present")]
            pub $field: Option<$ty>,
        } [$($members)* $crate::macros::member!([$(#[$($fm)*])*] $field, $ty, true),] $($rest)*);
    };
    (@munch $metas:tt $name:ident $generic:tt {$($done:tt)*} [$($members:tt)*] $(#[$($fm:tt)*])* $field:ident : $ty:ty, $($rest:tt)*) => {
        $crate::macros::record!(@munch $metas $name $generic
            { $($done)* $(#[$($fm)*])* pub $field: $ty, }
            [$($members)* $crate::macros::member!([$(#[$($fm)*])*] $field, $ty, false),]
            $($rest)*);
    };
    // `remote = "Self"` keeps the derived code under inherent names, so that decoding can be narrowed to objects.
    (@munch [$($metas:tt)*] $name:ident [] {$($done:tt)*} [$($members:tt)*]) => {
        $($metas)*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, remote = "Self")]
        pub struct $name { $($done)* }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::deserialize($crate::json::ObjectOnly(deserializer))
            }
        }

        impl $crate::shape::ShapedRecord for $name {
            const RECORD: &'static $crate::shape::RecordShape = &$crate::shape::RecordShape {
                name: stringify!($name),
                doc: $crate::macros::doc_text!($($metas)*),
                parameter: None,
                members: &[$($members)*],
            };
        }

        impl $crate::shape::Shaped for $name {
            fn shape() -> $crate::shape::Shape {
                $crate::shape::Shape::Record(<Self as $crate::shape::ShapedRecord>::RECORD)
            }
        }
    };
    (@munch [$($metas:tt)*] $name:ident [$generic:ident] {$($done:tt)*} [$($members:tt)*]) => {
        $($metas)*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, remote = "Self")]
        pub struct $name<$generic> { $($done)* }

        impl<$generic: serde::Serialize> serde::Serialize for $name<$generic> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, serializer)
            }
        }

        impl<'de, $generic: serde::Deserialize<'de>> serde::Deserialize<'de> for $name<$generic> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::deserialize($crate::json::ObjectOnly(deserializer))
            }
        }

        impl<$generic: $crate::shape::Shaped> $crate::shape::ShapedRecord for $name<$generic> {
            const RECORD: &'static $crate::shape::RecordShape = &$crate::shape::RecordShape {
                name: stringify!($name),
                doc: $crate::macros::doc_text!($($metas)*),
                parameter: Some($crate::shape::Parameter {
                    name: stringify!($generic),
                    shape: <$generic as $crate::shape::Shaped>::shape,
                }),
                members: &[$($members)*],
            };
        }

        impl<$generic: $crate::shape::Shaped> $crate::shape::Shaped for $name<$generic> {
            fn shape() -> $crate::shape::Shape {
                $crate::shape::Shape::Record(<Self as $crate::shape::ShapedRecord>::RECORD)
            }
        }
    };
}
pub(crate) use record;

/// Decodes a member that is there; `null` goes to the type, which refuses it unless it is opaque JSON.
pub(crate) fn present<'de, T: serde::Deserialize<'de>, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The description of an enumeration of words.
macro_rules! words_shape {
    ($name:ident, $is_open:literal, $is_discriminator:expr, [$($meta:tt)*], $([$($vm:tt)*] $word:literal,)+) => {
        impl $name {
            /// The description of these words.
            pub const WORDS_SHAPE: &'static $crate::shape::WordsShape = &$crate::shape::WordsShape {
                name: stringify!($name),
                doc: $crate::macros::doc_text!($($meta)*),
                words: &[$($crate::shape::Word { word: $word, doc: $crate::macros::doc_text!($($vm)*) },)+],
                is_open: $is_open,
                is_discriminator: $is_discriminator,
            };
        }

        impl $crate::shape::Shaped for $name {
            fn shape() -> $crate::shape::Shape {
                $crate::shape::Shape::Words(Self::WORDS_SHAPE)
            }
        }
    };
}
pub(crate) use words_shape;

/// Defines a closed enumeration of words. `as discriminator`: an unknown word is told as an unknown kind.
macro_rules! words {
    ($(#[$($meta:tt)*])* pub enum $name:ident as discriminator { $($body:tt)+ }) => {
        $crate::macros::words!(@define true, [$(#[$($meta)*])*] $name { $($body)+ });
    };
    ($(#[$($meta:tt)*])* pub enum $name:ident { $($body:tt)+ }) => {
        $crate::macros::words!(@define false, [$(#[$($meta)*])*] $name { $($body)+ });
    };
    (@define $is_discriminator:literal, [$($meta:tt)*] $name:ident { $($(#[$($vm:tt)*])* $variant:ident = $word:literal,)+ }) => {
        $($meta)*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$($vm)*])* #[doc = concat!("`", $word, "`")] $variant,)+ }

        impl $name {
            /// Every word, in the order of the specification.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word as it is written.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// The value that a word names.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        $crate::macros::words_shape!($name, false, $is_discriminator, [$($meta)*], $([$(#[$($vm)*])*] $word,)+);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                Self::from_word(&word).ok_or_else(|| serde::de::Error::custom(Self::WORDS_SHAPE.unknown().to_marked()))
            }
        }
    };
}
pub(crate) use words;

/// Defines an enumeration with known words that keeps any other word; an unknown one never triggers behaviour.
macro_rules! open_words {
    ($(#[$($meta:tt)*])* pub enum $name:ident { $($(#[$($vm:tt)*])* $variant:ident = $word:literal,)+ }) => {
        $(#[$($meta)*])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$($vm)*])* #[doc = concat!("`", $word, "`")] $variant,)+
            /// A word outside the list, as `<family>:<word>` or as the provider wrote it.
            Other(Box<str>),
        }

        impl $name {
            /// The known words, in the order of the specification.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];

            /// The word as it is written.
            pub fn as_str(&self) -> &str {
                match self { $(Self::$variant => $word,)+ Self::Other(word) => word }
            }

            /// The value that a word names; unknown words are kept.
            pub fn from_word(word: &str) -> Self {
                match word { $($word => Self::$variant,)+ other => Self::Other(other.into()) }
            }
        }

        $crate::macros::words_shape!($name, true, false, [$(#[$($meta)*])*], $([$(#[$($vm)*])*] $word,)+);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                Ok(Self::from_word(&word))
            }
        }
    };
}
pub(crate) use open_words;

/// Defines the variants of a union by discriminator; [`standalone_union`] or [`union_with_base`] add its JSON form.
macro_rules! tagged_union {
    ($(#[$($meta:tt)*])* pub enum $name:ident { $($(#[$($vm:tt)*])* $variant:ident($ty:ty) = $word:literal,)+ }) => {
        $(#[$($meta)*])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name { $($(#[$($vm)*])* #[doc = concat!("`", $word, "`")] $variant($ty),)+ }

        impl $name {
            /// Every discriminator, in the order of the specification.
            pub const KINDS: &'static [&'static str] = &[$($word,)+];

            /// The documentation of the union.
            #[allow(dead_code)] // a record with common members has a text of its own
            pub(crate) const DOC: $crate::shape::Doc = $crate::macros::doc_text!($(#[$($meta)*])*);

            /// The descriptions of the variants.
            pub(crate) const VARIANTS: &'static [$crate::shape::Variant] = &[$($crate::shape::Variant {
                kind: $word,
                doc: $crate::macros::doc_text!($(#[$($vm)*])*),
                record: <$ty as $crate::shape::ShapedRecord>::RECORD,
            },)+];

            /// The discriminator.
            pub const fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $word,)+ }
            }

            pub(crate) fn from_members<E: serde::de::Error>(kind: &str, members: &$crate::json::tagged::RawMembers<'_>) -> Result<Self, E> {
                match kind {
                    $($word => members.decode::<$ty, E>().map(Self::$variant),)+
                    _ => Err(E::custom($crate::shape::unknown_kind(Self::KINDS).within("/kind").to_marked())),
                }
            }
        }

        impl $name {
            /// Writes the members of the variant alone, without the discriminator: for flattening into the whole.
            pub(crate) fn serialize_members<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self { $(Self::$variant(inner) => serde::Serialize::serialize(inner, serializer),)+ }
            }
        }
    };
}
pub(crate) use tagged_union;

/// JSON form of a union that has no members besides the discriminator and those of the variant.
macro_rules! standalone_union {
    ($name:ident) => {
        impl $crate::shape::Shaped for $name {
            fn shape() -> $crate::shape::Shape {
                const UNION: &$crate::shape::UnionShape = &$crate::shape::UnionShape {
                    name: stringify!($name),
                    doc: $name::DOC,
                    base: None,
                    variants: $name::VARIANTS,
                };
                $crate::shape::Shape::Union(UNION)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                struct Members<'a>(&'a $name);
                impl serde::Serialize for Members<'_> {
                    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                        self.0.serialize_members(serializer)
                    }
                }
                #[derive(serde::Serialize)]
                struct Flat<'a> {
                    kind: &'static str,
                    #[serde(flatten)]
                    body: Members<'a>,
                }
                Flat {
                    kind: self.kind(),
                    body: Members(self),
                }
                .serialize(serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut members = $crate::json::tagged::RawMembers::deserialize(deserializer)?;
                let kind = members
                    .take_tag("kind")
                    .map_err(|e| serde::de::Error::custom(e.to_marked()))?;
                Self::from_members(&kind, &members)
            }
        }
    };
}
pub(crate) use standalone_union;

/// Defines a record of common members (`base`) and a union (`body`) whose JSON form is one object.
macro_rules! union_with_base {
    ($(#[$($meta:tt)*])* pub struct $name:ident { base: $base:ident, body: $body:ident }) => {
        $(#[$($meta)*])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            /// Common members.
            pub base: $base,
            /// The kind with its members.
            pub body: $body,
        }

        impl $crate::shape::Shaped for $name {
            fn shape() -> $crate::shape::Shape {
                const UNION: &$crate::shape::UnionShape = &$crate::shape::UnionShape {
                    name: stringify!($name),
                    doc: $crate::macros::doc_text!($(#[$($meta)*])*),
                    base: Some(<$base as $crate::shape::ShapedRecord>::RECORD),
                    variants: $body::VARIANTS,
                };
                $crate::shape::Shape::Union(UNION)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                struct Members<'a>(&'a $body);
                impl serde::Serialize for Members<'_> {
                    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                        self.0.serialize_members(serializer)
                    }
                }
                #[derive(serde::Serialize)]
                struct Flat<'a> {
                    kind: &'static str,
                    #[serde(flatten)]
                    base: &'a $base,
                    #[serde(flatten)]
                    body: Members<'a>,
                }
                Flat { kind: self.body.kind(), base: &self.base, body: Members(&self.body) }.serialize(serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut members = $crate::json::tagged::RawMembers::deserialize(deserializer)?;
                let kind = members.take_tag("kind").map_err(|e| serde::de::Error::custom(e.to_marked()))?;
                let base = members.split_off(<$base as $crate::shape::ShapedRecord>::RECORD).decode()?;
                Ok(Self { base, body: $body::from_members(&kind, &members)? })
            }
        }

        impl std::ops::Deref for $name {
            type Target = $base;
            fn deref(&self) -> &$base { &self.base }
        }

        impl std::ops::DerefMut for $name {
            fn deref_mut(&mut self) -> &mut $base { &mut self.base }
        }
    };
}
pub(crate) use union_with_base;
