//! A history to the input of a request: which items have a form, in which order, with which IDs.

use super::decode_item::{CallKind, call_kind};
use super::encode_hosted::{is_companion, may_have_companion};
use super::encode_item::{Mode, Writer, is_own};
use super::encode_part;
use super::kept;
use super::wire::Node;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::pairing::{FreeIds, OpenCalls};
use crate::projection::LossCollector;
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::item::{Role, newest_instructions};
use throughline_format::loss::LossSeverity;
use throughline_format::resource::ProviderDataScope;
use throughline_format::tool::Execution;
use throughline_format::{PartBody, ProtocolFamily, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedRequestV2, UnifiedToolType};

/// An input item with the record that it comes from.
pub(super) struct Entry {
    pub(super) node: Node,
    pub(super) index: usize,
}

/// State of one encode of a history.
pub(super) struct HistoryEncoder<'a> {
    pub(super) items: &'a [UnifiedItem],
    pub(super) writer: Writer<'a>,
    pub loss: LossCollector,
    /// Whether the provider keeps items, so that their IDs mean something.
    stores: bool,
    /// Whether the request goes on from state of the provider.
    pub continues: bool,
    max_call_id: usize,
    inline_system: bool,
    pub(super) entries: Vec<Entry>,
    /// Wire ID by index of the call's item.
    pub(super) call_ids: BTreeMap<usize, String>,
    /// Index of the call's item by index of the result's.
    calls_of: BTreeMap<usize, usize>,
    /// Calls with a result.
    answered: BTreeSet<usize>,
    used: BTreeSet<usize>,
}

impl<'a> HistoryEncoder<'a> {
    pub(super) fn new(request: &'a UnifiedRequestV2, context: &'a EncodeContext, mut loss: LossCollector, stores: bool) -> Self {
        let mut writer = Writer::new(context.private.as_ref(), Mode::Request);
        writer.with_ids = stores;
        let is_source = request.source.profile.family == ProtocolFamily::OpenAiResponses;
        let cache = request.cache.as_ref().filter(|_| is_source);
        loss.cache_lives(cache, encode_part::life);
        for (number, mark) in cache.iter().flat_map(|cache| cache.breakpoints.iter().flatten()).enumerate() {
            // The end of an item is its last part.
            let item = request.conversation.items.iter().find(|item| item.id == mark.item_id);
            let last = item.and_then(|item| item.parts().last()).map(|part| &part.part_id);
            if let Some(place) = mark.part_id.as_ref().or(last) {
                writer.marks.insert(place.clone(), mark.ttl);
            } else {
                let path = format!("/cache/breakpoints/{number}");
                loss.info(Feature::CacheBreakpoints, path, "what the mark stands on has no part at the target");
            }
        }
        Self {
            items: &request.conversation.items,
            writer,
            loss,
            stores,
            continues: false,
            max_call_id: context.capabilities.knobs().max_tool_id_length,
            inline_system: context.capabilities.knobs().mid_conversation_system,
            entries: Vec::new(),
            call_ids: BTreeMap::new(),
            calls_of: BTreeMap::new(),
            answered: BTreeSet::new(),
            used: BTreeSet::new(),
        }
    }

    pub(super) fn lose(&mut self, severity: LossSeverity, feature: Feature, index: usize, suffix: &str, reason: &str) {
        let id: Option<UnifiedId> = self.items.get(index).map(|item| item.id.clone());
        let path = format!("/conversation/items/{index}{suffix}");
        self.loss.add_for(severity, feature, path, reason, id.as_ref());
    }

    /// What the writer said of the item that it wrote last.
    pub(super) fn notes(&mut self, index: usize) {
        for note in std::mem::take(&mut self.writer.notes) {
            let id = self.items.get(index).map(|item| &item.id);
            note.tell(&mut self.loss, &format!("/conversation/items/{index}"), id);
        }
    }

    /// The instructions, when they are one text, and the input.
    pub(super) fn history(&mut self) -> (Option<String>, Vec<Node>) {
        let (instructions, entries) = self.entries();
        (instructions, entries.into_iter().map(|entry| entry.node).collect())
    }

    /// The same, with the record of each input item.
    pub(super) fn entries(&mut self) -> (Option<String>, Vec<Entry>) {
        let newest = newest_instructions(self.items);
        let covered = crate::compacted::covered(self.items);
        self.plan();
        self.unmapped();
        let instructions = self.instructions(newest.clone());
        for index in newest.clone() {
            if !self.used.contains(&index) {
                self.item(index);
            }
        }
        for index in 0..self.items.len() {
            let is_old = |item: &UnifiedItem| item.is_instructions();
            let is_hidden = self.items.get(index).is_some_and(is_old) || covered.contains(&index);
            if !is_hidden && !self.used.contains(&index) {
                self.item(index);
            }
        }
        self.pair_reasoning();
        self.unique_ids();
        if self.entries.is_empty() && !self.continues {
            let reason = "nothing of the history can be said; an empty message stands in";
            self.loss.warning(Feature::ConversationMessageEmpty, "/conversation/items", reason);
            let members = [("role", Some(Node::text("user"))), ("content", Some(Node::text("")))];
            self.push(Node::typed("message", members), 0);
        }
        (instructions, std::mem::take(&mut self.entries))
    }

