//! Committed events as the SDK's messages of a run.

use super::encode_response::status_word;
use super::private::CALL_ID;
use super::usage;
use crate::codec::{StreamEncoder, WireFrame};
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::object::{Object, one_line};
use crate::projection::LossCollector;
use std::collections::BTreeMap;
use throughline_format::event::{EventBody, ItemDelta};
use throughline_format::{
    Json, PartBody, UnifiedContentPart, UnifiedError, UnifiedEventV2, UnifiedFinishReason, UnifiedId, UnifiedItem, UnifiedItemBody,
    UnifiedLossReport, UnifiedUsage,
};

/// Encoder of one stream.
pub(super) struct RunStreamEncoder {
    context: EncodeContext,
    frames: Vec<WireFrame>,
    loss: LossCollector,
    agent: String,
    run: String,
    model: String,
    items: BTreeMap<UnifiedId, (usize, UnifiedItem)>,
    calls: BTreeMap<String, (String, Json)>,
    usage: Option<UnifiedUsage>,
    error: Option<UnifiedError>,
    reason: Option<String>,
    has_begun: bool,
    has_ended: bool,
}

impl RunStreamEncoder {
    pub(super) fn new(context: EncodeContext) -> Self {
        Self {
            context,
            frames: Vec::new(),
            loss: LossCollector::new(),
            agent: "agent-unknown".into(),
            run: "run-unknown".into(),
            model: crate::UNSPECIFIED_MODEL.into(),
            items: BTreeMap::new(),
            calls: BTreeMap::new(),
            usage: None,
            error: None,
            reason: None,
            has_begun: false,
            has_ended: false,
        }
    }

    fn message(&self, kind: &str) -> Object {
        Object::of_type(kind).with("agent_id", &self.agent).with("run_id", &self.run)
    }

    fn send(&mut self, message: &Object) {
        self.frames.push(WireFrame {
            event: None,
            data: one_line(&message.to_json()),
        });
    }

    fn begin(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let model = self.context.target_model.clone().unwrap_or_else(|| self.model.clone());
        let init = self
            .message("system")
            .with("subtype", "init")
            .with("model", &Object::default().with("id", &model));
        self.send(&init);
        let status = self.message("status").with("status", "RUNNING");
        self.send(&status);
    }

    fn say(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let content = [Object::of_type("text").with("text", text)];
        let said = Object::default().with("role", "assistant").with("content", &content);
        let message = self.message("assistant").with("message", &said);
        self.send(&message);
    }

    fn think(&mut self, text: &str) {
        if !text.is_empty() {
            let message = self.message("thinking").with("text", text);
            self.send(&message);
        }
    }

    fn part(&mut self, part: &UnifiedContentPart, path: &str) {
        match &part.body {
            PartBody::Text(text) => self.say(&text.text),
            PartBody::Refusal(refusal) => {
                self.loss.info(Feature::PartRefusal, path, "as text");
                self.say(&refusal.text);
            }
            PartBody::Json(data) => {
                self.loss.info(Feature::PartJson, path, "as text");
                self.say(data.value.as_str());
            }
            PartBody::Reasoning(reasoning) => {
                if reasoning.private_state.is_some() {
                    let reason = "private state of reasoning stays with its provider";
                    self.loss.info(Feature::ReasoningSignature, format!("{path}/privateState"), reason);
                }
                self.think(&reasoning.text);
            }
            PartBody::Image(_)
            | PartBody::Audio(_)
            | PartBody::Video(_)
            | PartBody::Document(_)
            | PartBody::File(_)
            | PartBody::Binary(_)
            | PartBody::Citation(_)
            | PartBody::GroundingSource(_)
            | PartBody::ArtifactReference(_) => {
                self.loss.warning(Feature::PartFile, path, "a run says text only");
            }
        }
    }

    fn grow(&mut self, id: &UnifiedId, part: &UnifiedContentPart) {
        let Some((place, item)) = self.items.get_mut(id) else { return };
        let path = format!("/output/{place}/parts/{}", item.parts().len());
        if let Some(parts) = item.parts_mut() {
            parts.push(part.clone());
        }
        if matches!(item.body, UnifiedItemBody::Message(_) | UnifiedItemBody::Reasoning(_)) {
            self.part(part, &path);
        }
    }

