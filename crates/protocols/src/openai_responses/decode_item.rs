//! Items from the wire: messages, reasoning, calls of the client and their outputs. Those of hosted tools: [`super::decode_hosted`].
//!
//! One wire item becomes one Unified item, or two where the wire has call and outcome in one.

use super::encode_item::{Mode, Writer};
use super::kept::{self, Form, Keeper, number};
use super::wire::{Difference, Node};
use super::{decode_hosted, decode_part};
use crate::feature::Feature;
use crate::keeper::Keep;
use std::collections::BTreeMap;
use throughline_format::item::{CallerRef, ItemStatus, MessageItem, Placement, ReasoningItem, Role, ToolCallItem, ToolResultItem};
use throughline_format::part::{ReasoningForm, ReasoningPart, ReasoningPrivateState, ReasoningState};
use throughline_format::provenance::ItemOrigin;
use throughline_format::resource::ResourceType;
use throughline_format::tool::{Caller, Execution};
use throughline_format::{
    Json, PartBody, UnifiedContentPart, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedProviderDataRef, UnifiedToolLifecycle,
    UnifiedToolType,
};

/// What a call is on the wire: its output has a type of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// `function_call`
    Function,
    /// `custom_tool_call`
    Custom,
    /// `computer_call`
    Computer,
    /// `local_shell_call`
    LocalShell,
    /// `shell_call`
    Shell,
    /// `apply_patch_call`
    ApplyPatch,
    /// `tool_search_call` by the client
    ToolSearch,
    /// `program`
    Program,
}

/// Kinds of the calls so far, by call ID.
pub(super) type Calls = BTreeMap<String, CallKind>;

/// What a call of the record is on the wire; none for calls whose outcome stands in the same wire item.
pub(super) fn call_kind(body: &UnifiedItemBody) -> Option<(&str, CallKind)> {
    match body {
        UnifiedItemBody::ToolCall(call) => {
            let kind = match call.tool_type {
                UnifiedToolType::Custom => CallKind::Custom,
                UnifiedToolType::ApplyPatch => CallKind::ApplyPatch,
                UnifiedToolType::ToolSearch => CallKind::ToolSearch,
                _ => CallKind::Function,
            };
            Some((&call.call_id, kind))
        }
        UnifiedItemBody::ComputerAction(call) => Some((&call.call_id, CallKind::Computer)),
        UnifiedItemBody::CodeExecution(call) => {
            let kind = match (&call.commands, call.execution, call.language.as_deref()) {
                (Some(_), ..) => CallKind::Shell,
                (None, Execution::Client, _) => CallKind::LocalShell,
                (None, _, Some("javascript")) => CallKind::Program,
                (None, ..) => return None,
            };
            Some((&call.call_id, kind))
        }
        _ => None,
    }
}

/// One Unified item of a wire item.
#[derive(Debug)]
pub(super) struct Made {
    pub role: Role,
    pub body: UnifiedItemBody,
    pub status: ItemStatus,
    pub provider_data: Option<Vec<UnifiedProviderDataRef>>,
}

impl Made {
    pub(super) const fn new(role: Role, body: UnifiedItemBody) -> Self {
        Self {
            role,
            body,
            status: ItemStatus::Completed,
            provider_data: None,
        }
    }

    /// The item at its place.
    pub(super) fn place(self, keeper: &Keeper, place: Place<'_>) -> UnifiedItem {
        let context = &keeper.context;
        let provenance = context.provenance(place.origin, super::profile(), place.model);
        let mut item = context.item(place.id, place.position, place.parent, self.role, provenance, self.body);
        item.status = self.status;
        item.provider_data = self.provider_data;
        item
    }
}

/// Where an item stands and whose it is.
pub(super) struct Place<'a> {
    pub id: UnifiedId,
    pub position: u64,
    pub parent: Option<UnifiedId>,
    pub origin: ItemOrigin,
    pub model: Option<&'a str>,
}

