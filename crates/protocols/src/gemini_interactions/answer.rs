//! An answer under construction: streams and whole interactions go through the same steps, so they cannot differ.

use super::decode_step::{Whole, annotation, part, reasoning, signature, step};
use super::kept::{self};
use super::wire::{Content, Interaction, Step};
use super::{profile, usage};
use crate::context::DecodeContext;
use crate::drafting::{Drafting, Row};
use crate::keeper::{Keep, Keeper};
use crate::raw::{self, json, object};
use std::collections::BTreeMap;
use throughline_format::event::{ArgumentsDelta, ArgumentsReady, CitationReady, ResponseMetadata, UsageUpdate};
use throughline_format::item::{ItemStatus, MessageItem, ReasoningItem, ToolCallItem};
use throughline_format::part::{ReasoningState, TextPart};
use throughline_format::resource::{Issuer, ResourceType};
use throughline_format::{
    ErrorCategory, EventBody, EventDraft, Json, PartBody, UnifiedContentPart, UnifiedError, UnifiedFinishReason, UnifiedId,
    UnifiedItemBody, UnifiedResponseStatus, UnifiedToolLifecycle,
};

/// Number of the first side resource of an answer's root, apart from those of the request of the same operation.
const ROOT: u64 = 16;

/// A step that is open.
enum Open {
    /// Contents of a message.
    Message {
        item: UnifiedId,
        parts: u64,
        part: Option<UnifiedId>,
        annotations: Vec<Json>,
        path: String,
    },
    /// A thought.
    Thought {
        item: UnifiedId,
        parts: u64,
        part: Option<UnifiedId>,
        signature: Option<String>,
        path: String,
    },
    /// A call with its argument text so far.
    Call { item: UnifiedId, call_id: String, text: String },
    /// A step that comes whole at its end.
    Whole { given: Json, path: String },
}

/// The answer so far.
pub(super) struct Answer {
    pub(super) draft: Drafting,
    row: Row,
    open: BTreeMap<u64, Open>,
    pub(super) started: bool,
    agent: bool,
    status: Option<String>,
    usage: Option<Json>,
    calls: bool,
    interaction: Option<String>,
    token: Option<String>,
    event_id: Option<String>,
    errors: Vec<Json>,
    shell: Vec<(String, Json)>,
}

impl Answer {
    /// An answer that has not begun.
    pub(super) fn new(context: &DecodeContext) -> Self {
        Self {
            draft: Drafting::new(Keeper::new(context, profile(), Issuer::Provider)),
            row: Row::default(),
            open: BTreeMap::new(),
            started: false,
            agent: false,
            status: None,
            usage: None,
            calls: false,
            interaction: None,
            token: None,
            event_id: None,
            errors: Vec::new(),
            shell: Vec::new(),
        }
    }

    /// Takes what is told of the interaction; steps that it brings along are taken whole when none came before.
    pub(super) fn interaction(&mut self, wire: Interaction, given: &Json, path: &str) {
        if !self.started {
            self.started = true;
            self.agent = wire.agent.is_some();
            self.draft.begin(wire.model.clone().or_else(|| wire.agent.clone()));
        }
        for (key, value) in raw::members(given) {
            if key == "steps" || value.as_str() == "null" {
                continue;
            }
            match self.shell.iter_mut().find(|(known, _)| *known == key) {
                Some((_, old)) => *old = value,
                None => self.shell.push((key, value)),
            }
        }
        if let Some(id) = wire.id.filter(|id| !id.is_empty()) {
            self.interaction = Some(id);
        }
        if let Some(tier) = wire.service_tier {
            self.metadata(ResponseMetadata {
                service_tier: Some(tier),
                ..ResponseMetadata::default()
            });
        }
        self.token(wire.continuation_token);
        self.status(wire.status);
        self.usage(wire.usage);
        self.errors.extend(wire.errors.unwrap_or_default());
        if self.row.items.is_empty() && self.open.is_empty() {
            for (n, given) in wire.steps.unwrap_or_default().into_iter().enumerate() {
                self.whole_step(&given, &format!("{path}/steps/{n}"));
            }
        }
    }

