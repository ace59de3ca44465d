//! Answers from the wire as events: the state machine that streams and whole answers go through.
//!
//! One choice has at most one open reasoning item and one open message item; calls are open until the next one begins.
//! Choices interleave; each one numbers its items on its own, so that IDs do not depend on how they interleave.

use super::decode_choice::{CANDIDATES, ChoiceState};
use super::dialect::Dialect;
use super::private::{self, Form, Leftovers, UNMAPPED};
use super::reasoning::TAGS;
use super::{profile, usage, wire};
use crate::codec::{Decoded, StreamDecoder};
use crate::context::DecodeContext;
use crate::feature::Feature;
use crate::openai::errors;
use crate::sse::{SseEvent, SseParser, is_broken};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::event::{EventBody, LossUpdate, ResponseMetadata, UsageUpdate, Warning};
use throughline_format::loss::{LossSeverity, UnifiedLossEntry};
use throughline_format::{Count, ErrorCategory, EventDraft, Json, UnifiedError, UnifiedFinishReason, UnifiedResponseStatus, UnifiedUsage};

/// Root members that are noise or have a word.
const SILENT: &[&str] = &["object", "obfuscation", "p"];

/// First root resource of an answer; those of the request of the same operation come before.
const ROOT_RESOURCE: Count = 16;

/// State of one answer.
pub(super) struct AnswerDecoder {
    pub context: DecodeContext,
    /// The text may begin with its reasoning in tags.
    pub splits_tags: bool,
    pub out: Decoded,
    /// The answer comes as a whole.
    pub whole: bool,
    pub model: String,
    pub leftovers: BTreeMap<String, (usize, Json)>,
    /// Members of them that came with several values.
    replaced: BTreeSet<String>,
    /// Hosted tools that ran, as written: they may be larger than what has no word may be.
    pub executed: Vec<(String, Json)>,
    /// Spelling of a whole answer.
    pub form: Form,
    started: bool,
    finished: bool,
    tier: Option<String>,
    usage: Option<UnifiedUsage>,
    choices: BTreeMap<Count, ChoiceState>,
    /// A choice came that could not be taken.
    choices_left_out: bool,
}

impl AnswerDecoder {
    pub(super) fn new(context: DecodeContext, whole: bool) -> Self {
        Self {
            splits_tags: context.reasoning_tags || Dialect::of(context.dialect.as_deref()).reasoning == TAGS,
            context,
            out: Decoded::default(),
            whole,
            model: String::new(),
            leftovers: BTreeMap::new(),
            replaced: BTreeSet::new(),
            executed: Vec::new(),
            form: Form::default(),
            started: false,
            finished: false,
            tier: None,
            usage: None,
            choices: BTreeMap::new(),
            choices_left_out: false,
        }
    }

    /// What came out since the last time.
    pub(super) fn take(&mut self) -> Decoded {
        std::mem::take(&mut self.out)
    }

    /// Keeps a member without a word; the last value wins, and the report says that there were others.
    pub(super) fn keep(&mut self, pointer: String, value: Json) {
        let is_other = self.leftovers.get(&pointer).is_some_and(|(_, known)| *known != value);
        if is_other && value.as_str() != "null" && self.replaced.insert(pointer.clone()) {
            self.lose(pointer.clone(), "it came with several values; the last one is kept");
        }
        self.put(pointer, value);
    }

    fn put(&mut self, pointer: String, value: Json) {
        if value.as_str() == "null" {
            return;
        }
        let next = self.leftovers.len();
        self.leftovers
            .entry(pointer)
            .and_modify(|e| e.1 = value.clone())
            .or_insert((next, value));
    }

    /// Keeps a member of which a stream sends the pieces of a list.
    pub(super) fn keep_appended(&mut self, pointer: String, value: Json) {
        let pieces = match (self.leftovers.get(&pointer).map(|(_, known)| known.parse()), value.parse()) {
            (Some(Value::Array(mut known)), Value::Array(more)) => {
                known.extend(more);
                Json::from_value(&Value::Array(known))
            }
            _ => value,
        };
        self.put(pointer, pieces);
    }