/// Number of Unified items that a wire item of this type becomes while it is made.
pub(super) fn width(kind: &str) -> usize {
    match kind {
        "web_search_call" | "file_search_call" | "code_interpreter_call" | "image_generation_call" | "mcp_call" => 2,
        _ => 1,
    }
}

/// What one item is decoded with.
pub(super) struct Item<'a> {
    /// The wire item.
    pub node: &'a Node,
    /// JSON Pointer of it.
    pub path: String,
    /// IDs for what it becomes, two at least.
    pub ids: &'a [UnifiedId],
    /// Calls so far.
    pub calls: &'a Calls,
    /// Whether it stands in a request.
    pub mode: Mode,
}

/// Reads one item, with everything that is kept of it.
pub(super) fn decode(keeper: &mut Keeper, item: &Item<'_>) -> Vec<Made> {
    let first = keeper.resources.len();
    let Some(id) = item.ids.first().cloned() else { return Vec::new() };
    let mut rest = item.node.clone();
    let mut made = body(keeper, item, &mut rest);
    let mut references = Vec::new();
    let Some(head) = made.first_mut() else { return Vec::new() };
    if let Some(wire_id) = rest.take("id").and_then(|id| id.as_text()) {
        let kind = ResourceType::Other("item".into());
        let path = format!("{}/id", item.path);
        references.push(keeper.payload(
            Keep {
                schema: kept::ITEM_ID,
                resource_type: kind,
                subject: Some(&id),
                resource_id: id.resource(number::ITEM_ID),
                paths: vec![path],
            },
            wire_id,
        ));
    }
    strip_marks(&mut rest);
    let mut form = Form {
        text: ["content", "output"].iter().any(|key| rest.str(key).is_some()),
        status: rest.get("status").is_some(),
        spelled: rest
            .get("approve")
            .map(|approve| ("/approve".to_owned(), approve.to_json()))
            .into_iter()
            .collect(),
        ..Form::default()
    };
    if matches!(&head.body, UnifiedItemBody::Reasoning(_)) && references.is_empty() && keeper.resources.len() == first {
        form.own = true;
    }
    let status = item_status(rest.str("status").as_deref());
    for made in &mut made {
        made.status = status;
    }
    let head_data = made.first().and_then(|head| head.provider_data.clone()).unwrap_or_default();
    references.extend(head_data);
    if let Some(head) = made.first_mut() {
        head.provider_data = kept::listed(references.clone());
    }
    let difference = compare(keeper, item, &mut made, &rest, &form, first);
    let is_answer = item.mode == Mode::Answer;
    let is_told = |pointer: &str| !(is_answer && pointer == "/status");
    references.extend(keeper.difference(Some(&id), number::UNMAPPED, &item.path, difference, form, is_told));
    if let Some(head) = made.first_mut() {
        head.provider_data = kept::listed(references);
    }
    made
}

/// What an encoder of this owner would say differently.
fn compare(keeper: &Keeper, item: &Item<'_>, made: &mut [Made], rest: &Node, form: &Form, first: usize) -> Difference {
    let just = kept::Just(keeper.resources.get(first..).unwrap_or_default());
    let mut group = Vec::new();
    for (made, id) in made.iter().zip(item.ids) {
        let place = Place {
            id: id.clone(),
            position: 0,
            parent: None,
            origin: ItemOrigin::Client,
            model: None,
        };
        let copy = Made {
            role: made.role,
            body: made.body.clone(),
            status: made.status,
            provider_data: made.provider_data.clone(),
        };
        group.push(copy.place(keeper, place));
    }
    let mut writer = Writer::new(&just, item.mode);
    writer.calls = item.calls.clone();
    writer.is_plain = true;
    let written = writer.group_with(&group.iter().collect::<Vec<_>>(), form);
    match written {
        Some(mut written) => {
            // What was taken out of the item stands in a resource of its own.
            if let Node::Object(members) = item.node {
                for (key, _) in members.iter().filter(|(key, _)| !rest.has(key)) {
                    written.take(key);
                }
            }
            rest.difference(&written)
        }
        None => Difference {
            set: vec![(String::new(), rest.to_json())],
            absent: Vec::new(),
        },
    }
}

