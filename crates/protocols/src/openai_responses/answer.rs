//! An answer under construction: streams and unstreamed responses go through the same steps, so they cannot differ.
//!
//! Items are known by `output_index`, never by ID: servers name one item by several. What the item's last event says counts; what
//! deltas said before is completed to it, and nothing is said twice.

use super::answer_item::{Kind, Open};
use super::decode_item::{Calls, Item, Made, Place, call_kind, width};
use super::encode_item::Mode;
use super::kept::{self, Form, Keeper, number};
use super::usage::Ending;
use super::wire::Node;
use super::{decode_item, decode_request, encode_response, usage};
use crate::codec::Decoded;
use crate::context::DecodeContext;
use crate::keeper::Keep;
use crate::openai::errors;
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::event::{ErrorEvent, ItemCompleted, LossUpdate, ResponseMetadata, UsageUpdate, Warning};
use throughline_format::item::{ItemStatus, MessageItem, Role};
use throughline_format::media::{Transcript, UnifiedMediaMetadata, decode_base64, encode_base64};
use throughline_format::part::MediaPart;
use throughline_format::provenance::ItemOrigin;
use throughline_format::resource::{Issuer, ResourceType};
use throughline_format::tool::Execution;
use throughline_format::{
    EventBody, EventDraft, PartBody, UnifiedContentPart, UnifiedError, UnifiedFinishReason, UnifiedId, UnifiedItem, UnifiedItemBody,
    UnifiedResponseStatus, UnifiedUsage,
};

/// Root members that repeat the request or are noise: kept, and not worth a word.
const ECHO: &[&str] = &[
    "background",
    "billing",
    "completed_at",
    "content_filters",
    "conversation",
    "created_at",
    "error",
    "frequency_penalty",
    "incomplete_details",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "moderation",
    "output_text",
    "parallel_tool_calls",
    "presence_penalty",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tool_usage",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "usage",
    "user",
];

/// Largest `output_index` that is taken; an answer has no more items.
pub(super) const MAX_INDEX: u64 = 100_000;

/// The answer so far.
pub(super) struct Answer {
    pub keeper: Keeper,
    pub out: Decoded,
    pub started: bool,
    /// The answer's ID, when the provider works on it in the background and keeps its events.
    pub job: Option<String>,
    /// Number of the last event of the stream.
    pub number: Option<u64>,
    pub finished: bool,
    model: String,
    tier: Option<String>,
    usage: Option<UnifiedUsage>,
    pub items: Vec<UnifiedId>,
    pub open: BTreeMap<u64, Open>,
    closed: BTreeSet<u64>,
    calls: Calls,
    search: Option<String>,
    /// Names of the client's tools, when the answer repeats them.
    offered: Option<BTreeSet<String>>,
    /// Calls of the client that have no output, and approvals that nobody gave.
    open_calls: BTreeSet<String>,
    approvals: BTreeSet<String>,
    has_refusal: bool,
    /// An error that an event told; the answer may still end by another.
    error: Option<(UnifiedError, Node)>,
    losses_told: usize,
    /// Resources that were handed out.
    told: BTreeSet<UnifiedId>,
    warned: BTreeSet<&'static str>,
    /// Audio, which belongs to no item of the wire, and what is said in it.
    audio: (Vec<u8>, String),
}

impl Answer {
    pub(super) fn new(context: DecodeContext) -> Self {
        Self {
            keeper: Keeper::new(&context, super::profile(), Issuer::Provider),
            out: Decoded::default(),
            started: false,
            job: None,
            number: None,
            finished: false,
            model: String::new(),
            tier: None,
            usage: None,
            items: Vec::new(),
            open: BTreeMap::new(),
            closed: BTreeSet::new(),
            calls: Calls::new(),
            search: None,
            offered: None,
            open_calls: BTreeSet::new(),
            approvals: BTreeSet::new(),
            has_refusal: false,
            error: None,
            losses_told: 0,
            told: BTreeSet::new(),
            warned: BTreeSet::new(),
            audio: (Vec::new(), String::new()),
        }
    }

