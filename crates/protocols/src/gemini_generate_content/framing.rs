//! Framing of streams: server-sent events, or one JSON array that arrives in pieces; the first byte tells which.

use crate::sse::{EventTooLarge, MAX_EVENT_BYTES, SseParser};

/// Takes bytes, wherever they are cut, and gives the JSON text of each chunk.
#[derive(Debug, Default)]
pub(super) struct Framing {
    mode: Mode,
    /// The end of what was seen, for an error that stands bare behind the last event.
    tail: Vec<u8>,
}

#[derive(Debug, Default)]
enum Mode {
    /// Nothing but white space and a byte order mark so far.
    #[default]
    Unknown,
    Events(SseParser),
    Values(Values),
}

/// Bytes that are kept of the end of an event stream.
const TAIL: usize = 64 * 1024;

impl Framing {
    /// Takes the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Result<String, EventTooLarge>> {
        let mut bytes = bytes;
        if matches!(self.mode, Mode::Unknown) {
            let begin = bytes.iter().position(|b| !b.is_ascii_whitespace() && !b"\xEF\xBB\xBF".contains(b));
            let Some(begin) = begin else { return Vec::new() };
            bytes = bytes.get(begin..).unwrap_or_default();
            self.mode = match bytes.first() {
                Some(b'[' | b'{') => Mode::Values(Values::default()),
                _ => Mode::Events(SseParser::new()),
            };
        }
        match &mut self.mode {
            Mode::Unknown => Vec::new(),
            Mode::Values(values) => values.push(bytes),
            Mode::Events(parser) => {
                self.tail.extend_from_slice(bytes);
                let surplus = self.tail.len().saturating_sub(TAIL);
                self.tail.drain(..surplus);
                parser.push(bytes).into_iter().map(|event| event.map(|e| e.data)).collect()
            }
        }
    }

    /// Ends the stream; the second value tells whether the text may be cut.
    pub(super) fn finish(&mut self) -> Option<String> {
        match &mut self.mode {
            Mode::Unknown => None,
            Mode::Values(values) => values.rest(),
            Mode::Events(parser) => parser.finish().map(|event| event.data).or_else(|| bare_error(&self.tail)),
        }
    }
}

/// An error object that stands behind the last event without `data:`.
fn bare_error(tail: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(tail);
    let mut begins = text.match_indices('{').map(|(at, _)| at);
    let at = begins.find(|at| *at == 0 || text.as_bytes().get(at - 1) == Some(&b'\n'))?;
    let rest = text.get(at..)?.trim();
    serde_json::from_str::<serde_json::Value>(rest)
        .ok()
        .filter(|value| value.get("error").is_some())
        .map(|_| rest.to_owned())
}

/// The objects of an array, or one after the other.
#[derive(Debug, Default)]
struct Values {
    depth: usize,
    in_string: bool,
    escaped: bool,
    object: Vec<u8>,
    is_broken: bool,
}

impl Values {
    fn push(&mut self, bytes: &[u8]) -> Vec<Result<String, EventTooLarge>> {
        let mut found = Vec::new();
        for byte in bytes {
            if self.is_broken {
                break;
            }
            // Brackets around and commas between the objects.
            if self.depth == 0 && *byte != b'{' {
                continue;
            }
            self.object.push(*byte);
            if self.object.len() > MAX_EVENT_BYTES {
                *self = Self {
                    is_broken: true,
                    ..Self::default()
                };
                found.push(Err(EventTooLarge));
                break;
            }
            match byte {
                _ if std::mem::take(&mut self.escaped) => {}
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        let object = std::mem::take(&mut self.object);
                        found.push(Ok(String::from_utf8_lossy(&object).into_owned()));
                    }
                }
                _ => {}
            }
        }
        found
    }

    fn rest(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.object);
        (!rest.is_empty()).then(|| String::from_utf8_lossy(&rest).into_owned())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_framing_gives_the_same_chunks_wherever_it_is_cut() {
        let expected = [r#"{"a":"]}\"ü"}"#, r#"{"b":[{"c":1}]}"#];
        let cases = [
            format!("data: {}\n\ndata: {}\n\n", expected[0], expected[1]),
            format!("\u{feff}data: {}\r\n\r\n: x\r\ndata:{}", expected[0], expected[1]),
            format!(" [{},\n{}\n]", expected[0], expected[1]),
            format!("{}\n{}\n", expected[0], expected[1]),
        ];
        for text in cases {
            for piece in [1, 2, 5, 4096] {
                let mut framing = Framing::default();
                let mut got: Vec<String> = text
                    .as_bytes()
                    .chunks(piece)
                    .flat_map(|c| framing.push(c))
                    .map(Result::unwrap)
                    .collect();
                got.extend(framing.finish());
                assert_eq!(got, expected, "{text:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn an_error_behind_the_last_event_is_found() {
        let mut framing = Framing::default();
        let text = "data: {\"a\":1}\n\n{\"error\":\n {\"code\":500}}\n";
        assert_eq!(framing.push(text.as_bytes()).len(), 1);
        assert_eq!(framing.finish().unwrap(), "{\"error\":\n {\"code\":500}}");
    }
}
