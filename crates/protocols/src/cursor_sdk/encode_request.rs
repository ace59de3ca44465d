//! Prompts to the wire.
//!
//! With an agent whose memory the target may use (a continuation that its owner handed out) the prompt is the user's last
//! message, and `agentId` names the agent. Without one a new agent is made, and the prompt is a transcript: the history as
//! text, each entry under its role, the last message at the end. A prompt of one message is that message and nothing else, so
//! the transcript of a history begins with the transcript of every shorter one.

use super::decode_request::{agent_of, spelled};
use super::private::{FORM, UNMAPPED};
use crate::codec::Encoded;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::object::Object;
use crate::projection::LossCollector;
use crate::told;
use std::fmt::Write as _;
use throughline_format::intent::UnifiedRequirement;
use throughline_format::item::{Role, newest_instructions};
use throughline_format::loss::LossSeverity;
use throughline_format::media::{InlineEncoding, UnifiedDataSource};
use throughline_format::part::MediaPart;
use throughline_format::{Json, PartBody, UnifiedContentPart, UnifiedItem, UnifiedItemBody, UnifiedRequestV2, UnifiedToolType};

/// Images of a prompt.
pub const MAX_IMAGES: usize = 5;

/// Writes a body.
pub(super) fn encode(request: &UnifiedRequestV2, context: &EncodeContext) -> Encoded {
    let mut encoder = Encoder {
        request,
        loss: LossCollector::new(),
        images: Vec::new(),
    };
    encoder.loss.report_intents(request, &context.capabilities);
    encoder.settings();
    let agent = agent_of(request, context.private.as_ref());
    if agent.is_none() {
        encoder.held_elsewhere();
    }
    let text = if agent.is_some() {
        encoder.continuation()
    } else {
        encoder.transcript()
    };
    let text = if text.is_empty() {
        encoder.loss.warning(
            Feature::ConversationMessageEmpty,
            "/conversation/items",
            "a prompt has a text; a note stands in",
        );
        "(no text)".to_owned()
    } else {
        text
    };
    let forms: Vec<String> = context
        .private
        .root_payload(FORM)
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let body = encoder.body(context, agent.as_deref(), &text, &forms);
    Encoded {
        body: body.to_json().as_str().to_owned(),
        loss: encoder.loss.finish(),
    }
}

struct Encoder<'a> {
    request: &'a UnifiedRequestV2,
    loss: LossCollector,
    images: Vec<Object>,
}

