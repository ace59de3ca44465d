//! Records are objects: serde's derived structs would also take an array of their members in order, which is not JSON of this format.

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::marker::PhantomData;

/// Hands a struct's visitor on so that it accepts an object only.
pub(crate) struct ObjectOnly<D>(pub(crate) D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for ObjectOnly<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Members(visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, Members(visitor))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// A visitor that knows objects only.
struct Members<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Members<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(map)
    }
}

/// What [`word_or_record`] found.
pub(crate) enum WordOrRecord<W, R> {
    Word(W),
    Record(R),
}

/// Decodes a member that is a word or an object; unlike serde's untagged enumerations it says what is wrong, and where.
pub(crate) fn word_or_record<'de, W: Deserialize<'de>, R: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
    expected: &'static str,
) -> Result<WordOrRecord<W, R>, D::Error> {
    struct Either<W, R>(&'static str, PhantomData<(W, R)>);
    impl<'de, W: Deserialize<'de>, R: Deserialize<'de>> Visitor<'de> for Either<W, R> {
        type Value = WordOrRecord<W, R>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
        fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
            W::deserialize(StrDeserializer::new(word)).map(WordOrRecord::Word)
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            R::deserialize(MapAccessDeserializer::new(map)).map(WordOrRecord::Record)
        }
    }
    deserializer.deserialize_any(Either(expected, PhantomData))
}
