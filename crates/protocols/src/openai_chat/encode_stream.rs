//! Streams to the wire: events to chunks.

use super::answer::{self, logprob, url_citation};
use super::dialect::Dialect;
use super::encode_response::{completion_id, is_own};
use super::private::{Entries, Form, REASONING_DETAILS, THOUGHT_SIGNATURE, payload};
use super::reasoning::{self, TAGS};
use super::usage;
use crate::codec::{StreamEncoder, WireFrame};
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::openai::{UNKNOWN_TIER, errors, tier_of_answer};
use crate::projection::LossCollector;
use crate::turn_usage;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::citation::UnifiedTextAnnotation;
use throughline_format::event::{EventBody, ItemDelta, OutputDelta, TextDelta};
use throughline_format::item::ToolCallItem;
use throughline_format::part::ReasoningForm;
use throughline_format::tool::Execution;
use throughline_format::{
    Count, ErrorCategory, Json, PartBody, UnifiedContentPart, UnifiedError, UnifiedEventV2, UnifiedId, UnifiedItem, UnifiedItemBody,
    UnifiedLossReport, UnifiedProviderDataRef, UnifiedResponseStatus, UnifiedToolType, UnifiedUsage,
};

/// Members of a body, a choice and a message that other frames tell.
const ROOT_MEMBERS: &[&str] = &["id", "created", "model", "usage", "service_tier", "error", "choices", "object"];
const CHOICE_MEMBERS: &[&str] = &["index", "message", "delta", "finish_reason", "logprobs"];
const MESSAGE_MEMBERS: &[&str] = &[
    "role",
    "content",
    "refusal",
    "audio",
    "annotations",
    "tool_calls",
    "function_call",
    "reasoning",
    "reasoning_content",
    "reasoning_text",
];

/// Members without a word of the object at `pointer`.
fn members(root: &Entries, pointer: &str, but: &[&str]) -> Map<String, Value> {
    let level = root.level(pointer, but);
    level.0.into_iter().map(|(key, value)| (key, value.parse())).collect()
}

/// What is known of one candidate.
#[derive(Default)]
struct Candidate {
    has_role: bool,
    has_ended: bool,
    /// Characters of content so far.
    characters: Count,
    /// Calls in order.
    calls: Vec<UnifiedId>,
    /// Items that began.
    items: usize,
    has_refusal: bool,
}

/// Where something stands in the result that the events fold to.
#[derive(Default)]
struct Place {
    path: String,
    /// Parts that began.
    parts: usize,
}

