//! Assistant messages from the wire: reasoning, text, refusal, audio and calls.

use super::decode_parts::ttl_of;
use super::decode_request::{Reading, RequestDecoder};
use super::dialect::Dialect;
use super::private::{AUDIO_ID, Leftovers, REASONING_DETAILS, THOUGHT_SIGNATURE, own_call_id};
use super::reasoning::{self, Piece, TAGS, TagSplitter};
use super::{profile, wire};
use crate::media;
use crate::side::SideResource;
use crate::wire::TextOr;
use throughline_format::cache::CacheBreakpoint;
use throughline_format::item::{MessageItem, ReasoningItem, Role, ToolCallItem};
use throughline_format::media::UnifiedMediaMetadata;
use throughline_format::part::{MediaPart, ReasoningForm, ReasoningPart, ReasoningState, RefusalPart};
use throughline_format::resource::Issuer;
use throughline_format::tool::{Execution, UnifiedToolType};
use throughline_format::{Count, Json, PartBody, UnifiedContentPart, UnifiedItem, UnifiedItemBody, UnifiedToolLifecycle};

impl RequestDecoder<'_> {
    pub(super) fn assistant(&mut self, reading: &mut Reading, message: wire::Message) {
        self.reasoning(reading, &message);
        let has_calls = message.tool_calls.as_ref().is_some_and(|c| !c.is_empty()) || message.function_call.is_some();
        let has_more = has_calls || message.refusal.is_some() || message.audio.is_some();
        match message.content {
            None if has_more => {}
            None => {
                reading.form.content = Some("null".into());
                let id = self.next_id();
                self.push(
                    id,
                    Role::Assistant,
                    UnifiedItemBody::Message(MessageItem {
                        parts: Vec::new(),
                        placement: None,
                    }),
                );
            }
            Some(TextOr::Text(text)) if text.is_empty() && has_more => reading.form.content = Some("empty".into()),
            Some(TextOr::List(list)) if list.is_empty() && has_more => reading.form.content = Some("parts".into()),
            Some(TextOr::Text(text)) if self.has_tags(&text) => self.tagged(reading, &text),
            content => self.assistant_content(reading, content),
        }
        if message.refusal.is_some() || message.audio.is_some() {
            self.refusal_and_audio(reading, message.refusal, message.audio);
        }
        if let Some(annotations) = message.annotations.filter(|a| !a.is_empty()) {
            reading
                .leftovers
                .add("/annotations", Json::from_serialize(&annotations).unwrap_or_else(|_| Json::null()));
        }
        for (index, call) in message.tool_calls.into_iter().flatten().enumerate() {
            self.call(reading, index, call);
        }
        if let Some(call) = message.function_call {
            reading.form.legacy = true;
            let id = self.next_id();
            let call_id = crate::call_id::wire(&format!("{id}/function_call"), super::CALL_ID_LENGTH).into_owned();
            self.legacy_call = Some((call_id.clone(), call.name.clone().unwrap_or_default()));
            self.call(
                reading,
                0,
                wire::Call {
                    index: None,
                    id: Some(call_id),
                    kind: None,
                    function: Some(call),
                    custom: None,
                    extra_content: None,
                    extra: crate::wire::Extra::default(),
                },
            );
        }
    }

    fn has_tags(&self, text: &str) -> bool {
        let is_dialect = self.context.reasoning_tags || Dialect::of(self.context.dialect.as_deref()).reasoning == TAGS;
        is_dialect && matches!(TagSplitter::default().push(text).first(), Some(Piece::Thought(_)))
    }

    /// Content that begins with its reasoning in tags: one item each.
    fn tagged(&mut self, reading: &mut Reading, text: &str) {
        let mut splitter = TagSplitter::default();
        let (mut thought, mut said) = (String::new(), String::new());
        for piece in splitter.push(text).into_iter().chain(splitter.finish()) {
            match piece {
                Piece::Thought(piece) => thought.push_str(&piece),
                Piece::Text(piece) => said.push_str(&piece),
            }
        }
        let id = self.next_id();
        let part = reasoning::part(id.part(0), thought, ReasoningForm::Full);
        self.push(id, Role::Assistant, UnifiedItemBody::Reasoning(ReasoningItem { parts: vec![part] }));
        reading.form.reasoning = vec![TAGS.to_owned()];
        if !said.is_empty() {
            self.assistant_content(reading, Some(TextOr::Text(said)));
        }
    }

    /// Reasoning members of an assistant message become one item before the message.
    pub(super) fn reasoning(&mut self, reading: &mut Reading, message: &wire::Message) {
        let found = reasoning::of_message(message);
        for (name, value) in found.others {
            reading.leftovers.add(format!("/{name}"), value);
        }
        if found.text.is_none() && found.details.is_none() {
            return;
        }
        let id = self.next_id();
        let mut part = reasoning::part(id.part(0), found.text.unwrap_or_default(), found.form);
        if let Some(details) = found.details {
            let path = format!("{}/reasoning_details", reading.path);
            let resource = SideResource::reasoning(
                profile(),
                REASONING_DETAILS,
                &part.part_id,
                details.as_str().as_bytes().to_vec(),
                Issuer::ClientAsserted,
                path,
            );
            reasoning::sign(&mut part, &resource);
            self.resources.push(resource);
        }
        reading.form.reasoning = found.fields.into_iter().map(str::to_owned).collect();
        self.push(id, Role::Assistant, UnifiedItemBody::Reasoning(ReasoningItem { parts: vec![part] }));
    }

    /// Content of an assistant; thinking parts of a dialect split it.
    pub(super) fn assistant_content(&mut self, reading: &mut Reading, content: Option<TextOr<wire::Part>>) {
        let list = match content {
            Some(TextOr::List(list)) if list.iter().any(|p| matches!(p, wire::Part::Thinking(_))) => list,
            other => {
                let id = self.next_id();
                let parts = self.parts(reading, &id, other, 0);
                self.push(
                    id,
                    Role::Assistant,
                    UnifiedItemBody::Message(MessageItem { parts, placement: None }),
                );
                return;
            }
        };
        let mut run: Vec<wire::Part> = Vec::new();
        let mut start = 0;
        for (index, part) in list.into_iter().enumerate() {
            let wire::Part::Thinking(thinking) = part else {
                if run.is_empty() {
                    start = index;
                }
                run.push(part);
                continue;
            };
            self.flush_run(reading, &mut run, start);
            let id = self.next_id();
            let text = reasoning::text_of_thinking(&thinking);
            reading.leftovers.extra(&format!("/content/{index}"), thinking.extra);
            let part = UnifiedContentPart::new(
                id.part(0),
                PartBody::Reasoning(ReasoningPart {
                    text,
                    form: ReasoningForm::Full,
                    state: ReasoningState::Disclosed,
                    private_state: None,
                }),
            );
            self.push(id, Role::Assistant, UnifiedItemBody::Reasoning(ReasoningItem { parts: vec![part] }));
        }
        self.flush_run(reading, &mut run, start);
        reading.form.content = Some("parts".into());
        reading.form.reasoning = vec!["thinking".into()];
        reading.form.items = Some(self.items.len() - reading.first);
    }

    pub(super) fn flush_run(&mut self, reading: &mut Reading, run: &mut Vec<wire::Part>, start: usize) {
        if run.is_empty() {
            return;
        }
        let id = self.next_id();
        let parts = self.parts(reading, &id, Some(TextOr::List(std::mem::take(run))), start);
        self.push(
            id,
            Role::Assistant,
            UnifiedItemBody::Message(MessageItem { parts, placement: None }),
        );
    }

    /// A refusal and an audio reference join the message item before them.
    pub(super) fn refusal_and_audio(&mut self, reading: &mut Reading, refusal: Option<String>, audio: Option<wire::Audio>) {
        let has_message = self
            .items
            .get(reading.first..)
            .unwrap_or_default()
            .iter()
            .any(|i| matches!(i.body, UnifiedItemBody::Message(_)));
        if !has_message {
            let id = self.next_id();
            self.push(
                id,
                Role::Assistant,
                UnifiedItemBody::Message(MessageItem {
                    parts: Vec::new(),
                    placement: None,
                }),
            );
        }
        let Some(item) = self.items.last() else { return };
        let (id, mut number) = (item.id.clone(), item.parts().len() as Count);
        let mut added = Vec::new();
        if let Some(text) = refusal {
            added.push(UnifiedContentPart::new(
                id.part(number),
                PartBody::Refusal(RefusalPart { text, category: None }),
            ));
            number += 1;
        }
        if let Some(audio) = audio {
            let part_id = id.part(number);
            let transcript = audio.transcript.map(|text| throughline_format::media::Transcript {
                text,
                language: None,
                words: None,
            });
            let media = transcript.map(|t| UnifiedMediaMetadata {
                transcript: Some(t),
                ..UnifiedMediaMetadata::default()
            });
            let source = match (audio.id, audio.data) {
                (Some(handle), None) => self.handle(&part_id, AUDIO_ID, &handle, format!("{}/audio/id", reading.path)),
                (handle, data) => {
                    if let Some(handle) = handle {
                        reading.leftovers.add_value("/audio/id", handle);
                    }
                    media::inline("audio/*", &data.unwrap_or_default())
                }
            };
            if let Some(at) = audio.expires_at {
                reading.leftovers.add("/audio/expires_at", at);
            }
            reading.leftovers.extra("/audio", audio.extra);
            added.push(UnifiedContentPart::new(part_id, PartBody::Audio(MediaPart { source, media })));
        }
        if let Some(parts) = self.items.last_mut().and_then(UnifiedItem::parts_mut) {
            parts.extend(added);
        }
    }

    pub(super) fn call(&mut self, reading: &mut Reading, index: usize, call: wire::Call) {
        let id = self.next_id();
        let path = format!("/tool_calls/{index}");
        let mut leftovers = Leftovers::default();
        if let Some(number) = call.index {
            leftovers.add_value(format!("{path}/index"), number);
        }
        let (name, raw_arguments, tool_type) = match (call.function, call.custom) {
            (None, Some(custom)) => {
                leftovers.extra(&format!("{path}/custom"), custom.extra);
                (
                    custom.name.unwrap_or_default(),
                    custom.input.unwrap_or_default(),
                    UnifiedToolType::Custom,
                )
            }
            (function, _) => {
                let function = function.unwrap_or(wire::FunctionCall {
                    name: None,
                    arguments: None,
                    extra: crate::wire::Extra::default(),
                });
                leftovers.extra(&format!("{path}/function"), function.extra);
                (
                    function.name.unwrap_or_default(),
                    super::arguments_text(function.arguments.as_ref()),
                    UnifiedToolType::Function,
                )
            }
        };
        let has_known_kind = matches!(call.kind.as_deref(), None | Some("function" | "custom"));
        if let Some(kind) = call.kind.filter(|_| !has_known_kind) {
            leftovers.add_value(format!("{path}/type"), kind);
        }
        let call_id = call
            .id
            .filter(|i| !i.is_empty())
            .unwrap_or_else(|| crate::call_id::wire(&format!("{id}/call"), super::CALL_ID_LENGTH).into_owned());
        let private_linkage = call.extra_content.map(|content| {
            let wire_path = format!("{}{path}/extra_content", reading.path);
            let resource = SideResource::reasoning(
                profile(),
                THOUGHT_SIGNATURE,
                &id,
                content.as_str().as_bytes().to_vec(),
                Issuer::ClientAsserted,
                wire_path,
            );
            let reference = resource.reference();
            self.resources.push(resource);
            reference
        });
        for (key, value) in &call.extra.0 {
            if key == "cache_control" {
                self.breakpoints.push(CacheBreakpoint {
                    item_id: id.clone(),
                    part_id: None,
                    ttl: ttl_of(value),
                });
            }
        }
        leftovers.extra(&path, call.extra);
        reading.leftovers.0.extend(leftovers.0);
        let input = if tool_type == UnifiedToolType::Custom {
            None
        } else {
            super::parse_arguments(&raw_arguments)
        };
        let body = UnifiedItemBody::ToolCall(ToolCallItem {
            call_id,
            name,
            tool_type,
            namespace: None,
            server_label: None,
            input,
            raw_arguments,
            lifecycle: UnifiedToolLifecycle::ArgumentsReady,
            caller: None,
            execution: Execution::Client,
            provider_executed: false,
            private_linkage,
        });
        let own_id = if let UnifiedItemBody::ToolCall(call) = &body {
            own_call_id(&id, &call.call_id, false)
        } else {
            None
        };
        self.push(id, Role::Assistant, body);
        if let (Some(resource), Some(item)) = (own_id, self.items.last_mut()) {
            item.provider_data.get_or_insert_default().push(resource.reference());
            self.resources.push(resource);
        }
    }
}