    /// Says that something of the wire is left out: what it is about, where it stood and why.
    pub(super) fn warn(&mut self, code: &str, feature: Feature, path: &str, message: &str) {
        self.out.push(EventBody::Warning(Warning::new(
            code,
            &format!("{} at {path}: {message}", feature.as_str()),
        )));
    }

    /// Takes a whole answer or a chunk.
    pub(super) fn answer(&mut self, mut answer: wire::Answer) {
        if self.finished {
            return;
        }
        let is_error = is_error(&answer);
        for (key, value) in std::mem::take(&mut answer.extra.0) {
            if !SILENT.contains(&key.as_str()) || is_error {
                self.root_member(&key, value);
            }
        }
        for (key, value) in [
            ("/id", answer.id.filter(|i| !i.is_empty()).map(|i| Json::from_value(&i.into()))),
            ("/created", answer.created),
        ] {
            if let Some(value) = value {
                self.keep(key.into(), value);
            }
        }
        if let Some(model) = answer.model.as_ref().filter(|m| self.whole && m.is_empty()) {
            self.keep("/model".into(), Json::from_value(&Value::String(model.clone())));
        }
        if let Some(model) = answer.model.filter(|m| !m.is_empty() && self.model.is_empty()) {
            self.model = model;
        }
        if let Some(tier) = answer.service_tier.take_if(|tier| tier.is_empty()).filter(|_| self.whole) {
            self.keep("/service_tier".into(), Json::from_value(&Value::String(tier)));
        }
        if answer.service_tier.is_some() && self.tier != answer.service_tier {
            self.tier = answer.service_tier;
            if self.started {
                self.out.push(EventBody::ResponseMetadata(ResponseMetadata {
                    service_tier: self.tier.clone(),
                    ..ResponseMetadata::default()
                }));
            }
        }
        if is_error {
            let raw = answer.error.as_ref().map_or(Value::Null, Json::parse);
            let value = serde_json::json!({"error": raw});
            let flat = || {
                serde_json::to_value(
                    self.leftovers
                        .iter()
                        .map(|(k, v)| (k.trim_start_matches('/').to_owned(), v.1.parse()))
                        .collect::<serde_json::Map<_, _>>(),
                )
            };
            let error = if raw_is_object(answer.error.as_ref()) {
                errors::of_value(&value, None)
            } else {
                errors::of_value(&merge(value, flat().unwrap_or_default()), None)
            };
            if let Some(raw) = answer.error {
                self.keep("/error".into(), raw);
            }
            self.begin();
            let mut status = UnifiedResponseStatus::finished(UnifiedFinishReason::Failed, None);
            // The model's call could not be read: a failure of the turn, with a reason of its own.
            if error.provider_code.as_deref() == Some("tool_use_failed") {
                status.finish_reason = Some(UnifiedFinishReason::MalformedToolCall);
                status.original_reason.clone_from(&error.provider_code);
            }
            self.fail(error, status);
            return;
        }
        let choices = answer.choices.unwrap_or_default();
        if !choices.is_empty() || self.whole {
            self.begin();
        }
        for (position, choice) in choices.into_iter().enumerate() {
            let index = choice.index.unwrap_or(position as Count);
            if index >= CANDIDATES {
                self.choices_left_out = true;
                self.warn(
                    "response.choice-index",
                    Feature::ResponseCandidates,
                    &format!("/choices/{position}"),
                    "a choice whose index is beyond every answer's was left out",
                );
                self.lose(format!("/choices/{position}"), "a choice with an impossible index is left out");
                continue;
            }
            let mut state = self.choices.remove(&index).unwrap_or_else(|| ChoiceState::new(index));
            state.take(self, choice, position);
            self.choices.insert(index, state);
        }
        if let Some(raw) = answer.usage {
            self.usage(raw);
        }
    }

    fn root_member(&mut self, key: &str, value: Json) {
        if key == "x_groq" && !self.whole && self.usage.is_none() {
            let inner = value.parse();
            if let Some(raw) = inner.get("usage").filter(|u| u.is_object()) {
                let raw = Json::from_value(raw);
                self.begin();
                self.usage(raw);
            }
        }
        self.keep(format!("/{}", throughline_format::json::escape_pointer_token(key)), value);
    }