impl Encoder<'_> {
    fn body(&mut self, context: &EncodeContext, agent: Option<&str>, text: &str, forms: &[String]) -> Object {
        let has = |form: &str| forms.iter().any(|known| known == form);
        let mut body = Object::default().with_some("agentId", agent.as_ref());
        let model = context.target_model.as_ref().unwrap_or(&self.request.model.requested);
        if model == crate::UNSPECIFIED_MODEL {
            self.loss.renamed("/model/requested", "nobody named a model");
        } else if has(spelled::MODEL_WORD) {
            body = body.with("model", model);
        } else {
            body = body.with("model", &Object::default().with("id", model));
        }
        let images = std::mem::take(&mut self.images);
        let mut prompt = Object::default().with("text", text);
        if !images.is_empty() {
            prompt = prompt.with("images", &images);
        }
        let entries = self
            .request
            .conversation
            .items
            .last()
            .map(|item| crate::keeper::payload_in(context.private.as_ref(), item.provider_data.iter().flatten(), UNMAPPED));
        let mut prompt_json = prompt.to_json();
        for entry in crate::keeper::unmapped_in(entries.flatten()) {
            prompt.put(&entry.pointer, entry.value);
            prompt_json = prompt.to_json();
        }
        if has(spelled::MESSAGE) && images.is_empty() {
            body = body.with("message", text);
        } else if has(spelled::MESSAGE) || has(spelled::MESSAGE_OBJECT) {
            body.set("message", prompt_json);
        } else {
            body.set("prompt", prompt_json);
        }
        if let Some(labels) = self.request.metadata.as_ref().and_then(|m| m.labels.as_ref()) {
            body = body.with("metadata", labels);
        }
        for entry in crate::keeper::unmapped_in(context.private.root_payload(UNMAPPED)) {
            body.put(&entry.pointer, entry.value);
        }
        body
    }

    /// What stands beside the history.
    fn settings(&mut self) {
        for (index, tool) in self.request.tools.iter().enumerate() {
            let why = match &tool.kind {
                UnifiedToolType::Function | UnifiedToolType::Custom => "tools of the client need an MCP server or the host of the SDK",
                UnifiedToolType::Mcp => "MCP servers are set where the agent is made",
                _ => "the runtime has tools of its own",
            };
            let strength = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
            self.loss
                .intent(strength, Feature::of_tool(&tool.kind), format!("/tools/{index}"), why);
        }
        for (path, feature, there) in [
            (
                "/model/modelProvider",
                Feature::ConversationItem,
                self.request.model.model_provider.is_some(),
            ),
            (
                "/state/resources",
                Feature::StateResources,
                self.request.state.as_ref().is_some_and(|state| state.resources.is_some()),
            ),
        ] {
            if there {
                self.loss.warning(feature, path, "a prompt has no place for it");
            }
        }
        // Handles and the range that the runtime holds: said by the agent's ID, or by nothing.
        for (path, there) in [
            ("/conversation/continuations", self.request.conversation.continuations.is_some()),
            ("/conversation/missing", self.request.conversation.missing.is_some()),
        ] {
            if there {
                self.loss.renamed(path, "the agent's ID stands for what the runtime holds");
            }
        }
    }

    /// What no new agent can know: the state that the history goes on from, and what is missing of it.
    fn held_elsewhere(&mut self) {
        let conversation = &self.request.conversation;
        for index in 0..conversation.continuations.iter().flatten().count() {
            let reason = "a new agent goes on from no state that somebody else holds";
            let path = format!("/conversation/continuations/{index}");
            self.loss.held_elsewhere(conversation, path, reason);
        }
        if conversation.missing.is_some() {
            let reason = "a part of the history that somebody else holds";
            self.loss.held_elsewhere(conversation, "/conversation/missing", reason);
        }
    }

    /// What the user said last, for an agent that remembers the rest: its messages after everything that is of others.
    fn continuation(&mut self) -> String {
        let items = &self.request.conversation.items;
        let last = items.iter().rposition(is_user).unwrap_or(0);
        let is_of_others = |item: &UnifiedItem| !is_user(item) && !item.is_instructions();
        let before = items.get(..last).unwrap_or_default();
        let first = before.iter().rposition(is_of_others).map_or(0, |at| at + 1);
        let mut texts = Vec::new();
        for (index, item) in items.iter().enumerate() {
            if (first..=last).contains(&index) && is_user(item) {
                texts.push(self.entry(index, item, index == last));
            } else {
                self.loss.renamed(format!("/conversation/items/{index}"), "the agent remembers it");
            }
        }
        texts.retain(|text| !text.is_empty());
        texts.join("\n\n")
    }

    /// The history as text.
    fn transcript(&mut self) -> String {
        let items = &self.request.conversation.items;
        let instructions = newest_instructions(items);
        let covered = crate::compacted::covered(items);
        let last = items.iter().rposition(is_user);
        let order = instructions.clone().chain(0..items.len());
        let mut text = String::new();
        let mut told = std::collections::BTreeSet::new();
        for index in order {
            let Some(item) = items.get(index).filter(|_| told.insert(index)) else {
                continue;
            };
            // Older instructions are superseded, and a summary stands for what it covers.
            if item.is_instructions() && !instructions.contains(&index) || covered.contains(&index) {
                continue;
            }
            let is_last = last == Some(index);
            let entry = self.entry(index, item, is_last);
            let Some(head) = head(item) else { continue };
            if entry.is_empty() {
                continue;
            }
            if text.is_empty() && is_user(item) {
                text = entry;
            } else {
                if !text.is_empty() {
                    text.push_str("\n\n");
                }
                let _ = write!(text, "[{head}]\n{entry}");
            }
            if !is_last {
                let path = format!("/conversation/items/{index}");
                let reason = "a new agent has no history; it stands in the prompt as text";
                self.loss.add_for(
                    LossSeverity::Warning,
                    Feature::ConversationPortability,
                    path,
                    reason,
                    Some(&item.id),
                );
            }
        }
        text
    }

    /// One item as text; what is no text is reported.
    fn entry(&mut self, index: usize, item: &UnifiedItem, is_last: bool) -> String {
        let path = format!("/conversation/items/{index}");
        if self.loss.hides(item, &path) {
            return String::new();
        }
        match &item.body {
            UnifiedItemBody::Message(_) | UnifiedItemBody::CompactionSummary(_) => {
                self.parts(item.parts(), &format!("{path}/parts"), is_last)
            }
            UnifiedItemBody::ToolCall(call) => {
                let input = call.input.as_ref().map_or(call.raw_arguments.as_str(), Json::as_str);
                format!("{} {}\n{input}", call.name, call.call_id)
            }
            UnifiedItemBody::ToolResult(result) => {
                let flag = if result.is_error == Some(true) { " (failed)" } else { "" };
                let text = self.parts(&result.output, &format!("{path}/output"), false);
                format!("{}{flag}\n{text}", result.call_id)
            }
            UnifiedItemBody::Reasoning(_) => {
                let reason = "a prompt carries no reasoning";
                self.loss
                    .add_for(LossSeverity::Warning, Feature::ReasoningText, path, reason, Some(&item.id));
                String::new()
            }
            UnifiedItemBody::ProviderSwitch(_) | UnifiedItemBody::Interruption(_) | UnifiedItemBody::Error(_) => {
                self.loss.marker(path, &item.id);
                String::new()
            }
            UnifiedItemBody::Artifact(_) | UnifiedItemBody::Reference(_) => {
                let reason = "a prompt has no form for it";
                self.loss
                    .add_for(LossSeverity::Warning, Feature::ConversationItem, path, reason, Some(&item.id));
                String::new()
            }
            _ => {
                let (feature, reason) = told::reported(item);
                self.loss.add_for(LossSeverity::Warning, feature, path, reason, Some(&item.id));
                told::told(item).unwrap_or_default()
            }
        }
    }

    fn parts(&mut self, parts: &[UnifiedContentPart], path: &str, is_last: bool) -> String {
        let mut texts: Vec<String> = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let path = format!("{path}/{number}");
            match &part.body {
                PartBody::Text(text) => {
                    if text.annotations.is_some() || text.logprobs.is_some() {
                        self.loss.info(Feature::Citation, path, "a prompt carries text only");
                    }
                    texts.push(text.text.clone());
                }
                PartBody::Refusal(refusal) => texts.push(refusal.text.clone()),
                PartBody::Json(data) => {
                    self.loss.info(Feature::PartJson, path, "as text");
                    texts.push(data.value.as_str().to_owned());
                }
                PartBody::Image(media) if is_last && self.images.len() < MAX_IMAGES => {
                    let is_sized = media.media.as_ref().is_some_and(|m| m.width.is_some() && m.height.is_some());
                    let told: &[&str] = if is_sized {
                        &["mediaType", "width", "height"]
                    } else {
                        &["mediaType"]
                    };
                    self.loss.media(media.media.as_ref(), Feature::PartImageDetail, &path, told);
                    match image(media) {
                        Some(image) => self.images.push(image),
                        None => self
                            .loss
                            .warning(Feature::PartImage, path, "the data is where the runtime cannot fetch it"),
                    }
                }
                PartBody::Image(_) => {
                    let reason = "a prompt has the five first images of the last message";
                    self.loss.warning(Feature::PartImage, path, reason);
                    texts.push("[an image]".to_owned());
                }
                PartBody::Audio(_)
                | PartBody::Video(_)
                | PartBody::Document(_)
                | PartBody::File(_)
                | PartBody::Binary(_)
                | PartBody::ArtifactReference(_) => {
                    self.loss.warning(Feature::PartFile, path, "a prompt has text and images only");
                    texts.push(format!("[{}]", part.body.kind()));
                }
                PartBody::Reasoning(_) | PartBody::Citation(_) | PartBody::GroundingSource(_) => {
                    self.loss
                        .warning(Feature::GroundingSource, path, "a prompt has text and images only");
                }
            }
        }
        texts.join("\n\n")
    }
}

