//! Unstreamed answers to the wire.

use super::answer::{self, logprob, url_citation};
use super::dialect::Dialect;
use super::private::{Entries, Form, REASONING_DETAILS, THOUGHT_SIGNATURE, payload};
use super::reasoning::{self, TAGS};
use super::usage;
use crate::codec::Encoded;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::media;
use crate::openai::{UNKNOWN_TIER, errors, tier_of_answer};
use crate::projection::LossCollector;
use crate::turn_usage;
use serde_json::{Map, Value, json};
use throughline_format::loss::LossSeverity;
use throughline_format::media::UnifiedDataSource;
use throughline_format::part::TextPart;
use throughline_format::status::ResponseState;
use throughline_format::tool::Execution;
use throughline_format::{
    Count, PartBody, ProtocolFamily, UnifiedError, UnifiedItem, UnifiedItemBody, UnifiedProtocolProfile, UnifiedResponseStatus,
    UnifiedResultV2, UnifiedToolType,
};

/// Writes a response body; a failed result is an error body.
pub(super) fn encode(result: &UnifiedResultV2, context: &EncodeContext) -> Encoded {
    let root = Entries::of_root(context);
    if let (ResponseState::Failed, Some(error)) = (result.status.state, &result.error) {
        return failed(result, error, &root);
    }
    let mut encoder = ResponseEncoder {
        context,
        loss: LossCollector::new(),
        is_own: is_own(&result.provenance.profile),
    };
    let mut choices = vec![encoder.choice(0, &result.output, &result.status, "", &root)];
    for (number, other) in result.alternatives.iter().flatten().enumerate() {
        choices.push(encoder.choice(other.index, &other.output, &other.status, &format!("/alternatives/{number}"), &root));
    }
    let mut body = Map::new();
    body.insert("id".into(), json!(completion_id(result.response_id.as_str())));
    body.insert("object".into(), json!("chat.completion"));
    body.insert("created".into(), json!(context.created_at.seconds()));
    body.insert("model".into(), json!(context.target_model.as_ref().unwrap_or(&result.model.model)));
    body.insert("choices".into(), Value::Array(choices));
    if let Some(counters) = &turn_usage::counters(&mut encoder.loss, result.usage.as_ref()) {
        let raw = root.get("/usage").filter(|raw| usage::decode(raw).as_ref() == Some(counters));
        let value = if let Some(raw) = raw {
            Some(raw.parse())
        } else {
            let (value, lost) = usage::encode(counters);
            answer::usage_losses(&mut encoder.loss, lost);
            value
        };
        body.extend(value.map(|value| ("usage".to_owned(), value)));
    }
    if let Some(tier) = &result.model.service_tier {
        match tier_of_answer(tier, encoder.is_own) {
            Some(word) => drop(body.insert("service_tier".into(), json!(word))),
            None => encoder
                .loss
                .info(Feature::GenerationServiceTier, "/model/serviceTier", UNKNOWN_TIER),
        }
    }
    let mut body = Value::Object(body);
    root.put_all(&mut body, |pointer| {
        pointer == "/usage" && result.usage.is_some() || pointer == "/error"
    });
    for pointer in Form::of_root(context.private.as_ref()).absent {
        super::private::remove(&mut body, &pointer);
    }
    let told = context.target_model.as_ref().unwrap_or(&result.model.model);
    answer::model_losses(&mut encoder.loss, &result.model, told);
    encoder.loss.report_state(result);
    encoder.loss.untold_error(result);
    Encoded {
        body: body.to_string(),
        loss: encoder.loss.finish(),
    }
}

/// The ID of a completion, derived from the response's.
pub(super) fn completion_id(response_id: &str) -> String {
    format!("chatcmpl-{response_id}")
}

/// Whether something came in on this protocol.
pub(super) fn is_own(profile: &UnifiedProtocolProfile) -> bool {
    profile.family == ProtocolFamily::OpenAiChat
}

fn failed(result: &UnifiedResultV2, error: &UnifiedError, root: &Entries) -> Encoded {
    let mut body = match root.get("/error") {
        Some(_) => json!({}),
        None => errors::object(error),
    };
    root.put_all(&mut body, |pointer| {
        matches!(pointer, "/id" | "/created" | "/usage") || pointer.starts_with("/choices") || root.get("/error").is_none()
    });
    let mut loss = LossCollector::new();
    for (index, item) in result.output.iter().enumerate() {
        loss.add_for(
            LossSeverity::Warning,
            Feature::ConversationInterruption,
            format!("/output/{index}"),
            "an error body has no output",
            Some(&item.id),
        );
    }
    for (member, is_there) in [
        ("usage", result.usage.is_some()),
        ("status", true),
        ("model", true),
        ("alternatives", result.alternatives.is_some()),
    ] {
        if is_there {
            loss.info(
                Feature::ResponseFinishReason,
                format!("/{member}"),
                "an error body has only message, type and code",
            );
        }
    }
    answer::error_losses(&mut loss, error);
    loss.report_state(result);
    Encoded {
        body: body.to_string(),
        loss: loss.finish(),
    }
}