    fn begin_item(&mut self, item: &UnifiedItem) {
        let place = self.items.len();
        self.items.insert(item.id.clone(), (place, item.clone()));
        if matches!(item.body, UnifiedItemBody::Message(_) | UnifiedItemBody::Reasoning(_)) {
            for (number, part) in item.parts().iter().enumerate() {
                self.part(part, &format!("/output/{place}/parts/{number}"));
            }
        }
    }

    fn end_item(&mut self, id: &UnifiedId, whole: Option<&UnifiedItem>) {
        if let Some(item) = whole {
            if self.items.contains_key(id) {
                if let Some((_, known)) = self.items.get_mut(id) {
                    *known = item.clone();
                }
            } else {
                self.begin_item(item);
            }
        }
        let Some((place, item)) = self.items.get(id).cloned() else { return };
        let path = format!("/output/{place}");
        match &item.body {
            UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) => {
                let args = call
                    .input
                    .clone()
                    .or_else(|| Json::of_arguments(&call.raw_arguments))
                    .unwrap_or_else(|| crate::raw::json(&call.raw_arguments));
                let own = crate::keeper::payload_in(self.context.private.as_ref(), item.provider_data.iter().flatten(), CALL_ID);
                let id = own
                    .and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
                    .unwrap_or_else(|| call.call_id.clone());
                let message = self
                    .message("tool_call")
                    .with("call_id", &id)
                    .with("name", &call.name)
                    .with("status", "running")
                    .with("args", &args);
                self.calls.insert(call.call_id.clone(), (id, args));
                self.send(&message);
            }
            UnifiedItemBody::ToolResult(result) => {
                let failed = result.is_error == Some(true) || result.error.is_some();
                self.result(&result.call_id, result.name.as_deref(), &result.output, failed, &path);
            }
            UnifiedItemBody::ServerToolResult(result) => {
                let failed = result.is_error == Some(true) || result.error.is_some();
                self.result(&result.call_id, result.name.as_deref(), &result.output, failed, &path);
            }
            UnifiedItemBody::Message(_) | UnifiedItemBody::Reasoning(_) => {}
            UnifiedItemBody::ProviderSwitch(_) | UnifiedItemBody::Interruption(_) | UnifiedItemBody::Error(_) => {
                self.loss.marker(path, &item.id);
            }
            UnifiedItemBody::ApprovalRequest(_)
            | UnifiedItemBody::ApprovalResponse(_)
            | UnifiedItemBody::ComputerAction(_)
            | UnifiedItemBody::ComputerActionResult(_)
            | UnifiedItemBody::CodeExecution(_)
            | UnifiedItemBody::CodeExecutionResult(_)
            | UnifiedItemBody::SearchResult(_)
            | UnifiedItemBody::RetrievalResult(_)
            | UnifiedItemBody::Artifact(_)
            | UnifiedItemBody::Reference(_)
            | UnifiedItemBody::CompactionSummary(_) => {
                self.loss.warning(Feature::ConversationItem, path, "a run has no message for it");
            }
        }
    }

    fn result(&mut self, call_id: &str, name: Option<&str>, output: &[UnifiedContentPart], failed: bool, path: &str) {
        let Some((id, args)) = self.calls.get(call_id).cloned() else {
            let reason = "the result has no call in this run";
            self.loss.warning(Feature::ConversationOrder, path, reason);
            return;
        };
        let value = match output {
            [
                UnifiedContentPart {
                    body: PartBody::Json(data),
                    ..
                },
            ] => data.value.clone(),
            parts => {
                let text: Vec<&str> = parts.iter().filter_map(UnifiedContentPart::as_text).collect();
                if text.len() < parts.len() {
                    self.loss
                        .warning(Feature::ToolResultMedia, path, "a result of a run is text or JSON");
                }
                crate::raw::json(&text.join("\n"))
            }
        };
        let message = self
            .message("tool_call")
            .with("call_id", &id)
            .with("name", name.unwrap_or_default())
            .with("status", if failed { "error" } else { "completed" })
            .with("args", &args)
            .with("result", &value);
        self.send(&message);
    }
}

