//! The members that a record has, as its decoder names them.

use serde::de::value::Error;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use std::cell::Cell;
use std::collections::BTreeSet;

thread_local! {
    static FOUND: Cell<&'static [&'static str]> = const { Cell::new(&[]) };
}

struct Ask;

impl<'de> Deserializer<'de> for Ask {
    type Error = Error;
    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("no record"))
    }
    fn deserialize_struct<V: Visitor<'de>>(self, _: &'static str, fields: &'static [&'static str], _: V) -> Result<V::Value, Error> {
        FOUND.set(fields);
        Err(Error::custom("asked"))
    }
    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Names of the members of `T`, optional ones included.
pub(crate) fn fields_of<T: for<'de> Deserialize<'de>>() -> BTreeSet<String> {
    FOUND.set(&[]);
    assert!(T::deserialize(Ask).is_err());
    FOUND.get().iter().map(|f| (*f).to_owned()).collect()
}
