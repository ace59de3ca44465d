//! JSON lines as agents write them: cut while they grow, saved by editors, mailed through Windows.
//!
//! A line ends at a line feed and nowhere else (U+2028 is content), a carriage return before it belongs to the end, a byte order
//! mark and blank lines are skipped. Bytes that are no UTF-8 damage their line only. An object that was pretty-printed over several
//! lines counts as one line.

use crate::fields::Fields;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Most bytes of one object over several lines.
const MAX_SPREAD: usize = 4 * 1024 * 1024;
/// Most lines of a file at which such an object is looked for in vain.
const MAX_MISSES: usize = 64;

/// One line that is no blank.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    /// Its number, from 1.
    pub(crate) number: usize,
    /// The JSON object on it, without line ends; `None` when it is none.
    pub(crate) text: Option<Cow<'a, str>>,
    /// Whether nothing follows it, not even a line end: it may still be being written.
    pub(crate) open: bool,
    /// The object, read once where its text stands in the file.
    fields: Option<Fields<'a>>,
}

impl<'a> Line<'a> {
    /// A line that holds this text.
    pub(crate) fn of(number: usize, text: impl Into<Cow<'a, str>>) -> Self {
        Self {
            number,
            text: Some(text.into()),
            open: false,
            fields: None,
        }
    }

    /// The object on it; once, since it may be large.
    pub(crate) fn take_fields(&mut self) -> Option<Fields<'_>> {
        match self.fields.take() {
            Some(fields) => Some(fields),
            None => self.text.as_deref().and_then(Fields::parse),
        }
    }
}

/// The lines of a file.
pub(crate) fn lines(bytes: &[u8]) -> Vec<Line<'_>> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF".as_slice()).unwrap_or(bytes);
    let (mut found, mut misses) = (Vec::new(), 0);
    let (mut at, mut number) = (0, 0);
    while at < bytes.len() {
        number += 1;
        let rest = bytes.get(at..).unwrap_or_default();
        let end = memchr::memchr(b'\n', rest);
        let line = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        at += line.len() + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let first = number;
        let told = std::str::from_utf8(line).ok();
        let fields = told.and_then(Fields::parse);
        let mut text = told.filter(|_| fields.is_some()).map(Cow::Borrowed);
        if text.is_none() && line.trim_ascii_start().starts_with(b"{") && misses < MAX_MISSES {
            match spread(rest) {
                Some(whole) => {
                    // The line that it ends on is behind it, with whatever else stands there.
                    let ends = whole.bytes().filter(|byte| *byte == b'\n').count();
                    let tail = rest.get(whole.len()..).unwrap_or_default();
                    let tail = tail.iter().position(|byte| *byte == b'\n').unwrap_or(tail.len());
                    at = at - line.len() - 1 + whole.len() + tail + 1;
                    number += ends;
                    text = Some(Cow::Owned(on_one_line(whole)));
                }
                None => misses += 1,
            }
        }
        let open = text.is_none() && end.is_none();
        found.push(Line {
            number: first,
            text,
            open,
            fields,
        });
    }
    found
}

/// The object that begins here and goes on over the next lines.
fn spread(rest: &[u8]) -> Option<&str> {
    let window = rest.get(..rest.len().min(MAX_SPREAD))?;
    let text = match std::str::from_utf8(window) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(window.get(..error.valid_up_to())?).ok()?,
    };
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    stream.next()?.ok()?;
    let whole = text.get(..stream.byte_offset())?;
    (whole.contains('\n') && Fields::parse(whole).is_some()).then_some(whole)
}

/// A JSON value without the white space between its tokens; texts and numbers stay as they were written.
pub(crate) fn on_one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        if quoted {
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if matches!(c, ' ' | '\t' | '\n' | '\r') {
            continue;
        } else {
            quoted = c == '"';
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_line_feeds_only() {
        type Expected<'a> = &'a [(usize, Option<&'a str>, bool)];
        let cases: [(&[u8], Expected<'_>); 7] = [
            (b"", &[]),
            (b"\xEF\xBB\xBF{}\r\n\r\n  \n{ }", &[(1, Some("{}"), false), (4, Some("{ }"), false)]),
            (
                "{\"a\":\"a\u{2028}b\u{85}c\"}\n".as_bytes(),
                &[(1, Some("{\"a\":\"a\u{2028}b\u{85}c\"}"), false)],
            ),
            (b"{\"a\":\xFF}\n{}\n", &[(1, None, false), (2, Some("{}"), false)]),
            (b"{}\n{\"cut", &[(1, Some("{}"), false), (2, None, true)]),
            (
                b"log {\n{\n \"a\": 1\n}\n{}\n7\n",
                &[
                    (1, None, false),
                    (2, Some("{\"a\":1}"), false),
                    (5, Some("{}"), false),
                    (6, None, false),
                ],
            ),
            (b"\n\n", &[]),
        ];
        for (bytes, expected) in cases {
            let all = lines(bytes);
            let got: Vec<_> = all.iter().map(|l| (l.number, l.text.as_deref(), l.open)).collect();
            assert_eq!(got, expected, "{bytes:?}");
        }
    }

    #[test]
    fn objects_that_never_end_are_looked_for_a_bounded_number_of_times() {
        let text = "{\n".repeat(5_000);
        let all = lines(text.as_bytes());
        assert_eq!(all.len(), 5_000);
        assert!(all.iter().all(|line| line.text.is_none() && !line.open));
    }
}
