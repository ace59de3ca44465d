//! Streams to the wire: events to chunks.

use super::encode_response::{completion_id, is_own, logprob, url_citation};
use super::private::{Form, REASONING_DETAILS, THOUGHT_SIGNATURE, payload};
use super::{errors, usage};
use crate::codec::{StreamEncoder, WireFrame};
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::projection::LossCollector;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::event::{EventBody, ItemDelta, OutputDelta, TextDelta};
use throughline_format::item::ToolCallItem;
use throughline_format::tool::Execution;
use throughline_format::{
    Count, ErrorCategory, PartBody, UnifiedContentPart, UnifiedError, UnifiedEventV2, UnifiedId, UnifiedItem, UnifiedItemBody,
    UnifiedLossReport, UnifiedResponseStatus, UnifiedToolType, UnifiedUsage,
};

/// What is known of one candidate.
#[derive(Default)]
struct Candidate {
    has_role: bool,
    has_ended: bool,
    /// Characters of content so far.
    characters: Count,
    /// Calls in order.
    calls: Vec<UnifiedId>,
}

/// A call whose arguments are being sent.
struct OpenCall {
    index: usize,
    is_custom: bool,
    sent: String,
}

/// Encoder of one stream.
pub(super) struct ChatStreamEncoder {
    context: EncodeContext,
    loss: LossCollector,
    id: String,
    model: String,
    tier: Option<String>,
    is_own: bool,
    candidates: BTreeMap<Count, Candidate>,
    calls: BTreeMap<UnifiedId, OpenCall>,
    /// Parts of which text is sent, with the offset of their begin in the content; refusals have none.
    texts: BTreeMap<UnifiedId, Option<Count>>,
    /// Items that have no form here.
    dropped: BTreeSet<UnifiedId>,
    /// Member that carries the text of a reasoning item, where the client is its owner and it is another than usual.
    spelled: BTreeMap<UnifiedId, String>,
    usage: Option<UnifiedUsage>,
    has_failed: bool,
}

impl ChatStreamEncoder {
    pub(super) fn new(context: EncodeContext) -> Self {
        Self {
            id: completion_id("unknown"),
            model: context.target_model.clone().unwrap_or_else(|| crate::UNSPECIFIED_MODEL.into()),
            context,
            loss: LossCollector::new(),
            tier: None,
            is_own: true,
            candidates: BTreeMap::new(),
            calls: BTreeMap::new(),
            texts: BTreeMap::new(),
            dropped: BTreeSet::new(),
            spelled: BTreeMap::new(),
            usage: None,
            has_failed: false,
        }
    }

    fn frame(&self, choices: Vec<Value>, usage: Option<Value>) -> WireFrame {
        let mut body = Map::new();
        body.insert("id".into(), json!(self.id));
        body.insert("object".into(), json!("chat.completion.chunk"));
        body.insert("created".into(), json!(self.context.created_at.seconds()));
        body.insert("model".into(), json!(self.model));
        if let Some(tier) = &self.tier {
            body.insert("service_tier".into(), json!(tier));
        }
        body.insert("choices".into(), Value::Array(choices));
        if let Some(usage) = usage {
            body.insert("usage".into(), usage);
        } else if self.context.stream_usage {
            body.insert("usage".into(), Value::Null);
        }
        WireFrame {
            event: None,
            data: Value::Object(body).to_string(),
        }
    }

    /// A chunk with one delta; the first one of a candidate is led by its role.
    fn delta(&mut self, candidate: Count, delta: Value, logprobs: Value) -> Vec<WireFrame> {
        let mut frames = self.role(candidate);
        frames.push(self.frame(
            vec![json!({"index": candidate, "delta": delta, "logprobs": logprobs, "finish_reason": null})],
            None,
        ));
        frames
    }