    /// Usage may come with any chunk and is cumulative: the last report counts.
    pub(super) fn usage(&mut self, raw: Json) {
        // As written too: dialects spell it in many ways, and every answer has it.
        let usage = usage::decode(&raw);
        self.keep("/usage".into(), raw);
        let Some(usage) = usage else { return };
        if self.usage.as_ref() != Some(&usage) {
            self.begin();
            self.usage = Some(usage.clone());
            self.out.push(EventBody::UsageUpdate(UsageUpdate { usage }));
        }
    }

    /// The answer begins.
    pub(super) fn begin(&mut self) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        if self.model.is_empty() {
            self.model = self.context.model(None);
        }
        self.out.push(self.context.started(profile(), &self.model, self.tier.clone()));
    }

    /// The stream said that it is complete.
    pub(super) fn end(&mut self) {
        if self.finished {
            return;
        }
        if self.choices.is_empty() && self.choices_left_out {
            // Not an empty answer: there was one, and it could not be read.
            self.broken(UnifiedError::new(
                ErrorCategory::Server,
                "malformed-answer",
                "the provider's answer holds no choice that can be read",
            ));
            return;
        }
        self.begin();
        let mut choices = std::mem::take(&mut self.choices);
        for state in choices.values_mut() {
            state.close(self);
        }
        for (index, state) in choices.iter().filter(|(index, _)| **index > 0) {
            let status = Some(state.status());
            self.out.drafts.push(
                EventDraft::new(EventBody::ResponseMetadata(ResponseMetadata {
                    status,
                    ..ResponseMetadata::default()
                }))
                .candidate(*index),
            );
        }
        let status = choices.get(&0).map_or_else(
            || UnifiedResponseStatus::finished(UnifiedFinishReason::Unknown, None),
            ChoiceState::status,
        );
        let has_failed = status.finish_reason == Some(UnifiedFinishReason::Failed);
        self.choices = choices;
        if has_failed {
            let word = status.original_reason.clone().unwrap_or_default();
            let category = if word == "insufficient_system_resource" {
                ErrorCategory::Overloaded
            } else {
                ErrorCategory::Server
            };
            let mut error = UnifiedError::new(category, "provider", "the provider ended the answer with an error");
            error.provider_code = Some(word);
            self.fail(error, status);
            return;
        }
        self.finished = true;
        self.leftover_resource();
        let ids = self.item_ids();
        self.out.complete(status, ids);
    }

    /// The stream is at its end without having said so.
    fn torn(&mut self) {
        if self.finished {
            return;
        }
        if self.choices.get(&0).is_some_and(ChoiceState::has_finished) {
            self.warn(
                "stream.end-missing",
                Feature::ConversationInterruption,
                "",
                "the stream ended without [DONE], but after its finish reason",
            );
            self.end();
            return;
        }
        self.begin();
        let error = UnifiedError::new(ErrorCategory::Interrupted, "stream", "the stream ended before the answer did");
        self.fail(error, UnifiedResponseStatus::finished(UnifiedFinishReason::Interrupted, None));
    }

    pub(super) fn fail(&mut self, error: UnifiedError, status: UnifiedResponseStatus) {
        self.finished = true;
        let mut choices = std::mem::take(&mut self.choices);
        for state in choices.values_mut() {
            state.abandon(self);
        }
        self.choices = choices;
        self.leftover_resource();
        let ids = self.item_ids();
        self.out.fail(error, status, ids);
    }

    fn item_ids(&self) -> Vec<throughline_format::UnifiedId> {
        self.choices.get(&0).map(|c| c.items.clone()).unwrap_or_default()
    }

    fn leftover_resource(&mut self) {
        let mut kept: Vec<_> = std::mem::take(&mut self.leftovers).into_iter().collect();
        kept.sort_by_key(|(_, (order, _))| *order);
        for (pointer, _) in &kept {
            self.lose(pointer.clone(), "no Unified word; kept for the same owner");
        }
        let left = Leftovers(kept.into_iter().map(|(pointer, (_, value))| (pointer, value)).collect());
        let (resource, refused) = left.resource(None, self.context.operation_id.resource(ROOT_RESOURCE), "");
        debug_assert!(resource.as_ref().is_none_or(|r| r.schema == UNMAPPED));
        self.out.resources.extend(resource);
        self.out
            .resources
            .extend(self.form.resource(None, self.context.operation_id.resource(ROOT_RESOURCE + 1), ""));
        let executed = std::mem::take(&mut self.executed);
        for (path, _) in &executed {
            self.lose(
                path.clone(),
                "calls of hosted tools that the provider ran by itself; kept for the same protocol",
            );
        }
        let id = self.context.operation_id.resource(ROOT_RESOURCE + 2);
        self.out.resources.extend(private::executed_tools(id, executed));
        for path in refused {
            self.lose(path, "no word for it, and too large to be kept");
        }
    }

    /// Says that a member of the wire has no word.
    pub(super) fn lose(&mut self, path: String, reason: &str) {
        let entry = UnifiedLossEntry {
            path,
            feature: Feature::WireUnmapped.as_str().to_owned(),
            severity: LossSeverity::Info,
            reason: reason.to_owned(),
            source_item_id: None,
            target_capability: None,
        };
        self.out.push(EventBody::LossUpdate(LossUpdate { entries: vec![entry] }));
    }

    /// Reads one event. The stream may have ended inside the last one: what was cut says nothing, and the end tells what became of it.
    fn event(&mut self, event: &SseEvent, torn: bool) {
        let data = event.data.trim();
        if data.is_empty() || self.finished {
            return;
        }
        if data == "[DONE]" {
            self.end();
            return;
        }
        let says_error = event.event.as_deref() == Some("error");
        match throughline_format::json::decode_str::<wire::Answer>(data) {
            Ok(mut answer) => {
                if says_error && answer.error.is_none() && answer.choices.is_none() {
                    answer.error = Json::from_text(data.to_owned()).ok();
                }
                self.answer(answer);
            }
            Err(error) if !is_broken(error.code) && !says_error => {
                let path = error.pointer.clone();
                self.warn(
                    "stream.unreadable-chunk",
                    Feature::WireUnmapped,
                    &path,
                    "a chunk of another shape was left out",
                );
            }
            Err(_) if torn => {}
            Err(_) => self.broken(UnifiedError::new(
                ErrorCategory::Server,
                "malformed-stream",
                "the stream holds something that cannot be read",
            )),
        }
    }

    /// The provider broke its own protocol.
    fn broken(&mut self, error: UnifiedError) {
        if !self.finished {
            self.begin();
            self.fail(error, UnifiedResponseStatus::finished(UnifiedFinishReason::Failed, None));
        }
    }
}

