//! Streams of the wire as events: a state machine over server-sent events, whose type stands in their data.

use super::answer::Answer;
use super::wire::Event;
use crate::codec::{Decoded, StreamDecoder};
use crate::context::DecodeContext;
use crate::continuation::Job;
use crate::google::status;
use crate::raw;
use crate::sse::{SseParser, is_broken};
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

    /// Takes the data of one event; `torn` tells that the stream ended inside it.
    fn event(&mut self, text: &str, torn: bool) {
        let text = text.trim();
        if self.finished || text.is_empty() || text == "[DONE]" {
            return;
        }
        match throughline_format::json::decode_str::<Event>(text) {
            Ok(event) => self.apply(event, text),
            // An event that was cut: the end of the stream tells what became of it.
            Err(_) if torn => {}
            Err(error) if !is_broken(error.code) => {
                self.answer
                    .draft
                    .warn("stream.unreadable-event", "an event of another shape than its type has was ignored");
            }
            Err(error) => {
                let error = UnifiedError::new(
                    ErrorCategory::Server,
                    "malformed-event",
                    format!("the provider sent a malformed event: {}", error.message),
                );
                self.fail(error, UnifiedFinishReason::Failed, None);
            }
        }
    }

    fn apply(&mut self, event: Event, text: &str) {
        let kind = event.event_type.unwrap_or_default();
        self.answer.event_id(event.event_id);
        if kind == "error" || (kind.is_empty() && event.error.is_some()) {
            let error = event.error.unwrap_or_else(Json::null);
            self.fail(status::from_error(&error, None), UnifiedFinishReason::Failed, Some(text));
            return;
        }
        let given = Json::from_text(text.to_owned()).ok().and_then(|t| raw::get(&t, "interaction"));
        match (kind.as_str(), event.interaction, given) {
            ("interaction.created" | "interaction.start", Some(interaction), Some(given)) => {
                self.answer.interaction(interaction, &given, "");
            }
            ("interaction.completed" | "interaction.complete", Some(interaction), Some(given)) => {
                self.answer.interaction(interaction, &given, "");
                self.answer.complete();
                self.finished = true;
            }
            (word, ..) if word.starts_with("interaction.") => {
                self.answer.status(event.status);
                self.answer.token(event.continuation_token);
                self.answer.usage(event.usage);
            }
            (word, ..) if word.starts_with("step.") && !self.answer.started => {
                let error = UnifiedError::new(
                    ErrorCategory::Server,
                    "malformed-stream",
                    "the stream did not begin with interaction.created",
                );
                self.fail(error, UnifiedFinishReason::Failed, None);
            }
            ("step.start", ..) => self.answer.begin(event.index.unwrap_or(0), event.step.unwrap_or_else(Json::null)),
            ("step.delta", ..) => {
                if let Some(delta) = event.delta {
                    self.answer.change(event.index.unwrap_or(0), &delta);
                }
            }
            ("step.stop", ..) => self.answer.close(event.index.unwrap_or(0)),
            ("ping" | "heartbeat", ..) => self.answer.draft.out.push(EventBody::Heartbeat(Heartbeat {})),
            (other, ..) => {
                let text = format!("an event of type {other:.60} was ignored");
                self.answer.draft.warn("stream.unknown-event", text);
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
        for event in self.parser.push(bytes) {
            match event {
                Ok(event) => self.event(&event.data, false),
                Err(_) if self.finished => {}
                Err(error) => self.fail(error.into(), UnifiedFinishReason::Failed, None),
            }
        }
        self.answer.draft.take()
    }

    fn finish(&mut self) -> Decoded {
        if let Some(event) = self.parser.finish() {
            self.event(&event.data, true);
        }
        if !self.finished {
            let error = UnifiedError::new(ErrorCategory::Interrupted, "stream", "the stream ended before its interaction");
            self.fail(error, UnifiedFinishReason::Interrupted, None);
        }
        self.answer.draft.take()
    }

    fn is_finished(&self) -> bool {
        self.finished
    }

    fn job(&self) -> Option<Job> {
        let id = self.answer.job()?.to_owned();
        Some(Job {
            ids: vec![id],
            outlives_connection: true,
        })
    }

    fn reconnect(&mut self) -> Option<String> {
        self.parser = SseParser::new();
        self.answer.last_event().map(str::to_owned)
    }
}
