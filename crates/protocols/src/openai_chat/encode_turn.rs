//! One assistant message to the wire, and the answers to its calls directly after it.

use super::dialect::ReasoningBack;
use super::encode_parts::PartRun;
use super::encode_request::{RequestEncoder, is_own, message};
use super::encode_tools::CUSTOM_INPUT;
use super::private::{AUDIO_ID, Entries, Form, REASONING_DETAILS, THOUGHT_SIGNATURE, payload};
use super::reasoning::{self, TAGS};
use super::wire;
use crate::call_arguments::NO_RESULT;
use crate::feature::Feature;
use crate::told;
use crate::wire::TextOr;
use std::collections::BTreeSet;
use throughline_format::item::{ToolCallItem, ToolResultItem};
use throughline_format::loss::LossSeverity;
use throughline_format::media::UnifiedDataSource;
use throughline_format::{Json, PartBody, UnifiedItemBody, UnifiedToolType};

/// Reasoning text where a dialect demands one and the history has none.
const NO_REASONING: &str = "[No reasoning was recorded.]";

impl RequestEncoder<'_> {
    pub(super) fn assistant(&mut self, group: &[usize]) {
        let items = self.items();
        let Some(first) = group.first().and_then(|i| items.get(*i)) else {
            return;
        };
        let private = self.context.private.as_ref();
        let entries = Entries::of(private, first.provider_data.as_ref());
        let form = Form::of(private, first.provider_data.as_ref());
        let mut wire = message("assistant");
        wire.extra = entries.level("", &["content", "annotations", "audio"]);
        wire.annotations = entries.get("/annotations").and_then(|a| a.decode().ok());
        let mut run = PartRun::new(&entries);
        let (mut calls, mut refusal, mut after_call) = (Vec::new(), None, false);
        let mut reasoning: Vec<usize> = Vec::new();
        for index in group.iter().copied() {
            let Some(item) = items.get(index) else { continue };
            match &item.body {
                UnifiedItemBody::Reasoning(_) if form.reasoning.iter().any(|f| f == "thinking") => run.thinking(item),
                UnifiedItemBody::Reasoning(_) => reasoning.push(index),
                UnifiedItemBody::Message(m) => {
                    if after_call {
                        self.lose(
                            LossSeverity::Info,
                            Feature::ConversationOrder,
                            index,
                            "",
                            "the target puts the text of a turn before its calls",
                        );
                    }
                    for (number, part) in m.parts.iter().enumerate() {
                        match &part.body {
                            PartBody::Refusal(r) if !form.refusal_part => {
                                refusal = Some(format!("{}{}", refusal.unwrap_or_default(), r.text));
                            }
                            PartBody::Audio(media) if matches!(media.source, UnifiedDataSource::ProviderResource(_)) => {
                                self.audio(&mut wire, index, number, part, &entries);
                            }
                            _ => run.part(self, index, number, part, false),
                        }
                    }
                }
                UnifiedItemBody::ToolCall(call) => {
                    after_call = true;
                    calls.push((index, call));
                }
                _ => {
                    let (feature, reason) = told::reported(item);
                    self.lose(LossSeverity::Warning, feature, index, "", reason);
                    if let Some(said) = told::told(item) {
                        run.said(said);
                    }
                }
            }
        }
        wire.content = match run.finish(form.content.as_deref() == Some("parts")) {
            None if form.content.as_deref() == Some("empty") => Some(TextOr::Text(String::new())),
            None if form.content.as_deref() == Some("parts") => Some(TextOr::List(Vec::new())),
            content => content,
        };
        wire.refusal = refusal;
        if let Some(thought) = self.reasoning(&mut wire, &reasoning, !calls.is_empty()) {
            wire.content = Some(reasoning::with_tags(&thought, wire.content.take()));
        }
        if let Some(member) = self.prefix_of(group) {
            wire.extra
                .0
                .push((member.to_owned(), Json::from_value(&serde_json::Value::Bool(true))));
        }
        let legacy = form.legacy && calls.len() == 1;
        for (number, (index, call)) in calls.iter().enumerate() {
            let call = self.call(*index, call, &entries, number);
            if legacy {
                wire.function_call = call.function;
            } else {
                wire.tool_calls.get_or_insert_default().push(call);
            }
        }
        if wire.content.is_none() && calls.is_empty() && wire.refusal.is_none() && wire.audio.is_none() {
            let keeps =
                self.same_family && (form.content.is_some() || wire.reasoning_content.is_some() || wire.reasoning_details.is_some());
            if !keeps {
                let index = group.first().copied().unwrap_or_default();
                self.lose(
                    LossSeverity::Info,
                    Feature::ConversationMessageEmpty,
                    index,
                    "",
                    "an assistant message without content is left out",
                );
                return;
            }
        }
        self.messages.push(wire);
        if !calls.is_empty() {
            self.answers(group, legacy);
        }
    }

    /// The member that says that the answer continues this message, where the dialect has one and it is not there already.
    fn prefix_of(&self, group: &[usize]) -> Option<&'static str> {
        let wanted = &self.request.generation.prefill.as_ref()?.value.item_id;
        let items = self.items();
        let is_it = group.iter().any(|i| items.get(*i).is_some_and(|item| item.id == *wanted));
        let first = group.first().and_then(|i| items.get(*i))?;
        let entries = Entries::of(self.context.private.as_ref(), first.provider_data.as_ref());
        self.dialect
            .prefix
            .filter(|member| is_it && entries.get(&format!("/{member}")).is_none())
    }

    /// A reference to an earlier audio answer.
    pub(super) fn audio(
        &mut self,
        wire: &mut wire::Message,
        index: usize,
        number: usize,
        part: &throughline_format::UnifiedContentPart,
        entries: &Entries,
    ) {
        let handle = if let PartBody::Audio(media) = &part.body
            && let UnifiedDataSource::ProviderResource(source) = &media.source
        {
            self.context
                .private
                .payload(&source.resource.resource_id)
                .and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
        } else {
            None
        };
        match handle {
            Some(handle) => {
                wire.audio = Some(wire::Audio {
                    id: Some(handle),
                    data: None,
                    transcript: None,
                    expires_at: None,
                    extra: entries.level("/audio", &["id"]),
                });
            }
            None => self.lose(
                LossSeverity::Warning,
                Feature::PartAudio,
                index,
                &format!("/parts/{number}"),
                &format!("the reference ({AUDIO_ID}) belongs to somebody else"),
            ),
        }
    }

    /// Reasoning goes back only to where it came from, or where the dialect wants it. What a dialect wants inside the content
    /// comes back.
    pub(super) fn reasoning(&mut self, wire: &mut wire::Message, group: &[usize], has_calls: bool) -> Option<String> {
        let dialect = self.dialect;
        let demanded = dialect.back == ReasoningBack::WithCalls && has_calls;
        let (mut text, mut details) = (String::new(), Vec::new());
        let mut fields: BTreeSet<String> = BTreeSet::new();
        for index in group.iter().copied() {
            let Some(item) = self.items().get(index) else { continue };
            let form = Form::of(self.context.private.as_ref(), item.provider_data.as_ref());
            let is_wanted = match dialect.back {
                ReasoningBack::Own => !form.reasoning.is_empty(),
                ReasoningBack::WithCalls => has_calls,
                ReasoningBack::Kept => true,
            };
            let (mut is_told, mut has_foreign_state) = (is_wanted, false);
            if is_wanted {
                fields.extend(form.reasoning);
            }
            for part in item.parts() {
                let PartBody::Reasoning(reasoning) = &part.body else { continue };
                if is_wanted {
                    text.push_str(&reasoning.text);
                }
                let private = reasoning.private_state.as_ref().map(|s| vec![s.r#ref.clone()]);
                if let Some(bytes) = payload(self.context.private.as_ref(), private.as_ref(), REASONING_DETAILS) {
                    details.extend(serde_json::from_slice::<Vec<Json>>(&bytes).unwrap_or_default());
                    is_told = true;
                } else {
                    has_foreign_state |= private.is_some();
                }
            }
            if is_told && has_foreign_state {
                self.lose(
                    LossSeverity::Info,
                    Feature::ReasoningSignature,
                    index,
                    "/parts",
                    "private state of the reasoning belongs to somebody else",
                );
            }
            if !is_told {
                let is_empty = item.parts().iter().all(|p| p.as_text().is_none_or(str::is_empty));
                let severity = if is_empty { LossSeverity::Info } else { LossSeverity::Warning };
                let reason = match dialect.back {
                    ReasoningBack::WithCalls => "the dialect takes reasoning back only with calls",
                    ReasoningBack::Own | ReasoningBack::Kept => "the target takes no reasoning of others",
                };
                self.lose(severity, Feature::ReasoningText, index, "", reason);
            }
        }
        if demanded && text.is_empty() {
            NO_REASONING.clone_into(&mut text);
            self.loss.warning(
                Feature::ReasoningText,
                "/conversation/items",
                "the target demands reasoning with calls; a placeholder stands in",
            );
        }
        if !details.is_empty() {
            wire.reasoning_details = Json::from_serialize(&details).ok();
        }
        let is_foreign = fields.is_empty() && dialect.back != ReasoningBack::Own && !text.is_empty() && details.is_empty();
        if is_foreign {
            fields.insert(dialect.reasoning.to_owned());
        }
        if fields.contains(TAGS) {
            return Some(text);
        }
        let value = Json::from_value(&serde_json::Value::String(text));
        for field in fields {
            match field.as_str() {
                "reasoning_content" => wire.reasoning_content = Some(value.clone()),
                "reasoning" => wire.reasoning = Some(value.clone()),
                "reasoning_text" => wire.reasoning_text = Some(value.clone()),
                _ => {}
            }
        }
        None
    }

    pub(super) fn call(&mut self, index: usize, call: &ToolCallItem, entries: &Entries, number: usize) -> wire::Call {
        let pointer = format!("/tool_calls/{number}");
        let item = self.items().get(index);
        let name = crate::tool_name::wire(
            call.namespace.as_deref(),
            &call.name,
            self.capabilities.knobs().max_tool_name_length,
        )
        .into_owned();
        if name != call.name {
            self.lose(
                LossSeverity::Info,
                Feature::ToolName,
                index,
                "/name",
                "the target refuses this name; it gets a replacement derived from it",
            );
        }
        let extra_content = payload(
            self.context.private.as_ref(),
            call.private_linkage.clone().map(|l| vec![l]).as_ref(),
            THOUGHT_SIGNATURE,
        )
        .and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
        .and_then(|text| Json::from_text(text).ok());
        if call.private_linkage.is_some() && extra_content.is_none() {
            self.lose(
                LossSeverity::Warning,
                Feature::ReasoningSignature,
                index,
                "/privateLinkage",
                "private state of the call belongs to somebody else",
            );
        }
        let has_custom = self.has_custom();
        let is_custom = call.tool_type == UnifiedToolType::Custom && has_custom;
        let (function, custom) = if call.tool_type == UnifiedToolType::Custom && !has_custom {
            self.lose(
                LossSeverity::Info,
                Feature::ToolCustom,
                index,
                "/toolType",
                "the dialect has no custom tools; the call is one of a function with one text",
            );
            let arguments = serde_json::json!({CUSTOM_INPUT: call.raw_arguments}).to_string();
            let function = wire::FunctionCall {
                name: Some(name),
                arguments: Some(Json::from_value(&serde_json::Value::String(arguments))),
                extra: entries.level(&format!("{pointer}/function"), &[]),
            };
            (Some(function), None)
        } else if is_custom {
            (
                None,
                Some(wire::CustomCall {
                    name: Some(name),
                    input: Some(call.raw_arguments.clone()),
                    extra: entries.level(&format!("{pointer}/custom"), &[]),
                }),
            )
        } else {
            let own = item.is_some_and(is_own);
            let text = match (&call.input, call.raw_arguments.trim()) {
                (_, "") if !own => call.input.as_ref().map_or_else(|| "{}".to_owned(), |i| i.as_str().to_owned()),
                _ => call.raw_arguments.clone(),
            };
            let arguments = Some(Json::from_value(&serde_json::Value::String(text)));
            (
                Some(wire::FunctionCall {
                    name: Some(name),
                    arguments,
                    extra: entries.level(&format!("{pointer}/function"), &[]),
                }),
                None,
            )
        };
        let kind = entries
            .get(&format!("{pointer}/type"))
            .and_then(|k| k.decode().ok())
            .unwrap_or_else(|| if is_custom { "custom".to_owned() } else { "function".to_owned() });
        wire::Call {
            index: None,
            id: self.call_ids.get(&index).cloned(),
            kind: Some(kind),
            function,
            custom,
            extra_content,
            extra: entries.level(&pointer, &["type"]),
        }
    }

    /// Tool messages directly after the calls, then what they could not carry.
    pub(super) fn answers(&mut self, group: &[usize], legacy: bool) {
        let items = self.items();
        let calls: Vec<usize> = group.iter().copied().filter(|i| self.call_ids.contains_key(i)).collect();
        let mut answers: Vec<(usize, usize)> = calls
            .iter()
            .filter_map(|call| self.results.get(call).map(|result| (*result, *call)))
            .collect();
        answers.sort_unstable();
        let mut moved = Vec::new();
        let mut next = group.last().map_or(0, |i| i + 1);
        for (result, call) in answers {
            let between = items.get(next..result).unwrap_or_default();
            if between
                .iter()
                .enumerate()
                .any(|(i, item)| !self.used.contains(&(next + i)) && !matches!(item.body, UnifiedItemBody::ToolResult(_)))
            {
                self.lose(
                    LossSeverity::Warning,
                    Feature::ConversationOrder,
                    result,
                    "",
                    "a result stands directly after its call at the target",
                );
            } else {
                next = next.max(result + 1);
            }
            self.used.insert(result);
            moved.extend(self.answer(result, call, legacy));
        }
        for call in calls {
            if self.results.contains_key(&call) || legacy {
                continue;
            }
            self.lose(
                LossSeverity::Warning,
                Feature::ConversationInterruption,
                call,
                "",
                "the call has no result; the target gets a note in its place",
            );
            let mut wire = message("tool");
            wire.tool_call_id = self.call_ids.get(&call).cloned();
            wire.content = Some(TextOr::Text(NO_RESULT.to_owned()));
            self.messages.push(wire);
        }
        if !moved.is_empty() {
            let mut wire = message("user");
            wire.content = Some(TextOr::List(moved));
            self.messages.push(wire);
        }
    }

    /// One tool message; media that it cannot carry come back.
    pub(super) fn answer(&mut self, index: usize, call: usize, legacy: bool) -> Vec<wire::Part> {
        let Some(item) = self.items().get(index) else { return Vec::new() };
        let UnifiedItemBody::ToolResult(result) = &item.body else {
            return Vec::new();
        };
        let entries = Entries::of(self.context.private.as_ref(), item.provider_data.as_ref());
        let form = Form::of(self.context.private.as_ref(), item.provider_data.as_ref());
        let mut run = PartRun::new(&entries);
        run.moves_media = !form.media;
        run.item(self, index, &result.output, true);
        let mut moved = run.take_moved();
        let content = run.finish(form.content.as_deref() == Some("parts"));
        let mut wire = message(if legacy { "function" } else { "tool" });
        wire.extra = entries.level("", &["content"]);
        if legacy {
            if !entries.covers("/name") {
                wire.name.clone_from(&result.name);
            }
        } else {
            wire.tool_call_id = self.call_ids.get(&call).cloned();
        }
        self.result_flags(index, result);
        let is_failed = result.is_error == Some(true) || result.error.is_some();
        wire.content = Some(content.unwrap_or_else(|| {
            let told = result.error.as_ref().map(|e| e.message.clone());
            TextOr::Text(told.unwrap_or_else(|| if is_failed { "error".into() } else { String::new() }))
        }));
        self.messages.push(wire);
        if !moved.is_empty() {
            self.lose(
                LossSeverity::Warning,
                Feature::ToolResultMedia,
                index,
                "/output",
                "the target takes only text in results; media stand in a user message after them",
            );
            let name = self.call_ids.get(&call).cloned().unwrap_or_default();
            moved.insert(0, super::encode_parts::text(format!("[Media of the result of call {name}:]")));
        }
        moved
    }

    pub(super) fn result_flags(&mut self, index: usize, result: &ToolResultItem) {
        if result.is_error == Some(true) {
            self.lose(
                LossSeverity::Warning,
                Feature::ToolResultError,
                index,
                "/isError",
                "the target has no error flag on results",
            );
        }
        if result.error.is_some() {
            self.lose(
                LossSeverity::Info,
                Feature::ToolResultError,
                index,
                "/error",
                "the target has no error on results",
            );
        }
    }
}