    /// What came out since the last time.
    pub(super) fn take(&mut self) -> Decoded {
        // What an event told already, the item's end tells again.
        let new = self
            .keeper
            .resources
            .drain(..)
            .filter(|resource| self.told.insert(resource.resource_id.clone()));
        self.out.resources.extend(new);
        std::mem::take(&mut self.out)
    }

    pub(super) fn tell(&mut self, draft: EventDraft) {
        self.out.drafts.push(draft);
    }

    /// Says something that changes nothing, once for each code.
    pub(super) fn warn(&mut self, code: &'static str, message: &str) {
        if self.warned.insert(code) {
            self.out.push(EventBody::Warning(Warning::new(code, message)));
        }
    }

    /// The answer begins, or tells more about itself. The handle of the response is kept apart.
    pub(super) fn begin(&mut self, root: &Node) {
        if let Some(model) = root.str("model").filter(|model| self.model.is_empty() && !model.is_empty()) {
            self.model = model;
        }
        let tools = root.list("tools");
        if self.offered.is_none() && !tools.is_empty() {
            let names = tools.iter().flat_map(|tool| std::iter::once(tool).chain(tool.list("tools")));
            self.offered = Some(names.filter_map(|tool| tool.str("name")).collect());
        }
        let tier = root.str("service_tier").filter(|tier| self.tier.as_ref() != Some(tier));
        if let Some(tier) = &tier {
            self.tier = Some(tier.clone());
        }
        if root.value::<bool>("background") == Some(true) && root.value::<bool>("store") != Some(false) {
            self.job = root.str("id").filter(|id| !id.is_empty());
        }
        if self.started {
            if tier.is_some() {
                let metadata = ResponseMetadata {
                    service_tier: tier,
                    ..ResponseMetadata::default()
                };
                self.out.push(EventBody::ResponseMetadata(metadata));
            }
            return;
        }
        self.started = true;
        let context = self.keeper.context.clone();
        if let Some(id) = root.str("id") {
            let resource = context.operation_id.resource(number::ROOT + 2);
            self.keeper.payload(
                Keep {
                    schema: kept::RESPONSE_ID,
                    resource_type: ResourceType::Response,
                    subject: None,
                    resource_id: resource,
                    paths: vec!["/id".into()],
                },
                id,
            );
        }
        if self.model.is_empty() {
            self.model = context.model(None);
        }
        self.out.push(context.started(super::profile(), &self.model, self.tier.clone()));
    }

    /// The item with this index, begun when it was not.
    pub(super) fn open_item(&mut self, index: u64, node: Option<&Node>, kind: &str) -> Option<&mut Open> {
        if self.finished || index > MAX_INDEX || self.closed.contains(&index) {
            return None;
        }
        if !self.open.contains_key(&index) {
            let empty = Node::typed(kind, [("role", (kind == "message").then(|| Node::text("assistant")))]);
            self.added(index, node.unwrap_or(&empty));
        }
        self.open.get_mut(&index)
    }

    /// An item begins.
    pub(super) fn added(&mut self, index: u64, node: &Node) {
        if self.finished || index > MAX_INDEX || self.closed.contains(&index) || self.open.contains_key(&index) {
            return;
        }
        self.begin(&Node::null());
        let wire_kind = node.kind();
        let ids: Vec<UnifiedId> = (0..width(&wire_kind)).map(|_| self.next_id()).collect();
        let mut open = Open::new(ids, node);
        self.start(&mut open, node);
        self.open.insert(index, open);
    }

    pub(super) fn next_id(&mut self) -> UnifiedId {
        let id = self.keeper.context.item_id(self.items.len() as u64);
        self.items.push(id.clone());
        id
    }

    /// The item at its place in the answer.
    pub(super) fn place(&self, id: &UnifiedId, made: Made) -> UnifiedItem {
        let at = self.items.iter().position(|known| known == id).unwrap_or_default();
        let place = Place {
            id: id.clone(),
            position: at as u64,
            parent: at.checked_sub(1).and_then(|before| self.items.get(before)).cloned(),
            origin: ItemOrigin::Provider,
            model: Some(&self.model),
        };
        made.place(&self.keeper, place)
    }