fn raw_is_object(raw: Option<&Json>) -> bool {
    raw.is_some_and(Json::is_object)
}

fn merge(mut value: Value, more: Value) -> Value {
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.retain(|_, v| !v.is_null());
        value.extend(more);
    }
    value
}

/// Decoder of one stream.
pub(super) struct ChatStreamDecoder {
    parser: SseParser,
    answer: AnswerDecoder,
}

impl ChatStreamDecoder {
    pub(super) fn new(context: DecodeContext) -> Self {
        Self {
            parser: SseParser::new(),
            answer: AnswerDecoder::new(context, false),
        }
    }
}

impl StreamDecoder for ChatStreamDecoder {
    fn push(&mut self, bytes: &[u8]) -> Decoded {
        for event in self.parser.push(bytes) {
            match event {
                Ok(event) => self.answer.event(&event, false),
                Err(error) => self.answer.broken(error.into()),
            }
        }
        self.answer.take()
    }

    fn finish(&mut self) -> Decoded {
        if let Some(event) = self.parser.finish() {
            self.answer.event(&event, true);
        }
        self.answer.torn();
        self.answer.take()
    }

    fn is_finished(&self) -> bool {
        self.answer.finished
    }
}

/// Whether an answer is an error in one of the forms that dialects use.
fn is_error(answer: &wire::Answer) -> bool {
    let is_object = |key: &str| answer.extra.0.iter().any(|(k, v)| k == key && v.as_str() == "\"error\"");
    answer.error.is_some() || answer.choices.is_none() && is_object("object")
}
