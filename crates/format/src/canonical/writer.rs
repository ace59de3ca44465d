//! The serialiser behind [`super::to_bytes`].
//!
//! A record is written into one buffer as its members come; only when it ends are they put in order, by way of a second buffer
//! that all records share. So nothing is allocated per member or per level.

use super::{CONTENT_SKIPS, CanonicalError};
use crate::json::USER_MAP_MARK;
use crate::media::decode_base64;
use crate::{MAX_SAFE_INTEGER, Sha256};
use serde::ser::{self, Serialize, Serializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

/// How serde_json's raw values announce themselves.
pub(crate) const RAW_VALUE_MARK: &str = "$serde_json::private::RawValue";

pub(super) fn write<T: Serialize + ?Sized>(value: &T, content_only: bool) -> Result<Vec<u8>, CanonicalError> {
    let mut pages = Pages {
        out: Vec::with_capacity(512),
        spare: Vec::new(),
        entries: Vec::new(),
        content_only,
    };
    value.serialize(Writer {
        pages: &mut pages,
        media_type: &mut None,
        free_keys: false,
    })?;
    Ok(pages.out)
}

/// What all levels write to.
struct Pages {
    /// The canonical text, behind it the members of the records that have not ended.
    out: Vec<u8>,
    /// Where a record is put in order.
    spare: Vec<u8>,
    /// Members of the records that have not ended, outermost first.
    entries: Vec<Entry>,
    content_only: bool,
}

/// A member of a record that has not ended: where its name stands as plain text, and its value as canonical JSON.
#[derive(Clone)]
struct Entry {
    key: Range<usize>,
    value: Range<usize>,
}

impl Pages {
    fn at(&self, range: &Range<usize>) -> &[u8] {
        self.out.get(range.clone()).unwrap_or_default()
    }

    /// Writes behind everything else, and says where.
    fn put(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.out.len();
        self.out.extend_from_slice(bytes);
        start..self.out.len()
    }
}

struct Writer<'a> {
    pages: &'a mut Pages,
    /// Takes the media type of inline data to the part around it, written as JSON.
    media_type: &'a mut Option<Vec<u8>>,
    /// The next map has free keys: none of them is skipped.
    free_keys: bool,
}

fn error<T>(message: &str) -> Result<T, CanonicalError> {
    Err(CanonicalError(message.to_owned()))
}

fn write_str(out: &mut Vec<u8>, text: &str) -> Result<(), CanonicalError> {
    serde_json::to_writer(out, text).map_err(|e| CanonicalError(e.to_string()))
}