    /// An item is done: this is what it says, whatever came before.
    pub(super) fn done(&mut self, index: u64, node: &Node) {
        self.added(index, node);
        let Some(mut open) = self.open.remove(&index) else { return };
        self.closed.insert(index);
        if open.kind != Kind::Late && open.wire_kind() != node.kind() {
            // What began cannot become something else; it ends, and the other item comes whole.
            self.warn("stream.done-differs", "an item ended otherwise than it was told; its end counts");
            for id in &open.ids {
                self.unfinished(id);
            }
            let ids = (0..width(&node.kind())).map(|_| self.next_id()).collect();
            open = Open::late(ids, node);
        }
        let mut ids = open.ids.clone();
        let spare = self.keeper.context.item_id(self.items.len() as u64);
        if ids.len() < 2 {
            ids.push(spare);
        }
        let first = self.keeper.resources.len();
        let item = Item {
            node,
            path: format!("/output/{index}"),
            ids: &ids,
            calls: &self.calls,
            mode: Mode::Answer,
        };
        let mut made = decode_item::decode(&mut self.keeper, &item);
        decode_request::link_search(&mut made, node, &mut self.search);
        if made.len() > open.ids.len() {
            let next = self.next_id();
            open.ids.push(next);
        }
        self.same_id(first, &mut made, &open);
        self.remember(&mut made);
        self.settle(open, made);
    }

    /// The provider's ID of the item was told when it began: the same one is not told again, another one is told beside it.
    fn same_id(&mut self, first: usize, made: &mut [Made], open: &Open) {
        let (Some(known), Some(id), Some(head)) = (&open.wire_id, open.ids.first(), made.first_mut()) else {
            return;
        };
        let own = id.resource(number::ITEM_ID);
        let Some(at) = self
            .keeper
            .resources
            .iter()
            .skip(first)
            .position(|resource| resource.resource_id == own)
        else {
            return;
        };
        let at = first + at;
        let is_same = self
            .keeper
            .resources
            .get(at)
            .is_some_and(|resource| resource.payload == known.as_bytes());
        if is_same {
            self.keeper.resources.remove(at);
            return;
        }
        let other = id.resource(number::OTHER_ID);
        if let Some(resource) = self.keeper.resources.get_mut(at) {
            resource.resource_id = other.clone();
        }
        for reference in head
            .provider_data
            .iter_mut()
            .flatten()
            .filter(|reference| reference.resource_id == own)
        {
            reference.resource_id = other.clone();
        }
    }

    /// Takes note of calls, outputs, approvals and refusals, and of calls that the provider made itself.
    fn remember(&mut self, made: &mut [Made]) {
        for made in made {
            if let UnifiedItemBody::ToolCall(call) = &mut made.body
                && call.tool_type == throughline_format::UnifiedToolType::Custom
                && self.offered.as_ref().is_some_and(|offered| !offered.contains(&call.name))
            {
                // Some servers call their own tools by items of the client's.
                call.execution = Execution::Provider;
                call.provider_executed = true;
            }
            if let Some((call_id, kind)) = call_kind(&made.body) {
                self.calls.insert(call_id.to_owned(), kind);
            }
            match &made.body {
                UnifiedItemBody::ToolCall(call) if call.execution == Execution::Client => {
                    self.open_calls.insert(call.call_id.clone());
                }
                UnifiedItemBody::ComputerAction(call) => {
                    self.open_calls.insert(call.call_id.clone());
                }
                UnifiedItemBody::CodeExecution(call) if call.execution == Execution::Client => {
                    self.open_calls.insert(call.call_id.clone());
                }
                UnifiedItemBody::ToolResult(result) => {
                    self.open_calls.remove(&result.call_id);
                }
                UnifiedItemBody::CodeExecutionResult(result) => {
                    self.open_calls.remove(&result.call_id);
                }
                UnifiedItemBody::ApprovalRequest(request) => {
                    self.approvals.insert(request.approval_id.clone());
                }
                UnifiedItemBody::ApprovalResponse(response) => {
                    self.approvals.remove(&response.approval_id);
                }
                UnifiedItemBody::Message(message) if made.role == Role::Assistant => {
                    self.has_refusal = message.parts.iter().any(|part| matches!(part.body, PartBody::Refusal(_)));
                }
                _ => {}
            }
        }
    }

