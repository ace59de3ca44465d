//! Streams from the wire: the SDK's messages, a run as its store has it, the command line's messages, the Cloud API's events.
//!
//! Each line or event is one message; which source wrote it shows in the message itself. The Cloud API sends everything twice,
//! plainly and as rich updates: whichever form comes first is read, and of the other one only what the first does not have.

use super::run::{Run, as_text};
use super::{errors, tools, wire};
use crate::codec::{Decoded, StreamDecoder};
use crate::context::DecodeContext;
use crate::continuation::Job;
use crate::raw::json;
use crate::sse::{SseEvent, SseParser, is_broken};
use std::borrow::Cow;
use throughline_format::{ErrorCategory, Json, UnifiedError};

/// In which form the content of a stream comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    Rich,
}

/// Decoder of one stream.
pub(super) struct RunStreamDecoder {
    parser: SseParser,
    run: Run,
    form: Option<Form>,
    frame: Frame,
}

/// How messages stand in the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    Unknown,
    Events,
    /// One message a line; in the middle of one or not.
    Lines(bool),
}

impl RunStreamDecoder {
    pub(super) fn new(context: DecodeContext) -> Self {
        Self {
            parser: SseParser::new(),
            run: Run::new(context),
            form: None,
            frame: Frame::Unknown,
        }
    }