    /// Instructions that the wire has a member for: those that came from it, or one plain text of another protocol.
    fn instructions(&mut self, newest: std::ops::Range<usize>) -> Option<String> {
        let private = self.writer.private;
        let is_member = |item: &UnifiedItem| kept::form(private, item.provider_data.as_ref()).instructions;
        let has_mark = |writer: &Writer<'_>, item: &UnifiedItem| item.parts().iter().any(|part| writer.marks.contains_key(&part.part_id));
        let count = newest.len();
        let index = newest.clone().find(|index| {
            self.items.get(*index).is_some_and(|item| {
                is_member(item) || count == 1 && !is_own(item) && matches!(item.parts(), [part] if matches!(part.body, PartBody::Text(_)))
            })
        })?;
        let item = self.items.get(index)?;
        if has_mark(&self.writer, item) {
            return None;
        }
        let texts: Vec<&str> = item.parts().iter().filter_map(|part| part.as_text()).collect();
        self.used.insert(index);
        if item.role == Some(Role::System) {
            let reason = "instructions of the target are the developer's";
            self.lose(LossSeverity::Info, Feature::ConversationSystemRole, index, "/role", reason);
        }
        Some(texts.join("\n\n"))
    }

    /// Whether an item has a form of its own at the target, and not only words about it.
    fn is_typed(&self, item: &UnifiedItem) -> bool {
        let private = self.writer.private;
        let references = item.provider_data.as_ref();
        let is_owner =
            || kept::text(private, references, kept::ITEM_ID).is_some() || kept::payload(private, references, kept::UNMAPPED).is_some();
        match &item.body {
            UnifiedItemBody::Message(_) | UnifiedItemBody::Reasoning(_) | UnifiedItemBody::ToolCall(_) | UnifiedItemBody::ToolResult(_) => {
                true
            }
            UnifiedItemBody::ServerToolCall(call) => {
                is_own(item)
                    && (is_owner()
                        || matches!(
                            call.tool_type,
                            UnifiedToolType::WebSearch | UnifiedToolType::FileSearch | UnifiedToolType::ToolSearch
                        ))
            }
            UnifiedItemBody::ServerToolResult(result) => is_own(item) && (is_owner() || result.tool_type == UnifiedToolType::ToolSearch),
            UnifiedItemBody::CodeExecution(call) => {
                let has_handle = |container: &throughline_format::UnifiedProviderResourceRef| kept::handle(private, container).is_some();
                let has_secret = kept::text(private, references, kept::ENCRYPTED).is_some();
                is_own(item)
                    && match call_kind(&item.body).map(|(_, kind)| kind) {
                        Some(CallKind::Program) => has_secret,
                        Some(_) => call.execution == Execution::Client || call.container.as_ref().is_some_and(has_handle),
                        None => call.container.as_ref().is_some_and(has_handle) || is_owner(),
                    }
            }
            UnifiedItemBody::ComputerAction(_)
            | UnifiedItemBody::ComputerActionResult(_)
            | UnifiedItemBody::ApprovalRequest(_)
            | UnifiedItemBody::ApprovalResponse(_) => is_own(item),
            // Typed exactly when its call is.
            UnifiedItemBody::CodeExecutionResult(_) => is_own(item),
            UnifiedItemBody::CompactionSummary(_) => is_own(item) && kept::text(private, references, kept::ENCRYPTED).is_some(),
            UnifiedItemBody::Reference(_) => self.stores,
            UnifiedItemBody::SearchResult(_)
            | UnifiedItemBody::RetrievalResult(_)
            | UnifiedItemBody::Artifact(_)
            | UnifiedItemBody::ProviderSwitch(_)
            | UnifiedItemBody::Interruption(_)
            | UnifiedItemBody::Error(_) => false,
        }
    }