/// A text part that is being sent.
struct OpenText {
    /// Characters of the content before it; a refusal has no place in the content.
    offset: Option<Count>,
    path: String,
    text: String,
    annotations: usize,
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
    /// Parts of which text is sent.
    texts: BTreeMap<UnifiedId, OpenText>,
    /// Items that began.
    places: BTreeMap<UnifiedId, Place>,
    /// Reasoning items whose tag in the content is open.
    open_tags: BTreeSet<UnifiedId>,
    /// Items whose text is a summary, of which nothing was said yet.
    summaries: BTreeSet<UnifiedId>,
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
            places: BTreeMap::new(),
            open_tags: BTreeSet::new(),
            summaries: BTreeSet::new(),
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
        let (has_calls, has_refusal) = (!state.calls.is_empty(), state.has_refusal);
        if std::mem::replace(&mut state.has_ended, true) {
            return frames;
        }
        let word = usage::finish_word(status, self.is_own, has_refusal);
        let path = match candidate {
            0 => "/status".to_owned(),
            other => format!("/alternatives/{}/status", other - 1),
        };
        answer::status_losses(&mut self.loss, status, word.as_deref(), has_calls, has_refusal, &path);
        // Members without a word go back to their owner with the end of what they stand on.
        let root = Entries::of_root(&self.context);
        let delta = members(&root, &format!("/choices/{candidate}/message"), MESSAGE_MEMBERS);
        let mut choice = members(&root, &format!("/choices/{candidate}"), CHOICE_MEMBERS);
        if word.is_some() || !delta.is_empty() || !choice.is_empty() {
            choice.insert("index".into(), json!(candidate));
            choice.insert("delta".into(), Value::Object(delta));
            choice.insert("logprobs".into(), Value::Null);
            choice.insert("finish_reason".into(), json!(word));
            frames.push(self.frame(vec![Value::Object(choice)], None));
        }
        frames
    }

    /// Where an item stands; it is counted when it is new.
    fn place(&mut self, candidate: Count, item: &UnifiedId) -> String {
        if let Some(place) = self.places.get(item) {
            return place.path.clone();
        }
        let state = self.candidates.entry(candidate).or_default();
        let path = match candidate {
            0 => format!("/output/{}", state.items),
            other => format!("/alternatives/{}/output/{}", other - 1, state.items),
        };
        state.items += 1;
        let place = Place {
            path: path.clone(),
            parts: 0,
        };
        self.places.insert(item.clone(), place);
        path
    }

    /// Where the next part of an item stands.
    fn part_place(&mut self, candidate: Count, item: &UnifiedId) -> String {
        let path = self.place(candidate, item);
        let place = self.places.entry(item.clone()).or_default();
        place.parts += 1;
        format!("{path}/parts/{}", place.parts - 1)
    }

    /// A part begins, with or without its content.
    fn part(&mut self, candidate: Count, item: &UnifiedId, part: &UnifiedContentPart) -> Vec<WireFrame> {
        let path = self.part_place(candidate, item);
        match &part.body {
            PartBody::Text(text) => {
                let offset = self.candidates.entry(candidate).or_default().characters;
                self.open_text(&part.part_id, Some(offset), path);
                let mut frames = Vec::new();
                if !text.text.is_empty() {
                    let delta = TextDelta {
                        text: text.text.clone(),
                        logprobs: text.logprobs.clone(),
                    };
                    frames.extend(self.text(candidate, &part.part_id, &delta));
                }
                for annotation in text.annotations.iter().flatten() {
                    frames.extend(self.citation(candidate, &part.part_id, annotation));
                }
                frames
            }
            PartBody::Refusal(refusal) => {
                self.open_text(&part.part_id, None, path);
                self.candidates.entry(candidate).or_default().has_refusal = true;
                if refusal.text.is_empty() {
                    Vec::new()
                } else {
                    self.delta(candidate, json!({"refusal": refusal.text}), Value::Null)
                }
            }
            PartBody::Reasoning(reasoning) => {
                if self.is_own && reasoning.form == ReasoningForm::Summary {
                    self.summaries.insert(item.clone());
                }
                let mut frames = self.thought(candidate, item, &reasoning.text);
                if let Some(state) = &reasoning.private_state {
                    frames.extend(self.details(candidate, &state.r#ref, &path));
                }
                frames
            }
            PartBody::Json(json) => self.delta(candidate, json!({"content": json.value.as_str()}), Value::Null),
            PartBody::Audio(audio) => {
                let throughline_format::media::UnifiedDataSource::Inline(inline) = &audio.source else {
                    self.loss
                        .warning(Feature::PartAudio, path, "the target takes an audio answer only as data");
                    return Vec::new();
                };
                let transcript = audio.media.as_ref().and_then(|m| m.transcript.as_ref());
                let transcript = transcript.map_or("", |t| t.text.as_str());
                let root = Entries::of_root(&self.context);
                let id = root
                    .get(&format!("/choices/{candidate}/message/audio/id"))
                    .map_or_else(|| json!("audio"), Json::parse);
                let value = json!({"id": id, "data": crate::media::base64_of(inline), "transcript": transcript});
                self.delta(candidate, json!({"audio": value}), Value::Null)
            }
            PartBody::Image(_) => self.no_form(Feature::PartImage, path),
            PartBody::Video(_) => self.no_form(Feature::PartVideo, path),
            PartBody::Document(_) => self.no_form(Feature::PartDocument, path),
            PartBody::File(_) | PartBody::Binary(_) => self.no_form(Feature::PartFile, path),
            PartBody::Citation(_) => self.no_form(Feature::Citation, path),
            PartBody::GroundingSource(_) => self.no_form(Feature::GroundingSource, path),
            PartBody::ArtifactReference(_) => self.no_form(Feature::PartArtifact, path),
        }
    }

    fn no_form(&mut self, feature: Feature, path: String) -> Vec<WireFrame> {
        self.loss.warning(feature, path, "the target's answers have no such part");
        Vec::new()
    }

    fn open_text(&mut self, part: &UnifiedId, offset: Option<Count>, path: String) {
        let open = OpenText {
            offset,
            path,
            text: String::new(),
            annotations: 0,
        };
        self.texts.insert(part.clone(), open);
    }

    fn text(&mut self, candidate: Count, part: &UnifiedId, delta: &TextDelta) -> Vec<WireFrame> {
        let mut is_refusal = false;
        if let Some(open) = self.texts.get_mut(part) {
            open.text.push_str(&delta.text);
            is_refusal = open.offset.is_none();
        }
        let list = delta.logprobs.as_ref().map(|list| list.iter().map(logprob).collect::<Vec<_>>());
        if is_refusal {
            let logprobs = list.map_or(Value::Null, |list| json!({"content": null, "refusal": list}));
            return self.delta(candidate, json!({"refusal": delta.text}), logprobs);
        }
        self.candidates.entry(candidate).or_default().characters += delta.text.chars().count() as Count;
        let logprobs = list.map_or(Value::Null, |list| json!({"content": list, "refusal": null}));
        self.delta(candidate, json!({"content": delta.text}), logprobs)
    }

    fn citation(&mut self, candidate: Count, part: &UnifiedId, annotation: &UnifiedTextAnnotation) -> Vec<WireFrame> {
        let (mut offset, mut text, mut path) = (0, String::new(), "/output".to_owned());
        if let Some(open) = self.texts.get_mut(part) {
            offset = open.offset.unwrap_or(0);
            text.clone_from(&open.text);
            path = format!("{}/annotations/{}", open.path, open.annotations);
            open.annotations += 1;
        }
        match url_citation(annotation, offset, &text, &path, &mut self.loss) {
            Some(value) => self.delta(candidate, json!({"annotations": [value]}), Value::Null),
            None => Vec::new(),
        }
    }

    /// Reasoning text in the member, content part or tags of its owner, or else of the client's dialect.
    fn thought(&mut self, candidate: Count, item: &UnifiedId, text: &str) -> Vec<WireFrame> {
        if text.is_empty() {
            return Vec::new();
        }
        let dialect = Dialect::of(self.context.dialect.as_deref());
        let member = self.spelled.get(item).cloned().unwrap_or_else(|| dialect.reasoning.to_owned());
        let delta = match member.as_str() {
            TAGS => {
                let open = if self.open_tags.insert(item.clone()) { "<think>" } else { "" };
                let content = format!("{open}{text}");
                self.candidates.entry(candidate).or_default().characters += content.chars().count() as Count;
                json!({"content": content})
            }
            "thinking" => json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]}),
            // Details come once all is said; what kind of text they go with is said with its first piece.
            member if self.summaries.remove(item) => json!({member: text, "reasoning_details": [reasoning::summary_begins()]}),
            member => json!({member: text}),
        };
        self.delta(candidate, delta, Value::Null)
    }

    /// Private details of reasoning to their owner.
    fn details(&mut self, candidate: Count, reference: &UnifiedProviderDataRef, path: &str) -> Vec<WireFrame> {
        let details = payload(self.context.private.as_ref(), Some(&vec![reference.clone()]), REASONING_DETAILS);
        if let Some(details) = details.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()) {
            // The empty text says that the details repeat what was sent.
            return self.delta(candidate, json!({"reasoning": "", "reasoning_details": details}), Value::Null);
        }
        self.loss.info(
            Feature::ReasoningSignature,
            path,
            "private state of reasoning has no form for this client",
        );
        Vec::new()
    }

    /// An item begins, or comes whole.
    fn item(&mut self, candidate: Count, item: &UnifiedItem, is_whole: bool) -> Vec<WireFrame> {
        let path = self.place(candidate, &item.id);
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
                if let Some(member) = form.reasoning.first() {
                    self.spelled.insert(item.id.clone(), member.clone());
                }
                item.parts().iter().flat_map(|part| self.part(candidate, &item.id, part)).collect()
            }
            _ => {
                self.dropped.insert(item.id.clone());
                self.loss.warning(
                    Feature::ToolCallHosted,
                    path,
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
        let name = crate::tool_name::answered(
            call.namespace.as_deref(),
            &call.name,
            self.context.capabilities.knobs().max_tool_name_length,
        );
        let path = self.place(candidate, item);
        self.loss.joined_name(call, &path);
        let mut value = if is_custom {
            json!({"index": index, "id": call.call_id, "type": "custom", "custom": {"name": name, "input": ""}})
        } else {
            json!({"index": index, "id": call.call_id, "type": "function", "function": {"name": name, "arguments": ""}})
        };
        let linkage = call.private_linkage.clone().map(|l| vec![l]);
        let signature = payload(self.context.private.as_ref(), linkage.as_ref(), THOUGHT_SIGNATURE);
        if let (Some(bytes), Some(members)) = (signature, value.as_object_mut()) {
            members.insert("extra_content".into(), serde_json::from_slice(&bytes).unwrap_or(Value::Null));
        } else if call.private_linkage.is_some() {
            self.loss.info(
                Feature::ReasoningSignature,
                format!("{path}/privateLinkage"),
                "private state of the call has no form for this client",
            );
        }
        self.delta(candidate, json!({"tool_calls": [value]}), Value::Null)
    }

    /// Private state that came after its call had begun.
    fn linkage(&mut self, candidate: Count, item: &UnifiedId, reference: &UnifiedProviderDataRef) -> Vec<WireFrame> {
        let bytes = payload(self.context.private.as_ref(), Some(&vec![reference.clone()]), THOUGHT_SIGNATURE);
        let content = bytes.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        if let (Some(content), Some(index)) = (content, self.calls.get(item).map(|call| call.index)) {
            let piece = json!({"index": index, "extra_content": content});
            return self.delta(candidate, json!({"tool_calls": [piece]}), Value::Null);
        }
        let path = self.place(candidate, item);
        self.loss.info(
            Feature::ReasoningSignature,
            format!("{path}/privateLinkage"),
            "private state of the call has no form for this client",
        );
        Vec::new()
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

    /// Takes the class of service that the answer got.
    fn serves_as(&mut self, tier: Option<&str>) {
        self.tier = tier.and_then(|tier| tier_of_answer(tier, self.is_own)).map(str::to_owned);
        if tier.is_some() && self.tier.is_none() {
            self.loss.info(Feature::GenerationServiceTier, "/model/serviceTier", UNKNOWN_TIER);
        }
    }

    fn fail(&mut self, error: &UnifiedError) -> Vec<WireFrame> {
        if std::mem::replace(&mut self.has_failed, true) {
            return Vec::new();
        }
        answer::error_losses(&mut self.loss, error);
        self.loss.untold_usage(self.usage.as_ref());
        vec![WireFrame {
            event: None,
            data: errors::object(error).to_string(),
        }]
    }

    fn done(&mut self) -> Vec<WireFrame> {
        let mut frames = Vec::new();
        let root = Entries::of_root(&self.context);
        let rest = members(&root, "", ROOT_MEMBERS);
        if !rest.is_empty() {
            let mut frame = self.frame(Vec::new(), None);
            if let Ok(Value::Object(mut body)) = serde_json::from_str(&frame.data) {
                body.extend(rest);
                frame.data = Value::Object(body).to_string();
            }
            frames.push(frame);
        }
        let counted = self.usage.take();
        if let Some(counters) = turn_usage::counters(&mut self.loss, counted.as_ref()) {
            if self.context.stream_usage {
                let raw = root.get("/usage").filter(|raw| usage::decode(raw).as_ref() == Some(&counters));
                let value = if let Some(raw) = raw {
                    Some(raw.parse())
                } else {
                    let (value, lost) = usage::encode(&counters);
                    answer::usage_losses(&mut self.loss, lost);
                    value
                };
                frames.extend(value.map(|value| self.frame(Vec::new(), Some(value))));
            } else {
                self.loss
                    .info(Feature::ResponseUsage, "/usage", "the client asked for no usage in its stream");
            }
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
            if let EventBody::UsageUpdate(update) = &event.body {
                self.loss.untold_usage(Some(&update.usage));
            }
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
                self.is_own = is_own(&started.profile);
                self.serves_as(started.model.service_tier.as_deref());
                answer::model_losses(&mut self.loss, &started.model, &self.model);
                self.role(0)
            }
            (EventBody::ResponseMetadata(metadata), ..) => {
                if metadata.service_tier.is_some() {
                    self.serves_as(metadata.service_tier.as_deref());
                }
                match &metadata.status {
                    Some(status) if candidate > 0 => self.finish(candidate, status),
                    _ => Vec::new(),
                }
            }
            (EventBody::ItemStarted(started), ..) => self.item(candidate, &started.item, false),
            (EventBody::ItemCompleted(done), Some(id), _) => match &done.item {
                Some(item) if !self.places.contains_key(id) => self.item(candidate, item, true),
                _ if self.open_tags.remove(id) => {
                    self.candidates.entry(candidate).or_default().characters += 8;
                    self.delta(candidate, json!({"content": "</think>"}), Value::Null)
                }
                _ => Vec::new(),
            },
            (EventBody::ItemDelta(change), Some(id), _) => match &change.delta {
                ItemDelta::PartStarted(started) => self.part(candidate, id, &started.part),
                ItemDelta::Output(OutputDelta { part: Some(part), .. }) => self.part(candidate, id, part),
                _ => Vec::new(),
            },
            (EventBody::TextDelta(delta), _, Some(part)) => self.text(candidate, part, delta),
            (EventBody::ReasoningDelta(delta), Some(id), _) => self.thought(candidate, id, &delta.text),
            (EventBody::SignatureReady(ready), Some(id), Some(_)) => {
                let path = self.place(candidate, id);
                self.details(candidate, &ready.provider_data, &format!("{path}/parts"))
            }
            // The private state of a call that has begun: it goes with the call's next piece.
            (EventBody::SignatureReady(ready), Some(id), None) => self.linkage(candidate, id, &ready.provider_data),
            (EventBody::ToolArgumentsDelta(delta), Some(id), _) => self.arguments(candidate, id, &delta.text),
            (EventBody::ToolArgumentsReady(ready), Some(id), _) => {
                let whole = match (ready.raw_arguments.trim(), &ready.input) {
                    ("", Some(input)) if !self.is_own => input.as_str().to_owned(),
                    _ => ready.raw_arguments.clone(),
                };
                self.rest(candidate, id, &whole)
            }
            (EventBody::CitationReady(ready), _, Some(part)) => self.citation(candidate, part, &ready.annotation),
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