    fn metadata(&mut self, metadata: ResponseMetadata) {
        self.draft.out.push(EventBody::ResponseMetadata(metadata));
    }

    /// How the interaction stands.
    pub(super) fn status(&mut self, status: Option<String>) {
        if status.is_some() {
            self.status = status;
        }
    }

    /// A token that goes on with a cut answer; the newest counts.
    pub(super) fn token(&mut self, token: Option<String>) {
        if token.is_some() {
            self.token = token;
        }
    }

    /// The interaction's ID: one that is not stored has none.
    pub(super) fn job(&self) -> Option<&str> {
        self.interaction.as_deref()
    }

    /// The ID of the last event that had one.
    pub(super) fn last_event(&self) -> Option<&str> {
        self.event_id.as_deref()
    }

    /// The ID of the last event, after which the stream can go on.
    pub(super) fn event_id(&mut self, id: Option<String>) {
        if id.as_ref().is_some_and(|id| !id.is_empty()) {
            self.event_id = id;
        }
    }

    /// Counters replace what was known.
    pub(super) fn usage(&mut self, usage: Option<Json>) {
        let Some(raw) = usage.filter(|raw| self.usage.as_ref() != Some(raw) && raw.as_str() != "{}") else {
            return;
        };
        let unified = usage::decode(&raw, self.agent);
        self.usage = Some(raw);
        self.draft.out.push(EventBody::UsageUpdate(UsageUpdate { usage: unified }));
    }

    /// A step that is complete.
    fn whole_step(&mut self, given: &Json, path: &str) {
        let kind = given.decode::<Step>().ok().and_then(|s| s.kind).unwrap_or_default();
        if kind == "user_input" {
            // An echo of the request.
            return;
        }
        let id = self.draft.next_item(&mut self.row);
        let Whole { body, provider_data, .. } = step(&mut self.draft.keeper, &id, given, path);
        match body {
            UnifiedItemBody::ToolCall(call) => {
                self.calls = true;
                let (text, call_id) = (call.raw_arguments.clone(), call.call_id.clone());
                self.draft.started(&self.row, &id, begun(call), provider_data);
                self.arguments(&id, &call_id, &text, &text);
                self.draft.finished(0, &id, ItemStatus::Completed);
            }
            UnifiedItemBody::Message(message) => {
                let body = UnifiedItemBody::Message(MessageItem {
                    parts: Vec::new(),
                    placement: None,
                });
                self.draft.started(&self.row, &id, body, provider_data);
                for part in message.parts {
                    self.whole_part(&id, part);
                }
                self.draft.finished(0, &id, ItemStatus::Completed);
            }
            UnifiedItemBody::Reasoning(thought) => {
                let body = UnifiedItemBody::Reasoning(ReasoningItem { parts: Vec::new() });
                self.draft.started(&self.row, &id, body, provider_data);
                for part in thought.parts {
                    self.whole_part(&id, part);
                }
                self.draft.finished(0, &id, ItemStatus::Completed);
            }
            body => self.draft.whole(&self.row, &id, body, provider_data),
        }
    }

    /// A part with its text as a delta, so that streams of any protocol can be told of it.
    fn whole_part(&mut self, item: &UnifiedId, mut part: UnifiedContentPart) {
        let id = part.part_id.clone();
        let (text, thinking, annotations) = match &mut part.body {
            PartBody::Text(inner) => (std::mem::take(&mut inner.text), false, inner.annotations.take()),
            PartBody::Reasoning(inner) => (std::mem::take(&mut inner.text), true, None),
            _ => (String::new(), false, None),
        };
        self.draft.part_started(0, item, part);
        if !text.is_empty() {
            self.draft.text(0, item, &id, text, thinking, None);
        }
        for annotation in annotations.into_iter().flatten() {
            let ready = EventBody::CitationReady(CitationReady { annotation });
            self.draft.tell(0, EventDraft::of_part(item.clone(), id.clone(), ready));
        }
        self.draft.part_completed(0, item, &id);
    }