    /// Gives every call its wire ID, and finds the results.
    fn plan(&mut self) {
        let (mut ids, mut open) = (FreeIds::default(), OpenCalls::default());
        let spell = |id: &str| crate::call_id::wire(id, self.max_call_id).into_owned();
        for (index, item) in self.items.iter().enumerate() {
            open.hear(item);
            if let Some((call_id, _)) = call_kind(&item.body).filter(|_| self.is_typed(item)) {
                // The wire bounds the length only; an ID of this protocol goes back as it came.
                let is_fine = is_own(item) && (1..=self.max_call_id).contains(&call_id.len());
                let first = if is_fine { call_id.to_owned() } else { spell(call_id) };
                self.call_ids.insert(index, ids.take(call_id, first, spell));
                open.call(call_id, index);
                continue;
            }
            let result = match &item.body {
                UnifiedItemBody::ToolResult(result) => Some(&result.call_id),
                UnifiedItemBody::ComputerActionResult(result) => Some(&result.call_id),
                UnifiedItemBody::CodeExecutionResult(result) => Some(&result.call_id),
                _ => None,
            };
            if let Some(call) = result.and_then(|call_id| open.result(call_id)) {
                self.calls_of.insert(index, call);
                self.answered.insert(call);
            }
        }
        let renamed: Vec<usize> = self
            .call_ids
            .iter()
            .filter(|(index, id)| self.items.get(**index).and_then(UnifiedItem::call_id) != Some(id.as_str()))
            .map(|(index, _)| *index)
            .collect();
        for index in renamed {
            let reason = "the target refuses this ID; it gets a replacement derived from it";
            self.lose(LossSeverity::Info, Feature::ToolCallId, index, "/callId", reason);
        }
    }

    /// Members without a word that cannot come back, because they are of another protocol or another owner.
    fn unmapped(&mut self) {
        let private = self.writer.private;
        let stays = |references: &Option<Vec<throughline_format::UnifiedProviderDataRef>>| {
            references.iter().flatten().any(|reference| {
                let is_other = reference.profile.family != ProtocolFamily::OpenAiResponses;
                reference.schema.ends_with("/unmapped@1") && (is_other || private.payload(&reference.resource_id).is_none())
            })
        };
        let is_left = |item: &UnifiedItem| stays(&item.provider_data) || item.parts().iter().any(|part| stays(&part.provider_data));
        let left: Vec<usize> = (0..self.items.len()).filter(|n| self.items.get(*n).is_some_and(is_left)).collect();
        for index in left {
            let reason = "members without a word stay with the protocol and owner that they came from";
            self.lose(LossSeverity::Info, Feature::WireUnmapped, index, "/providerData", reason);
        }
    }

    pub(super) fn push(&mut self, node: Node, index: usize) {
        self.entries.push(Entry { node, index });
    }

    /// Writes one item, with those that stand for the same wire item.
    fn item(&mut self, index: usize) {
        let Some(item) = self.items.get(index) else { return };
        self.used.insert(index);
        if self.loss.hides(item, &format!("/conversation/items/{index}")) {
            return;
        }
        self.writer.call_id = None;
        if !self.is_typed(item) {
            self.foreign(index, item);
            return;
        }
        match &item.body {
            UnifiedItemBody::Message(_) => self.message(index, item),
            UnifiedItemBody::Reasoning(_) => self.reasoning(index, item),
            UnifiedItemBody::ToolResult(_) | UnifiedItemBody::ComputerActionResult(_) | UnifiedItemBody::CodeExecutionResult(_) => {
                self.result(index, item);
            }
            UnifiedItemBody::ApprovalRequest(_)
            | UnifiedItemBody::ApprovalResponse(_)
            | UnifiedItemBody::ServerToolCall(_)
            | UnifiedItemBody::ServerToolResult(_)
            | UnifiedItemBody::ComputerAction(_)
            | UnifiedItemBody::CodeExecution(_)
            | UnifiedItemBody::SearchResult(_)
            | UnifiedItemBody::RetrievalResult(_)
            | UnifiedItemBody::Artifact(_)
            | UnifiedItemBody::Reference(_)
            | UnifiedItemBody::CompactionSummary(_)
            | UnifiedItemBody::ProviderSwitch(_)
            | UnifiedItemBody::Interruption(_)
            | UnifiedItemBody::Error(_)
            | UnifiedItemBody::ToolCall(_) => {
                self.writer.call_id = self.call_ids.get(&index).cloned();
                if self.write(index).is_none() {
                    self.foreign(index, item);
                } else if self.call_ids.contains_key(&index) && !self.answered.contains(&index) {
                    self.unanswered(index, item);
                }
            }
        }
    }

    /// Writes the wire item of an index and its companion.
    fn write(&mut self, index: usize) -> Option<()> {
        let head = self.items.get(index)?;
        let mut group = vec![head];
        let reach = if may_have_companion(&head.body) { usize::MAX } else { 0 };
        let later = self.items.iter().enumerate().skip(index + 1).take(reach);
        let mut later = later.filter(|(n, item)| !self.used.contains(n) && is_companion(&head.body, &item.body));
        if let Some((n, second)) = later.next() {
            group.push(second);
            self.used.insert(n);
        }
        let node = self.writer.group(&group);
        self.notes(index);
        if let Some(second) = group.get(1)
            && let Some(at) = self.items.iter().position(|item| item.id == second.id)
        {
            super::encode_response::companion(&mut self.loss, second, &format!("/conversation/items/{at}"));
        }
        self.push(node?, index);
        Some(())
    }