/// An image of a prompt.
fn image(media: &MediaPart) -> Option<Object> {
    let about = media.media.as_ref();
    let object = match &media.source {
        UnifiedDataSource::Inline(inline) => {
            let data = match inline.encoding {
                InlineEncoding::Utf8 => throughline_format::media::encode_base64(inline.data.as_bytes()),
                InlineEncoding::Bytes | InlineEncoding::Base64 => inline.data.clone(),
            };
            Object::default().with("data", &data).with("mimeType", &inline.media_type)
        }
        UnifiedDataSource::Url(url) if crate::media::is_reachable(&url.url) => {
            let kind = about.and_then(|m| m.media_type.as_ref());
            Object::default().with("url", &url.url).with_some("mimeType", kind)
        }
        UnifiedDataSource::Url(_) | UnifiedDataSource::Artifact(_) | UnifiedDataSource::ProviderResource(_) => return None,
    };
    let size = about.and_then(|m| Some((m.width?, m.height?)));
    Some(match size {
        Some((width, height)) => object.with("dimension", &Object::default().with("width", &width).with("height", &height)),
        None => object,
    })
}

fn is_user(item: &UnifiedItem) -> bool {
    matches!(item.body, UnifiedItemBody::Message(_)) && item.role == Some(Role::User)
}

/// What an entry of the transcript is called; none for items that have no text.
fn head(item: &UnifiedItem) -> Option<String> {
    match &item.body {
        UnifiedItemBody::Message(_) => Some(item.role.unwrap_or(Role::User).as_str().to_owned()),
        UnifiedItemBody::CompactionSummary(_) => Some("summary of what was said before".to_owned()),
        UnifiedItemBody::ToolCall(_) => Some("call".to_owned()),
        UnifiedItemBody::ToolResult(_) => Some("result of call".to_owned()),
        UnifiedItemBody::ServerToolCall(_)
        | UnifiedItemBody::ServerToolResult(_)
        | UnifiedItemBody::CodeExecution(_)
        | UnifiedItemBody::CodeExecutionResult(_)
        | UnifiedItemBody::ComputerAction(_)
        | UnifiedItemBody::ComputerActionResult(_)
        | UnifiedItemBody::SearchResult(_)
        | UnifiedItemBody::RetrievalResult(_)
        | UnifiedItemBody::ApprovalRequest(_)
        | UnifiedItemBody::ApprovalResponse(_) => Some(told::teller(item).as_str().to_owned()),
        UnifiedItemBody::Reasoning(_)
        | UnifiedItemBody::Artifact(_)
        | UnifiedItemBody::Reference(_)
        | UnifiedItemBody::ProviderSwitch(_)
        | UnifiedItemBody::Interruption(_)
        | UnifiedItemBody::Error(_) => None,
    }
}