impl StreamEncoder for RunStreamEncoder {
    fn push(&mut self, event: &UnifiedEventV2) -> Vec<WireFrame> {
        if self.has_ended {
            return Vec::new();
        }
        if event.candidate.is_some() {
            if matches!(event.body, EventBody::ItemStarted(_)) {
                let reason = "the target has one answer";
                self.loss.warning(Feature::ResponseCandidates, "/alternatives", reason);
            }
            return Vec::new();
        }
        match &event.body {
            EventBody::ResponseStarted(started) => {
                self.run = format!("run-{}", started.response_id);
                self.agent = format!("agent-{}", started.response_id);
                self.model.clone_from(&started.model.model);
                self.begin();
            }
            EventBody::ItemStarted(started) => self.begin_item(&started.item),
            EventBody::ItemCompleted(done) => {
                if let Some(id) = event.item_id.as_ref().or(done.item.as_ref().map(|item| &item.id)) {
                    self.end_item(id, done.item.as_ref());
                }
            }
            EventBody::ItemDelta(change) => {
                if let Some(id) = &event.item_id {
                    match &change.delta {
                        ItemDelta::PartStarted(started) => self.grow(id, &started.part),
                        ItemDelta::Output(output) => {
                            if let Some(part) = &output.part {
                                self.grow(id, part);
                            }
                            if let (Some(text), Some(part)) = (&output.text, &event.part_id) {
                                self.grow(id, &UnifiedContentPart::text(part.clone(), text.clone()));
                            }
                        }
                        ItemDelta::PartCompleted(_) | ItemDelta::Field(_) => {}
                        ItemDelta::Media(_) => self.loss.warning(Feature::PartFile, "/output", "a run says text only"),
                    }
                }
            }
            EventBody::TextDelta(delta) => self.say(&delta.text),
            EventBody::ReasoningDelta(delta) => self.think(&delta.text),
            EventBody::SignatureReady(_) => {
                let reason = "private state stays with its provider";
                self.loss.info(Feature::ReasoningSignature, "/output", reason);
            }
            EventBody::ToolArgumentsReady(ready) => {
                if let Some((_, item)) = event.item_id.as_ref().and_then(|id| self.items.get_mut(id))
                    && let UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) = &mut item.body
                {
                    call.raw_arguments.clone_from(&ready.raw_arguments);
                    call.input.clone_from(&ready.input);
                }
            }
            EventBody::CitationReady(_) => self.loss.info(Feature::Citation, "/output", "a run says text only"),
            EventBody::SourceReady(ready) | EventBody::ArtifactReady(ready) => {
                if let Some(id) = &event.item_id {
                    self.grow(id, &ready.part);
                }
            }
            EventBody::UsageUpdate(update) => self.usage = Some(update.usage.clone()),
            EventBody::OperationFailed(failed) => self.error = Some(failed.error.clone()),
            EventBody::OperationCancelled(cancelled) => self.reason.clone_from(&cancelled.reason),
            EventBody::StreamCompleted(done) => {
                self.begin();
                self.has_ended = true;
                if let Some(counters) = self.usage.take() {
                    let (value, lost) = usage::encode(&counters);
                    for member in lost {
                        let reason = "the target has no counter for it";
                        self.loss.info(Feature::ResponseUsage, format!("/usage/{member}"), reason);
                    }
                    if let Some(value) = value {
                        let message = self.message("usage").with("usage", &value);
                        self.send(&message);
                    }
                }
                if !matches!(
                    done.status.finish_reason,
                    Some(UnifiedFinishReason::Stop | UnifiedFinishReason::Cancelled | UnifiedFinishReason::Failed) | None
                ) {
                    let reason = "the target says finished, error or cancelled";
                    self.loss.info(Feature::ResponseFinishReason, "/status/finishReason", reason);
                }
                let word = status_word(&done.status).to_ascii_uppercase();
                let told = self.error.take().map(|error| error.message).or(self.reason.take());
                let status = self.message("status").with("status", &word).with_some("message", told.as_ref());
                self.send(&status);
            }
            EventBody::OperationCreated(_)
            | EventBody::OperationQueued(_)
            | EventBody::OperationRunning(_)
            | EventBody::OperationRequiresAction(_)
            | EventBody::OperationCompleted(_)
            | EventBody::OperationExpired(_)
            | EventBody::ResponseMetadata(_)
            | EventBody::ItemFailed(_)
            | EventBody::ToolArgumentsDelta(_)
            | EventBody::ToolLifecycle(_)
            | EventBody::CheckpointReady(_)
            | EventBody::CheckpointInvalidated(_)
            | EventBody::Warning(_)
            | EventBody::LossUpdate(_)
            | EventBody::Error(_)
            | EventBody::Heartbeat(_) => {}
        }
        std::mem::take(&mut self.frames)
    }

    fn loss(&self) -> &UnifiedLossReport {
        self.loss.report()
    }
}