    /// The bytes as events: logs and the command line write plain lines.
    fn framed<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.frame == Frame::Unknown
            && let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace())
        {
            self.frame = if *first == b'{' { Frame::Lines(false) } else { Frame::Events };
        }
        let Frame::Lines(mut is_inside) = self.frame else {
            return Cow::Borrowed(bytes);
        };
        let mut events = Vec::with_capacity(bytes.len() + 64);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !is_inside {
                events.extend_from_slice(b"data: ");
            }
            events.extend_from_slice(piece);
            is_inside = piece.last() != Some(&b'\n');
            if !is_inside {
                events.push(b'\n');
            }
        }
        self.frame = Frame::Lines(is_inside);
        Cow::Owned(events)
    }

    /// Reads one event. The stream may have ended inside the last one: what was cut says nothing, and the end tells what became of it.
    fn event(&mut self, event: &SseEvent, torn: bool) {
        if self.run.has_ended() {
            return;
        }
        let data = event.data.trim();
        let name = event.event.as_deref();
        if name == Some("heartbeat") || data == "[DONE]" || data.is_empty() && name != Some("done") {
            return;
        }
        if name == Some("done") {
            self.run.end();
            return;
        }
        match throughline_format::json::decode_str::<wire::Message>(data) {
            Ok(message) => self.message(name, message),
            Err(error) if !is_broken(error.code) => {
                self.run.warn("stream.unreadable-event", "an event of another shape was left out");
            }
            Err(_) if torn => {}
            Err(_) => self.run.fail(UnifiedError::new(
                ErrorCategory::Server,
                "malformed-stream",
                "the stream holds something that cannot be read",
            )),
        }
    }

    /// Whether content of this form is the one that is read.
    fn reads(&mut self, form: Form) -> bool {
        *self.form.get_or_insert(form) == form
    }

    fn message(&mut self, name: Option<&str>, mut message: wire::Message) {
        self.run.frame_of(&message);
        let kind = message.kind.take();
        // The Cloud API names its events outside the data.
        let kind = match (name, kind) {
            (Some("interaction_update"), Some(kind)) => {
                self.update(&kind, message);
                return;
            }
            (Some(name), None) => name.to_owned(),
            (Some("tool_call"), Some(_)) => "tool_call".to_owned(),
            (_, Some(kind)) => kind,
            (None, None) if message.event_type.is_some() => {
                self.row(message);
                return;
            }
            (None, None) => {
                self.run.warn("stream.unreadable-event", "an event of another shape was left out");
                return;
            }
        };
        match kind.as_str() {
            "sdk_message" => self.stored(message.message.take(), message.schema_version.is_some()),
            "system" => self.init(message),
            "user" | "user-message-appended" => {
                let said = message.message.or(message.tool).unwrap_or_else(Json::null);
                // The request has it already: it is no part of the answer.
                self.run.keep("/user", said);
            }
            "assistant" => self.assistant(message),
            "thinking" => self.thinking(&message),
            "tool_call" => self.tool_call(message),
            "status" => {
                let text = message.message.as_ref().and_then(as_text);
                self.run.status(message.status.as_deref().unwrap_or_default(), text);
                self.run.extra(message.extra);
            }
            "request" => {
                if let Some(id) = &message.request_id {
                    self.run.provider_request(id);
                }
            }
            "task" => self.task(message),
            "usage" => {
                if let Some(raw) = message.usage {
                    self.run.turn_usage(&raw);
                }
            }
            "agent-usage" => {
                let (run, raw) = (message.run.clone().unwrap_or_default(), message.usage);
                if let Some(raw) = raw {
                    self.run.agent_usage(&raw, &run);
                }
            }
            "checkpoint" => {
                if let Some(raw) = message.checkpoint.or(message.payload) {
                    self.run.checkpoint(&raw);
                }
            }
            "result" => self.result(message),
            "done" => self.run.end(),
            "error" => {
                let text = message.message.as_ref().and_then(as_text);
                let error = errors::of_code(message.code.as_deref().unwrap_or_default(), text.as_deref(), None);
                self.run.fail(error);
            }
            "heartbeat" => {}
            _ if is_update(&kind) => self.update(&kind, message),
            _ => {
                self.run.warn("stream.unknown-event", "an event of an unknown type was kept aside");
                self.run.keep(
                    &format!("/{}", throughline_format::json::escape_pointer_token(&kind)),
                    json(&message),
                );
            }
        }
    }

    /// A message inside the envelope of a store.
    fn stored(&mut self, inner: Option<Json>, has_version: bool) {
        if has_version {
            self.run.frame("schemaVersion");
        }
        match inner.map(|inner| inner.decode::<wire::Message>()) {
            Some(Ok(inner)) => self.message(None, inner),
            Some(Err(_)) | None => self.run.warn("stream.unreadable-event", "an event of another shape was left out"),
        }
    }

    /// A row of a store's event log.
    fn row(&mut self, message: wire::Message) {
        let kind = message.event_type.unwrap_or_default();
        let Some(payload) = message.payload else {
            self.run
                .warn("stream.payload-elsewhere", "the payload of a row stands in another place");
            return;
        };
        if kind == "checkpoint" {
            self.run.checkpoint(&payload);
            return;
        }
        match payload.decode::<wire::Message>() {
            Ok(mut inner) => {
                if inner.kind.is_none() {
                    inner.kind = Some(kind);
                }
                self.message(None, inner);
            }
            Err(_) => self.run.warn("stream.unreadable-event", "an event of another shape was left out"),
        }
    }

    fn init(&mut self, message: wire::Message) {
        if let Some(model) = &message.model {
            self.run.model(model);
        }
        if let Some(tools) = message.tools {
            self.run.keep("/tools", tools);
        }
        self.run.begin();
        self.run.extra(message.extra);
    }

    fn assistant(&mut self, message: wire::Message) {
        if !self.reads(Form::Plain) {
            return;
        }
        if let Some(text) = &message.text {
            self.run.text(text, false);
        }
        if let Some(said) = message.message.and_then(|raw| raw.decode::<wire::Said>().ok()) {
            for piece in said.content.unwrap_or_default() {
                match (piece.kind.as_str(), piece.id) {
                    ("text", _) => self.run.text(piece.text.as_deref().unwrap_or_default(), false),
                    ("tool_use", Some(id)) => self.run.call(&id, piece.name.as_deref().unwrap_or_default(), piece.input),
                    _ => {
                        self.run
                            .warn("response.unknown-content", "a piece of an unknown type was kept aside");
                        self.run.keep(&format!("/content/{}", piece.kind), json(&piece.text));
                    }
                }
            }
        }
        self.run.extra(message.extra);
    }

    fn thinking(&mut self, message: &wire::Message) {
        if self.reads(Form::Plain) {
            self.run.text(message.text.as_deref().unwrap_or_default(), true);
        }
        if message.subtype.as_deref() == Some("completed") || message.thinking_duration_ms.is_some() {
            self.run.thought(message.thinking_duration_ms.clone());
        }
    }

    fn tool_call(&mut self, message: wire::Message) {
        if !self.reads(Form::Plain) {
            return;
        }
        let Some(id) = message.call_id.or(message.call) else {
            self.run.warn("stream.unreadable-event", "an event of another shape was left out");
            return;
        };
        let (name, args, result) = match message.tool_call.as_ref().and_then(tools::of_command_line) {
            Some(found) => found,
            None => (message.name.unwrap_or_default(), message.args, message.result),
        };
        let word = message.status.or(message.subtype).unwrap_or_default();
        match word.as_str() {
            "completed" | "error" => {
                let failed = word == "error" || result.as_ref().is_some_and(tools::is_failed);
                self.run.result(&id, &name, args, result, failed, message.truncated.as_ref());
            }
            _ => self.run.call(&id, &name, args),
        }
        self.run.extra(message.extra);
    }

    fn task(&mut self, message: wire::Message) {
        let words = [message.status.as_deref(), message.text.as_deref()];
        let said: Vec<&str> = words.into_iter().flatten().collect();
        let text: String = said.join(": ").chars().take(1_024).collect();
        self.run.warn("progress.task", &text);
        self.run.extra(message.extra);
    }

    fn result(&mut self, message: wire::Message) {
        let text = message.text.clone().or_else(|| message.result.as_ref().and_then(as_text));
        let failed = message.is_error == Some(true);
        if let Some(text) = text.as_deref().filter(|text| !text.is_empty() && !failed) {
            self.run.whole_text(text);
        }
        if let Some(id) = &message.request_id {
            self.run.provider_request(id);
        }
        let word = message.status.or(message.subtype).unwrap_or_default();
        if failed {
            self.run.status("error", text);
        } else {
            self.run.status(&word, None);
        }
        if let Some(raw) = &message.usage {
            self.run.run_usage(raw);
        }
        self.run.extra(message.extra);
    }

    /// A rich update, of which some things have no plain form.
    fn update(&mut self, kind: &str, message: wire::Message) {
        match kind {
            "text-delta" if self.reads(Form::Rich) => self.run.text(message.text.as_deref().unwrap_or_default(), false),
            "thinking-delta" if self.reads(Form::Rich) => self.run.text(message.text.as_deref().unwrap_or_default(), true),
            "thinking-completed" => self.run.thought(None),
            "tool-call-started" | "tool-call-completed" if self.reads(Form::Rich) => self.rich_call(kind, message),
            "token-delta" => self.run.tokens(message.tokens.unwrap_or_default()),
            "turn-ended" => {
                if let Some(raw) = &message.usage {
                    self.run.turn_usage(raw);
                }
            }
            "summary" => self.run.summary(message.summary.as_deref().unwrap_or_default()),
            "tool-call-delta"
            | "shell-output-delta"
            | "step-started"
            | "step-completed"
            | "tool-requests-listed"
            | "summary-started"
            | "summary-completed"
            | "partial-tool-call" => self.run.frame(kind),
            "user-message-appended" => self.run.frame(kind),
            // The other form of what is read already.
            "text-delta" | "thinking-delta" | "tool-call-started" | "tool-call-completed" => {}
            _ => {
                self.run.warn("stream.unknown-event", "an update of an unknown type was kept aside");
                self.run.keep(
                    &format!("/{}", throughline_format::json::escape_pointer_token(kind)),
                    json(&message),
                );
            }
        }
    }

    fn rich_call(&mut self, kind: &str, message: wire::Message) {
        let (Some(id), Some(raw)) = (message.call.or(message.call_id), message.tool) else {
            self.run.warn("stream.unreadable-event", "an event of another shape was left out");
            return;
        };
        let Ok(call) = raw.decode::<wire::ToolCall>() else {
            self.run.warn("stream.unreadable-event", "an event of another shape was left out");
            return;
        };
        let name = call.kind.unwrap_or_default();
        if kind == "tool-call-completed" {
            let failed = call.result.as_ref().is_some_and(tools::is_failed);
            self.run
                .result(&id, &name, call.args, call.result, failed, message.truncated.as_ref());
        } else {
            self.run.call(&id, &name, call.args);
        }
    }
}

