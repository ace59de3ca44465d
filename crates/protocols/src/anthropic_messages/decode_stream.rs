//! Streams of the wire as events: a state machine over server-sent events.

use super::answer::Answer;
use super::errors;
use super::wire::Event;
use crate::codec::{Decoded, StreamDecoder};
use crate::context::DecodeContext;
use crate::feature::Feature;
use crate::sse::{SseEvent, SseParser, is_broken};
use crate::wire::peek_tag;
use throughline_format::event::Heartbeat;
use throughline_format::{ErrorCategory, EventBody, Json, UnifiedError, UnifiedFinishReason};

/// The decoder of one stream.
pub(super) struct Decoder {
    parser: SseParser,
    answer: Answer,
    finished: bool,
}

impl Decoder {
    /// A decoder at the begin of a stream.
    pub(super) fn new(context: &DecodeContext) -> Self {
        Self {
            parser: SseParser::new(),
            answer: Answer::new(context),
            finished: false,
        }
    }

    /// Takes one event; `torn` tells that the stream ended inside it.
    fn event(&mut self, event: &SseEvent, torn: bool, out: &mut Decoded) {
        if self.finished || event.data.trim().is_empty() || event.data.trim() == "[DONE]" {
            return;
        }
        match throughline_format::json::decode_str::<Event>(&event.data) {
            Ok(decoded) => self.apply(decoded, out),
            // An event that was cut: the end of the stream tells what became of it.
            Err(_) if torn => {}
            Err(error) if !is_broken(error.code) && !tells_error(event) => {
                let raw = Json::from_text(event.data.clone()).unwrap_or_else(|_| Json::null());
                self.answer
                    .odd("stream.unreadable-event", &raw, "an event of another shape than its type has");
            }
            Err(error) => {
                let error = UnifiedError::new(
                    ErrorCategory::Server,
                    "malformed-event",
                    format!("the provider sent a malformed event: {}", error.message),
                );
                self.fail(error, UnifiedFinishReason::Failed);
            }
        }
        out.extend(self.answer.take());
    }

    fn apply(&mut self, event: Event, out: &mut Decoded) {
        match event {
            Event::Ping(_) => out.push(EventBody::Heartbeat(Heartbeat {})),
            Event::MessageStart(start) if self.answer.started => {
                if start.message.id == self.answer.message_id {
                    let how = "a second begin of the same message is left out";
                    self.answer.left_out("stream.message-repeated", Feature::WireUnmapped, "/", how);
                } else {
                    let error = UnifiedError::new(
                        ErrorCategory::Interrupted,
                        "spliced",
                        "another message began before the first one ended",
                    );
                    self.fail(error, UnifiedFinishReason::Interrupted);
                }
            }
            Event::MessageStart(start) => {
                self.answer.root_fields(start.extra.0);
                self.answer.start(start.message, false);
            }
            Event::Error(answer) => self.fail(errors::from_answer(&answer, None), UnifiedFinishReason::Failed),
            Event::Unknown(raw) => {
                let kind = peek_tag(raw.as_str(), "type").unwrap_or_default();
                self.answer.odd(super::UNKNOWN_EVENT, &raw, &format!("an event of type {kind:.60}"));
            }
            _ if !self.answer.started => {
                let error = UnifiedError::new(
                    ErrorCategory::Server,
                    "malformed-stream",
                    "the stream did not begin with message_start",
                );
                self.fail(error, UnifiedFinishReason::Failed);
            }
            Event::BlockStart(start) => {
                self.answer.piece_fields(start.index, &start.extra);
                self.answer.begin(start.index, start.content_block);
            }
            Event::BlockDelta(change) => {
                self.answer.piece_fields(change.index, &change.extra);
                self.answer.change(change.index, change.delta);
            }
            Event::BlockStop(stop) => {
                self.answer.piece_fields(stop.index, &stop.extra);
                self.answer.close(stop.index);
            }
            Event::MessageDelta(delta) => {
                if let Some(ending) = delta.delta {
                    self.answer.end(ending);
                }
                self.answer.usage(delta.usage, true);
                self.answer.root_fields(delta.extra.0);
            }
            Event::MessageStop(stop) => {
                self.answer.root_fields(stop.extra.0);
                self.answer.complete();
                self.finished = true;
            }
        }
    }

    fn fail(&mut self, error: UnifiedError, reason: UnifiedFinishReason) {
        self.answer.fail(error, reason);
        self.finished = true;
    }
}

/// Whether an event says that something went wrong, whatever else it holds.
fn tells_error(event: &SseEvent) -> bool {
    event.event.as_deref() == Some("error") || peek_tag(&event.data, "type").as_deref() == Some("error")
}

impl StreamDecoder for Decoder {
    fn push(&mut self, bytes: &[u8]) -> Decoded {
        let mut out = Decoded::default();
        for event in self.parser.push(bytes) {
            match event {
                Ok(event) => self.event(&event, false, &mut out),
                Err(_) if self.finished => {}
                Err(error) => {
                    self.fail(error.into(), UnifiedFinishReason::Failed);
                    out.extend(self.answer.take());
                }
            }
        }
        out
    }

    fn finish(&mut self) -> Decoded {
        let mut out = Decoded::default();
        if let Some(event) = self.parser.finish() {
            self.event(&event, true, &mut out);
        }
        if !self.finished {
            let error = UnifiedError::new(ErrorCategory::Interrupted, "stream", "the stream ended before its message");
            self.fail(error, UnifiedFinishReason::Interrupted);
            out.extend(self.answer.take());
        }
        out
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}