impl Writer<'_> {
    fn integer(self, text: &str, magnitude: u128) -> Result<(), CanonicalError> {
        if magnitude > u128::from(MAX_SAFE_INTEGER) {
            return error("an integer beyond ±(2^53-1) has no canonical form; write it as text");
        }
        self.pages.out.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

macro_rules! integers {
    ($($method:ident $ty:ty),+) => {
        $(fn $method(self, v: $ty) -> Result<(), CanonicalError> {
            let magnitude = u128::from(v.unsigned_abs());
            self.integer(&v.to_string(), magnitude)
        })+
    };
}

impl<'a> Serializer for Writer<'a> {
    type Ok = ();
    type Error = CanonicalError;
    type SerializeSeq = List<'a>;
    type SerializeTuple = List<'a>;
    type SerializeTupleStruct = List<'a>;
    type SerializeTupleVariant = ser::Impossible<(), CanonicalError>;
    type SerializeMap = Members<'a>;
    type SerializeStruct = Struct<'a>;
    type SerializeStructVariant = ser::Impossible<(), CanonicalError>;

    integers!(serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64);

    fn serialize_u8(self, v: u8) -> Result<(), CanonicalError> {
        self.serialize_u64(v.into())
    }
    fn serialize_u16(self, v: u16) -> Result<(), CanonicalError> {
        self.serialize_u64(v.into())
    }
    fn serialize_u32(self, v: u32) -> Result<(), CanonicalError> {
        self.serialize_u64(v.into())
    }
    fn serialize_u64(self, v: u64) -> Result<(), CanonicalError> {
        self.integer(&v.to_string(), v.into())
    }
    fn serialize_f32(self, v: f32) -> Result<(), CanonicalError> {
        self.serialize_f64(v.into())
    }
    fn serialize_f64(self, v: f64) -> Result<(), CanonicalError> {
        if !v.is_finite() {
            return error("a number that is not finite has no JSON form");
        }
        let mut buffer = ryu_js::Buffer::new();
        self.pages.out.extend_from_slice(buffer.format(v).as_bytes());
        Ok(())
    }
    fn serialize_bool(self, v: bool) -> Result<(), CanonicalError> {
        self.pages.out.extend_from_slice(if v { b"true" } else { b"false" });
        Ok(())
    }
    fn serialize_char(self, v: char) -> Result<(), CanonicalError> {
        write_str(&mut self.pages.out, v.encode_utf8(&mut [0; 4]))
    }
    fn serialize_str(self, v: &str) -> Result<(), CanonicalError> {
        write_str(&mut self.pages.out, v)
    }
    fn serialize_bytes(self, v: &[u8]) -> Result<(), CanonicalError> {
        v.serialize(self)
    }
    fn serialize_none(self) -> Result<(), CanonicalError> {
        self.serialize_unit()
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), CanonicalError> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), CanonicalError> {
        self.pages.out.extend_from_slice(b"null");
        Ok(())
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<(), CanonicalError> {
        self.serialize_unit()
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), CanonicalError> {
        self.serialize_str(variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(mut self, name: &'static str, value: &T) -> Result<(), CanonicalError> {
        self.free_keys = name == USER_MAP_MARK;
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), CanonicalError> {
        error("externally tagged enumerations have no place in the format")
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<List<'a>, CanonicalError> {
        self.pages.out.push(b'[');
        Ok(List {
            pages: self.pages,
            first: true,
        })
    }
    fn serialize_tuple(self, len: usize) -> Result<List<'a>, CanonicalError> {
        self.serialize_seq(Some(len))
    }
    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<List<'a>, CanonicalError> {
        self.serialize_seq(Some(len))
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, CanonicalError> {
        error("externally tagged enumerations have no place in the format")
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Members<'a>, CanonicalError> {
        Ok(Members {
            start: self.pages.out.len(),
            first: self.pages.entries.len(),
            pages: self.pages,
            media_type: self.media_type,
            inline_media_type: None,
            free_keys: self.free_keys,
            key: None,
        })
    }
    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Struct<'a>, CanonicalError> {
        if name == RAW_VALUE_MARK {
            return Ok(Struct::Raw(&mut self.pages.out));
        }
        self.serialize_map(None).map(Struct::Record)
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, CanonicalError> {
        error("externally tagged enumerations have no place in the format")
    }
}

pub(super) struct List<'a> {
    pages: &'a mut Pages,
    first: bool,
}

impl ser::SerializeSeq for List<'_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        if !std::mem::take(&mut self.first) {
            self.pages.out.push(b',');
        }
        value.serialize(Writer {
            pages: self.pages,
            media_type: &mut None,
            free_keys: false,
        })
    }
    fn end(self) -> Result<(), CanonicalError> {
        self.pages.out.push(b']');
        Ok(())
    }
}

impl ser::SerializeTuple for List<'_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        ser::SerializeSeq::serialize_element(self, value)
    }
    fn end(self) -> Result<(), CanonicalError> {
        ser::SerializeSeq::end(self)
    }
}

impl ser::SerializeTupleStruct for List<'_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        ser::SerializeSeq::serialize_element(self, value)
    }
    fn end(self) -> Result<(), CanonicalError> {
        ser::SerializeSeq::end(self)
    }
}