    fn role(&mut self, candidate: Count) -> Vec<WireFrame> {
        let state = self.candidates.entry(candidate).or_default();
        if std::mem::replace(&mut state.has_role, true) {
            return Vec::new();
        }
        let delta = json!({"role": "assistant", "content": "", "refusal": null});
        vec![self.frame(
            vec![json!({"index": candidate, "delta": delta, "logprobs": null, "finish_reason": null})],
            None,
        )]
    }

    fn finish(&mut self, candidate: Count, status: &UnifiedResponseStatus) -> Vec<WireFrame> {
        let mut frames = self.role(candidate);
        let state = self.candidates.entry(candidate).or_default();
        if std::mem::replace(&mut state.has_ended, true) {
            return frames;
        }
        let Some(word) = usage::finish_word(status, self.is_own) else {
            return frames;
        };
        frames.push(self.frame(
            vec![json!({"index": candidate, "delta": {}, "logprobs": null, "finish_reason": word})],
            None,
        ));
        frames
    }

    /// A part begins, with or without its content.
    fn part(&mut self, candidate: Count, part: &UnifiedContentPart) -> Vec<WireFrame> {
        match &part.body {
            PartBody::Text(text) => {
                let offset = self.candidates.entry(candidate).or_default().characters;
                self.texts.insert(part.part_id.clone(), Some(offset));
                let mut frames = Vec::new();
                if !text.text.is_empty() {
                    frames.extend(self.text(
                        candidate,
                        &part.part_id,
                        &TextDelta {
                            text: text.text.clone(),
                            logprobs: text.logprobs.clone(),
                        },
                    ));
                }
                for annotation in text.annotations.iter().flatten() {
                    if let Some(value) = url_citation(annotation, offset, &text.text) {
                        frames.extend(self.delta(candidate, json!({"annotations": [value]}), Value::Null));
                    }
                }
                frames
            }
            PartBody::Refusal(refusal) => {
                self.texts.insert(part.part_id.clone(), None);
                if refusal.text.is_empty() {
                    Vec::new()
                } else {
                    self.delta(candidate, json!({"refusal": refusal.text}), Value::Null)
                }
            }
            PartBody::Reasoning(reasoning) if !reasoning.text.is_empty() => {
                self.delta(candidate, json!({"reasoning_content": reasoning.text}), Value::Null)
            }
            PartBody::Reasoning(_) => Vec::new(),
            PartBody::Json(json) => self.delta(candidate, json!({"content": json.value.as_str()}), Value::Null),
            PartBody::Audio(audio) => {
                let throughline_format::media::UnifiedDataSource::Inline(inline) = &audio.source else {
                    return Vec::new();
                };
                let transcript = audio
                    .media
                    .as_ref()
                    .and_then(|m| m.transcript.as_ref())
                    .map_or("", |t| t.text.as_str());
                self.delta(
                    candidate,
                    json!({"audio": {"id": "audio", "data": super::media::base64_of(inline), "transcript": transcript}}),
                    Value::Null,
                )
            }
            _ => {
                self.loss.warning(
                    Feature::ConversationItem,
                    "/output",
                    "a part of an answer has no form for this client",
                );
                Vec::new()
            }
        }
    }

    fn text(&mut self, candidate: Count, part: &UnifiedId, delta: &TextDelta) -> Vec<WireFrame> {
        if self.texts.get(part).is_some_and(Option::is_none) {
            return self.delta(candidate, json!({"refusal": delta.text}), Value::Null);
        }
        self.candidates.entry(candidate).or_default().characters += delta.text.chars().count() as Count;
        let logprobs = match &delta.logprobs {
            Some(list) => json!({"content": list.iter().map(logprob).collect::<Vec<_>>(), "refusal": null}),
            None => Value::Null,
        };
        self.delta(candidate, json!({"content": delta.text}), logprobs)
    }

