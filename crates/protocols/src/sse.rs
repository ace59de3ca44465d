//! Server-sent events: an incremental parser that does not care where the transport cuts.
//!
//! Follows the WHATWG event stream grammar: LF, CRLF and CR line ends (also cut in the middle), a byte order mark, comments,
//! several data lines, one optional space after the colon. Invalid UTF-8 becomes U+FFFD. An event is bounded, so a provider
//! cannot make it grow without end; work is linear in the input.

/// Largest event, in bytes of its data.
pub const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// One event with data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// Event name, when there was one.
    pub event: Option<String>,
    /// Data lines joined by LF.
    pub data: String,
}

/// An event that is larger than [`MAX_EVENT_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTooLarge;

/// The parser.
#[derive(Debug, Default)]
pub struct SseParser {
    line: Vec<u8>,
    event: Option<String>,
    data: String,
    has_data: bool,
    after_cr: bool,
    began: bool,
}

impl SseParser {
    /// A parser at the begin of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and returns the events that they complete.
    ///
    /// # Errors
    /// [`EventTooLarge`]; the stream cannot go on.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, EventTooLarge> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr) && rest.first() == Some(&b'\n') {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let Some(end) = rest.iter().position(|b| matches!(b, b'\n' | b'\r')) else {
                self.line.extend_from_slice(rest);
                break;
            };
            self.line.extend_from_slice(rest.get(..end).unwrap_or_default());
            self.after_cr = rest.get(end) == Some(&b'\r');
            rest = rest.get(end + 1..).unwrap_or_default();
            events.extend(self.end_line());
        }
        if self.line.len() + self.data.len() > MAX_EVENT_BYTES {
            return Err(EventTooLarge);
        }
        Ok(events)
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
            // Comments, ids and retry advice mean nothing to the protocols here.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let event = self.event.take();
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then_some(SseEvent { event, data })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8], piece: usize) -> Vec<(Option<String>, String)> {
        let mut parser = SseParser::new();
        let mut events: Vec<SseEvent> = bytes.chunks(piece).flat_map(|c| parser.push(c).unwrap()).collect();
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
}