pub(super) struct Members<'a> {
    pages: &'a mut Pages,
    media_type: &'a mut Option<Vec<u8>>,
    /// Where the record begins in the text.
    start: usize,
    /// Number of its first member among those of all open records.
    first: usize,
    /// Media type of the inline data in the member `source`.
    inline_media_type: Option<Vec<u8>>,
    free_keys: bool,
    key: Option<Range<usize>>,
}

impl Members<'_> {
    fn add<T: Serialize + ?Sized>(&mut self, key: Range<usize>, value: &T) -> Result<(), CanonicalError> {
        let name = std::str::from_utf8(self.pages.at(&key)).unwrap_or_default();
        if self.pages.content_only && !self.free_keys && is_skipped(name) {
            self.pages.out.truncate(key.start);
            return Ok(());
        }
        let is_source = name == "source";
        let (start, mut media_type) = (self.pages.out.len(), None);
        value.serialize(Writer {
            pages: self.pages,
            media_type: &mut media_type,
            free_keys: false,
        })?;
        if is_source {
            self.inline_media_type = media_type;
        }
        let value = start..self.pages.out.len();
        self.pages.entries.push(Entry { key, value });
        Ok(())
    }

    fn entries(&self) -> &[Entry] {
        self.pages.entries.get(self.first..).unwrap_or_default()
    }

    fn get(&self, key: &str) -> Option<&[u8]> {
        let entry = self.entries().iter().find(|entry| self.pages.at(&entry.key) == key.as_bytes())?;
        Some(self.pages.at(&entry.value))
    }

    /// Takes out the members of this record that have not this name.
    fn retain(&mut self, keep: impl Fn(&[u8]) -> bool) {
        let own = self.pages.entries.split_off(self.first);
        let kept = own
            .into_iter()
            .filter(|entry| keep(self.pages.out.get(entry.key.clone()).unwrap_or_default()));
        self.pages.entries.extend(kept);
    }

    /// Adds a member whose value is canonical already.
    fn put(&mut self, key: &str, value: &[u8]) {
        let entry = Entry {
            key: self.pages.put(key.as_bytes()),
            value: self.pages.put(value),
        };
        self.pages.entries.push(entry);
    }

    /// Replaces the members of a data source that holds bytes by their digest.
    fn externalise(&mut self) {
        let kind = self.get("kind").unwrap_or_default();
        let digest = if kind == b"\"inline\"" && self.get("data").is_some() && self.get("encoding").is_some() {
            let data: String = self.get("data").and_then(|d| serde_json::from_slice(d).ok()).unwrap_or_default();
            let bytes = if self.get("encoding") == Some(b"\"utf8\"") {
                None
            } else {
                decode_base64(&data)
            };
            // Data that is no base64 cannot be stored as bytes; it counts as the text it is.
            let digest = Sha256::of(&bytes.unwrap_or_else(|| data.into_bytes()));
            *self.media_type = self.get("mediaType").map(<[u8]>::to_vec);
            format!("\"{digest}\"").into_bytes()
        } else if kind == b"\"artifact\"" && self.get("sha256").is_some() && self.get("media").is_none() {
            self.get("sha256").map(<[u8]>::to_vec).unwrap_or_default()
        } else {
            return;
        };
        self.pages.entries.truncate(self.first);
        self.put("kind", b"\"content\"");
        self.put("sha256", &digest);
    }

    /// Puts the media type of inline data into the `media` member beside it, where externalised data has it.
    fn lift_media_type(&mut self) -> Result<(), CanonicalError> {
        let Some(media_type) = self.inline_media_type.take() else {
            return Ok(());
        };
        let media = self.get("media").map_or_else(|| b"{}".to_vec(), <[u8]>::to_vec);
        let mut members: BTreeMap<String, &RawValue> = serde_json::from_slice(&media).map_err(|e| CanonicalError(e.to_string()))?;
        let media_type: &RawValue = serde_json::from_slice(&media_type).map_err(|e| CanonicalError(e.to_string()))?;
        members.entry("mediaType".to_owned()).or_insert(media_type);
        let mut bytes = Vec::with_capacity(media.len() + 64);
        // Names of members are ASCII, so their order as text is that of UTF-16; the values are canonical already.
        serde_json::to_writer(&mut bytes, &members).map_err(|e| CanonicalError(e.to_string()))?;
        self.retain(|key| key != b"media");
        self.put("media", &bytes);
        Ok(())
    }

    fn finish(mut self) -> Result<(), CanonicalError> {
        if !self.free_keys {
            self.externalise();
            self.lift_media_type()?;
            if self.pages.content_only && self.get("schemaVersion").is_some() {
                // In a root record `source` is provenance; in a part it is content.
                self.retain(|key| key != b"source");
            }
        }
        let Pages { out, spare, entries, .. } = self.pages;
        let text = |range: &Range<usize>| out.get(range.clone()).unwrap_or_default();
        let own = entries.get_mut(self.first..).unwrap_or_default();
        own.sort_by(|a, b| utf16_order(text(&a.key), text(&b.key)));
        spare.clear();
        spare.push(b'{');
        for (at, entry) in own.iter().enumerate() {
            if at > 0 {
                spare.push(b',');
            }
            write_str(spare, std::str::from_utf8(text(&entry.key)).unwrap_or_default())?;
            spare.push(b':');
            spare.extend_from_slice(text(&entry.value));
        }
        spare.push(b'}');
        entries.truncate(self.first);
        out.truncate(self.start);
        out.extend_from_slice(spare);
        Ok(())
    }
}