/// Cache marks are state of the request and stand apart.
fn strip_marks(node: &mut Node) {
    let Node::Object(members) = node else { return };
    for (key, value) in members {
        if let ("content" | "output", Node::List(list)) = (key.as_str(), value) {
            for part in list {
                part.take("prompt_cache_breakpoint");
            }
        }
    }
}

/// The status of an item; the wire leaves it out of several types, and then the item is there.
pub(super) fn item_status(word: Option<&str>) -> ItemStatus {
    match word {
        Some("incomplete") => ItemStatus::Incomplete,
        Some("failed") => ItemStatus::Failed,
        Some("cancelled") => ItemStatus::Cancelled,
        _ => ItemStatus::Completed,
    }
}

fn body(keeper: &mut Keeper, item: &Item<'_>, rest: &mut Node) -> Vec<Made> {
    let (node, Some(id)) = (item.node, item.ids.first()) else {
        return Vec::new();
    };
    let kind = node.kind();
    match kind.as_str() {
        "message" | "" if node.has("role") => message(keeper, item, id),
        "reasoning" => reasoning(keeper, item, id, rest),
        "function_call" | "custom_tool_call" | "apply_patch_call" => call(item, id, &kind),
        "function_call_output" | "custom_tool_call_output" | "apply_patch_call_output" => result(keeper, item, id, &kind),
        _ => decode_hosted::body(keeper, item, rest, &kind),
    }
}

fn message(keeper: &mut Keeper, item: &Item<'_>, id: &UnifiedId) -> Vec<Made> {
    let node = item.node;
    let role = match node.str("role").as_deref() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        _ => return decode_hosted::unknown(keeper, item, "message"),
    };
    let placement = matches!(role, Role::System | Role::Developer).then_some(Placement::Inline);
    let content = node.get("content").cloned().unwrap_or(Node::List(Vec::new()));
    let parts = decode_part::parts(keeper, id, &content, &format!("{}/content", item.path));
    let mut made = Made::new(role, UnifiedItemBody::Message(MessageItem { parts, placement }));
    if let Some(phase) = node.str("phase") {
        let payload = Node::object([("phase", Some(Node::text(&phase)))]);
        let path = format!("{}/phase", item.path);
        made.provider_data = Some(vec![keeper.annotate(kept::PHASE, id, number::PHASE, &payload, path)]);
    }
    vec![made]
}

fn reasoning(keeper: &mut Keeper, item: &Item<'_>, id: &UnifiedId, rest: &mut Node) -> Vec<Made> {
    let mut parts: Vec<UnifiedContentPart> = Vec::new();
    for (list, form) in [("summary", ReasoningForm::Summary), ("content", ReasoningForm::Full)] {
        for text in item.node.list(list).iter().filter_map(|part| part.str("text")) {
            let body = ReasoningPart {
                text,
                form,
                state: ReasoningState::Disclosed,
                private_state: None,
            };
            parts.push(UnifiedContentPart::new(id.part(parts.len() as u64), PartBody::Reasoning(body)));
        }
    }
    if parts.is_empty() {
        parts.push(omitted(id));
    }
    if let Some(text) = rest.take("encrypted_content").and_then(|node| node.as_text()) {
        let path = format!("{}/encrypted_content", item.path);
        let reference = encrypted(keeper, id, text, path);
        if let Some(PartBody::Reasoning(part)) = parts.first_mut().map(|part| &mut part.body) {
            part.private_state = Some(ReasoningPrivateState {
                r#ref: reference,
                issuer: keeper.issuer,
            });
        }
    }
    vec![Made::new(Role::Assistant, UnifiedItemBody::Reasoning(ReasoningItem { parts }))]
}

/// The marker of reasoning of which the wire shows nothing.
pub(super) fn omitted(id: &UnifiedId) -> UnifiedContentPart {
    let body = ReasoningPart {
        text: String::new(),
        form: ReasoningForm::Summary,
        state: ReasoningState::Omitted,
        private_state: None,
    };
    UnifiedContentPart::new(id.part(0), PartBody::Reasoning(body))
}

