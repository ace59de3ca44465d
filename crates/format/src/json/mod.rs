//! JSON as this format needs it: opaque values kept as written, strict decoding with a place for every error.
//!
//! * [`Json`] is an embedded value whose text is never re-spelled (open-types.md, section 0).
//! * [`scan`] walks raw bytes once and refuses deep nesting and duplicate keys before anything is built.
//! * [`decode`] turns bytes into a record or into a [`DecodeError`] with code, JSON Pointer and message.
//! * [`tagged`] decodes the discriminated unions, whose tag may stand anywhere among the members.

pub mod decode;
mod opaque;
mod record;
pub mod scan;
pub mod tagged;
mod user_map;

pub use decode::{DecodeError, decode_slice, decode_str};
pub use opaque::Json;
pub(crate) use record::{ObjectOnly, WordOrRecord, word_or_record};
pub use tagged::CowStr;
pub use user_map::{USER_MAP_MARK, UserMap};

/// Escapes one reference token of a JSON Pointer (RFC 6901).
pub fn escape_pointer_token(token: &str) -> std::borrow::Cow<'_, str> {
    if token.contains(['~', '/']) {
        token.replace('~', "~0").replace('/', "~1").into()
    } else {
        token.into()
    }
}

/// Opens one reference token of a JSON Pointer (RFC 6901).
pub fn unescape_pointer_token(token: &str) -> std::borrow::Cow<'_, str> {
    if token.contains('~') {
        token.replace("~1", "/").replace("~0", "~").into()
    } else {
        token.into()
    }
}

/// Whether a text is a JSON Pointer (RFC 6901): empty, or reference tokens that each begin with `/`.
pub fn is_pointer(text: &str) -> bool {
    let bytes = text.as_bytes();
    (text.is_empty() || text.starts_with('/'))
        && bytes
            .iter()
            .enumerate()
            .all(|(at, byte)| *byte != b'~' || matches!(bytes.get(at + 1), Some(b'0' | b'1')))
}
