//! Descriptions of the types of this crate, made from the same text that defines them.
//!
//! `record!`, `words!`, `open_words!` and the unions emit a description beside the type: its name, its documentation, its
//! members or words. Everything that has to know the types without being them reads it: the JSON Schema, the TypeScript
//! declarations, docs/format.md ([`crate::schema`]) and the validator that lists every mistake
//! ([`crate::validate::structure`]). What no macro defines (IDs, times, numbers) is described in [`mod@primitive`].
//!
//! A description names other types by function, not by value, since types may hold themselves.

pub mod primitive;

pub use primitive::Scalar;

use crate::json::decode::{DecodeCode, DecodeError};

/// Gives the description of a type.
pub type ShapeOf = fn() -> Shape;

/// A type with a description.
pub trait Shaped {
    /// The description.
    fn shape() -> Shape;
}

/// A record with its description.
pub trait ShapedRecord: Shaped {
    /// The description.
    const RECORD: &'static RecordShape;
}

/// What JSON a type takes.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// An object with these members and no others.
    Record(&'static RecordShape),
    /// An object whose `kind` says which members it has.
    Union(&'static UnionShape),
    /// A word.
    Words(&'static WordsShape),
    /// One of several JSON types.
    Either(&'static EitherShape),
    /// An array.
    List(ShapeOf),
    /// An object whose keys are data.
    Map(ShapeOf),
    /// A value without inner structure, or opaque JSON.
    Scalar(Scalar),
}

impl Shape {
    /// The name of the type, when it has one of its own.
    pub fn name(&self) -> Option<&'static str> {
        match self {
            Self::Record(record) => Some(record.name),
            Self::Union(union) => Some(union.name),
            Self::Words(words) => Some(words.name),
            Self::Either(either) => Some(either.name),
            Self::Scalar(scalar) => scalar.name(),
            Self::List(_) | Self::Map(_) => None,
        }
    }
}

/// Documentation as it stands in the source.
#[derive(Clone, Copy, Debug)]
pub struct Doc(&'static str);

impl Doc {
    /// Takes lines as `#[doc]` attributes hold them.
    pub const fn new(lines: &'static str) -> Self {
        Self(lines)
    }

    /// The text: one line a paragraph, without the marks of links.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for line in self.0.lines().map(str::trim) {
            if line.is_empty() {
                out.push('\n');
            } else {
                if !out.is_empty() && !out.ends_with('\n') {
                    out.push(' ');
                }
                out.push_str(line);
            }
        }
        out.trim().replace("[`", "`").replace("`]", "`")
    }
}

/// A record.
#[derive(Clone, Copy, Debug)]
pub struct RecordShape {
    /// Name of the type.
    pub name: &'static str,
    /// What it is.
    pub doc: Doc,
    /// The type that it is applied to, when it is generic.
    pub parameter: Option<Parameter>,
    /// Its members in order.
    pub members: &'static [Member],
}

impl RecordShape {
    /// The member of this name.
    pub fn member(&self, name: &str) -> Option<&'static Member> {
        self.members.iter().find(|member| member.name == name)
    }
}

/// The parameter of a generic record.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name in the source, which is what [`Member::written`] says where a member is of that type.
    pub name: &'static str,
    /// The type that stands for it.
    pub shape: ShapeOf,
}

/// A member of a record.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Name in JSON.
    pub name: &'static str,
    /// What it is.
    pub doc: Doc,
    /// Whether it may be absent.
    pub is_optional: bool,
    /// Its type as the source writes it; an alias says more than the type behind it.
    pub written: &'static str,
    /// Its type.
    pub shape: ShapeOf,
}

/// An enumeration of words.
#[derive(Clone, Copy, Debug)]
pub struct WordsShape {
    /// Name of the type.
    pub name: &'static str,
    /// What it is.
    pub doc: Doc,
    /// The words in the order of the specification.
    pub words: &'static [Word],
    /// Whether other words are kept.
    pub is_open: bool,
    /// Whether the word says which members its record has.
    pub is_discriminator: bool,
}

impl WordsShape {
    /// Whether a text is one that the type takes.
    pub fn takes(&self, text: &str) -> bool {
        self.is_open || self.words.iter().any(|known| known.word == text)
    }

