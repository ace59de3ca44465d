//! Requests to the wire: items to messages, in an order that the target accepts whatever the history holds.
//!
//! Every call is answered directly after its message, once; what has no place there is moved or said in text, and each of
//! that is a loss entry. What stands beside the messages is in [`super::encode_settings`], parts are in [`super::encode_parts`].

use super::dialect::Dialect;
use super::encode_parts::PartRun;
use super::marks::Marks;
use super::private::{CALL_ID, Entries, Form, payload};
use super::{encode_settings, wire};
use crate::capability::Capabilities;
use crate::codec::Encoded;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::pairing::{FreeIds, OpenCalls};
use crate::projection::LossCollector;
use crate::told;
use crate::wire::{Extra, TextOr};
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::item::{Placement, Role, ToolResultItem, Visibility, newest_instructions};
use throughline_format::loss::LossSeverity;
use throughline_format::{ErrorCategory, ProtocolFamily, UnifiedError, UnifiedItem, UnifiedItemBody, UnifiedRequestV2};

/// What the assistant says between a result and a user message, where a dialect wants something there.
const AFTER_RESULT: &str = "[The result was received.]";

/// Writes a request body.
pub(super) fn encode(request: &UnifiedRequestV2, context: &EncodeContext) -> Result<Encoded, UnifiedError> {
    let root = Entries::of_root(context);
    let dialect = Dialect::of(context.dialect.as_deref());
    let mut capabilities = context.capabilities.clone();
    dialect.teach(&mut capabilities, &super::capabilities::TABLE);
    let mut loss = LossCollector::new();
    let marks = Marks::of(request, dialect, &capabilities, &mut loss);
    encode_settings::adjust(request, &root, context, &mut capabilities);
    let mut encoder = RequestEncoder {
        request,
        context,
        dialect,
        capabilities,
        marks,
        loss,
        messages: Vec::new(),
        call_ids: BTreeMap::new(),
        results: BTreeMap::new(),
        used: BTreeSet::new(),
        same_family: request.source.profile.family == ProtocolFamily::OpenAiChat,
    };
    encoder.loss.report_intents(request, &encoder.capabilities);
    encoder.history();
    encoder.separate_results();
    encoder.marks.report(&mut encoder.loss);
    let messages = std::mem::take(&mut encoder.messages);
    let body = encode_settings::body(&mut encoder, &root, messages);
    let body = serde_json::to_string(&body).map_err(|e| UnifiedError::new(ErrorCategory::Internal, "encode", e.to_string()))?;
    Ok(Encoded {
        body,
        loss: encoder.loss.finish(),
    })
}

/// State of one encode.
pub(super) struct RequestEncoder<'a> {
    pub request: &'a UnifiedRequestV2,
    pub context: &'a EncodeContext,
    pub dialect: &'static Dialect,
    /// What the target can express, with what its dialect and the body's own members add.
    pub capabilities: Capabilities,
    pub marks: Marks,
    pub loss: LossCollector,
    pub messages: Vec<wire::Message>,
    /// Wire ID by index of the call's item.
    pub call_ids: BTreeMap<usize, String>,
    /// Index of the result's item by index of the call's.
    pub results: BTreeMap<usize, usize>,
    pub used: BTreeSet<usize>,
    /// The request came in on this protocol.
    pub same_family: bool,
}

/// An empty message of a role.
pub(super) fn message(role: &str) -> wire::Message {
    wire::Message {
        role: Some(role.to_owned()),
        content: None,
        refusal: None,
        tool_calls: None,
        function_call: None,
        tool_call_id: None,
        name: None,
        audio: None,
        annotations: None,
        reasoning_content: None,
        reasoning: None,
        reasoning_text: None,
        reasoning_details: None,
        extra: Extra::default(),
    }
}

/// Whether an item was read from this protocol.
pub(super) fn is_own(item: &UnifiedItem) -> bool {
    item.provenance
        .profile
        .as_ref()
        .is_some_and(|p| p.family == ProtocolFamily::OpenAiChat)
}

