//! Every number of a record: finite, and whole numbers within ±(2^53-1). Ranges of single members stand with their areas.

use crate::MAX_SAFE_INTEGER;
use crate::canonical::{CanonicalError, RAW_VALUE_MARK};
use crate::validate::{Check, Rule};
use serde::ser::{self, Impossible, Serialize, Serializer};

type Done = Result<(), CanonicalError>;

/// Checks every number of a record whose nesting is known to be bounded.
pub(super) fn check<T: Serialize + ?Sized>(check: &mut Check, record: &T) {
    let place = check.place();
    // A record that cannot be walked has a part that is no JSON, which is told where it stands.
    if record.serialize(Numbers(check)).is_err() {
        check.broken(Rule::Number, "a member has no JSON form");
    }
    check.back_to(place);
}

struct Numbers<'c>(&'c mut Check);

impl Numbers<'_> {
    fn whole(self, magnitude: u128) {
        if magnitude > u128::from(MAX_SAFE_INTEGER) {
            self.0.broken(Rule::Number, "whole numbers lie within ±(2^53-1); write it as text");
        }
    }
}

macro_rules! signed {
    ($($method:ident $ty:ty),+) => { $(fn $method(self, v: $ty) -> Done { self.whole(u128::from(v.unsigned_abs())); Ok(()) })+ };
}
macro_rules! unsigned {
    ($($method:ident $ty:ty),+) => { $(fn $method(self, v: $ty) -> Done { self.whole(u128::from(v)); Ok(()) })+ };
}
macro_rules! no_number {
    ($($method:ident($($ty:ty),*)),+ $(,)?) => { $(fn $method(self, $(_: $ty),*) -> Done { Ok(()) })+ };
}

impl<'c> Serializer for Numbers<'c> {
    type Ok = ();
    type Error = CanonicalError;
    type SerializeSeq = Elements<'c>;
    type SerializeTuple = Elements<'c>;
    type SerializeTupleStruct = Elements<'c>;
    type SerializeTupleVariant = Impossible<(), CanonicalError>;
    type SerializeMap = Members<'c>;
    type SerializeStruct = Members<'c>;
    type SerializeStructVariant = Impossible<(), CanonicalError>;

    signed!(serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64, serialize_i128 i128);
    unsigned!(serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64, serialize_u128 u128);
    no_number!(
        serialize_bool(bool),
        serialize_char(char),
        serialize_str(&str),
        serialize_bytes(&[u8]),
        serialize_none(),
        serialize_unit(),
        serialize_unit_struct(&'static str),
        serialize_unit_variant(&'static str, u32, &'static str),
    );

    fn serialize_f32(self, v: f32) -> Done {
        self.serialize_f64(v.into())
    }
    fn serialize_f64(self, v: f64) -> Done {
        if !v.is_finite() {
            self.0.broken(Rule::Number, "numbers are finite");
        }
        Ok(())
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Done {
        value.serialize(self)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Done {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(self, _: &'static str, _: u32, _: &'static str, value: &T) -> Done {
        value.serialize(self)
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Elements<'c>, CanonicalError> {
        Ok(Elements { check: self.0, next: 0 })
    }
    fn serialize_tuple(self, _: usize) -> Result<Elements<'c>, CanonicalError> {
        self.serialize_seq(None)
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Elements<'c>, CanonicalError> {
        self.serialize_seq(None)
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, CanonicalError> {
        Err(ser::Error::custom("no record has tuple variants"))
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Members<'c>, CanonicalError> {
        Ok(Members {
            check: self.0,
            key: String::new(),
            opaque: false,
        })
    }
    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Members<'c>, CanonicalError> {
        Ok(Members {
            check: self.0,
            key: String::new(),
            opaque: name == RAW_VALUE_MARK,
        })
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, CanonicalError> {
        Err(ser::Error::custom("no record has struct variants"))
    }
}

struct Elements<'c> {
    check: &'c mut Check,
    next: usize,
}

impl Elements<'_> {
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        let index = self.next;
        self.next += 1;
        self.check.element(index, |check| value.serialize(Numbers(check)))
    }
}

impl ser::SerializeSeq for Elements<'_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        self.element(value)
    }
    fn end(self) -> Done {
        Ok(())
    }
}
impl ser::SerializeTuple for Elements<'_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        self.element(value)
    }
    fn end(self) -> Done {
        Ok(())
    }
}
impl ser::SerializeTupleStruct for Elements<'_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        self.element(value)
    }
    fn end(self) -> Done {
        Ok(())
    }
}

struct Members<'c> {
    check: &'c mut Check,
    key: String,
    /// A raw value: opaque text, whose numbers are the author's.
    opaque: bool,
}

impl ser::SerializeStruct for Members<'_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Done {
        if self.opaque {
            return Ok(());
        }
        self.check.inside(key, |check| value.serialize(Numbers(check)))
    }
    fn end(self) -> Done {
        Ok(())
    }
}
impl ser::SerializeMap for Members<'_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Done {
        self.key = key
            .serialize(serde_json::value::Serializer)
            .ok()
            .and_then(|k| k.as_str().map(str::to_owned))
            .unwrap_or_default();
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        let key = std::mem::take(&mut self.key);
        self.check.inside(&key, |check| value.serialize(Numbers(check)))
    }
    fn end(self) -> Done {
        Ok(())
    }
}