    /// The response is complete, in whatever way.
    pub(super) fn terminal(&mut self, root: &Node) {
        if self.finished {
            return;
        }
        self.begin(root);
        let output = root.list("output");
        if self.items.is_empty() || !self.open.is_empty() {
            let is_fresh = self.items.is_empty();
            for (index, node) in output.iter().enumerate().filter(|(_, node)| node.is_object()) {
                let index = index as u64;
                if is_fresh || self.open.contains_key(&index) {
                    self.done(index, node);
                }
            }
        }
        self.audio_item();
        self.usage(root);
        let ending = Ending {
            has_call: !self.open_calls.is_empty(),
            has_approval: !self.approvals.is_empty(),
            has_refusal: self.has_refusal,
        };
        let status = usage::status(root, ending);
        self.abandon(&status);
        let error = root.get("error").map(|error| errors::of_value(&error.to_json().parse(), None));
        self.root(root, &status, error.as_ref());
        if let Some(UnifiedFinishReason::Failed) = status.finish_reason {
            let told = self.error.take().map(|(error, _)| error);
            let error = error.or(told).unwrap_or_else(|| errors::of_value(&serde_json::Value::Null, None));
            self.end_failed(error, status);
        } else {
            if let Some(error) = error {
                self.out.push(EventBody::Error(ErrorEvent { error: error.sanitised() }));
            }
            self.finished = true;
            let items = self.items.clone();
            self.out.complete(status, items);
        }
    }

    /// A piece of audio, or of what is said in it.
    pub(super) fn audio(&mut self, base64: Option<&str>, transcript: Option<&str>) {
        match base64.map(decode_base64) {
            Some(Some(bytes)) => self.audio.0.extend(bytes),
            Some(None) => self.warn("stream.audio", "a piece of audio cannot be read"),
            None => {}
        }
        self.audio.1.push_str(transcript.unwrap_or_default());
    }

    /// The audio as a message of its own. The wire does not tell its format.
    fn audio_item(&mut self) {
        let (data, text) = std::mem::take(&mut self.audio);
        if data.is_empty() && text.is_empty() {
            return;
        }
        let id = self.next_id();
        let transcript = (!text.is_empty()).then_some(Transcript {
            text,
            language: None,
            words: None,
        });
        let part = MediaPart {
            source: crate::media::inline("application/octet-stream", &encode_base64(&data)),
            media: Some(UnifiedMediaMetadata {
                transcript,
                ..UnifiedMediaMetadata::default()
            }),
        };
        let parts = vec![UnifiedContentPart::new(id.part(0), PartBody::Audio(part))];
        let body = UnifiedItemBody::Message(MessageItem { parts, placement: None });
        let item = self.place(&id, Made::new(Role::Assistant, body));
        let done = ItemCompleted {
            status: ItemStatus::Completed,
            item: Some(item),
        };
        self.tell(EventDraft::of_item(id, EventBody::ItemCompleted(done)));
    }

    pub(super) fn usage(&mut self, root: &Node) {
        let Some(usage) = usage::decode(root) else { return };
        if self.usage.as_ref() != Some(&usage) {
            self.usage = Some(usage.clone());
            self.out.push(EventBody::UsageUpdate(UsageUpdate { usage }));
        }
    }