    /// An item begins, or comes whole.
    fn item(&mut self, candidate: Count, item: &UnifiedItem, is_whole: bool) -> Vec<WireFrame> {
        match &item.body {
            UnifiedItemBody::ToolCall(call) if call.execution == Execution::Client => {
                let mut frames = self.call(candidate, &item.id, call);
                if is_whole {
                    frames.extend(self.rest(candidate, &item.id, &super::arguments_for_client(call)));
                }
                frames
            }
            UnifiedItemBody::Message(_) | UnifiedItemBody::Reasoning(_) => {
                let form = Form::of(self.context.private.as_ref(), item.provider_data.as_ref());
                if let Some(member) = form.reasoning.first().filter(|member| *member != "thinking") {
                    self.spelled.insert(item.id.clone(), member.clone());
                }
                item.parts().iter().flat_map(|part| self.part(candidate, part)).collect()
            }
            _ => {
                self.dropped.insert(item.id.clone());
                self.loss.warning(
                    Feature::ToolCallHosted,
                    "/output",
                    "calls of hosted tools and what they found have no form for this client",
                );
                Vec::new()
            }
        }
    }

    fn call(&mut self, candidate: Count, item: &UnifiedId, call: &ToolCallItem) -> Vec<WireFrame> {
        let state = self.candidates.entry(candidate).or_default();
        let index = state.calls.len();
        state.calls.push(item.clone());
        let is_custom = call.tool_type == UnifiedToolType::Custom;
        self.calls.insert(
            item.clone(),
            OpenCall {
                index,
                is_custom,
                sent: String::new(),
            },
        );
        let mut value = if is_custom {
            json!({"index": index, "id": call.call_id, "type": "custom", "custom": {"name": call.name, "input": ""}})
        } else {
            json!({"index": index, "id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": ""}})
        };
        let linkage = call.private_linkage.clone().map(|l| vec![l]);
        let signature = payload(self.context.private.as_ref(), linkage.as_ref(), THOUGHT_SIGNATURE);
        if let (Some(bytes), Some(members)) = (signature, value.as_object_mut()) {
            members.insert("extra_content".into(), serde_json::from_slice(&bytes).unwrap_or(Value::Null));
        }
        self.delta(candidate, json!({"tool_calls": [value]}), Value::Null)
    }

    fn arguments(&mut self, candidate: Count, item: &UnifiedId, text: &str) -> Vec<WireFrame> {
        let Some(call) = self.calls.get_mut(item).filter(|_| !text.is_empty()) else {
            return Vec::new();
        };
        call.sent.push_str(text);
        let inner = if call.is_custom {
            json!({"index": call.index, "custom": {"input": text}})
        } else {
            json!({"index": call.index, "function": {"arguments": text}})
        };
        self.delta(candidate, json!({"tool_calls": [inner]}), Value::Null)
    }

    /// What of the arguments was not sent yet.
    fn rest(&mut self, candidate: Count, item: &UnifiedId, whole: &str) -> Vec<WireFrame> {
        let rest = self
            .calls
            .get(item)
            .and_then(|call| whole.strip_prefix(&call.sent))
            .unwrap_or_default()
            .to_owned();
        self.arguments(candidate, item, &rest)
    }

    fn fail(&mut self, error: &UnifiedError) -> Vec<WireFrame> {
        if std::mem::replace(&mut self.has_failed, true) {
            return Vec::new();
        }
        vec![WireFrame {
            event: None,
            data: errors::object(error).to_string(),
        }]
    }

    fn done(&mut self) -> Vec<WireFrame> {
        let mut frames = Vec::new();
        if let Some(counters) = self.usage.take().filter(|_| self.context.stream_usage) {
            frames.push(self.frame(Vec::new(), Some(usage::encode(&counters).0)));
        }
        frames.push(WireFrame {
            event: None,
            data: "[DONE]".into(),
        });
        frames
    }
}

