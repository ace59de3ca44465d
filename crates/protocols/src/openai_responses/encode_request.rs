//! Requests to the wire: items to input, legal whatever the history holds.
//!
//! Every call of the client gets its output and every output its call, reasoning stands before what it was made with, IDs of the
//! provider go back to their owner only. Each repair is a loss entry. The rest of the body: [`super::encode_settings`].

use super::decode_item::{CallKind, call_kind};
use super::encode_hosted::is_companion;
use super::encode_item::{Mode, Writer, is_own};
use super::encode_settings::Settings;
use super::encode_told::told;
use super::encode_tools::Tools;
use super::kept;
use super::wire::Node;
use crate::capability::{Capabilities, Support};
use crate::codec::Encoded;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::projection::LossCollector;
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::intent::OutputFormat;
use throughline_format::item::{Role, newest_instructions};
use throughline_format::loss::LossSeverity;
use throughline_format::tool::Execution;
use throughline_format::{
    PartBody, ProtocolFamily, UnifiedError, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedRequestV2, UnifiedToolType,
};

/// Output for a call that nobody answered.
const NO_RESULT: &str = "[The call was interrupted; there is no result.]";

/// Writes a request body.
pub(super) fn encode(request: &UnifiedRequestV2, context: &EncodeContext) -> Result<Encoded, UnifiedError> {
    let is_own = request.source.profile.family == ProtocolFamily::OpenAiResponses;
    let private = context.private.as_ref();
    let mut capabilities = context.capabilities.clone();
    let entries = kept::root_entries(private);
    let root_form = kept::root_form(private);
    adjust(is_own, &mut capabilities);
    let mut loss = LossCollector::new();
    loss.report_intents(request, &capabilities);
    let mut tools = Tools {
        private,
        capabilities: &capabilities,
        loss: &mut loss,
        is_own,
        names: BTreeSet::new(),
    };
    let offered = tools.list(request);
    let choice = tools.choice(request, &offered);
    let mut settings = Settings {
        private,
        capabilities: Some(&capabilities),
        loss,
        is_own,
        dialect: context.dialect.as_deref(),
    };
    let mut rest = settings.body(request);
    let stores = rest.value::<bool>("store") != Some(false);
    let continues = rest.has("previous_response_id") || rest.has("conversation");
    let mut encoder = HistoryEncoder::new(request, context, settings.loss, stores);
    encoder.continues = continues;
    let (instructions, mut input) = encoder.history();
    let mut loss = encoder.loss;
    json_word(request, is_own, &rest, &mut input, &mut loss);
    let mut body = Node::object([(
        "model",
        Some(Node::text(context.target_model.as_ref().unwrap_or(&request.model.requested))),
    )]);
    if is_own && context.target_model.is_none() && request.model.requested == crate::UNSPECIFIED_MODEL {
        body.take("model");
        loss.remark(Feature::RecordBookkeeping, "/model/requested", "the request names no model");
    }
    if let Some(instructions) = instructions {
        body.put("instructions", Node::text(&instructions));
    } else if context.dialect.as_deref() == Some("codex") {
        // The service refuses a request without them.
        body.put("instructions", Node::text(""));
    }
    let text = single_text(&input).filter(|_| root_form.text && is_own);
    if !input.is_empty() || !continues && !rest.has("prompt") {
        body.put("input", text.unwrap_or(Node::List(input)));
    }
    let has_tools = !offered.is_empty();
    if has_tools {
        body.put("tools", Node::List(offered));
    }
    if let Some(choice) = choice {
        body.put("tool_choice", choice);
    }
    if !has_tools && !is_own {
        for (member, feature, path) in [
            ("parallel_tool_calls", Feature::GenerationParallelTools, "/generation/parallelTools"),
            ("max_tool_calls", Feature::GenerationMaxToolCalls, "/generation/maxToolCalls"),
        ] {
            if rest.take(member).is_some() {
                loss.info(feature, path, "there are no tools");
            }
        }
    }
    if let Node::Object(members) = rest {
        members.into_iter().for_each(|(key, value)| body.put(&key, value));
    }
    let store = body.get("store").cloned();
    if is_own {
        kept::restore(&mut body, &entries, &root_form);
    }
    if let Some(store) = store.filter(|_| context.dialect.as_deref() == Some("codex")) {
        body.put("store", store);
    }
    if context.stream {
        body.put("stream", Node::of(&true));
    } else if body.value("stream") == Some(true) {
        body.take("stream");
    }
    Ok(Encoded {
        body: body.to_text(),
        loss: loss.finish(),
    })
}