struct ResponseEncoder<'a> {
    context: &'a EncodeContext,
    loss: LossCollector,
    is_own: bool,
}

/// One message in the making.
#[derive(Default)]
struct Message {
    text: String,
    parts: Vec<Value>,
    as_list: bool,
    has_text: bool,
    refusal: Option<String>,
    reasoning: Map<String, Value>,
    details: Vec<Value>,
    annotations: Vec<Value>,
    logprobs: Vec<Value>,
    audio: Option<Value>,
    calls: Vec<Value>,
    legacy: bool,
}

impl ResponseEncoder<'_> {
    fn choice(&mut self, index: Count, items: &[UnifiedItem], status: &UnifiedResponseStatus, path: &str, root: &Entries) -> Value {
        let mut message = Message::default();
        for (number, item) in items.iter().enumerate() {
            self.item(&mut message, item, &format!("{path}/output/{number}"));
        }
        let (has_calls, has_refusal) = (!message.calls.is_empty(), message.refusal.is_some());
        let word = usage::finish_word(status, self.is_own, has_refusal);
        let at = format!("{path}/status");
        // An own body may have had an empty word, and gets it back.
        let written = root
            .get(&format!("/choices/{index}/finish_reason"))
            .and_then(|w| w.decode::<String>().ok());
        let told = written.or_else(|| word.clone());
        answer::status_losses(&mut self.loss, status, told.as_deref(), has_calls, has_refusal, &at);
        let logprobs = if message.logprobs.is_empty() && !root.covers(&format!("/choices/{index}/logprobs")) {
            Value::Null
        } else if message.logprobs.is_empty() {
            json!({"content": null, "refusal": null})
        } else {
            json!({"content": std::mem::take(&mut message.logprobs), "refusal": null})
        };
        json!({"index": index, "message": message.finish(), "logprobs": logprobs, "finish_reason": word})
    }

    fn item(&mut self, message: &mut Message, item: &UnifiedItem, path: &str) {
        let form = Form::of(self.context.private.as_ref(), item.provider_data.as_ref());
        match &item.body {
            UnifiedItemBody::Reasoning(_) => self.reasoning(message, item, &form, path),
            UnifiedItemBody::Message(m) => {
                message.as_list |= form.content.as_deref() == Some("parts");
                for (number, part) in m.parts.iter().enumerate() {
                    self.part(message, &part.body, &format!("{path}/parts/{number}"));
                }
            }
            UnifiedItemBody::ToolCall(call) if call.execution == Execution::Client => {
                message.legacy |= form.legacy;
                self.loss.joined_name(call, path);
                let name = crate::tool_name::answered(
                    call.namespace.as_deref(),
                    &call.name,
                    self.context.capabilities.knobs().max_tool_name_length,
                );
                let inner = if call.tool_type == UnifiedToolType::Custom {
                    ("custom", json!({"name": name, "input": call.raw_arguments}))
                } else {
                    ("function", json!({"name": name, "arguments": super::arguments_for_client(call)}))
                };
                let mut value = json!({"id": call.call_id, "type": inner.0, inner.0: inner.1});
                let signature = payload(
                    self.context.private.as_ref(),
                    call.private_linkage.clone().map(|l| vec![l]).as_ref(),
                    THOUGHT_SIGNATURE,
                );
                if let (Some(bytes), Some(object)) = (signature, value.as_object_mut()) {
                    object.insert("extra_content".into(), serde_json::from_slice(&bytes).unwrap_or(Value::Null));
                }
                message.calls.push(value);
            }
            _ => self.loss.add_for(
                LossSeverity::Warning,
                Feature::ToolCallHosted,
                path,
                "calls of hosted tools and what they found have no form for this client",
                Some(&item.id),
            ),
        }
    }

    fn reasoning(&mut self, message: &mut Message, item: &UnifiedItem, form: &Form, path: &str) {
        let mut text = String::new();
        for part in item.parts() {
            let PartBody::Reasoning(reasoning) = &part.body else { continue };
            text.push_str(&reasoning.text);
            let references = reasoning.private_state.as_ref().map(|s| vec![s.r#ref.clone()]);
            if let Some(bytes) = payload(self.context.private.as_ref(), references.as_ref(), REASONING_DETAILS) {
                message
                    .details
                    .extend(serde_json::from_slice::<Vec<Value>>(&bytes).unwrap_or_default());
            } else if reasoning.private_state.is_some() || reasoning.text.is_empty() {
                self.loss.info(
                    Feature::ReasoningSignature,
                    format!("{path}/parts"),
                    "private state of reasoning has no form for this client",
                );
            }
        }
        let fields: Vec<String> = match (form.reasoning.as_slice(), message.details.is_empty()) {
            ([], true) => vec![Dialect::of(self.context.dialect.as_deref()).reasoning.to_owned()],
            (fields, _) => fields.to_vec(),
        };
        if fields.iter().any(|f| f == TAGS) {
            message.push_text(&reasoning::tagged(&text));
            return;
        }
        if fields.iter().any(|f| f == "thinking") {
            message
                .parts
                .push(json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]}));
            message.as_list = true;
            return;
        }
        for field in fields.iter().filter(|_| !text.is_empty()) {
            match message.reasoning.get_mut(field) {
                Some(Value::String(known)) => known.push_str(&text),
                _ => {
                    message.reasoning.insert(field.clone(), json!(text));
                }
            }
        }
    }

    fn part(&mut self, message: &mut Message, body: &PartBody, path: &str) {
        match body {
            PartBody::Text(text) => self.text(message, text, path),
            PartBody::Refusal(refusal) => {
                message.refusal.get_or_insert_default().push_str(&refusal.text);
            }
            PartBody::Json(json) => message.push_text(json.value.as_str()),
            PartBody::Audio(audio) => match &audio.source {
                UnifiedDataSource::Inline(inline) if message.audio.is_none() => {
                    let transcript = audio
                        .media
                        .as_ref()
                        .and_then(|m| m.transcript.as_ref())
                        .map_or("", |t| t.text.as_str());
                    message.audio = Some(
                        json!({"id": "audio", "data": media::base64_of(inline), "expires_at": self.context.created_at.seconds(), "transcript": transcript}),
                    );
                }
                _ => self
                    .loss
                    .warning(Feature::PartAudio, path, "the target takes one audio answer, as data"),
            },
            PartBody::Image(_) => self.loss.warning(Feature::PartImage, path, "the target's answers have no images"),
            PartBody::GroundingSource(_) => self.loss.warning(
                Feature::GroundingSource,
                path,
                "the target's answers have no sources beside citations",
            ),
            PartBody::Citation(_) => self
                .loss
                .warning(Feature::Citation, path, "the target's answers have citations only on text"),
            _ => self.loss.warning(Feature::PartFile, path, "the target's answers have no such part"),
        }
    }

    fn text(&mut self, message: &mut Message, part: &TextPart, path: &str) {
        let offset = message.text.chars().count() as Count;
        message.push_text(&part.text);
        message.logprobs.extend(part.logprobs.iter().flatten().map(logprob));
        for (number, annotation) in part.annotations.iter().flatten().enumerate() {
            let at = format!("{path}/annotations/{number}");
            message
                .annotations
                .extend(url_citation(annotation, offset, &part.text, &at, &mut self.loss));
        }
    }
}