/// Types of rich updates, where they stand without an event name.
fn is_update(kind: &str) -> bool {
    matches!(
        kind,
        "text-delta"
            | "thinking-delta"
            | "thinking-completed"
            | "partial-tool-call"
            | "tool-call-started"
            | "tool-call-completed"
            | "tool-call-delta"
            | "tool-requests-listed"
            | "token-delta"
            | "step-started"
            | "step-completed"
            | "summary-started"
            | "summary"
            | "summary-completed"
            | "shell-output-delta"
            | "turn-ended"
    )
}

impl StreamDecoder for RunStreamDecoder {
    fn push(&mut self, bytes: &[u8]) -> Decoded {
        let framed = self.framed(bytes);
        for event in self.parser.push(&framed) {
            match event {
                Ok(event) => self.event(&event, false),
                Err(error) => self.run.fail(error.into()),
            }
        }
        self.run.settle();
        self.run.take()
    }

    fn finish(&mut self) -> Decoded {
        if self.frame == Frame::Lines(true) {
            for event in self.parser.push(b"\n\n").into_iter().flatten() {
                self.event(&event, true);
            }
        }
        if let Some(event) = self.parser.finish() {
            self.event(&event, true);
        }
        if !self.run.has_ended() {
            self.run.end();
        }
        self.run.take()
    }

    fn is_finished(&self) -> bool {
        self.run.has_ended()
    }

    fn job(&self) -> Option<Job> {
        self.run.job()
    }
}