    fn arguments(&mut self, item: &UnifiedId, call_id: &str, rest: &str, whole: &str) {
        let of = |event| EventDraft::of_call(item.clone(), call_id.to_owned(), event);
        if !rest.is_empty() {
            self.draft
                .tell(0, of(EventBody::ToolArgumentsDelta(ArgumentsDelta { text: rest.to_owned() })));
        }
        let ready = ArgumentsReady {
            raw_arguments: whole.to_owned(),
            input: Json::of_arguments(whole),
        };
        self.draft.tell(0, of(EventBody::ToolArgumentsReady(ready)));
    }

    /// A step begins; what it holds already is its first piece.
    pub(super) fn begin(&mut self, index: u64, given: Json) {
        if self.open.contains_key(&index) {
            self.close(index);
        }
        let path = format!("/steps/{index}");
        let wire = given.decode::<Step>().ok();
        let kind = wire.as_ref().and_then(|s| s.kind.clone()).unwrap_or_default();
        match (kind.as_str(), wire) {
            ("model_output", Some(wire)) if wire.error.is_none() => {
                let item = self.draft.next_item(&mut self.row);
                let body = UnifiedItemBody::Message(MessageItem {
                    parts: Vec::new(),
                    placement: None,
                });
                let unmapped = self.draft.keeper.unmapped(&item, &path, wire.extra.into_unmapped());
                self.draft.started(&self.row, &item, body, crate::keeper::references([unmapped]));
                let open = Open::Message {
                    item,
                    parts: 0,
                    part: None,
                    annotations: Vec::new(),
                    path,
                };
                self.open.insert(index, open);
                let contents: Vec<Json> = wire.content.and_then(|c| c.decode().ok()).unwrap_or_default();
                for content in contents {
                    self.change(index, &content);
                }
            }
            ("thought", Some(wire)) => {
                let item = self.draft.next_item(&mut self.row);
                let body = UnifiedItemBody::Reasoning(ReasoningItem { parts: Vec::new() });
                let unmapped = self.draft.keeper.unmapped(&item, &path, wire.extra.into_unmapped());
                self.draft.started(&self.row, &item, body, crate::keeper::references([unmapped]));
                let open = Open::Thought {
                    item,
                    parts: 0,
                    part: None,
                    signature: wire.signature.filter(|s| !s.is_empty()),
                    path,
                };
                self.open.insert(index, open);
                for content in wire.summary.unwrap_or_default() {
                    let delta = object(vec![("type".into(), json("thought_summary")), ("content".into(), json(&content))]);
                    self.change(index, &delta);
                }
            }
            ("function_call", Some(wire)) if wire.id.is_some() && wire.name.is_some() => {
                self.calls = true;
                let item = self.draft.next_item(&mut self.row);
                // Arguments that stand there already, unless they only hold the place of what follows.
                let text = wire
                    .arguments
                    .as_ref()
                    .map(|a| a.decode::<String>().unwrap_or_else(|_| a.as_str().to_owned()));
                let text = text.filter(|t| t != "{}").unwrap_or_default();
                let Whole { body, provider_data, .. } = step(&mut self.draft.keeper, &item, &given, &path);
                let UnifiedItemBody::ToolCall(call) = body else { return };
                let call_id = call.call_id.clone();
                self.draft.started(&self.row, &item, begun(call), provider_data);
                if !text.is_empty() {
                    let delta = EventBody::ToolArgumentsDelta(ArgumentsDelta { text: text.clone() });
                    self.draft.tell(0, EventDraft::of_call(item.clone(), call_id.clone(), delta));
                }
                self.open.insert(index, Open::Call { item, call_id, text });
            }
            _ => {
                self.open.insert(index, Open::Whole { given, path });
            }
        }
    }

