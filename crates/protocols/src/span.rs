//! Indexes into text, from one unit to another: UTF-8 bytes, Unicode code points, UTF-16 code units.
//!
//! Vendors count differently and rarely say so. An index that is no border of a character in its own unit has no equivalent
//! and is `None`: it is never rounded.

use throughline_format::citation::UnifiedSpan;
use throughline_format::media::UnifiedIndexUnit;

/// The byte offset of an index of this unit; `None` when it is beyond the text or inside a character.
pub fn to_byte(text: &str, index: u64, unit: &UnifiedIndexUnit) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    match unit {
        UnifiedIndexUnit::Utf8Byte => text.is_char_boundary(index).then_some(index),
        // A vendor that says "character" without more means code points more often than not.
        UnifiedIndexUnit::CodePoint | UnifiedIndexUnit::Character => {
            text.char_indices().map(|(at, _)| at).chain(std::iter::once(text.len())).nth(index)
        }
        UnifiedIndexUnit::Utf16 => {
            let mut units = 0;
            for (at, c) in text.char_indices() {
                if units >= index {
                    return (units == index).then_some(at);
                }
                units += c.len_utf16();
            }
            (units == index).then_some(text.len())
        }
        UnifiedIndexUnit::Token | UnifiedIndexUnit::Page | UnifiedIndexUnit::Block | UnifiedIndexUnit::None => None,
    }
}

/// The index in this unit of a byte offset; `None` when it is beyond the text or inside a character.
pub fn of_byte(text: &str, byte: usize, unit: &UnifiedIndexUnit) -> Option<u64> {
    let head = text.get(..byte)?;
    let count = match unit {
        UnifiedIndexUnit::Utf8Byte => byte,
        UnifiedIndexUnit::CodePoint | UnifiedIndexUnit::Character => head.chars().count(),
        UnifiedIndexUnit::Utf16 => head.chars().map(char::len_utf16).sum(),
        UnifiedIndexUnit::Token | UnifiedIndexUnit::Page | UnifiedIndexUnit::Block | UnifiedIndexUnit::None => return None,
    };
    u64::try_from(count).ok()
}

/// An index of one unit in another one.
pub fn convert(text: &str, index: u64, from: &UnifiedIndexUnit, to: &UnifiedIndexUnit) -> Option<u64> {
    of_byte(text, to_byte(text, index, from)?, to)
}

/// Start and end of a span of `text` in another unit.
pub fn range(text: &str, span: &UnifiedSpan, to: &UnifiedIndexUnit) -> Option<(u64, u64)> {
    Some((convert(text, span.start, &span.unit, to)?, convert(text, span.end, &span.unit, to)?))
}

/// The words of a range of bytes; `None` when it is no range of whole characters.
pub fn slice(text: &str, start: u64, end: u64) -> Option<&str> {
    text.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}
