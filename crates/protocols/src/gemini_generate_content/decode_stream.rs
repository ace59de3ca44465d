//! Streams of the wire as events: server-sent events or the pieces of an array, each a response of its own.

use super::Dialect;
use super::answer::Answer;
use super::decode_response::take;
use super::framing::Framing;
use super::spelling::Spelling;
use crate::codec::{Decoded, StreamDecoder};
use crate::context::DecodeContext;
use crate::google::status;
use crate::sse::is_broken;
use throughline_format::{ErrorCategory, Json, UnifiedError, UnifiedFinishReason};

/// The decoder of one stream.
pub(super) struct Decoder {
    framing: Framing,
    dialect: Dialect,
    answer: Answer,
    finished: bool,
}

impl Decoder {
    /// A decoder at the begin of a stream.
    pub(super) fn new(dialect: Dialect, context: &DecodeContext) -> Self {
        Self {
            framing: Framing::default(),
            dialect,
            answer: Answer::new(dialect, context, false),
            finished: false,
        }
    }

    /// Takes one chunk; `torn` tells that the stream ended inside it.
    fn chunk(&mut self, text: &str, torn: bool) {
        let text = text.trim();
        if self.finished || text.is_empty() || text == "[DONE]" {
            return;
        }
        let json = match throughline_format::json::decode_str::<Json>(text) {
            Ok(json) => json,
            // A chunk that was cut: the end of the stream tells what became of it.
            Err(_) if torn => return,
            Err(error) => {
                let error = UnifiedError::new(
                    ErrorCategory::Server,
                    "malformed-event",
                    format!("the provider sent a malformed event: {}", error.message),
                );
                self.fail(error, UnifiedFinishReason::Failed, None);
                return;
            }
        };
        if let Some(error) = status::error_of(&json) {
            self.fail(status::from_error(&error, None), UnifiedFinishReason::Failed, Some(text));
            return;
        }
        let (renamed, _) = Spelling::of(text);
        let json = Json::from_text(renamed.into_owned()).unwrap_or(json);
        if let Err(error) = take(&mut self.answer, self.dialect, &json) {
            if is_broken(error.code) {
                let error = UnifiedError::new(ErrorCategory::Server, "malformed-event", "the provider sent a malformed event");
                self.fail(error, UnifiedFinishReason::Failed, None);
            } else {
                self.answer
                    .draft
                    .warn("stream.unreadable-event", "a chunk of another shape than expected was ignored");
            }
        }
    }

    fn fail(&mut self, error: UnifiedError, reason: UnifiedFinishReason, body: Option<&str>) {
        self.answer.fail(error, reason, body);
        self.finished = true;
    }
}

impl StreamDecoder for Decoder {
    fn push(&mut self, bytes: &[u8]) -> Decoded {
        for chunk in self.framing.push(bytes) {
            match chunk {
                Ok(text) => self.chunk(&text, false),
                Err(_) if self.finished => {}
                Err(error) => self.fail(error.into(), UnifiedFinishReason::Failed, None),
            }
        }
        self.answer.draft.take()
    }

    fn finish(&mut self) -> Decoded {
        if let Some(text) = self.framing.finish() {
            self.chunk(&text, true);
        }
        if !self.finished {
            // The end of the bytes is the end of the answer when a reason was told before; counters may come behind it.
            if self.answer.has_ended() {
                self.answer.complete();
            } else {
                let error = UnifiedError::new(ErrorCategory::Interrupted, "stream", "the stream ended before its answer");
                self.answer.fail(error, UnifiedFinishReason::Interrupted, None);
            }
            self.finished = true;
        }
        self.answer.draft.take()
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}