    fn message(&mut self, index: usize, item: &UnifiedItem) {
        if !self.inline_system && matches!(item.role, Some(Role::System | Role::Developer)) && !item.is_instructions() {
            let reason = "the target takes no system text here; it stands in a user message";
            self.lose(LossSeverity::Warning, Feature::ConversationSystemInline, index, "", reason);
            let mut copy = item.clone();
            copy.base.role = Some(Role::User);
            let node = self.writer.group(&[&copy]);
            self.notes(index);
            if let Some(node) = node {
                self.push(node, index);
            }
            return;
        }
        let node = self.writer.group(&[item]);
        self.notes(index);
        let Some(node) = node else { return };
        let is_empty = node.kind() == "message" && node.list("content").is_empty() && node.str("content").is_none();
        let has_form = kept::payload(self.writer.private, item.provider_data.as_ref(), kept::UNMAPPED).is_some();
        if is_empty && !(is_own(item) && has_form) {
            let reason = "a message without content is left out";
            self.lose(LossSeverity::Info, Feature::ConversationMessageEmpty, index, "", reason);
            return;
        }
        if item.role == Some(Role::Assistant) && !self.is_owner(item) {
            self.said(index, &node);
        } else {
            self.push(node, index);
        }
    }

    /// Whether an item came over this protocol and nothing of it belongs to somebody else.
    fn is_owner(&self, item: &UnifiedItem) -> bool {
        let private = self.writer.private;
        let references = item.provider_data.iter().flatten();
        let references = references.filter(|reference| reference.scope == ProviderDataScope::OwnerPrivate);
        let mut known = references
            .map(|reference| private.payload(&reference.resource_id).is_some())
            .peekable();
        is_own(item) && (known.peek().is_none() || known.any(|is_known| is_known))
    }

    /// A message of an assistant elsewhere. Only messages of the provider's own, with an ID, have a list of texts; without one a text
    /// is a message of its own.
    pub(super) fn said(&mut self, index: usize, node: &Node) {
        let parts = node.list("content");
        if parts.len() > 1 {
            let reason = "each text of the assistant is a message of its own";
            self.lose(LossSeverity::Info, Feature::ConversationMessageBoundary, index, "", reason);
        }
        for part in parts {
            if !part.list("annotations").is_empty() {
                let reason = "the target takes citations only on messages of its own";
                self.lose(LossSeverity::Warning, Feature::Citation, index, "/parts", reason);
            }
            let content = match part.get("text") {
                Some(text) if part.kind() == "output_text" => text.clone(),
                _ => Node::List(vec![part.clone()]),
            };
            let message = Node::typed(
                "message",
                [
                    ("role", Some(Node::text("assistant"))),
                    ("content", Some(content)),
                    ("phase", node.get("phase").cloned()),
                ],
            );
            self.push(message, index);
        }
    }

    /// Reasoning goes back only to its owner, and only when the owner can do something with it.
    fn reasoning(&mut self, index: usize, item: &UnifiedItem) {
        let private = self.writer.private;
        let references = item.provider_data.as_ref();
        let has_id = kept::text(private, references, kept::ITEM_ID).is_some();
        let is_bare = kept::form(private, references).own;
        let node = if is_own(item) { self.writer.group(&[item]) } else { None };
        let has_secret = node.as_ref().is_some_and(|node| node.has("encrypted_content"));
        if let Some(node) = node.filter(|_| has_secret || has_id && self.stores || is_bare) {
            self.notes(index);
            self.push(node, index);
            return;
        }
        self.writer.notes.clear();
        let is_empty = item.parts().iter().all(|part| part.as_text().is_none_or(str::is_empty));
        let severity = if is_empty { LossSeverity::Info } else { LossSeverity::Warning };
        let reason = "the target takes no reasoning without private state of its own";
        self.lose(severity, Feature::ReasoningText, index, "", reason);
    }

    fn result(&mut self, index: usize, item: &UnifiedItem) {
        if let Some(call) = self.calls_of.get(&index) {
            self.writer.call_id = self.call_ids.get(call).cloned();
        } else if !self.continues || !is_own(item) {
            self.orphan(index, item);
            return;
        }
        if self.write(index).is_none() {
            self.orphan(index, item);
            if let Some(call) = self.calls_of.get(&index).copied()
                && let Some(item) = self.items.get(call)
            {
                self.unanswered(call, item);
            }
        }
    }
}