    /// A piece of a step.
    pub(super) fn change(&mut self, index: u64, delta: &Json) {
        let word = |key: &str| raw::get(delta, key).and_then(|v| v.decode::<String>().ok());
        let kind = word("type").unwrap_or_default();
        let Some(open) = self.open.get_mut(&index) else {
            self.draft
                .warn("stream.unknown-step", "a piece of a step that did not begin was ignored");
            return;
        };
        match open {
            Open::Message {
                item,
                parts,
                part: at,
                annotations,
                path,
            } => match kind.as_str() {
                "text" => {
                    let text = word("text").unwrap_or_default();
                    let mut found: Vec<Json> = raw::get(delta, "annotations").and_then(|a| a.decode().ok()).unwrap_or_default();
                    if at.is_none() {
                        let id = item.part(*parts);
                        *parts += 1;
                        let made = UnifiedContentPart::new(id.clone(), PartBody::Text(TextPart::default()));
                        self.draft.part_started(0, item, made);
                        *at = Some(id);
                    }
                    if let Some(id) = at.as_ref().filter(|_| !text.is_empty()) {
                        self.draft.text(0, item, id, text, false, None);
                    }
                    annotations.append(&mut found);
                }
                "text_annotation_delta" | "text_annotation" => {
                    let found: Vec<Json> = raw::get(delta, "annotations").and_then(|a| a.decode().ok()).unwrap_or_default();
                    annotations.extend(found);
                }
                "image" | "audio" | "video" | "document" => {
                    end_part(&mut self.draft, item, at, annotations, path);
                    let id = item.part(*parts);
                    *parts += 1;
                    if let Ok(content) = delta.decode::<Content>() {
                        let made = part(&mut self.draft.keeper, &id, content, &format!("{path}/content/{}", *parts - 1));
                        self.draft.part_started(0, item, made);
                        self.draft.part_completed(0, item, &id);
                    }
                }
                other => self
                    .draft
                    .warn("stream.unknown-delta", format!("a piece of type {other:.60} was ignored")),
            },
            Open::Thought {
                item,
                parts,
                part: at,
                signature,
                ..
            } => match kind.as_str() {
                "thought_summary" => {
                    let text = raw::get(delta, "content").and_then(|c| raw::get(&c, "text"));
                    let text: String = text.and_then(|t| t.decode().ok()).unwrap_or_default();
                    if let Some(id) = at.take() {
                        self.draft.part_completed(0, item, &id);
                    }
                    let id = item.part(*parts);
                    *parts += 1;
                    let body = reasoning(String::new(), ReasoningState::Disclosed, None);
                    self.draft.part_started(0, item, UnifiedContentPart::new(id.clone(), body));
                    if !text.is_empty() {
                        self.draft.text(0, item, &id, text, true, None);
                    }
                    *at = Some(id);
                }
                "thought_signature" => {
                    let given = word("signature").filter(|s| !s.is_empty());
                    if given.is_some() {
                        *signature = given;
                    }
                }
                other => self
                    .draft
                    .warn("stream.unknown-delta", format!("a piece of type {other:.60} was ignored")),
            },
            Open::Call { item, call_id, text } => {
                if kind == "arguments_delta" {
                    let piece = word("arguments").or_else(|| word("partial_arguments")).unwrap_or_default();
                    if !piece.is_empty() {
                        text.push_str(&piece);
                        let delta = EventBody::ToolArgumentsDelta(ArgumentsDelta { text: piece });
                        self.draft.tell(0, EventDraft::of_call(item.clone(), call_id.clone(), delta));
                    }
                } else if kind != "thought_signature" {
                    self.draft
                        .warn("stream.unknown-delta", format!("a piece of type {kind:.60} was ignored"));
                }
            }
            Open::Whole { given, .. } => {
                for (key, value) in raw::members(delta) {
                    let empty = value.as_str() == "\"\"" && raw::get(given, &key).is_some();
                    if key != "type" && !empty {
                        let key = throughline_format::json::escape_pointer_token(&key);
                        *given = raw::put(given, &format!("/{key}"), &value);
                    }
                }
            }
        }
    }

