//! The UI message stream from the wire: chunks build the parts of a message, as the SDK's own reader builds them.
//!
//! A step is handed out when it ends and not before, because `reset-step` takes back what it has said so far. What is inside
//! keeps the pieces in which it came. The bytes of a step that waits are bounded by [`MAX_STEP_BYTES`].

use super::answer::{Answer, Ending};
use super::chunks::Building;
use super::{errors, wire};
use crate::codec::{Decoded, StreamDecoder};
use crate::context::DecodeContext;
use crate::sse::{MAX_EVENT_BYTES, SseParser, is_broken};
use throughline_format::{ErrorCategory, UnifiedError};

/// Most bytes of chunks that wait for the end of their step.
pub(super) const MAX_STEP_BYTES: usize = MAX_EVENT_BYTES;

/// The finish chunk came, with this reason.
struct Finish(Option<String>);

/// Decoder of one stream.
pub(super) struct UiStreamDecoder {
    parser: SseParser,
    answer: Answer,
    building: Building,
    waiting: usize,
    finish: Option<Finish>,
    error: Option<UnifiedError>,
}

impl UiStreamDecoder {
    pub(super) fn new(context: DecodeContext) -> Self {
        Self {
            parser: SseParser::new(),
            answer: Answer::new(context),
            building: Building::default(),
            waiting: 0,
            finish: None,
            error: None,
        }
    }

    /// Reads one chunk. The stream may have ended inside the last one: what was cut says nothing, and the end tells what became of it.
    fn data(&mut self, data: &str, torn: bool) {
        if data.is_empty() || self.answer.has_ended() {
            return;
        }
        if data == "[DONE]" {
            self.end();
            return;
        }
        self.waiting = self.waiting.saturating_add(data.len());
        if self.waiting > MAX_STEP_BYTES {
            self.broken(UnifiedError::new(
                ErrorCategory::Server,
                "event-too-large",
                "the provider sent a step beyond the bound",
            ));
            return;
        }
        match throughline_format::json::decode_str::<wire::Chunk>(data) {
            Ok(chunk) => self.chunk(chunk),
            Err(error) if !is_broken(error.code) => {
                self.answer.warn("stream.unreadable-chunk", "a chunk of another shape was left out");
            }
            Err(_) if torn => {}
            Err(_) => self.broken(UnifiedError::new(
                ErrorCategory::Server,
                "malformed-stream",
                "the stream holds something that cannot be read",
            )),
        }
    }

    fn chunk(&mut self, chunk: wire::Chunk) {
        match chunk.kind.as_str() {
            "start" => {
                if chunk.message_id.is_some() {
                    self.answer.message.id = chunk.message_id;
                }
                self.metadata(chunk.message_metadata);
                self.answer.begin();
                self.left_out(chunk.extra);
            }
            "message-metadata" => {
                self.metadata(chunk.message_metadata);
                self.left_out(chunk.extra);
            }
            "start-step" => {
                self.flush();
                self.building.step();
                self.left_out(chunk.extra);
            }
            "finish-step" => {
                self.flush();
                self.left_out(chunk.extra);
            }
            "reset-step" => {
                self.building.reset();
                self.left_out(chunk.extra);
            }
            "finish" => {
                self.metadata(chunk.message_metadata);
                self.finish = Some(Finish(chunk.finish_reason));
                self.left_out(chunk.extra);
            }
            "abort" => {
                self.flush();
                self.answer.end(Some(Ending::Aborted(chunk.reason)));
            }
            // The message keeps its parts, and more may follow: the end tells.
            "error" => self.error = Some(errors::of_text(chunk.error_text.as_deref().unwrap_or_default())),
            _ => {
                if let Err(problem) = self.building.take(chunk) {
                    self.answer.warn(problem.code(), problem.message());
                }
            }
        }
    }

    /// Metadata is merged, objects in objects too.
    fn metadata(&mut self, raw: Option<throughline_format::Json>) {
        let Some(raw) = raw else { return };
        match (crate::object::Object::of(&raw), &mut self.answer.metadata) {
            (Some(object), Some(known)) => known.merge(&object),
            (Some(object), none) => *none = Some(object),
            (None, _) => self.answer.keep_root([("/metadata".to_owned(), raw)]),
        }
    }

    /// Members of chunks that stand for no part.
    fn left_out(&mut self, extra: crate::wire::Extra) {
        if !extra.is_empty() {
            self.answer.warn(
                "stream.unknown-member",
                "a member without a word of a chunk without content was left out",
            );
        }
    }

    fn flush(&mut self) {
        self.waiting = 0;
        self.building.flush(&mut self.answer);
        self.answer.flush();
    }

    fn end(&mut self) {
        self.flush();
        let ending = match (self.error.take(), self.finish.take()) {
            (Some(error), _) => Ending::Failed(Box::new(error)),
            (None, Some(Finish(reason))) if reason.as_deref() == Some("error") => Ending::Failed(Box::new(errors::of_text(""))),
            (None, Some(Finish(reason))) => Ending::Finished(reason),
            (None, None) => Ending::Failed(Box::new(UnifiedError::new(
                ErrorCategory::Interrupted,
                "stream",
                "the stream ended before the answer did",
            ))),
        };
        self.answer.end(Some(ending));
    }

    /// The other side broke its own protocol.
    fn broken(&mut self, error: UnifiedError) {
        if !self.answer.has_ended() {
            self.flush();
            self.answer.end(Some(Ending::Failed(Box::new(error))));
        }
    }
}

impl StreamDecoder for UiStreamDecoder {
    fn push(&mut self, bytes: &[u8]) -> Decoded {
        for event in self.parser.push(bytes) {
            match event {
                Ok(event) => self.data(event.data.trim(), false),
                Err(error) => self.broken(error.into()),
            }
        }
        self.answer.take()
    }

    fn finish(&mut self) -> Decoded {
        if let Some(event) = self.parser.finish() {
            self.data(event.data.trim(), true);
        }
        if !self.answer.has_ended() {
            if self.finish.is_some() {
                self.answer
                    .warn("stream.end-missing", "the stream ended without [DONE], but after its finish chunk");
            }
            self.end();
        }
        self.answer.take()
    }

    fn is_finished(&self) -> bool {
        self.answer.has_ended()
    }
}
