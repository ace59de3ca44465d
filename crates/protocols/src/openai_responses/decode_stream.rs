//! Streams: events by their type, whatever else they name.

use super::answer::Answer;
use super::answer_item::List;
use super::wire::Node;
use crate::codec::{Decoded, StreamDecoder};
use crate::context::DecodeContext;
use crate::continuation::Job;
use crate::sse::{SseEvent, SseParser, is_broken};
use throughline_format::event::Heartbeat;
use throughline_format::{ErrorCategory, EventBody, UnifiedError, UnifiedFinishReason};

/// Decoder of one stream.
pub(super) struct ResponsesStreamDecoder {
    parser: SseParser,
    answer: Answer,
}

impl ResponsesStreamDecoder {
    pub(super) fn new(context: DecodeContext) -> Self {
        Self {
            parser: SseParser::new(),
            answer: Answer::new(context),
        }
    }

    /// Reads one event. The stream may have ended inside the last one: what was cut says nothing, and the end tells what became of it.
    fn event(&mut self, event: &SseEvent, torn: bool) {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" || self.answer.finished {
            return;
        }
        let says_error = event.event.as_deref() == Some("error");
        match Node::read_str(data) {
            Ok(node) if node.is_object() => {
                self.answer.number = node.value("sequence_number").or(self.answer.number);
                let kind = node.str("type").or_else(|| event.event.clone()).unwrap_or_default();
                self.answer.event(&kind, &node);
            }
            Err(error) if torn && is_broken(error.code) => {}
            Err(error) if is_broken(error.code) || says_error => self.broken(),
            _ if says_error => self.broken(),
            _ => self
                .answer
                .warn("stream.unreadable-event", "an event of another shape was left out"),
        }
    }

    fn broken(&mut self) {
        let message = "the stream holds something that cannot be read";
        let error = UnifiedError::new(ErrorCategory::Server, "malformed-stream", message);
        self.answer.fail(error, UnifiedFinishReason::Failed);
    }
}

impl StreamDecoder for ResponsesStreamDecoder {
    fn push(&mut self, bytes: &[u8]) -> Decoded {
        for event in self.parser.push(bytes) {
            match event {
                Ok(event) => self.event(&event, false),
                Err(error) => self.answer.fail(error.into(), UnifiedFinishReason::Failed),
            }
        }
        self.answer.take()
    }

    fn finish(&mut self) -> Decoded {
        if let Some(event) = self.parser.finish() {
            self.event(&event, true);
        }
        self.answer.end();
        self.answer.take()
    }

    fn is_finished(&self) -> bool {
        self.answer.finished
    }

    fn job(&self) -> Option<Job> {
        let id = self.answer.job.clone()?;
        Some(Job {
            ids: vec![id],
            outlives_connection: true,
        })
    }

    fn reconnect(&mut self) -> Option<String> {
        self.parser = SseParser::new();
        self.answer.number.map(|number| number.to_string())
    }
}

/// The type of the item that an event of a hosted tool is about, and what the tool does.
fn progress(kind: &str) -> Option<(&str, &str)> {
    let (item, state) = kind.strip_prefix("response.")?.rsplit_once('.')?;
    let known = [
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
    ];
    known.contains(&item).then_some((item, state))
}

