//! Descriptions of the types that no macro defines.

use super::{Doc, EitherShape, Shape, ShapeOf, Shaped, Word, WordsShape};
use crate::cache::CacheTtl;
use crate::intent::{InputResolution, Seed};
use crate::json::{Json, UserMap};
use crate::media::{MediaResolution, TokenResolution};
use crate::operation::SealedBytes;
use crate::profile::SchemaVersion;
use crate::tool::{ApprovalLists, ApprovalRule, ToolApproval};
use crate::{Sha256, Timestamp, UnifiedId};

/// A value without inner structure, or opaque JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// [`UnifiedId`].
    Id,
    /// [`Timestamp`].
    Time,
    /// [`Sha256`].
    Digest,
    /// [`SchemaVersion`].
    Version,
    /// [`SealedBytes`].
    Bytes,
    /// Any JSON value, kept as it was written.
    Json,
    /// [`crate::Count`].
    Count,
    /// A whole number with sign.
    Integer,
    /// A whole number within ±(2^53-1).
    SafeInteger,
    /// 0 to 255.
    Byte,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A text.
    Text,
    /// A 64-bit whole number as decimal text.
    Decimal,
}

impl Scalar {
    /// Every scalar.
    pub const ALL: [Self; 14] = [
        Self::Id,
        Self::Time,
        Self::Digest,
        Self::Version,
        Self::Bytes,
        Self::Json,
        Self::Count,
        Self::Integer,
        Self::SafeInteger,
        Self::Byte,
        Self::Number,
        Self::Boolean,
        Self::Text,
        Self::Decimal,
    ];

    /// The name under which schema, declarations and documentation know it; none for JSON's own types.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Id => Some("UnifiedId"),
            Self::Time => Some("Timestamp"),
            Self::Digest => Some("Sha256"),
            Self::Version => Some("UnifiedSchemaVersion"),
            Self::Bytes => Some("SealedBytes"),
            Self::Json => Some("Json"),
            Self::Count => Some("Count"),
            Self::Integer | Self::SafeInteger | Self::Byte | Self::Number | Self::Boolean | Self::Text | Self::Decimal => None,
        }
    }

    /// What it is.
    pub const fn doc(self) -> &'static str {
        match self {
            Self::Id => "An opaque identifier: 1 to 128 characters of `A-Z a-z 0-9 _ . : -`. Never authorisation.",
            Self::Time => "A point in time: RFC 3339, written in UTC with milliseconds.",
            Self::Digest => "A SHA-256 digest: 64 hex digits, written in lower case.",
            Self::Version => "Version of the format.",
            Self::Bytes => "Sealed bytes; standard base64 in JSON.",
            Self::Json => "Any JSON value, kept as it was written: order of keys, spelling of numbers, `null`.",
            Self::Count => "A count: 0 to 2^53-1.",
            Self::Integer | Self::SafeInteger => "A whole number within ±(2^53-1).",
            Self::Byte => "0 to 255.",
            Self::Number => "A number.",
            Self::Boolean => "`true` or `false`.",
            Self::Text => "A text.",
            Self::Decimal => "A 64-bit whole number as decimal text.",
        }
    }
}

macro_rules! scalars {
    ($($ty:ty => $scalar:ident,)+) => {
        $(impl Shaped for $ty {
            fn shape() -> Shape {
                Shape::Scalar(Scalar::$scalar)
            }
        })+
    };
}

scalars! {
    UnifiedId => Id,
    Timestamp => Time,
    Sha256 => Digest,
    SchemaVersion => Version,
    SealedBytes => Bytes,
    Json => Json,
    u64 => Count,
    i64 => Integer,
    u8 => Byte,
    f64 => Number,
    bool => Boolean,
    String => Text,
}

impl<T: Shaped> Shaped for Vec<T> {
    fn shape() -> Shape {
        Shape::List(T::shape)
    }
}

impl<V: Shaped> Shaped for UserMap<V> {
    fn shape() -> Shape {
        Shape::Map(V::shape)
    }
}

/// A whole number as JSON number.
const INTEGER: ShapeOf = || Shape::Scalar(Scalar::SafeInteger);
/// A whole number as text.
const DECIMAL: ShapeOf = || Shape::Scalar(Scalar::Decimal);

impl Shaped for Seed {
    fn shape() -> Shape {
        const EITHER: &EitherShape = &EitherShape {
            name: "Seed",
            doc: "A seed: a whole number within ±(2^53-1), or decimal text for 64-bit seeds beyond it.",
            expected: "a whole number or its decimal text",
            text: Some(DECIMAL),
            number: Some(INTEGER),
            object: None,
        };
        Shape::Either(EITHER)
    }
}

impl Shaped for CacheTtl {
    fn shape() -> Shape {
        const WORDS: &WordsShape = &WordsShape {
            name: "CacheTtlWord",
            doc: Doc::new("A life of a cache entry that has a word."),
            words: &[
                Word {
                    word: "5m",
                    doc: Doc::new("Five minutes."),
                },
                Word {
                    word: "1h",
                    doc: Doc::new("One hour."),
                },
            ],
            is_open: false,
            is_discriminator: false,
        };
        const EITHER: &EitherShape = &EitherShape {
            name: "CacheTtl",
            doc: "Life of a cache entry: a word or a number of seconds.",
            expected: "\"5m\", \"1h\" or a number of seconds",
            text: Some(|| Shape::Words(WORDS)),
            number: Some(<crate::Count as Shaped>::shape),
            object: None,
        };
        Shape::Either(EITHER)
    }
}

impl Shaped for MediaResolution {
    fn shape() -> Shape {
        const EITHER: &EitherShape = &EitherShape {
            name: "MediaResolution",
            doc: "How finely a medium is read: by word or by tokens.",
            expected: "a resolution word or an object with `tokens`",
            text: Some(InputResolution::shape),
            number: None,
            object: Some(TokenResolution::shape),
        };
        Shape::Either(EITHER)
    }
}

impl Shaped for ToolApproval {
    fn shape() -> Shape {
        const EITHER: &EitherShape = &EitherShape {
            name: "ToolApproval",
            doc: "When a call needs approval: one rule for all, or by name.",
            expected: "\"always\", \"never\" or an object",
            text: Some(ApprovalRule::shape),
            number: None,
            object: Some(ApprovalLists::shape),
        };
        Shape::Either(EITHER)
    }
}