    /// A step ends.
    pub(super) fn close(&mut self, index: u64) {
        let Some(open) = self.open.remove(&index) else { return };
        match open {
            Open::Message {
                item,
                mut part,
                mut annotations,
                path,
                ..
            } => {
                end_part(&mut self.draft, &item, &mut part, &mut annotations, &path);
                self.draft.finished(0, &item, ItemStatus::Completed);
            }
            Open::Thought {
                item,
                parts,
                part,
                signature: given,
                path,
            } => {
                if parts == 0 {
                    let id = item.part(0);
                    let body = reasoning(String::new(), ReasoningState::Omitted, None);
                    self.draft.part_started(0, &item, UnifiedContentPart::new(id, body));
                }
                if let Some(given) = given {
                    // The whole thought is signed; its first part says so.
                    let id = item.part(0);
                    let state = signature(&mut self.draft.keeper, &id, given, &path);
                    self.draft.signed(0, &item, Some(&id), state.r#ref, state.issuer);
                }
                if let Some(id) = part.or_else(|| (parts == 0).then(|| item.part(0))) {
                    self.draft.part_completed(0, &item, &id);
                }
                self.draft.finished(0, &item, ItemStatus::Completed);
            }
            Open::Call { item, call_id, text } => {
                let whole = if text.is_empty() { "{}".to_owned() } else { text.clone() };
                let rest = if text.is_empty() { "{}" } else { "" };
                self.arguments(&item, &call_id, rest, &whole);
                self.draft.finished(0, &item, ItemStatus::Completed);
            }
            Open::Whole { given, path } => self.whole_step(&given, &path),
        }
    }

    /// The answer is complete.
    pub(super) fn complete(&mut self) {
        while let Some((&index, _)) = self.open.first_key_value() {
            self.draft.warn(
                "stream.step-left-open",
                "the interaction ended before its step; the step ends there",
            );
            self.close(index);
        }
        let word = self.status.clone();
        let reason = match word.as_deref() {
            Some("completed") if self.calls => UnifiedFinishReason::ToolCalls,
            Some("completed") => UnifiedFinishReason::Stop,
            Some("requires_action") if self.calls => UnifiedFinishReason::ToolCalls,
            Some("requires_action") => UnifiedFinishReason::RequiresAction,
            Some("incomplete") => UnifiedFinishReason::Length,
            Some("requires_continuation") => UnifiedFinishReason::Paused,
            Some("budget_exceeded") => UnifiedFinishReason::Incomplete,
            Some("failed") => UnifiedFinishReason::Failed,
            Some("cancelled") => UnifiedFinishReason::Cancelled,
            _ => UnifiedFinishReason::Unknown,
        };
        let running = matches!(word.as_deref(), Some("queued" | "in_progress"));
        let mut status = UnifiedResponseStatus::finished(reason, word);
        if running {
            // Work that goes on in the background: nothing has ended but this answer.
            status.state = throughline_format::status::ResponseState::InProgress;
            status.finish_reason = None;
        }
        self.finish_root();
        let items = self.row.items.clone();
        if reason == UnifiedFinishReason::Failed {
            let told = self.errors.first().and_then(|e| raw::get(e, "message"));
            let text = told
                .and_then(|m| m.decode::<String>().ok())
                .unwrap_or_else(|| "the interaction failed".into());
            let mut error = UnifiedError::new(ErrorCategory::Server, "provider", text);
            error.provider_code = self.errors.first().and_then(|e| raw::get(e, "code")).and_then(|c| c.decode().ok());
            self.draft.out.fail(error, status, items);
        } else {
            self.draft.out.complete(status, items);
        }
    }

    /// The answer ends badly; what is open stays unfinished.
    pub(super) fn fail(&mut self, error: UnifiedError, reason: UnifiedFinishReason, body: Option<&str>) {
        if let Some(body) = body {
            let kept = self.root_kept(kept::ERROR_BODY, ResourceType::Other("error".into()), 3, vec!["/error".to_owned()]);
            self.draft.keeper.payload(kept, body.as_bytes().to_vec());
        }
        self.finish_root();
        let items = self.row.items.clone();
        let status = UnifiedResponseStatus::finished(reason, None);
        self.draft.out.fail(error, status, items);
    }

    fn root_kept(&self, schema: &'static str, resource_type: ResourceType, number: u64, paths: Vec<String>) -> Keep<'static> {
        Keep {
            schema,
            resource_type,
            subject: None,
            resource_id: self.draft.keeper.context.operation_id.resource(ROOT + number),
            paths,
        }
    }

    /// Handles of the interaction, its members as written, and what was lost.
    fn finish_root(&mut self) {
        let mut resources = Vec::new();
        if let Some(id) = self.interaction.take() {
            let kept = self.root_kept(kept::INTERACTION, ResourceType::Interaction, 1, vec!["/id".into()]);
            resources.push(self.draft.keeper.handle(kept, id));
        }
        if let Some(token) = self.token.take() {
            let kept = self.root_kept(kept::CONTINUATION, ResourceType::Response, 2, vec!["/continuation_token".into()]);
            resources.push(self.draft.keeper.handle(kept, token));
        }
        if !resources.is_empty() {
            self.metadata(ResponseMetadata {
                resources: Some(resources),
                ..ResponseMetadata::default()
            });
        }
        if let Some(id) = self.event_id.take() {
            let kept = self.root_kept(kept::EVENT, ResourceType::Other("event".into()), 4, Vec::new());
            self.draft.keeper.payload(kept, id.into_bytes());
        }
        if !self.shell.is_empty() {
            let shell = std::mem::take(&mut self.shell);
            let paths = shell.iter().map(|(key, _)| format!("/{key}")).collect();
            let kept = self.root_kept(kept::ANSWER, ResourceType::Other("answer".into()), 5, paths);
            self.draft.keeper.payload(kept, object(shell).as_str().as_bytes().to_vec());
        }
        self.draft.tell_losses();
    }
}

/// Ends a text with its remarks.
fn end_part(draft: &mut Drafting, item: &UnifiedId, part: &mut Option<UnifiedId>, annotations: &mut Vec<Json>, path: &str) {
    let Some(id) = part.take() else { return };
    for (n, given) in annotations.iter().enumerate() {
        if let Some(annotation) = annotation(&id, n, given) {
            let ready = EventBody::CitationReady(CitationReady { annotation });
            draft.tell(0, EventDraft::of_part(item.clone(), id.clone(), ready));
        }
    }
    if !annotations.is_empty() {
        let members = vec![("annotations".to_owned(), json(annotations.as_slice()))];
        let kept = kept::form(&mut draft.keeper, kept::FORM, Some(&id), id.resource(2), path, members);
        if let Some(reference) = kept {
            let delta = throughline_format::event::FieldDelta {
                pointer: "/providerData/-".into(),
                value: json(&reference),
            };
            draft.part_delta(0, item, &id, throughline_format::event::ItemDelta::Field(delta));
        }
        annotations.clear();
    }
    draft.part_completed(0, item, &id);
}

/// A call whose arguments are still to come.
fn begun(call: ToolCallItem) -> UnifiedItemBody {
    UnifiedItemBody::ToolCall(ToolCallItem {
        input: None,
        raw_arguments: String::new(),
        lifecycle: UnifiedToolLifecycle::ArgumentsStreaming,
        ..call
    })
}
