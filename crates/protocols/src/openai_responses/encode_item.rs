//! Items to the wire: messages, reasoning, calls of the client and their outputs. Those of hosted tools: [`super::encode_hosted`].
//!
//! The same writer serves requests, answers and streams; a decoder uses it too, to find what it did not read.

use super::decode_item::{CallKind, Calls, call_kind};
use super::encode_part::Side;
use super::kept::{self, Form};
use super::wire::Node;
use crate::context::PrivateState;
use crate::feature::Feature;
use crate::projection::LossCollector;
use std::collections::BTreeMap;
use throughline_format::cache::CacheTtl;
use throughline_format::item::{CallerRef, ItemStatus, MessageItem, Role, ToolCallItem, ToolResultItem};
use throughline_format::loss::LossSeverity;
use throughline_format::part::ReasoningForm;
use throughline_format::provenance::ItemOrigin;
use throughline_format::tool::Caller;
use throughline_format::{PartBody, ProtocolFamily, UnifiedContentPart, UnifiedId, UnifiedItem, UnifiedItemBody};

/// Longest tool name of the wire.
pub(super) const MAX_NAME: usize = 128;

/// Where an item stands: the wire wants more members in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// In the input of a request.
    Request,
    /// In the output of an answer.
    Answer,
}

/// Something that could not be said of the item that was written last.
#[derive(Debug)]
pub(super) struct Note {
    /// None for a remark, which loses nothing.
    pub severity: Option<LossSeverity>,
    pub feature: Feature,
    /// JSON Pointer below the item.
    pub suffix: String,
    pub reason: &'static str,
}

impl Note {
    /// Puts the note into a report, below `path`.
    pub(super) fn tell(self, loss: &mut LossCollector, path: &str, item: Option<&UnifiedId>) {
        let path = format!("{path}{}", self.suffix);
        match self.severity {
            Some(severity) => loss.add_for(severity, self.feature, path, self.reason, item),
            None => loss.remark(self.feature, path, self.reason),
        }
    }
}

/// Writes items.
pub(super) struct Writer<'a> {
    pub private: &'a dyn PrivateState,
    mode: Mode,
    /// Kinds of the calls so far.
    pub calls: Calls,
    /// The call ID to write for the next item; its own when there is none.
    pub call_id: Option<String>,
    /// Only what the record says: for comparing.
    pub is_plain: bool,
    /// The item that is written was read from this protocol.
    pub is_native: bool,
    /// The item that is written came in an answer, whose form it keeps in a request.
    pub is_output: bool,
    /// Whether the provider's IDs may be written.
    pub with_ids: bool,
    /// Cache marks by item or part.
    pub marks: BTreeMap<UnifiedId, Option<CacheTtl>>,
    pub notes: Vec<Note>,
}

/// Whether an item was read from this protocol.
pub(super) fn is_own(item: &UnifiedItem) -> bool {
    let profile = item.provenance.profile.as_ref();
    profile.is_some_and(|profile| profile.family == ProtocolFamily::OpenAiResponses)
}