/// What a request of this very protocol can say although the target has no form for it in general.
fn adjust(is_own: bool, capabilities: &mut Capabilities) {
    let own = [Feature::CacheBreakpoints, Feature::CacheMode, Feature::OutputGrammar];
    for feature in own.into_iter().filter(|_| is_own) {
        capabilities.learn(feature, Support::Lossless);
    }
}

/// The text of an input that is one user message with one text.
fn single_text(input: &[Node]) -> Option<Node> {
    let [only] = input else { return None };
    (only.str("role").as_deref() == Some("user"))
        .then(|| only.get("content"))
        .flatten()
        .filter(|content| content.as_text().is_some())
        .cloned()
}

/// The target demands the word JSON in its input where any JSON object is wanted.
fn json_word(request: &UnifiedRequestV2, is_own: bool, rest: &Node, input: &mut Vec<Node>, loss: &mut LossCollector) {
    let format = request.output.as_ref().and_then(|output| output.format.as_ref());
    let wants = format.is_some_and(|format| matches!(format.value, OutputFormat::JsonObject(_)));
    if is_own || !wants || rest.at(&["text", "format"]).is_none() {
        return;
    }
    let has_word = |node: &Node| {
        let content = node.get("content").map(Node::to_text).unwrap_or_default();
        content.to_ascii_lowercase().contains("json")
    };
    if input.iter().any(has_word) {
        return;
    }
    let part = Node::typed("input_text", [("text", Some(Node::text("Answer with a JSON object.")))]);
    let note = Node::typed(
        "message",
        [("role", Some(Node::text("developer"))), ("content", Some(Node::List(vec![part])))],
    );
    input.insert(0, note);
    loss.info(
        Feature::OutputJsonObject,
        "/output/format",
        "the target demands the word JSON in its input; a message with it was added",
    );
}

/// An input item with the record that it comes from.
struct Entry {
    node: Node,
    index: usize,
}

/// State of one encode of a history.
pub(super) struct HistoryEncoder<'a> {
    items: &'a [UnifiedItem],
    writer: Writer<'a>,
    pub loss: LossCollector,
    /// Whether the provider keeps items, so that their IDs mean something.
    stores: bool,
    /// Whether the request goes on from state of the provider.
    pub continues: bool,
    max_call_id: usize,
    inline_system: bool,
    entries: Vec<Entry>,
    /// Wire ID by index of the call's item.
    call_ids: BTreeMap<usize, String>,
    /// Index of the call's item by index of the result's.
    calls_of: BTreeMap<usize, usize>,
    /// Calls with a result.
    answered: BTreeSet<usize>,
    used: BTreeSet<usize>,
}