    /// Keeps what of the response has no word.
    fn root(&mut self, root: &Node, status: &UnifiedResponseStatus, error: Option<&UnifiedError>) {
        let written = encode_response::plain(&self.model, self.tier.as_deref(), status, self.usage.as_ref(), error);
        let mut rest = root.clone();
        for key in ["id", "output"] {
            rest.take(key);
        }
        let difference = rest.difference(&written);
        let is_told = |pointer: &str| {
            let first = pointer.split('/').nth(1).unwrap_or_default();
            !ECHO.contains(&first)
        };
        // As written too: the record adds up and leaves zeros to whoever reads it.
        let spelled = ["usage", "tool_usage"]
            .iter()
            .filter_map(|key| Some((format!("/{key}"), root.get(key)?.to_json())));
        let form = Form {
            spelled: spelled.collect(),
            ..Form::default()
        };
        self.keeper.difference(None, number::ROOT, "", difference, form, is_told);
        self.losses();
    }

    fn losses(&mut self) {
        let entries = self
            .keeper
            .loss
            .report()
            .entries
            .get(self.losses_told..)
            .unwrap_or_default()
            .to_vec();
        self.losses_told += entries.len();
        if !entries.is_empty() {
            self.out.push(EventBody::LossUpdate(LossUpdate { entries }));
        }
    }

    /// What is open stays unfinished; after a good end the fold leaves that to us.
    fn abandon(&mut self, status: &UnifiedResponseStatus) {
        let open = std::mem::take(&mut self.open);
        let is_good = status.state == throughline_format::status::ResponseState::Completed;
        if is_good && !open.is_empty() {
            self.warn("stream.item-left-open", "the answer ended before its item; the item ends there");
        }
        for open in open.into_values() {
            if open.kind == Kind::Late {
                // Nothing was said of it.
                let ids = open.ids;
                self.items.retain(|known| !ids.contains(known));
                continue;
            }
            self.partial(&open);
            if is_good {
                open.ids.iter().for_each(|id| self.unfinished(id));
            }
        }
    }

    fn unfinished(&mut self, id: &UnifiedId) {
        let done = ItemCompleted {
            status: ItemStatus::Incomplete,
            item: None,
        };
        self.tell(EventDraft::of_item(id.clone(), EventBody::ItemCompleted(done)));
    }

    /// An event tells an error; `response.failed` may follow.
    pub(super) fn error(&mut self, node: &Node) {
        let value = node.to_json().parse();
        let mut error = errors::of_value(&value, None);
        if error.provider_code.as_deref() == Some("error") {
            error.provider_code = None;
        }
        self.error = Some((error, node.clone()));
    }

    /// Ends badly.
    pub(super) fn fail(&mut self, error: UnifiedError, reason: UnifiedFinishReason) {
        if self.finished {
            return;
        }
        self.begin(&Node::null());
        let status = UnifiedResponseStatus::finished(reason, None);
        self.abandon(&status);
        self.losses();
        self.end_failed(error, status);
    }

    fn end_failed(&mut self, error: UnifiedError, status: UnifiedResponseStatus) {
        self.finished = true;
        let items = self.items.clone();
        self.out.fail(error, status, items);
    }

    /// A body that is an error and no response.
    pub(super) fn error_body(&mut self, node: &Node) {
        self.begin(&Node::null());
        let resource = self.keeper.context.operation_id.resource(number::ROOT + 3);
        let kind = ResourceType::Other("error".into());
        self.keeper.payload(
            Keep {
                schema: super::encode_response::ERROR_BODY,
                resource_type: kind,
                subject: None,
                resource_id: resource,
                paths: vec![String::new()],
            },
            node.to_text(),
        );
        if let (Some(last), Node::Object(members)) = (self.keeper.resources.last_mut(), node) {
            last.wire_paths = members.iter().map(|(key, _)| format!("/{key}")).collect();
        }
        let error = errors::of_value(&node.to_json().parse(), None);
        self.fail(error, UnifiedFinishReason::Failed);
    }

    /// The bytes are at their end.
    pub(super) fn end(&mut self) {
        if self.finished {
            return;
        }
        if let Some((error, _)) = self.error.take() {
            self.fail(error, UnifiedFinishReason::Failed);
        } else {
            let category = throughline_format::ErrorCategory::Interrupted;
            let error = UnifiedError::new(category, "stream", "the stream ended before the answer did");
            self.fail(error, UnifiedFinishReason::Interrupted);
        }
    }
}