impl<'a> Writer<'a> {
    pub(super) fn new(private: &'a dyn PrivateState, mode: Mode) -> Self {
        Self {
            private,
            mode,
            calls: Calls::new(),
            call_id: None,
            is_plain: false,
            is_native: false,
            is_output: false,
            with_ids: true,
            marks: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn is_answer(&self) -> bool {
        self.mode == Mode::Answer
    }

    /// Something that the target says in another form and loses nothing by it.
    pub(super) fn remark(&mut self, feature: Feature, suffix: &str, reason: &'static str) {
        self.notes.push(Note {
            severity: None,
            feature,
            suffix: suffix.to_owned(),
            reason,
        });
    }

    pub(super) fn note(&mut self, severity: LossSeverity, feature: Feature, suffix: &str, reason: &'static str) {
        self.notes.push(Note {
            severity: Some(severity),
            feature,
            suffix: suffix.to_owned(),
            reason,
        });
    }

    /// Writes one wire item from the items that it stands for, with everything that is kept for this owner.
    pub(super) fn group(&mut self, items: &[&UnifiedItem]) -> Option<Node> {
        let head = items.first()?;
        let references = head.provider_data.as_ref();
        let form = kept::form(self.private, references);
        let entries = kept::entries(self.private, references);
        let whole = kept::payload(self.private, references, kept::ITEM).and_then(|bytes| kept::tree(&bytes));
        let mut node = match whole {
            Some(whole) => whole,
            None if entries.iter().any(|entry| entry.pointer.is_empty()) => Node::null(),
            None => self.group_with(items, &form)?,
        };
        kept::restore(&mut node, &entries, &form);
        let id = kept::text(self.private, references, kept::ITEM_ID).filter(|_| self.with_ids);
        match id {
            Some(id) => Self::put_id(&mut node, &id),
            None if !node.has("approval_request_id") && !self.keeps_id(items) => {
                node.take("id");
            }
            None => {}
        }
        Some(node)
    }

    /// Whether the member `id` is the item's own word and no handle.
    fn keeps_id(&self, items: &[&UnifiedItem]) -> bool {
        let is_local_output = |call_id: &str| self.calls.get(call_id) == Some(&CallKind::LocalShell);
        items.first().is_some_and(|item| match &item.body {
            UnifiedItemBody::ApprovalRequest(_) | UnifiedItemBody::Reference(_) => true,
            UnifiedItemBody::CodeExecutionResult(result) => is_local_output(&result.call_id),
            _ => false,
        })
    }

    /// Puts an ID behind the type.
    pub(super) fn put_id(node: &mut Node, id: &str) {
        node.take("id");
        if let Node::Object(members) = node {
            let at = usize::from(members.first().is_some_and(|(key, _)| key == "type"));
            members.insert(at, ("id".to_owned(), Node::text(id)));
        }
    }

    /// Writes one wire item from the record alone.
    pub(super) fn group_with(&mut self, items: &[&UnifiedItem], form: &Form) -> Option<Node> {
        let head = *items.first()?;
        self.is_native = is_own(head);
        self.is_output = self.is_native && head.provenance.origin == ItemOrigin::Provider;
        if let Some((call_id, kind)) = call_kind(&head.body) {
            self.calls.insert(call_id.to_owned(), kind);
        }
        let node = match &head.body {
            UnifiedItemBody::Message(message) => Some(self.message(head, message, form)),
            UnifiedItemBody::Reasoning(_) => Some(self.reasoning(head)),
            UnifiedItemBody::ToolCall(call) => Some(self.call(head, call)),
            UnifiedItemBody::ToolResult(result) => Some(self.result(head, result, form)),
            UnifiedItemBody::ApprovalRequest(_)
            | UnifiedItemBody::ApprovalResponse(_)
            | UnifiedItemBody::ServerToolCall(_)
            | UnifiedItemBody::ServerToolResult(_)
            | UnifiedItemBody::ComputerAction(_)
            | UnifiedItemBody::ComputerActionResult(_)
            | UnifiedItemBody::CodeExecution(_)
            | UnifiedItemBody::CodeExecutionResult(_)
            | UnifiedItemBody::SearchResult(_)
            | UnifiedItemBody::RetrievalResult(_)
            | UnifiedItemBody::Artifact(_)
            | UnifiedItemBody::Reference(_)
            | UnifiedItemBody::CompactionSummary(_)
            | UnifiedItemBody::ProviderSwitch(_)
            | UnifiedItemBody::Interruption(_)
            | UnifiedItemBody::Error(_) => self.hosted(items),
        };
        let mut node = node?;
        // A request takes no status of a custom call, an answer has it.
        let is_refused = self.mode == Mode::Request && self.is_output && node.kind() == "custom_tool_call";
        if form.status && !is_refused && !node.has("status") {
            node.put("status", Node::text(status_word(head.status)));
        }
        Some(node)
    }

    fn message(&mut self, item: &UnifiedItem, message: &MessageItem, form: &Form) -> Node {
        let (role, side) = match item.role {
            Some(Role::Assistant) => ("assistant", Side::Output),
            Some(Role::System) => ("system", Side::Input),
            Some(Role::Developer) => ("developer", Side::Input),
            Some(Role::User | Role::Tool) | None => ("user", Side::Input),
        };
        let parts = self.parts(&message.parts, side, is_own(item), "parts");
        let content = content(parts, form.text && !self.has_marks(&message.parts));
        let status = (self.is_answer()).then(|| Node::text(status_word(item.status)));
        let phase = kept::payload(self.private, item.provider_data.as_ref(), kept::PHASE)
            .and_then(|bytes| kept::tree(&bytes))
            .and_then(|annotation| annotation.get("phase").cloned());
        Node::typed(
            "message",
            [
                ("status", status),
                ("role", Some(Node::text(role))),
                ("content", Some(content)),
                ("phase", phase),
            ],
        )
    }

    fn has_marks(&self, parts: &[UnifiedContentPart]) -> bool {
        parts.iter().any(|part| self.marks.contains_key(&part.part_id))
    }

    fn reasoning(&mut self, item: &UnifiedItem) -> Node {
        let (mut summary, mut full, mut encrypted) = (Vec::new(), Vec::new(), None);
        for (n, part) in item.parts().iter().enumerate() {
            let PartBody::Reasoning(inner) = &part.body else { continue };
            if let Some(state) = &inner.private_state {
                let suffix = format!("/parts/{n}/privateState");
                self.remark(
                    Feature::RecordBookkeeping,
                    &suffix,
                    "what was issued goes back; by whom stays in the record",
                );
                encrypted = kept::text(self.private, Some(&vec![state.r#ref.clone()]), kept::ENCRYPTED).or(encrypted);
            }
            if inner.text.is_empty() && inner.state != throughline_format::part::ReasoningState::Disclosed {
                continue;
            }
            let text = Some(Node::text(&inner.text));
            match inner.form {
                ReasoningForm::Summary => summary.push(Node::typed("summary_text", [("text", text)])),
                ReasoningForm::Full => full.push(Node::typed("reasoning_text", [("text", text)])),
            }
        }
        Node::typed(
            "reasoning",
            [
                ("summary", Some(Node::List(summary))),
                ("content", (!full.is_empty()).then_some(Node::List(full))),
                ("encrypted_content", encrypted.as_deref().map(Node::text)),
            ],
        )
    }

    /// Whether members that the target demands are written although the record does not say them.
    pub(super) const fn fills(&self) -> bool {
        !self.is_plain && !self.is_native
    }

    /// The call ID of an item: the one that the target takes.
    pub(super) fn id_of(&mut self, call_id: &str) -> Node {
        Node::text(self.call_id.as_deref().unwrap_or(call_id))
    }

    fn call(&mut self, item: &UnifiedItem, call: &ToolCallItem) -> Node {
        let call_id = Some(self.id_of(&call.call_id));
        let name = if self.is_answer() {
            call.name.clone()
        } else {
            crate::tool_name::wire(None, &call.name, MAX_NAME).into_owned()
        };
        if name != call.name {
            let reason = "the target refuses this name; it gets a replacement derived from it";
            self.note(LossSeverity::Info, Feature::ToolName, "/name", reason);
        }
        if call.private_linkage.is_some() {
            let reason = "private state of the call belongs to somebody else";
            self.note(LossSeverity::Info, Feature::ReasoningSignature, "/privateLinkage", reason);
        }
        let name = Some(Node::text(&name));
        let namespace = call.namespace.as_deref().map(Node::text);
        let caller = call.caller.as_ref().and_then(Self::caller);
        let status = self.is_answer().then(|| Node::text(status_word(item.status)));
        match call_kind(&item.body).map(|(_, kind)| kind) {
            Some(CallKind::Custom) => Node::typed(
                "custom_tool_call",
                [
                    ("status", status),
                    ("call_id", call_id),
                    ("name", name),
                    ("input", Some(Node::text(&call.raw_arguments))),
                    ("namespace", namespace),
                    ("caller", caller),
                ],
            ),
            Some(CallKind::ApplyPatch) if call.input.is_some() => Node::typed(
                "apply_patch_call",
                [
                    ("status", Some(Node::text(status_word(item.status)))),
                    ("call_id", call_id),
                    ("operation", call.input.as_ref().map(Node::open)),
                    ("caller", caller),
                ],
            ),
            Some(CallKind::ToolSearch) => Node::typed(
                "tool_search_call",
                [
                    ("status", Some(Node::text(status_word(item.status)))),
                    ("call_id", call_id),
                    ("execution", Some(Node::text("client"))),
                    (
                        "arguments",
                        call.input
                            .as_ref()
                            .map(Node::open)
                            .or_else(|| Some(Node::text(&call.raw_arguments))),
                    ),
                ],
            ),
            Some(
                CallKind::Function | CallKind::ApplyPatch | CallKind::Computer | CallKind::LocalShell | CallKind::Shell | CallKind::Program,
            )
            | None => Node::typed(
                "function_call",
                [
                    ("status", status),
                    ("call_id", call_id),
                    ("name", name),
                    ("arguments", Some(Node::text(&Self::arguments(item, call)))),
                    ("namespace", namespace),
                    ("caller", caller),
                ],
            ),
        }
    }

    /// Argument text; the target wants an object where another protocol had nothing.
    pub(super) fn arguments(item: &UnifiedItem, call: &ToolCallItem) -> String {
        match (&call.input, call.raw_arguments.trim()) {
            (input, "") if !is_own(item) => input.as_ref().map_or_else(|| "{}".to_owned(), |input| input.as_str().to_owned()),
            _ => call.raw_arguments.clone(),
        }
    }

    fn caller(caller: &CallerRef) -> Option<Node> {
        match (&caller.kind, &caller.call_id) {
            (Caller::Model, _) => Some(Node::typed("direct", [])),
            (Caller::Code, Some(id)) => Some(Node::typed("program", [("caller_id", Some(Node::text(id)))])),
            (Caller::Code | Caller::Other(_), _) => None,
        }
    }

    fn result(&mut self, item: &UnifiedItem, result: &ToolResultItem, form: &Form) -> Node {
        let kind = self.calls.get(&result.call_id).copied();
        let call_id = Some(self.id_of(&result.call_id));
        if let (Some(CallKind::ToolSearch), [part]) = (kind, result.output.as_slice())
            && let PartBody::Json(json) = &part.body
        {
            return Node::typed(
                "tool_search_output",
                [
                    ("status", Some(Node::text(status_word(item.status)))),
                    ("call_id", call_id),
                    ("execution", Some(Node::text("client"))),
                    ("tools", Some(Node::open(&json.value))),
                ],
            );
        }
        let own = is_own(item);
        let parts = self.parts(&result.output, Side::Input, own, "output");
        let is_failed = result.is_error == Some(true) || result.error.is_some();
        let as_text = (form.text || !own) && !self.has_marks(&result.output);
        let mut output = content(parts, as_text);
        if as_text && matches!(&output, Node::List(list) if list.is_empty()) {
            let told = result.error.as_ref().map(|error| error.message.clone());
            output = Node::text(&told.unwrap_or_else(|| if is_failed { "error".to_owned() } else { String::new() }));
        }
        if kind == Some(CallKind::ApplyPatch) {
            let status = if is_failed { "failed" } else { "completed" };
            return Node::typed(
                "apply_patch_call_output",
                [
                    ("call_id", call_id),
                    ("status", Some(Node::text(status))),
                    ("output", (!result.output.is_empty()).then_some(output)),
                ],
            );
        }
        if result.is_error == Some(true) {
            let reason = "the target has no error flag on results";
            self.note(LossSeverity::Warning, Feature::ToolResultError, "/isError", reason);
        }
        if result.error.is_some() {
            let reason = "the target has no error on results";
            self.note(LossSeverity::Info, Feature::ToolResultError, "/error", reason);
        }
        let name = result.name.as_deref().filter(|_| own).map(Node::text);
        let word = if kind == Some(CallKind::Custom) {
            "custom_tool_call_output"
        } else {
            "function_call_output"
        };
        // The type of a result in an answer demands a status; a result that has come is complete.
        let status = (self.is_answer() && !own).then(|| Node::text("completed"));
        Node::typed(
            word,
            [("status", status), ("call_id", call_id), ("name", name), ("output", Some(output))],
        )
    }
}

/// A content: one text where that was the form, else a list.
fn content(parts: Vec<Node>, as_text: bool) -> Node {
    match parts.as_slice() {
        [only] if as_text && matches!(only.kind().as_str(), "input_text" | "output_text") && only.list("annotations").is_empty() => {
            only.get("text").cloned().unwrap_or_else(|| Node::text(""))
        }
        _ => Node::List(parts),
    }
}

/// The wire's word for the status of an item.
pub(super) const fn status_word(status: ItemStatus) -> &'static str {
    match status {
        ItemStatus::InProgress => "in_progress",
        ItemStatus::Completed => "completed",
        ItemStatus::Incomplete | ItemStatus::Cancelled => "incomplete",
        ItemStatus::Failed => "failed",
    }
}