impl<'a> HistoryEncoder<'a> {
    pub(super) fn new(request: &'a UnifiedRequestV2, context: &'a EncodeContext, loss: LossCollector, stores: bool) -> Self {
        let mut writer = Writer::new(context.private.as_ref(), Mode::Request);
        writer.with_ids = stores;
        let is_source = request.source.profile.family == ProtocolFamily::OpenAiResponses;
        let marks = request
            .cache
            .iter()
            .flat_map(|cache| cache.breakpoints.iter().flatten())
            .filter(|_| is_source);
        for mark in marks {
            let place = mark.part_id.clone().unwrap_or_else(|| mark.item_id.clone());
            writer.marks.insert(place, mark.ttl);
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

    fn lose(&mut self, severity: LossSeverity, feature: Feature, index: usize, suffix: &str, reason: &str) {
        let id: Option<UnifiedId> = self.items.get(index).map(|item| item.id.clone());
        let path = format!("/conversation/items/{index}{suffix}");
        self.loss.add_for(severity, feature, path, reason, id.as_ref());
    }

    /// What the writer said of the item that it wrote last.
    fn notes(&mut self, index: usize) {
        for note in std::mem::take(&mut self.writer.notes) {
            let id = self.items.get(index).map(|item| &item.id);
            note.tell(&mut self.loss, &format!("/conversation/items/{index}"), id);
        }
    }

    /// The instructions, when they are one text, and the input.
    pub(super) fn history(&mut self) -> (Option<String>, Vec<Node>) {
        let newest = newest_instructions(self.items);
        let covered = self.covered();
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
        let input = std::mem::take(&mut self.entries).into_iter().map(|entry| entry.node).collect();
        (instructions, input)
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

    /// Indexes that the newest summary stands for.
    fn covered(&self) -> BTreeSet<usize> {
        let summary = self.items.iter().enumerate().rev().find_map(|(at, item)| match &item.body {
            UnifiedItemBody::CompactionSummary(summary) if summary.replaces => Some((at, summary)),
            _ => None,
        });
        let Some((at, summary)) = summary else { return BTreeSet::new() };
        let last = self.items.iter().position(|item| item.id == summary.covers.to_item_id);
        (0..last.map_or(0, |last| last + 1).min(at)).collect()
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
            UnifiedItemBody::Reference(_) => true,
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
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        let mut taken: BTreeSet<String> = BTreeSet::new();
        let mut open: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, item) in self.items.iter().enumerate() {
            if let Some((call_id, _)) = call_kind(&item.body).filter(|_| self.is_typed(item)) {
                let time = times.entry(call_id).or_default();
                *time += 1;
                let again = format!("{call_id}#{time}");
                let source = if *time == 1 { call_id } else { again.as_str() };
                // The wire bounds the length only; an ID of this protocol goes back as it came.
                let is_fine = is_own(item) && (1..=self.max_call_id).contains(&source.len()) && *time == 1;
                let mut wire_id = if is_fine {
                    source.to_owned()
                } else {
                    crate::call_id::wire(source, self.max_call_id).into_owned()
                };
                if taken.contains(&wire_id) {
                    wire_id = crate::call_id::wire(&format!("{source}##{index}"), self.max_call_id).into_owned();
                }
                taken.insert(wire_id.clone());
                self.call_ids.insert(index, wire_id);
                open.insert(call_id, index);
                continue;
            }
            let result = match &item.body {
                UnifiedItemBody::ToolResult(result) => Some(&result.call_id),
                UnifiedItemBody::ComputerActionResult(result) => Some(&result.call_id),
                UnifiedItemBody::CodeExecutionResult(result) => Some(&result.call_id),
                _ => None,
            };
            if let Some(call) = result.and_then(|call_id| open.remove(call_id.as_str())) {
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

    fn push(&mut self, node: Node, index: usize) {
        self.entries.push(Entry { node, index });
    }

    /// Writes one item, with those that stand for the same wire item.
    fn item(&mut self, index: usize) {
        let Some(item) = self.items.get(index) else { return };
        self.used.insert(index);
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
            _ => {
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
        let later = self.items.iter().enumerate().skip(index + 1);
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
        if item.role == Some(Role::Assistant) && !is_own(item) {
            self.said(index, &node);
        } else {
            self.push(node, index);
        }
    }

    /// A message of an assistant elsewhere. Only messages of the provider's own, with an ID, have a list of texts; without one a text
    /// is a message of its own.
    fn said(&mut self, index: usize, node: &Node) {
        let parts = node.list("content");
        if parts.len() > 1 {
            let reason = "each text of the assistant is a message of its own";
            self.lose(LossSeverity::Info, Feature::ConversationMessageBoundary, index, "", reason);
        }
        for part in parts {
            let content = match part.get("text") {
                Some(text) if part.kind() == "output_text" => text.clone(),
                _ => Node::List(vec![part.clone()]),
            };
            let message = Node::typed("message", [("role", Some(Node::text("assistant"))), ("content", Some(content))]);
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

    /// A result without a call becomes text.
    fn orphan(&mut self, index: usize, item: &UnifiedItem) {
        let reason = "a result without its call is said in a user message";
        self.lose(LossSeverity::Warning, Feature::ConversationInterruption, index, "", reason);
        let mut parts = vec![Node::typed(
            "input_text",
            [("text", Some(Node::text("[Result of a tool call that is not in the history:]")))],
        )];
        if let UnifiedItemBody::CodeExecutionResult(_) = &item.body {
            let said = told(item).unwrap_or_default();
            parts.push(Node::typed("input_text", [("text", Some(Node::text(&said)))]));
        } else {
            parts.extend(
                self.writer
                    .parts(item.parts(), super::encode_part::Side::Input, is_own(item), "output"),
            );
            self.notes(index);
        }
        let node = Node::typed(
            "message",
            [("role", Some(Node::text("user"))), ("content", Some(Node::List(parts)))],
        );
        self.push(node, index);
    }

    /// A call that nobody answered gets a note in place of its output.
    fn unanswered(&mut self, index: usize, item: &UnifiedItem) {
        let Some((_, kind)) = call_kind(&item.body) else { return };
        let call_id = Some(Node::text(self.call_ids.get(&index).map_or("", String::as_str)));
        let note = Node::text(NO_RESULT);
        let node = match kind {
            CallKind::Function => Node::typed("function_call_output", [("call_id", call_id), ("output", Some(note))]),
            CallKind::Custom => Node::typed("custom_tool_call_output", [("call_id", call_id), ("output", Some(note))]),
            CallKind::ApplyPatch => Node::typed(
                "apply_patch_call_output",
                [("call_id", call_id), ("status", Some(Node::text("failed"))), ("output", Some(note))],
            ),
            CallKind::LocalShell => Node::typed("local_shell_call_output", [("id", call_id), ("output", Some(note))]),
            CallKind::Shell => {
                let outcome = Node::typed("timeout", []);
                let chunk = Node::object([("stdout", Some(Node::text(""))), ("stderr", Some(note)), ("outcome", Some(outcome))]);
                Node::typed(
                    "shell_call_output",
                    [("call_id", call_id), ("output", Some(Node::List(vec![chunk])))],
                )
            }
            // The provider runs a program; whether there is an output is its business.
            CallKind::Program => return,
            CallKind::ToolSearch => Node::typed(
                "tool_search_output",
                [
                    ("call_id", call_id),
                    ("execution", Some(Node::text("client"))),
                    ("status", Some(Node::text("completed"))),
                    ("tools", Some(Node::List(Vec::new()))),
                ],
            ),
            CallKind::Computer => {
                // There is no screen to show, so the call cannot stand.
                self.entries.pop();
                let reason = "the call has no result; it is left out";
                self.lose(LossSeverity::Warning, Feature::ConversationInterruption, index, "", reason);
                return;
            }
        };
        let reason = "the call has no result; the target gets a note in its place";
        self.lose(LossSeverity::Warning, Feature::ConversationInterruption, index, "", reason);
        self.push(node, index);
    }

    /// What has no form of its own at the target.
    fn foreign(&mut self, index: usize, item: &UnifiedItem) {
        use UnifiedItemBody as B;
        let (severity, feature, reason) = match &item.body {
            B::ProviderSwitch(_) | B::Interruption(_) | B::Error(_) => {
                self.loss.marker(format!("/conversation/items/{index}"), &item.id);
                return;
            }
            B::CompactionSummary(summary) if summary.replaces => {
                let node = self.writer.parts(&summary.parts, super::encode_part::Side::Input, false, "parts");
                self.notes(index);
                self.push(
                    Node::typed("message", [("role", Some(Node::text("user"))), ("content", Some(Node::List(node)))]),
                    index,
                );
                return;
            }
            B::ServerToolCall(_) | B::ServerToolResult(_) | B::SearchResult(_) | B::RetrievalResult(_) => (
                LossSeverity::Warning,
                Feature::ToolCallHosted,
                "said in text: the target has no form for another owner's hosted tools",
            ),
            B::CodeExecution(_) | B::CodeExecutionResult(_) | B::ComputerAction(_) | B::ComputerActionResult(_) => (
                LossSeverity::Warning,
                Feature::ToolCallHosted,
                "said in text: the target has no form for these calls of others",
            ),
            B::ApprovalRequest(_) | B::ApprovalResponse(_) => (
                LossSeverity::Warning,
                Feature::ToolApproval,
                "said in text: approvals are their owner's",
            ),
            B::Artifact(_) => (LossSeverity::Warning, Feature::PartArtifact, "the target has no artifacts"),
            B::CompactionSummary(_) => (
                LossSeverity::Info,
                Feature::ConversationItem,
                "a summary of another owner; the full items are sent",
            ),
            B::Message(_) | B::Reasoning(_) | B::ToolCall(_) | B::ToolResult(_) | B::Reference(_) => (
                LossSeverity::Warning,
                Feature::ConversationItem,
                "a reference that only its owner can follow",
            ),
        };
        self.lose(severity, feature, index, "", reason);
        let Some(said) = told(item) else { return };
        let (role, kind) = match item.role {
            Some(Role::User | Role::Tool) => ("user", "input_text"),
            _ => ("assistant", "output_text"),
        };
        let part = Node::typed(kind, [("text", Some(Node::text(&said)))]);
        let node = Node::typed(
            "message",
            [("role", Some(Node::text(role))), ("content", Some(Node::List(vec![part])))],
        );
        if role == "assistant" {
            self.said(index, &node);
        } else {
            self.push(node, index);
        }
    }

    /// Reasoning stands directly before what it was made with, both with their IDs or both without.
    fn pair_reasoning(&mut self) {
        let is_follower = |node: &Node| match node.kind().as_str() {
            "message" => node.str("role").as_deref() == Some("assistant"),
            "compaction_trigger" | "configuration_update" | "additional_tools" | "mcp_approval_response" => false,
            kind => !kind.ends_with("_output"),
        };
        let mut at = self.entries.len();
        while at > 0 {
            at -= 1;
            if self.entries.get(at).is_none_or(|entry| entry.node.kind() != "reasoning") {
                continue;
            }
            let next = self.entries.get(at + 1).map(|entry| &entry.node);
            if !next.is_some_and(is_follower) {
                let removed = self.entries.remove(at);
                let reason = "the target refuses reasoning without the item that it was made with";
                self.lose(LossSeverity::Warning, Feature::ReasoningText, removed.index, "", reason);
                continue;
            }
            let wants_id = next.is_some_and(|next| matches!(next.kind().as_str(), "message" | "function_call" | "custom_tool_call"));
            let lacks_id = wants_id && next.is_some_and(|next| !next.has("id"));
            if let Some(entry) = self.entries.get_mut(at).filter(|_| lacks_id) {
                entry.node.take("id");
            }
        }
        self.unpaired_ids();
    }

    /// What was made with reasoning that is not sent goes without its ID.
    fn unpaired_ids(&mut self) {
        let sent: BTreeSet<usize> = self.entries.iter().map(|entry| entry.index).collect();
        let is_dropped = |index: usize| {
            let is_reasoning = self
                .items
                .get(index)
                .is_some_and(|item| matches!(item.body, UnifiedItemBody::Reasoning(_)));
            is_reasoning && !sent.contains(&index)
        };
        let mut bare = BTreeSet::new();
        let mut is_bare = false;
        for (index, item) in self.items.iter().enumerate() {
            is_bare = match &item.body {
                UnifiedItemBody::Reasoning(_) => is_dropped(index),
                UnifiedItemBody::Message(_) if item.role != Some(Role::Assistant) => false,
                UnifiedItemBody::ToolResult(_) | UnifiedItemBody::ComputerActionResult(_) => false,
                _ => is_bare,
            };
            if is_bare {
                bare.insert(index);
            }
        }
        for entry in &mut self.entries {
            let kind = entry.node.kind();
            if bare.contains(&entry.index) && matches!(kind.as_str(), "message" | "function_call" | "custom_tool_call") {
                entry.node.take("id");
            }
        }
    }

    /// IDs of the provider stand once, and with the prefix of their type.
    fn unique_ids(&mut self) {
        let mut taken = BTreeSet::new();
        for entry in &mut self.entries {
            let Some(id) = entry.node.str("id") else { continue };
            let prefix = match entry.node.kind().as_str() {
                "message" => "msg_",
                "reasoning" => "rs_",
                "function_call" => "fc_",
                "custom_tool_call" => "ctc_",
                _ => "",
            };
            let is_value = matches!(
                entry.node.kind().as_str(),
                "item_reference" | "mcp_approval_request" | "local_shell_call_output"
            );
            if !is_value && (!id.starts_with(prefix) || !taken.insert(id)) {
                entry.node.take("id");
            }
        }
    }
}