impl Answer {
    /// One event. The official types are listed; everything else is a warning.
    pub(super) fn event(&mut self, kind: &str, node: &Node) {
        let index = node.value("output_index").unwrap_or(0);
        let content = node.value("content_index").unwrap_or(0);
        let summary = node.value("summary_index").unwrap_or(0);
        let text = |key: &str| node.str(key).unwrap_or_default();
        match kind {
            "response.created" | "response.queued" | "response.in_progress" => {
                if let Some(response) = node.get("response") {
                    self.begin(response);
                }
            }
            "response.output_item.added" => {
                if let Some(item) = node.get("item").filter(|item| item.is_object()) {
                    self.added(index, item);
                }
            }
            "response.output_item.done" => {
                if let Some(item) = node.get("item").filter(|item| item.is_object()) {
                    self.done(index, item);
                }
            }
            "response.content_part.added" => {
                if let Some(part) = node.get("part") {
                    self.part_added(index, List::Content, content, part);
                }
            }
            "response.reasoning_summary_part.added" => {
                let part = node.get("part").cloned().unwrap_or_else(Node::null);
                self.part_added(index, List::Summary, summary, &part);
            }
            "response.output_text.delta" => self.text(index, List::Content, content, &text("delta"), node, false),
            "response.output_text.done" => self.text_done(index, List::Content, content, &text("text"), false),
            "response.refusal.delta" => self.text(index, List::Content, content, &text("delta"), node, true),
            "response.refusal.done" => self.text_done(index, List::Content, content, &text("refusal"), true),
            "response.reasoning_summary_text.delta" => {
                self.open_item(index, None, "reasoning");
                self.text(index, List::Summary, summary, &text("delta"), &Node::null(), false);
            }
            "response.reasoning_summary_text.done" => {
                self.open_item(index, None, "reasoning");
                self.text_done(index, List::Summary, summary, &text("text"), false);
            }
            "response.reasoning_text.delta" => {
                self.open_item(index, None, "reasoning");
                self.text(index, List::Content, content, &text("delta"), &Node::null(), false);
            }
            "response.reasoning_text.done" => {
                self.open_item(index, None, "reasoning");
                self.text_done(index, List::Content, content, &text("text"), false);
            }
            "response.output_text.annotation.added" => {
                if let Some(annotation) = node.get("annotation") {
                    self.annotation(index, content, annotation);
                }
            }
            "response.function_call_arguments.delta" => self.arguments(index, &text("delta"), "function_call"),
            "response.function_call_arguments.done" => self.arguments_done(index, &text("arguments"), "function_call"),
            "response.custom_tool_call_input.delta" => self.arguments(index, &text("delta"), "custom_tool_call"),
            "response.custom_tool_call_input.done" => self.arguments_done(index, &text("input"), "custom_tool_call"),
            "response.mcp_call_arguments.delta" => self.arguments(index, &text("delta"), "mcp_call"),
            "response.mcp_call_arguments.done" => self.arguments_done(index, &text("arguments"), "mcp_call"),
            "response.code_interpreter_call_code.delta" => self.arguments(index, &text("delta"), "code_interpreter_call"),
            "response.code_interpreter_call_code.done" => self.arguments_done(index, &text("code"), "code_interpreter_call"),
            "response.image_generation_call.partial_image" => {
                self.executing(index, "image_generation_call");
                self.warn(
                    "stream.partial-image",
                    "previews of an image are not kept; the image comes with its item",
                );
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                if let Some(response) = node.get("response") {
                    self.terminal(response);
                } else {
                    let status = kind.trim_start_matches("response.");
                    self.terminal(&Node::object([("status", Some(Node::text(status)))]));
                }
            }
            "error" => self.error(node),
            "keepalive" => self.out.push(EventBody::Heartbeat(Heartbeat {})),
            // Told again by the item itself, or by nothing but its progress.
            "response.content_part.done"
            | "response.reasoning_summary_part.done"
            | "response.compaction.compacting"
            | "response.shell_call_command.added"
            | "response.shell_call_command.delta"
            | "response.shell_call_command.done"
            | "response.shell_call_output_content.delta"
            | "response.shell_call_output_content.done"
            | "response.apply_patch_call_operation_diff.delta"
            | "response.apply_patch_call_operation_diff.done" => {}
            "response.audio.delta" => self.audio(Some(&text("delta")), None),
            "response.audio.transcript.delta" => self.audio(None, Some(&text("delta"))),
            "response.audio.done" | "response.audio.transcript.done" => {}
            _ => match progress(kind) {
                Some((item, "in_progress" | "searching" | "interpreting" | "generating")) => self.executing(index, item),
                Some((_, "completed" | "failed")) => {}
                _ => self.warn("stream.unknown-event", "an event of an unknown type was left out"),
            },
        }
    }
}
