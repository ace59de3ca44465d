//! Deltas of a stream to the wire: parts, texts, remarks, argument text, progress.

use super::encode_item::{Mode, Writer};
use super::encode_part::logprobs;
use super::encode_stream::{ResponsesStreamEncoder, Told};
use super::wire::Node;
use crate::codec::WireFrame;
use throughline_format::event::TextDelta;
use throughline_format::item::ItemStatus;
use throughline_format::media::UnifiedDataSource;
use throughline_format::part::{MediaPart, ReasoningForm, ReasoningState};
use throughline_format::{PartBody, UnifiedContentPart, UnifiedId};

/// Members of an event.
type Members = Vec<(&'static str, Option<Node>)>;

impl ResponsesStreamEncoder {
    /// Members that every event about a part has, and the event that tells its text; none for a part that was not begun.
    pub(super) fn of_part(&self, item: &UnifiedId, part: &UnifiedId) -> Option<(&'static str, Members)> {
        let head = self.heads.get(item)?;
        let told = head.parts.get(part)?;
        let members = vec![
            ("item_id", Some(Node::text(&head.wire_id))),
            ("output_index", Some(Node::of(&head.index))),
            (told.list, Some(Node::of(&told.at))),
        ];
        Some((told.delta, members))
    }

    /// A part begins; empty, whatever it holds already.
    pub(super) fn part_started(&mut self, item: &UnifiedId, part: &UnifiedContentPart) -> Vec<WireFrame> {
        let (kind, delta, node) = match &part.body {
            PartBody::Text(_) => (
                "response.content_part.added",
                "response.output_text.delta",
                Node::typed(
                    "output_text",
                    [("text", Some(Node::text(""))), ("annotations", Some(Node::List(Vec::new())))],
                ),
            ),
            PartBody::Refusal(_) => (
                "response.content_part.added",
                "response.refusal.delta",
                Node::typed("refusal", [("refusal", Some(Node::text("")))]),
            ),
            PartBody::Reasoning(reasoning) if reasoning.state == ReasoningState::Disclosed => match reasoning.form {
                ReasoningForm::Summary => (
                    "response.reasoning_summary_part.added",
                    "response.reasoning_summary_text.delta",
                    Node::typed("summary_text", [("text", Some(Node::text("")))]),
                ),
                ReasoningForm::Full => (
                    "response.content_part.added",
                    "response.reasoning_text.delta",
                    Node::typed("reasoning_text", [("text", Some(Node::text("")))]),
                ),
            },
            // Nothing of these is told in pieces; what the item says of them comes with its end.
            PartBody::Reasoning(_)
            | PartBody::Image(_)
            | PartBody::Audio(_)
            | PartBody::Video(_)
            | PartBody::Document(_)
            | PartBody::File(_)
            | PartBody::Binary(_)
            | PartBody::Json(_)
            | PartBody::Citation(_)
            | PartBody::GroundingSource(_)
            | PartBody::ArtifactReference(_) => return Vec::new(),
        };
        let Some(head) = self.heads.get_mut(item) else { return Vec::new() };
        let list = if kind == "response.reasoning_summary_part.added" {
            "summary_index"
        } else {
            "content_index"
        };
        let at = head.parts.values().filter(|told| told.list == list).count();
        head.parts.insert(part.part_id.clone(), Told { list, at, delta });
        let Some((_, mut members)) = self.of_part(item, &part.part_id) else {
            return Vec::new();
        };
        members.push(("part", Some(node)));
        vec![self.frame(kind, members)]
    }

    /// A part that stands there with its content.
    pub(super) fn whole_part(&mut self, item: &UnifiedId, part: &UnifiedContentPart) -> Vec<WireFrame> {
        let mut frames = self.part_started(item, part);
        if let Some(text) = part.as_text().filter(|text| !text.is_empty()) {
            let logprobs = match &part.body {
                PartBody::Text(text) => text.logprobs.clone(),
                _ => None,
            };
            let delta = TextDelta {
                text: text.to_owned(),
                logprobs,
            };
            frames.extend(self.text(item, &part.part_id, &delta));
        }
        if let PartBody::Audio(audio) = &part.body {
            frames.extend(self.audio(audio));
        }
        if let PartBody::Text(text) = &part.body {
            for annotation in text.annotations.iter().flatten() {
                frames.extend(self.annotation(item, part, annotation));
            }
        }
        frames
    }

    /// Audio has events of its own, beside all items.
    fn audio(&mut self, audio: &MediaPart) -> Vec<WireFrame> {
        let mut frames = Vec::new();
        if let UnifiedDataSource::Inline(inline) = &audio.source {
            let data = Node::text(&crate::media::base64_of(inline));
            frames.push(self.frame("response.audio.delta", vec![("delta", Some(data))]));
            frames.push(self.frame("response.audio.done", Vec::new()));
        }
        if let Some(transcript) = audio.media.as_ref().and_then(|media| media.transcript.as_ref()) {
            let text = Node::text(&transcript.text);
            frames.push(self.frame("response.audio.transcript.delta", vec![("delta", Some(text))]));
            frames.push(self.frame("response.audio.transcript.done", Vec::new()));
        }
        frames
    }

    pub(super) fn text(&mut self, item: &UnifiedId, part: &UnifiedId, delta: &TextDelta) -> Vec<WireFrame> {
        let Some((kind, mut members)) = self.of_part(item, part) else {
            return Vec::new();
        };
        members.push(("delta", Some(Node::text(&delta.text))));
        if kind == "response.output_text.delta" {
            let tokens = delta.logprobs.as_deref().map_or(Node::List(Vec::new()), logprobs);
            members.push(("logprobs", Some(tokens)));
        }
        vec![self.frame(kind, members)]
    }

    pub(super) fn annotation(
        &mut self,
        item: &UnifiedId,
        part: &UnifiedContentPart,
        annotation: &throughline_format::citation::UnifiedTextAnnotation,
    ) -> Vec<WireFrame> {
        let mut writer = Writer::new(self.context.private.as_ref(), Mode::Answer);
        writer.is_native = self.is_own;
        let node = writer.annotation(annotation, part.as_text().unwrap_or_default(), "");
        let Some((_, mut members)) = self.of_part(item, &part.part_id) else {
            return Vec::new();
        };
        let (Some(node), Some(head)) = (node, self.heads.get_mut(item)) else {
            return Vec::new();
        };
        let count = head.annotations.entry(part.part_id.clone()).or_default();
        members.push(("annotation_index", Some(Node::of(count))));
        *count += 1;
        members.push(("annotation", Some(node)));
        vec![self.frame("response.output_text.annotation.added", members)]
    }

    pub(super) fn part_done(&mut self, item: &UnifiedId, part: &UnifiedContentPart) -> Vec<WireFrame> {
        let Some(head) = self.heads.get_mut(item) else { return Vec::new() };
        if !head.parts.contains_key(&part.part_id) || !head.ended.insert(part.part_id.clone()) {
            return Vec::new();
        }
        let text = Node::text(part.as_text().unwrap_or_default());
        let (text_kind, member, part_kind, node) = match &part.body {
            PartBody::Text(_) => {
                let mut writer = Writer::new(self.context.private.as_ref(), Mode::Answer);
                writer.is_native = self.is_own;
                let node = writer.parts(std::slice::from_ref(part), super::encode_part::Side::Output, true, "parts");
                // A text that stayed empty is no part of the item, and was begun all the same.
                let empty = || {
                    Node::typed(
                        "output_text",
                        [("text", Some(Node::text(""))), ("annotations", Some(Node::List(Vec::new())))],
                    )
                };
                let node = node.into_iter().next().unwrap_or_else(empty);
                ("response.output_text.done", "text", "response.content_part.done", node)
            }
            PartBody::Refusal(_) => (
                "response.refusal.done",
                "refusal",
                "response.content_part.done",
                Node::typed("refusal", [("refusal", Some(text.clone()))]),
            ),
            PartBody::Reasoning(reasoning) if reasoning.form == ReasoningForm::Summary => (
                "response.reasoning_summary_text.done",
                "text",
                "response.reasoning_summary_part.done",
                Node::typed("summary_text", [("text", Some(text.clone()))]),
            ),
            _ => (
                "response.reasoning_text.done",
                "text",
                "response.content_part.done",
                Node::typed("reasoning_text", [("text", Some(text.clone()))]),
            ),
        };
        let Some((_, members)) = self.of_part(item, &part.part_id) else {
            return Vec::new();
        };
        let mut first = members.clone();
        first.push((member, Some(text)));
        if text_kind == "response.output_text.done" {
            first.push(("logprobs", Some(node.get("logprobs").cloned().unwrap_or(Node::List(Vec::new())))));
        }
        let mut second = members;
        second.push(("part", Some(node)));
        vec![self.frame(text_kind, first), self.frame(part_kind, second)]
    }

    /// Names of the events that tell the arguments of an item.
    pub(super) fn argument_events(kind: &str) -> Option<(&'static str, &'static str, &'static str)> {
        match kind {
            "function_call" => Some((
                "response.function_call_arguments.delta",
                "response.function_call_arguments.done",
                "arguments",
            )),
            "custom_tool_call" => Some((
                "response.custom_tool_call_input.delta",
                "response.custom_tool_call_input.done",
                "input",
            )),
            "mcp_call" => Some(("response.mcp_call_arguments.delta", "response.mcp_call_arguments.done", "arguments")),
            "code_interpreter_call" => Some((
                "response.code_interpreter_call_code.delta",
                "response.code_interpreter_call_code.done",
                "code",
            )),
            _ => None,
        }
    }

    pub(super) fn arguments(&mut self, item: &UnifiedId, text: &str) -> Vec<WireFrame> {
        let Some(head) = self.heads.get_mut(item).filter(|head| !text.is_empty() && !head.is_ready) else {
            return Vec::new();
        };
        let Some((delta, ..)) = Self::argument_events(&head.kind) else {
            return Vec::new();
        };
        head.sent.push_str(text);
        let members = vec![
            ("item_id", Some(Node::text(&head.wire_id))),
            ("output_index", Some(Node::of(&head.index))),
            ("delta", Some(Node::text(text))),
        ];
        vec![self.frame(delta, members)]
    }

    /// The arguments are complete: what was not sent yet, and the whole.
    pub(super) fn arguments_done(&mut self, item: &UnifiedId, whole: &str) -> Vec<WireFrame> {
        let rest = self
            .heads
            .get(item)
            .and_then(|head| whole.strip_prefix(head.sent.as_str()))
            .unwrap_or_default()
            .to_owned();
        let mut frames = self.arguments(item, &rest);
        let Some(head) = self.heads.get_mut(item).filter(|head| !head.is_ready) else {
            return frames;
        };
        let Some((_, done, member)) = Self::argument_events(&head.kind) else {
            return frames;
        };
        head.is_ready = true;
        let members = vec![
            ("item_id", Some(Node::text(&head.wire_id))),
            ("output_index", Some(Node::of(&head.index))),
            (member, Some(Node::text(whole))),
        ];
        frames.push(self.frame(done, members));
        frames
    }

    /// Events of a hosted tool's progress.
    pub(super) fn progress(&mut self, item: &UnifiedId, ending: Option<ItemStatus>) -> Vec<WireFrame> {
        let Some(head) = self.heads.get_mut(item) else { return Vec::new() };
        let (begin, end): (&[&'static str], &'static str) = match head.kind.as_str() {
            "web_search_call" => (
                &["response.web_search_call.in_progress", "response.web_search_call.searching"],
                "response.web_search_call.completed",
            ),
            "file_search_call" => (
                &["response.file_search_call.in_progress", "response.file_search_call.searching"],
                "response.file_search_call.completed",
            ),
            "code_interpreter_call" => (
                &[
                    "response.code_interpreter_call.in_progress",
                    "response.code_interpreter_call.interpreting",
                ],
                "response.code_interpreter_call.completed",
            ),
            "image_generation_call" => (
                &[
                    "response.image_generation_call.in_progress",
                    "response.image_generation_call.generating",
                ],
                "response.image_generation_call.completed",
            ),
            "mcp_call" => (&["response.mcp_call.in_progress"], "response.mcp_call.completed"),
            "mcp_list_tools" => (&["response.mcp_list_tools.in_progress"], "response.mcp_list_tools.completed"),
            _ => return Vec::new(),
        };
        let mut kinds: Vec<&'static str> = Vec::new();
        if !std::mem::replace(&mut head.is_executing, true) {
            kinds.extend(begin);
        }
        // An item that is incomplete tells no end of its work.
        match ending {
            Some(ItemStatus::Completed) => kinds.push(end),
            Some(ItemStatus::Failed) if end == "response.mcp_call.completed" => kinds.push("response.mcp_call.failed"),
            Some(ItemStatus::Failed) if end == "response.mcp_list_tools.completed" => kinds.push("response.mcp_list_tools.failed"),
            Some(_) | None => {}
        }
        let (id, index) = (head.wire_id.clone(), head.index);
        kinds
            .into_iter()
            .map(|kind| {
                let members = vec![("item_id", Some(Node::text(&id))), ("output_index", Some(Node::of(&index)))];
                self.frame(kind, members)
            })
            .collect()
    }
}