    /// The mistake of a word that the type does not take.
    pub fn unknown(&self) -> DecodeError {
        let known: Vec<&str> = self.words.iter().map(|w| w.word).collect();
        if self.is_discriminator {
            return unknown_kind(&known);
        }
        DecodeError::new(DecodeCode::InvalidValue, "", format!("expected one of {}", known.join(", ")))
    }
}

/// A word.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The word.
    pub word: &'static str,
    /// What it means; may be empty.
    pub doc: Doc,
}

/// A union by `kind`.
#[derive(Clone, Copy, Debug)]
pub struct UnionShape {
    /// Name of the type.
    pub name: &'static str,
    /// What it is.
    pub doc: Doc,
    /// Members that every kind has.
    pub base: Option<&'static RecordShape>,
    /// The kinds in the order of the specification.
    pub variants: &'static [Variant],
}

impl UnionShape {
    /// The discriminator of every union.
    pub const TAG: &'static str = "kind";

    /// The variant of this kind.
    pub fn variant(&self, kind: &str) -> Option<&'static Variant> {
        self.variants.iter().find(|variant| variant.kind == kind)
    }

    /// The mistake of a kind that the union does not have.
    pub fn unknown(&self) -> DecodeError {
        let known: Vec<&str> = self.variants.iter().map(|v| v.kind).collect();
        unknown_kind(&known)
    }
}

/// One kind of a union.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The discriminator.
    pub kind: &'static str,
    /// What it is.
    pub doc: Doc,
    /// Its members besides the discriminator and those of the base.
    pub record: &'static RecordShape,
}

/// A value of one of several JSON types, each with its own meaning.
#[derive(Clone, Copy, Debug)]
pub struct EitherShape {
    /// Name of the type.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// What to say to a value of none of the types.
    pub expected: &'static str,
    /// As text.
    pub text: Option<ShapeOf>,
    /// As a number.
    pub number: Option<ShapeOf>,
    /// As an object.
    pub object: Option<ShapeOf>,
}

impl EitherShape {
    /// The forms that it may have.
    pub fn forms(&self) -> impl Iterator<Item = Shape> {
        [self.text, self.number, self.object].into_iter().flatten().map(|shape| shape())
    }
}

/// The mistake of a discriminator outside the known ones.
pub(crate) fn unknown_kind(known: &[&str]) -> DecodeError {
    DecodeError::new(
        DecodeCode::UnknownDiscriminator,
        "",
        format!("unknown kind; known are: {}", known.join(" ")),
    )
}

/// Length of a member's name in JSON.
pub(crate) const fn wire_name_length(field: &str) -> usize {
    let mut rest = bare(field.as_bytes());
    let mut length = 0;
    while let Some((byte, after)) = rest.split_first() {
        if *byte != b'_' {
            length += 1;
        }
        rest = after;
    }
    length
}

/// A member's name in JSON: the field's in camel case, as serde writes it.
#[allow(clippy::mem_replace_with_default)] // `take` is not for constants
pub(crate) const fn wire_name<const LENGTH: usize>(field: &str) -> [u8; LENGTH] {
    let mut name = [0; LENGTH];
    let mut rest = bare(field.as_bytes());
    let mut out: &mut [u8] = &mut name;
    let mut begins_word = false;
    while let Some((byte, after)) = rest.split_first() {
        if *byte == b'_' {
            begins_word = true;
        } else if let Some((slot, free)) = std::mem::replace(&mut out, &mut []).split_first_mut() {
            *slot = if begins_word { byte.to_ascii_uppercase() } else { *byte };
            out = free;
            begins_word = false;
        }
        rest = after;
    }
    name
}

/// The name of a field without the mark of a raw identifier.
const fn bare(field: &[u8]) -> &[u8] {
    match field {
        [b'r', b'#', rest @ ..] => rest,
        other => other,
    }
}

/// Names are ASCII, so this never falls back.
pub(crate) const fn text(name: &'static [u8]) -> &'static str {
    match std::str::from_utf8(name) {
        Ok(text) => text,
        Err(_) => "",
    }
}