/// Whether a message of the assistant says it. What a hosted tool did has no form here and stands in its words.
fn is_of_assistant(item: &UnifiedItem) -> bool {
    match &item.body {
        UnifiedItemBody::Message(_) => item.role == Some(Role::Assistant),
        UnifiedItemBody::Reasoning(_)
        | UnifiedItemBody::ToolCall(_)
        | UnifiedItemBody::ServerToolCall(_)
        | UnifiedItemBody::ServerToolResult(_)
        | UnifiedItemBody::SearchResult(_)
        | UnifiedItemBody::RetrievalResult(_)
        | UnifiedItemBody::CodeExecution(_)
        | UnifiedItemBody::CodeExecutionResult(_)
        | UnifiedItemBody::ComputerAction(_)
        | UnifiedItemBody::ComputerActionResult(_)
        | UnifiedItemBody::ApprovalRequest(_) => true,
        _ => false,
    }
}

impl<'a> RequestEncoder<'a> {
    pub(super) fn items(&self) -> &'a [UnifiedItem] {
        &self.request.conversation.items
    }

    /// JSON Pointer of an item.
    pub(super) fn path(index: usize) -> String {
        format!("/conversation/items/{index}")
    }

    /// A loss that comes from one item.
    pub(super) fn lose(&mut self, severity: LossSeverity, feature: Feature, index: usize, suffix: &str, reason: &str) {
        let id = self.items().get(index).map(|i| i.id.clone());
        self.loss
            .add_for(severity, feature, format!("{}{suffix}", Self::path(index)), reason, id.as_ref());
    }

    pub(super) fn history(&mut self) {
        let items = self.items();
        let instructions = newest_instructions(items);
        let covered = crate::compacted::covered(items);
        self.plan_calls();
        self.unmapped();
        let is_hidden =
            |index: usize, item: &UnifiedItem| (item.is_instructions() && !instructions.contains(&index)) || covered.contains(&index);
        for index in instructions.clone() {
            self.plain(index);
        }
        let mut index = 0;
        while let Some(item) = items.get(index) {
            if item.is_instructions() || self.used.contains(&index) || is_hidden(index, item) {
                index += 1;
                continue;
            }
            if self.loss.hides(item, &Self::path(index)) {
                index += 1;
                continue;
            }
            match &item.body {
                UnifiedItemBody::Message(_) if item.role != Some(Role::Assistant) => self.plain(index),
                UnifiedItemBody::ApprovalResponse(_) => self.approval(index, item),
                _ if is_of_assistant(item) => {
                    let group = self.group(index);
                    index = group.last().copied().unwrap_or(index);
                    self.assistant(&group);
                }
                UnifiedItemBody::ToolResult(result) => self.orphan(index, result),
                UnifiedItemBody::CompactionSummary(summary) if summary.replaces => self.plain(index),
                _ => self.foreign(index),
            }
            index += 1;
        }
        if self.messages.is_empty() {
            self.loss.warning(
                Feature::ConversationMessageEmpty,
                "/conversation/items",
                "nothing of the history can be said; an empty message stands in",
            );
            let mut empty = message("user");
            empty.content = Some(TextOr::Text(String::new()));
            self.messages.push(empty);
        }
    }

    /// Members without a word that cannot come back, because they are of another protocol or another owner.
    pub(super) fn unmapped(&mut self) {
        let private = self.context.private.as_ref();
        let stays = |references: &Option<Vec<throughline_format::UnifiedProviderDataRef>>| {
            let mut references = references.iter().flatten();
            references.any(|r| {
                r.schema.ends_with("/unmapped@1")
                    && (r.profile.family != ProtocolFamily::OpenAiChat || private.payload(&r.resource_id).is_none())
            })
        };
        let items = self
            .items()
            .iter()
            .enumerate()
            .filter(|(_, item)| stays(&item.provider_data) || item.parts().iter().any(|p| stays(&p.provider_data)));
        let items: Vec<usize> = items.map(|(index, _)| index).collect();
        let tools: Vec<usize> = self
            .request
            .tools
            .iter()
            .enumerate()
            .filter(|(_, t)| stays(&t.provider_data))
            .map(|(index, _)| index)
            .collect();
        for index in items {
            self.lose(
                LossSeverity::Info,
                Feature::WireUnmapped,
                index,
                "/providerData",
                "members without a word stay with the protocol and owner that they came from",
            );
        }
        for index in tools {
            self.loss.info(
                Feature::WireUnmapped,
                format!("/tools/{index}/providerData"),
                "members without a word stay with the protocol and owner that they came from",
            );
        }
    }

    /// Gives every call its wire ID and its result.
    pub(super) fn plan_calls(&mut self) {
        let max = self.capabilities.knobs().max_tool_id_length;
        let private = self.context.private.as_ref();
        let (mut ids, mut open) = (FreeIds::default(), OpenCalls::default());
        let seen = |item: &&UnifiedItem| item.visibility == Visibility::Model;
        for (index, item) in self.request.conversation.items.iter().enumerate().filter(|(_, item)| seen(item)) {
            open.hear(item);
            match &item.body {
                UnifiedItemBody::ToolCall(call) => {
                    let spell = |id: &str| self.dialect.call_id(id, max).into_owned();
                    // An ID of an unusual form, or one that was given twice, goes back unchanged to whoever gave it.
                    let own = payload(private, item.provider_data.as_ref(), CALL_ID);
                    let own = own.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
                    let first = own.filter(|own| !ids.is_taken(own)).unwrap_or_else(|| spell(&call.call_id));
                    self.call_ids.insert(index, ids.take(&call.call_id, first, spell));
                    open.call(&call.call_id, index);
                }
                UnifiedItemBody::ToolResult(result) => {
                    if let Some(call) = open.result(&result.call_id) {
                        self.results.insert(call, index);
                    }
                }
                _ => {}
            }
        }
        let renamed: Vec<usize> = self
            .call_ids
            .iter()
            .filter(|(i, id)| self.items().get(**i).and_then(UnifiedItem::call_id) != Some(id.as_str()))
            .map(|(i, _)| *i)
            .collect();
        for index in renamed {
            self.lose(
                LossSeverity::Info,
                Feature::ToolCallId,
                index,
                "/callId",
                "the target refuses this ID; it gets a replacement derived from it",
            );
        }
    }

    /// The items of one assistant message, from `start` on.
    pub(super) fn group(&self, start: usize) -> Vec<usize> {
        let items = self.items();
        let form_of = |item: &UnifiedItem| Form::of(self.context.private.as_ref(), item.provider_data.as_ref());
        let is_kind = |item: &UnifiedItem| item.visibility == Visibility::Model && is_of_assistant(item);
        if let Some(count) = items.get(start).and_then(|i| form_of(i).items)
            && count > 0
            && items.get(start..start + count).is_some_and(|g| g.iter().all(is_kind))
        {
            return (start..start + count).collect();
        }
        let (mut group, mut has_message, mut has_call) = (Vec::new(), false, false);
        for (index, item) in items.iter().enumerate().skip(start) {
            if !is_kind(item) || index > start && form_of(item).items.is_some() {
                break;
            }
            match &item.body {
                UnifiedItemBody::Reasoning(_) if (has_message || has_call) && is_own(item) && !self.is_same_answer(group.last(), item) => {
                    break;
                }
                UnifiedItemBody::Message(_) if has_message && !has_call || has_call && is_own(item) => break,
                UnifiedItemBody::Message(_) => has_message = true,
                UnifiedItemBody::ToolCall(_) => has_call = true,
                _ => {}
            }
            group.push(index);
        }
        group
    }

    /// Whether an item came out of the same answer as the one before it.
    pub(super) fn is_same_answer(&self, before: Option<&usize>, item: &UnifiedItem) -> bool {
        use throughline_format::provenance::ItemOrigin;
        let Some(before) = before.and_then(|i| self.items().get(*i)) else {
            return false;
        };
        item.provenance.origin == ItemOrigin::Provider && before.provenance.operation_id == item.provenance.operation_id
    }

    /// System, developer and user messages, and summaries.
    pub(super) fn plain(&mut self, index: usize) {
        let Some(item) = self.items().get(index) else { return };
        let placement = if let UnifiedItemBody::Message(m) = &item.body {
            m.placement
        } else {
            None
        };
        let mut role = item.role.unwrap_or(Role::User);
        if placement == Some(Placement::Inline)
            && !self.capabilities.knobs().mid_conversation_system
            && matches!(role, Role::System | Role::Developer)
        {
            self.lose(
                LossSeverity::Warning,
                Feature::ConversationSystemInline,
                index,
                "",
                "the target takes no system text here; it stands in a user message",
            );
            role = Role::User;
        }
        let role = match role {
            Role::System => "system",
            Role::Developer if self.dialect.developer => "developer",
            Role::Developer => {
                self.lose(
                    LossSeverity::Info,
                    Feature::ConversationSystemRole,
                    index,
                    "/role",
                    "the dialect has no role for developers; it is a system message",
                );
                "system"
            }
            Role::User | Role::Assistant | Role::Tool => "user",
        };
        let entries = Entries::of(self.context.private.as_ref(), item.provider_data.as_ref());
        let form = Form::of(self.context.private.as_ref(), item.provider_data.as_ref());
        let mut run = PartRun::new(&entries);
        run.item(self, index, item.parts(), role == "user");
        let content = run.finish(form.content.as_deref() == Some("parts"));
        let mut wire = message(role);
        wire.extra = entries.level("", &["content", "refusal"]);
        if entries.covers("/cache_control") {
            self.marks.came_back(&item.id);
        }
        match content {
            Some(content) => wire.content = Some(content),
            None if form.content.is_some() && self.same_family => {}
            None => {
                self.lose(
                    LossSeverity::Info,
                    Feature::ConversationMessageEmpty,
                    index,
                    "",
                    "a message without content is left out",
                );
                return;
            }
        }
        let joins = role != "user" && placement == Some(Placement::Instructions) && !is_own(item);
        match self.messages.last_mut().filter(|last| joins && last.role == wire.role) {
            Some(last) => join_content(last, wire),
            None => self.messages.push(wire),
        }
    }

    /// Where a dialect refuses a user message directly after a result, a note of the assistant stands between them.
    fn separate_results(&mut self) {
        if self.dialect.user_after_tool {
            return;
        }
        let mut separated: Vec<wire::Message> = Vec::with_capacity(self.messages.len());
        for next in std::mem::take(&mut self.messages) {
            let is_after = separated.last().is_some_and(|m| m.role.as_deref() == Some("tool"));
            if is_after && next.role.as_deref() == Some("user") {
                let mut note = message("assistant");
                note.content = Some(TextOr::Text(AFTER_RESULT.to_owned()));
                separated.push(note);
                self.loss.warning(
                    Feature::ConversationOrder,
                    "/conversation/items",
                    "the dialect takes no user message directly after a result; a note of the assistant stands between them",
                );
            }
            separated.push(next);
        }
        self.messages = separated;
    }

    /// A result without a call becomes user text.
    pub(super) fn orphan(&mut self, index: usize, result: &ToolResultItem) {
        let item = self.items().get(index);
        let form = Form::of(self.context.private.as_ref(), item.and_then(|i| i.provider_data.as_ref()));
        let entries = Entries::default();
        let mut run = PartRun::new(&entries);
        run.item(self, index, &result.output, true);
        let mut wire = message(if form.legacy { "function" } else { "user" });
        if form.legacy {
            wire.name.clone_from(&result.name);
            wire.content = run.finish(false).or(Some(TextOr::Text(String::new())));
        } else {
            self.lose(
                LossSeverity::Warning,
                Feature::ConversationOrder,
                index,
                "",
                "the result has no call before it; it stands in a user message",
            );
            run.lead(format!("[Result of the tool call {}:]", result.call_id));
            wire.content = run.finish(true);
        }
        self.messages.push(wire);
    }

    /// What the user said to a question for approval, in words.
    fn approval(&mut self, index: usize, item: &UnifiedItem) {
        let (feature, reason) = told::reported(item);
        self.lose(LossSeverity::Warning, feature, index, "", reason);
        let mut wire = message("user");
        wire.content = told::told(item).map(TextOr::Text);
        self.messages.push(wire);
    }

    /// Items that have no form here.
    pub(super) fn foreign(&mut self, index: usize) {
        let Some(item) = self.items().get(index) else { return };
        if matches!(
            item.body,
            UnifiedItemBody::ProviderSwitch(_) | UnifiedItemBody::Interruption(_) | UnifiedItemBody::Error(_)
        ) {
            self.loss.marker(Self::path(index), &item.id);
            return;
        }
        let (severity, feature, reason) = match &item.body {
            UnifiedItemBody::Artifact(_) => (LossSeverity::Warning, Feature::PartArtifact, "the target has no artifacts"),
            _ => (
                LossSeverity::Info,
                Feature::ConversationItem,
                "nothing that the target's model sees",
            ),
        };
        self.lose(severity, feature, index, "", reason);
    }
}

/// Appends the content of a message to another.
fn join_content(last: &mut wire::Message, more: wire::Message) {
    let list = |content: Option<TextOr<wire::Part>>| match content {
        Some(TextOr::List(list)) => list,
        Some(TextOr::Text(text)) => vec![super::encode_parts::text(text)],
        None => Vec::new(),
    };
    let mut joined = list(last.content.take());
    joined.extend(list(more.content));
    last.content = Some(TextOr::List(joined));
}