/// Whether the content hash leaves a member out.
fn is_skipped(name: &str) -> bool {
    static SORTED: LazyLock<Vec<&str>> = LazyLock::new(|| {
        let mut names = CONTENT_SKIPS.to_vec();
        names.sort_unstable();
        names
    });
    SORTED.binary_search(&name).is_ok()
}

/// The order of two texts as UTF-16, which for ASCII is that of their bytes.
fn utf16_order(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    if a.is_ascii() && b.is_ascii() {
        return a.cmp(b);
    }
    let units = |text| std::str::from_utf8(text).unwrap_or_default().encode_utf16();
    units(a).cmp(units(b))
}

impl ser::SerializeMap for Members<'_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), CanonicalError> {
        let start = self.pages.out.len();
        key.serialize(Writer {
            pages: self.pages,
            media_type: &mut None,
            free_keys: false,
        })?;
        let end = self.pages.out.len();
        self.key = Some(match self.pages.at(&(start..end)) {
            [b'"', plain @ .., b'"'] if !plain.contains(&b'\\') => start + 1..end - 1,
            quoted @ [b'"', ..] => {
                let text: String = serde_json::from_slice(quoted).map_err(|e| CanonicalError(e.to_string()))?;
                self.pages.put(text.as_bytes())
            }
            [b'-' | b'0'..=b'9', ..] => start..end,
            _ => return error("a key must be text"),
        });
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        let key = self.key.take().unwrap_or_default();
        self.add(key, value)
    }
    fn end(self) -> Result<(), CanonicalError> {
        self.finish()
    }
}

pub(super) enum Struct<'a> {
    Raw(&'a mut Vec<u8>),
    Record(Members<'a>),
}

impl ser::SerializeStruct for Struct<'_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), CanonicalError> {
        match self {
            Self::Record(members) => {
                let key = members.pages.put(key.as_bytes());
                members.add(key, value)
            }
            Self::Raw(out) => match serde_json::to_value(value) {
                Ok(serde_json::Value::String(text)) => {
                    out.extend_from_slice(text.as_bytes());
                    Ok(())
                }
                _ => error("opaque JSON is text"),
            },
        }
    }
    fn end(self) -> Result<(), CanonicalError> {
        match self {
            Self::Record(members) => members.finish(),
            Self::Raw(_) => Ok(()),
        }
    }
}