impl StreamEncoder for ChatStreamEncoder {
    fn push(&mut self, event: &UnifiedEventV2) -> Vec<WireFrame> {
        if self.has_failed {
            return Vec::new();
        }
        let candidate = event.candidate.unwrap_or(0);
        let is_dropped = event.item_id.as_ref().is_some_and(|id| self.dropped.contains(id));
        if is_dropped {
            return Vec::new();
        }
        match (&event.body, &event.item_id, &event.part_id) {
            (EventBody::ResponseStarted(started), ..) => {
                self.id = completion_id(started.response_id.as_str());
                self.model = self.context.target_model.clone().unwrap_or_else(|| started.model.model.clone());
                self.tier.clone_from(&started.model.service_tier);
                self.is_own = is_own(&started.profile);
                self.role(0)
            }
            (EventBody::ResponseMetadata(metadata), ..) => {
                if metadata.service_tier.is_some() {
                    self.tier.clone_from(&metadata.service_tier);
                }
                match &metadata.status {
                    Some(status) if candidate > 0 => self.finish(candidate, status),
                    _ => Vec::new(),
                }
            }
            (EventBody::ItemStarted(started), ..) => self.item(candidate, &started.item, false),
            (EventBody::ItemCompleted(done), Some(id), _) => match &done.item {
                Some(item) if !self.calls.contains_key(id) => self.item(candidate, item, true),
                _ => Vec::new(),
            },
            (EventBody::ItemDelta(change), ..) => match &change.delta {
                ItemDelta::PartStarted(started) => self.part(candidate, &started.part),
                ItemDelta::Output(OutputDelta { part: Some(part), .. }) => self.part(candidate, part),
                _ => Vec::new(),
            },
            (EventBody::TextDelta(delta), _, Some(part)) => self.text(candidate, part, delta),
            (EventBody::ReasoningDelta(delta), Some(id), _) if !delta.text.is_empty() => {
                let member = self.spelled.get(id).cloned().unwrap_or_else(|| "reasoning_content".into());
                self.delta(candidate, json!({member: delta.text}), Value::Null)
            }
            (EventBody::SignatureReady(ready), Some(_), Some(_)) => {
                let details = payload(
                    self.context.private.as_ref(),
                    Some(&vec![ready.provider_data.clone()]),
                    REASONING_DETAILS,
                );
                match details.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()) {
                    // The empty text says that the details repeat what was sent.
                    Some(details) => self.delta(candidate, json!({"reasoning": "", "reasoning_details": details}), Value::Null),
                    None => Vec::new(),
                }
            }
            (EventBody::ToolArgumentsDelta(delta), Some(id), _) => self.arguments(candidate, id, &delta.text),
            (EventBody::ToolArgumentsReady(ready), Some(id), _) => {
                let whole = match (ready.raw_arguments.trim(), &ready.input) {
                    ("", Some(input)) if !self.is_own => input.as_str().to_owned(),
                    _ => ready.raw_arguments.clone(),
                };
                self.rest(candidate, id, &whole)
            }
            (EventBody::CitationReady(ready), _, Some(part)) => {
                let offset = self.texts.get(part).copied().flatten().unwrap_or(0);
                if let Some(value) = url_citation(&ready.annotation, offset, "") {
                    self.delta(candidate, json!({"annotations": [value]}), Value::Null)
                } else {
                    self.loss.warning(Feature::Citation, "/output", "the target cites only addresses");
                    Vec::new()
                }
            }
            (EventBody::UsageUpdate(update), ..) => {
                self.usage = Some(update.usage.clone());
                Vec::new()
            }
            (EventBody::OperationCompleted(done), ..) => self.finish(0, &done.status),
            (EventBody::OperationFailed(failed), ..) => self.fail(&failed.error),
            (EventBody::OperationCancelled(_), ..) => self.fail(&UnifiedError::new(
                ErrorCategory::Cancelled,
                "operation",
                "the operation was cancelled",
            )),
            (EventBody::OperationExpired(_), ..) => self.fail(&UnifiedError::new(
                ErrorCategory::Timeout,
                "operation",
                "the operation took too long",
            )),
            (EventBody::StreamCompleted(_), ..) => self.done(),
            _ => Vec::new(),
        }
    }

    fn loss(&self) -> &UnifiedLossReport {
        self.loss.report()
    }
}
