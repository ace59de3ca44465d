//! Server-sent events: an incremental parser that does not care where the transport cuts.
//!
//! Follows the WHATWG event stream grammar: LF, CRLF and CR line ends (also cut in the middle), a byte order mark, comments,
//! several data lines, one optional space after the colon. Invalid UTF-8 becomes U+FFFD. An event is bounded, so a provider
//! cannot make it grow without end; work is linear in the input.

use throughline_format::json::decode::DecodeCode;
use throughline_format::{ErrorCategory, UnifiedError};

/// Whether a text that cannot be decoded is broken as JSON, and not merely of another shape than expected.
pub const fn is_broken(code: DecodeCode) -> bool {
    matches!(code, DecodeCode::Json | DecodeCode::DuplicateKey | DecodeCode::TooDeep)
}

/// Largest event, in bytes of its data.
pub const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// One event with data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// ID, when the event has one of its own: where a reader may go on.
    pub id: Option<String>,
    /// Event name, when there was one.
    pub event: Option<String>,
    /// Data lines joined by LF.
    pub data: String,
}

/// An event that is larger than [`MAX_EVENT_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTooLarge;

impl From<EventTooLarge> for UnifiedError {
    /// The provider's fault, and not one of a request that is too large.
    fn from(_: EventTooLarge) -> Self {
        Self::new(
            ErrorCategory::Server,
            "event-too-large",
            "the provider sent an event beyond the bound",
        )
    }
}

/// The parser.
#[derive(Debug, Default)]
pub struct SseParser {
    line: Vec<u8>,
    id: Option<String>,
    event: Option<String>,
    data: String,
    has_data: bool,
    after_cr: bool,
    began: bool,
    is_broken: bool,
}

impl SseParser {
    /// A parser at the begin of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and returns the events that they complete. [`EventTooLarge`] is the last of them: the stream
    /// cannot go on, and whatever follows is ignored. Where the bytes are cut does not matter to that either.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Result<SseEvent, EventTooLarge>> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_broken {
            if std::mem::take(&mut self.after_cr) && rest.first() == Some(&b'\n') {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let end = rest.iter().position(|b| matches!(b, b'\n' | b'\r'));
            let piece = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            if self.data.len().saturating_add(self.line.len()).saturating_add(piece.len()) > MAX_EVENT_BYTES {
                *self = Self {
                    is_broken: true,
                    ..Self::default()
                };
                events.push(Err(EventTooLarge));
                break;
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { break };
            self.after_cr = rest.get(end) == Some(&b'\r');
            rest = rest.get(end + 1..).unwrap_or_default();
            events.extend(self.end_line().map(Ok));
        }
        events
    }

    /// Ends the stream. An event without its blank line is handed out too: providers do end streams so.
    pub fn finish(&mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.dispatch()
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let raw = std::mem::take(&mut self.line);
        let mut bytes = raw.as_slice();
        if !std::mem::replace(&mut self.began, true) {
            bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        }
        if bytes.is_empty() {
            return self.dispatch();
        }
        let line = String::from_utf8_lossy(bytes);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(value);
            }
            "event" => self.event = Some(value.to_owned()),
            "id" => self.id = Some(value.to_owned()),
            // Comments and retry advice mean nothing to the protocols here.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let (id, event) = (self.id.take(), self.event.take());
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then_some(SseEvent { id, event, data })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8], piece: usize) -> Vec<(Option<String>, String)> {
        let mut parser = SseParser::new();
        let mut events: Vec<SseEvent> = bytes.chunks(piece).flat_map(|c| parser.push(c)).map(Result::unwrap).collect();
        events.extend(parser.finish());
        events.into_iter().map(|e| (e.event, e.data)).collect()
    }

    #[test]
    fn line_ends_cuts_and_comments_do_not_matter() {
        type Case = (&'static str, &'static [(Option<&'static str>, &'static str)]);
        let cases: &[Case] = &[
            ("data: a\n\ndata: b\n\n", &[(None, "a"), (None, "b")]),
            (
                "\u{feff}data: a\r\n\r\nevent: x\r\ndata:b\r\n\r\n",
                &[(None, "a"), (Some("x"), "b")],
            ),
            ("data: a\rdata: b\r\rdata: c\r\r", &[(None, "a\nb"), (None, "c")]),
            (": hello\n\nevent: only\n\ndata\n\n", &[(None, "")]),
            ("data: ü🌍\n\nid: 7\nretry: 1\ndata: tail", &[(None, "ü🌍"), (None, "tail")]),
        ];
        for (text, expected) in cases {
            for piece in [1, 2, 3, 5, 7, 4096] {
                let got = parse(text.as_bytes(), piece);
                let got: Vec<_> = got.iter().map(|(e, d)| (e.as_deref(), d.as_str())).collect();
                assert_eq!(&got, expected, "{text:?} in pieces of {piece}");
            }
        }
    }
    #[test]
    fn an_event_beyond_the_bound_is_found_wherever_it_is_cut() {
        let line = [b"data: ".as_slice(), &vec![b'x'; MAX_EVENT_BYTES / 2], b"\n"].concat();
        let bytes = [b"data: before\n\n".as_slice(), &line, &line, b"\ndata: after\n\n"].concat();
        for piece in [1 << 20, MAX_EVENT_BYTES / 2 + 3, usize::MAX] {
            let mut parser = SseParser::new();
            let events: Vec<_> = bytes.chunks(piece).flat_map(|c| parser.push(c)).collect();
            assert_eq!(events.len(), 2, "in pieces of {piece}");
            assert_eq!(events[0].as_ref().unwrap().data, "before");
            assert_eq!(events[1], Err(EventTooLarge));
            assert_eq!(parser.finish(), None);
        }
    }
}