/// Keeps encrypted content of an item.
pub(super) fn encrypted(keeper: &mut Keeper, id: &UnifiedId, text: String, path: String) -> UnifiedProviderDataRef {
    let resource = id.resource(number::ENCRYPTED);
    keeper.payload(
        Keep {
            schema: kept::ENCRYPTED,
            resource_type: ResourceType::Reasoning,
            subject: Some(id),
            resource_id: resource,
            paths: vec![path],
        },
        text,
    )
}

fn call(item: &Item<'_>, id: &UnifiedId, kind: &str) -> Vec<Made> {
    let node = item.node;
    let (name, tool_type, raw_arguments) = match kind {
        "custom_tool_call" => (node.str("name"), UnifiedToolType::Custom, node.str("input").unwrap_or_default()),
        "apply_patch_call" => (
            Some("apply_patch".to_owned()),
            UnifiedToolType::ApplyPatch,
            node.get("operation").map(Node::to_text).unwrap_or_default(),
        ),
        _ => (node.str("name"), UnifiedToolType::Function, arguments(node)),
    };
    let input = if tool_type == UnifiedToolType::Custom {
        None
    } else {
        Json::of_arguments(&raw_arguments)
    };
    let body = ToolCallItem {
        call_id: call_id(node, id),
        name: name.unwrap_or_default(),
        tool_type,
        namespace: node.str("namespace"),
        server_label: None,
        input,
        raw_arguments,
        lifecycle: UnifiedToolLifecycle::ArgumentsReady,
        caller: caller(node),
        execution: Execution::Client,
        provider_executed: false,
        private_linkage: None,
    };
    vec![Made::new(Role::Assistant, UnifiedItemBody::ToolCall(body))]
}

/// Argument text: a string, or the object of some dialects.
pub(super) fn arguments(node: &Node) -> String {
    node.get("arguments")
        .map_or_else(String::new, |value| value.as_text().unwrap_or_else(|| value.to_text()))
}

/// Who made a call.
pub(super) fn caller(node: &Node) -> Option<CallerRef> {
    let caller = node.get("caller")?;
    match caller.kind().as_str() {
        "direct" => Some(CallerRef {
            kind: Caller::Model,
            call_id: None,
        }),
        "program" => Some(CallerRef {
            kind: Caller::Code,
            call_id: caller.str("caller_id"),
        }),
        _ => None,
    }
}

/// The call ID; where the wire has none it is derived from the item's ID, so that an echo has the same.
pub(super) fn call_id(node: &Node, id: &UnifiedId) -> String {
    node.str("call_id").filter(|call| !call.is_empty()).unwrap_or_else(|| {
        let wire_id = node.str("id").unwrap_or_else(|| id.to_string());
        derived_call_id(&wire_id)
    })
}

/// A call ID made of an item's ID; the ID itself is the provider's handle and stands in no record.
pub(super) fn derived_call_id(wire_id: &str) -> String {
    crate::call_id::wire(&format!("item/{wire_id}"), super::CALL_ID_LENGTH).into_owned()
}

fn result(keeper: &mut Keeper, item: &Item<'_>, id: &UnifiedId, kind: &str) -> Vec<Made> {
    let node = item.node;
    let output = node.get("output").cloned().unwrap_or(Node::List(Vec::new()));
    let output = decode_part::parts(keeper, id, &output, &format!("{}/output", item.path));
    let is_error = (kind == "apply_patch_call_output").then(|| node.str("status").as_deref() == Some("failed"));
    if node.str("call_id").is_none() {
        let reason = "an output that names no call";
        keeper.loss.warning(Feature::ToolCallId, format!("{}/call_id", item.path), reason);
    }
    let body = ToolResultItem {
        call_id: call_id(node, id),
        name: node.str("name"),
        output,
        is_error,
        error: None,
        execution: Execution::Client,
    };
    vec![Made::new(Role::Tool, UnifiedItemBody::ToolResult(body))]
}