impl Message {
    fn push_text(&mut self, text: &str) {
        self.has_text = true;
        self.text.push_str(text);
        self.parts.push(json!({"type": "text", "text": text}));
    }

    fn finish(self) -> Value {
        let content = match (self.as_list, self.has_text) {
            (true, _) => Value::Array(self.parts),
            (false, true) => json!(self.text),
            (false, false) => Value::Null,
        };
        let mut message = Map::new();
        message.insert("role".into(), json!("assistant"));
        message.insert("content".into(), content);
        message.insert("refusal".into(), self.refusal.map_or(Value::Null, Value::String));
        message.extend(self.reasoning);
        for (key, list) in [("reasoning_details", self.details), ("annotations", self.annotations)] {
            if !list.is_empty() {
                message.insert(key.into(), Value::Array(list));
            }
        }
        if let Some(audio) = self.audio {
            message.insert("audio".into(), audio);
        }
        let mut calls = self.calls;
        if self.legacy && calls.len() == 1 {
            let function = calls.pop().and_then(|mut call| call.get_mut("function").map(Value::take));
            message.insert("function_call".into(), function.unwrap_or_default());
        } else if !calls.is_empty() {
            message.insert("tool_calls".into(), Value::Array(calls));
        }
        Value::Object(message)
    }
}
