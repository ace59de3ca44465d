//! One item of an answer: which of its parts are open, and what a delta does to them.

use super::answer::Answer;
use super::decode_item::{Made, caller};
use super::kept::{self, Keeper, number};
use super::wire::Node;
use super::{decode_hosted, decode_item, decode_part};
use crate::keeper::Keep;
use throughline_format::citation::UnifiedTextAnnotation;
use throughline_format::event::{
    ArgumentsDelta, ArgumentsReady, CitationReady, FieldDelta, ItemCompleted, ItemDelta, ItemDeltaEvent, ItemStarted, PartCompleted,
    PartStarted, SignatureReady, TextDelta, ToolLifecycleEvent,
};
use throughline_format::item::{ItemStatus, MessageItem, ReasoningItem, Role, ToolCallItem};
use throughline_format::part::{ReasoningForm, ReasoningPart, ReasoningState, RefusalPart, TextPart, UnifiedTokenLogprob};
use throughline_format::resource::{Issuer, ResourceType};
use throughline_format::tool::Execution;
use throughline_format::{
    EventBody, EventDraft, Json, PartBody, UnifiedContentPart, UnifiedId, UnifiedItemBody, UnifiedProviderDataRef, UnifiedToolLifecycle,
    UnifiedToolType,
};

/// Largest index of a part that is taken.
const MAX_PART: u64 = 10_000;

/// How the item's deltas are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Parts with text.
    Message,
    /// Parts of reasoning.
    Reasoning,
    /// Argument text.
    Call,
    /// Argument text of a call that the provider executes, then its outcome.
    Remote,
    /// The item and its outcome begin, and come whole when they are done.
    Hosted,
    /// Nothing is told before the item is done.
    Late,
}

/// Where a part comes from on the wire: two lists have indexes of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum List {
    Content,
    Summary,
}

/// A part as far as it was told.
#[derive(Debug)]
struct Part {
    list: List,
    index: u64,
    id: UnifiedId,
    /// What it was when it began, without content.
    body: PartBody,
    text: String,
    annotations: Vec<UnifiedTextAnnotation>,
    logprobs: Vec<UnifiedTokenLogprob>,
}

/// An item that is being made.
pub(super) struct Open {
    pub ids: Vec<UnifiedId>,
    pub kind: Kind,
    pub wire_id: Option<String>,
    parts: Vec<Part>,
    /// The call as it began, and its argument text so far.
    call: Option<ToolCallItem>,
    arguments: String,
    lifecycle: Option<UnifiedToolLifecycle>,
    /// The wire item as it began.
    node: Node,
}

impl Open {
    pub(super) fn new(ids: Vec<UnifiedId>, node: &Node) -> Self {
        let kind = match node.kind().as_str() {
            "message" if matches!(node.str("role").as_deref(), Some("user" | "assistant" | "system" | "developer")) => Kind::Message,
            "reasoning" => Kind::Reasoning,
            "function_call" | "custom_tool_call" => Kind::Call,
            "mcp_call" => Kind::Remote,
            "web_search_call" | "file_search_call" | "code_interpreter_call" | "image_generation_call" => Kind::Hosted,
            _ => Kind::Late,
        };
        Self {
            ids,
            kind,
            wire_id: None,
            parts: Vec::new(),
            call: None,
            arguments: String::new(),
            lifecycle: None,
            node: node.clone(),
        }
    }

    /// An item of which nothing was told yet.
    pub(super) fn late(ids: Vec<UnifiedId>, node: &Node) -> Self {
        Self {
            kind: Kind::Late,
            ..Self::new(ids, node)
        }
    }

    /// The type of the wire item as it began.
    pub(super) fn wire_kind(&self) -> String {
        self.node.kind()
    }

    fn id(&self) -> UnifiedId {
        self.ids.first().cloned().unwrap_or_else(UnifiedId::pending)
    }
}

impl Answer {
    /// Tells that an item begins.
    pub(super) fn start(&mut self, open: &mut Open, node: &Node) {
        let id = open.id();
        let bodies: Vec<Made> = match open.kind {
            Kind::Late => return,
            Kind::Message => {
                let role = match node.str("role").as_deref() {
                    Some("user") => Role::User,
                    Some("system") => Role::System,
                    Some("developer") => Role::Developer,
                    _ => Role::Assistant,
                };
                let placement = matches!(role, Role::System | Role::Developer).then_some(throughline_format::item::Placement::Inline);
                vec![Made::new(
                    role,
                    UnifiedItemBody::Message(MessageItem {
                        parts: Vec::new(),
                        placement,
                    }),
                )]
            }
            Kind::Reasoning => vec![Made::new(
                Role::Assistant,
                UnifiedItemBody::Reasoning(ReasoningItem { parts: Vec::new() }),
            )],
            Kind::Call => {
                let call = started_call(node, &id);
                open.call = Some(call.clone());
                vec![Made::new(Role::Assistant, UnifiedItemBody::ToolCall(call))]
            }
            Kind::Remote | Kind::Hosted => self.hosted(open, node),
        };
        if let Some(wire_id) = node.str("id") {
            open.wire_id = Some(wire_id);
        }
        for (n, (mut made, id)) in bodies.into_iter().zip(open.ids.clone()).enumerate() {
            made.status = ItemStatus::InProgress;
            if let (0, Some(wire_id)) = (n, &open.wire_id) {
                let kind = ResourceType::Other("item".into());
                let resource = id.resource(number::ITEM_ID);
                let path = "/id".to_owned();
                let reference = self.keeper.payload(
                    Keep {
                        schema: kept::ITEM_ID,
                        resource_type: kind,
                        subject: Some(&id),
                        resource_id: resource,
                        paths: vec![path],
                    },
                    wire_id.clone(),
                );
                made.provider_data = Some(vec![reference]);
            }
            let item = self.place(&id, made);
            self.tell(EventDraft::of_item(id, EventBody::ItemStarted(ItemStarted { item })));
        }
    }

    /// Call and outcome of a hosted tool as they begin: what is told so far counts for nothing but their kinds.
    fn hosted(&self, open: &mut Open, node: &Node) -> Vec<Made> {
        let mut scratch = Keeper::new(&self.keeper.context, super::profile(), Issuer::Provider);
        let calls = decode_item::Calls::new();
        let item = decode_item::Item {
            node,
            path: String::new(),
            ids: &open.ids,
            calls: &calls,
            mode: super::encode_item::Mode::Answer,
        };
        let mut made = decode_hosted::body(&mut scratch, &item, &mut node.clone(), &node.kind());
        for one in &mut made {
            let lifecycle = match &mut one.body {
                UnifiedItemBody::ServerToolCall(call) if open.kind == Kind::Remote => {
                    call.raw_arguments.clear();
                    call.input = None;
                    call.lifecycle = UnifiedToolLifecycle::ArgumentsStreaming;
                    open.call = Some(call.clone());
                    call.lifecycle
                }
                UnifiedItemBody::ServerToolCall(call) => {
                    call.lifecycle = UnifiedToolLifecycle::ArgumentsReady;
                    call.lifecycle
                }
                UnifiedItemBody::CodeExecution(call) => {
                    call.lifecycle = UnifiedToolLifecycle::ArgumentsReady;
                    call.container = None;
                    call.lifecycle
                }
                UnifiedItemBody::RetrievalResult(found) => {
                    found.parts.clear();
                    continue;
                }
                _ => continue,
            };
            open.lifecycle = Some(lifecycle);
        }
        made
    }

    fn item_delta(&mut self, item: &UnifiedId, part: Option<&UnifiedId>, delta: ItemDelta) {
        let mut draft = EventDraft::of_item(item.clone(), EventBody::ItemDelta(ItemDeltaEvent { delta }));
        draft.part_id = part.cloned();
        self.tell(draft);
    }

    /// A reference that an item or part gets later.
    fn refer(&mut self, item: &UnifiedId, part: Option<&UnifiedId>, reference: &UnifiedProviderDataRef) {
        let value = Json::from_serialize(reference).unwrap_or_else(|_| Json::null());
        let field = FieldDelta {
            pointer: "/providerData/-".into(),
            value,
        };
        self.item_delta(item, part, ItemDelta::Field(field));
    }

    fn complete(&mut self, item: &UnifiedId, status: ItemStatus, whole: Option<Made>) {
        let item_body = whole.map(|made| self.place(item, made));
        let done = ItemCompleted { status, item: item_body };
        self.tell(EventDraft::of_item(item.clone(), EventBody::ItemCompleted(done)));
    }

    /// A part of an open item, begun when it was not.
    fn part(&mut self, index: u64, list: List, at: u64, body: impl FnOnce() -> PartBody) -> Option<usize> {
        if at > MAX_PART {
            return None;
        }
        let open = self.open.get_mut(&index)?;
        if let Some(known) = open.parts.iter().position(|part| part.list == list && part.index == at) {
            return Some(known);
        }
        let item = open.id();
        let id = item.part(open.parts.len() as u64);
        let part = Part {
            list,
            index: at,
            id: id.clone(),
            body: body(),
            text: String::new(),
            annotations: Vec::new(),
            logprobs: Vec::new(),
        };
        let started = UnifiedContentPart::new(id.clone(), part.body.clone());
        open.parts.push(part);
        let position = open.parts.len() - 1;
        self.item_delta(&item, Some(&id), ItemDelta::PartStarted(PartStarted { part: started }));
        Some(position)
    }

    /// `content_part.added` and `reasoning_summary_part.added`.
    pub(super) fn part_added(&mut self, index: u64, list: List, at: u64, node: &Node) {
        let is_reasoning = list == List::Summary || node.kind() == "reasoning_text";
        let kind = if is_reasoning { "reasoning" } else { "message" };
        if self
            .open_item(index, None, kind)
            .is_none_or(|open| !matches!(open.kind, Kind::Message | Kind::Reasoning))
        {
            return;
        }
        let body = match (is_reasoning, node.kind().as_str()) {
            (true, _) => reasoning_body(list),
            (false, "refusal") => refusal_body(),
            (false, "output_text" | "text") => text_body(),
            // Of an unknown type: it comes whole with the item.
            (false, _) => return,
        };
        self.part(index, list, at, || body);
    }

    /// A piece of text, of whatever part.
    pub(super) fn text(&mut self, index: u64, list: List, at: u64, text: &str, node: &Node, is_refusal: bool) {
        let is_reasoning = list == List::Summary || self.open.get(&index).is_some_and(|open| open.kind == Kind::Reasoning);
        let kind = if is_reasoning { "reasoning" } else { "message" };
        if self
            .open_item(index, None, kind)
            .is_none_or(|open| !matches!(open.kind, Kind::Message | Kind::Reasoning))
        {
            return;
        }
        let body = || match (is_reasoning, is_refusal) {
            (true, _) => reasoning_body(list),
            (false, true) => refusal_body(),
            (false, false) => text_body(),
        };
        let Some(position) = self.part(index, list, at, body) else { return };
        let logprobs = decode_part::logprobs(node);
        if text.is_empty() && logprobs.is_none() {
            return;
        }
        self.say(index, position, text, logprobs);
    }

    fn say(&mut self, index: u64, position: usize, text: &str, logprobs: Option<Vec<UnifiedTokenLogprob>>) {
        let Some(open) = self.open.get_mut(&index) else { return };
        let item = open.id();
        let Some(part) = open.parts.get_mut(position) else { return };
        part.text.push_str(text);
        let is_text = matches!(part.body, PartBody::Text(_));
        let logprobs = logprobs.filter(|_| is_text);
        part.logprobs.extend(logprobs.iter().flatten().cloned());
        let delta = TextDelta {
            text: text.to_owned(),
            logprobs,
        };
        let body = if matches!(part.body, PartBody::Reasoning(_)) {
            EventBody::ReasoningDelta(delta)
        } else {
            EventBody::TextDelta(delta)
        };
        let id = part.id.clone();
        self.tell(EventDraft::of_part(item, id, body));
    }

    /// A text is done and repeated whole: what deltas did not say of it is said now.
    pub(super) fn text_done(&mut self, index: u64, list: List, at: u64, whole: &str, is_refusal: bool) {
        self.text(index, list, at, "", &Node::null(), is_refusal);
        let Some(position) = self.position(index, list, at) else { return };
        let said = self
            .open
            .get(&index)
            .and_then(|open| open.parts.get(position))
            .map(|part| part.text.clone());
        if let Some(rest) = said.and_then(|said| whole.strip_prefix(said.as_str()).map(str::to_owned))
            && !rest.is_empty()
        {
            self.say(index, position, &rest, None);
        }
    }

    fn position(&self, index: u64, list: List, at: u64) -> Option<usize> {
        let open = self.open.get(&index)?;
        open.parts.iter().position(|part| part.list == list && part.index == at)
    }

    /// A remark on a text.
    pub(super) fn annotation(&mut self, index: u64, at: u64, node: &Node) {
        let Some(position) = self.position(index, List::Content, at) else {
            return;
        };
        let Some(part) = self.open.get(&index).and_then(|open| open.parts.get(position)) else {
            return;
        };
        if !matches!(part.body, PartBody::Text(_)) {
            return;
        }
        let (id, n) = (part.id.clone(), part.annotations.len());
        let path = format!("/output/{index}/content/{at}/annotations/{n}");
        let Some(annotation) = decode_part::annotation(&mut self.keeper, &id, n, node, &path) else {
            return;
        };
        let Some(open) = self.open.get_mut(&index) else { return };
        let item = open.id();
        if let Some(part) = open.parts.get_mut(position) {
            part.annotations.push(annotation.clone());
        }
        self.tell(EventDraft::of_part(
            item,
            id,
            EventBody::CitationReady(CitationReady { annotation }),
        ));
    }

    /// A piece of argument text.
    pub(super) fn arguments(&mut self, index: u64, text: &str, kind: &str) {
        let Some(open) = self.open_item(index, None, kind) else { return };
        if text.is_empty() {
            return;
        }
        match open.kind {
            Kind::Call | Kind::Remote => {
                open.arguments.push_str(text);
                let (item, call_id) = (open.id(), open.call.as_ref().map(|call| call.call_id.clone()).unwrap_or_default());
                let delta = ArgumentsDelta { text: text.to_owned() };
                self.tell(EventDraft::of_call(item, call_id, EventBody::ToolArgumentsDelta(delta)));
            }
            // Code comes whole; what came so far is kept for an answer that is torn.
            Kind::Hosted => open.arguments.push_str(text),
            Kind::Message | Kind::Reasoning | Kind::Late => {}
        }
    }

    /// Argument text is done and repeated whole.
    pub(super) fn arguments_done(&mut self, index: u64, whole: &str, kind: &str) {
        let Some(open) = self.open_item(index, None, kind) else { return };
        if let Some(rest) = whole.strip_prefix(open.arguments.as_str()).map(str::to_owned) {
            self.arguments(index, &rest, kind);
        }
    }

    /// The provider works on a call.
    pub(super) fn executing(&mut self, index: u64, kind: &str) {
        let Some(open) = self.open_item(index, None, kind) else { return };
        if open.lifecycle != Some(UnifiedToolLifecycle::ArgumentsReady) {
            return;
        }
        open.lifecycle = Some(UnifiedToolLifecycle::Executing);
        let id = open.id();
        let change = ToolLifecycleEvent {
            from: UnifiedToolLifecycle::ArgumentsReady,
            to: UnifiedToolLifecycle::Executing,
            execution: None,
        };
        self.tell(EventDraft::of_item(id, EventBody::ToolLifecycle(change)));
    }

    /// Tells what an item says that deltas did not, and ends it.
    pub(super) fn settle(&mut self, mut open: Open, made: Vec<Made>) {
        let mut made = made.into_iter();
        let Some(head) = made.next() else { return };
        let id = open.id();
        match open.kind {
            Kind::Message | Kind::Reasoning => self.settle_parts(&mut open, head),
            Kind::Call => self.settle_call(&open, head),
            Kind::Remote => {
                if let UnifiedItemBody::ServerToolCall(call) = &head.body {
                    self.ready(&id, &open.arguments, call);
                }
                let status = head.status;
                self.complete(&id, status, Some(head));
            }
            Kind::Hosted | Kind::Late => {
                let status = head.status;
                self.complete(&id, status, Some(head));
            }
        }
        for (made, id) in made.zip(open.ids.iter().skip(1)) {
            let status = made.status;
            self.complete(id, status, Some(made));
        }
    }

    /// The rest of the argument text, and that it is complete.
    fn ready(&mut self, item: &UnifiedId, said: &str, call: &ToolCallItem) {
        match call.raw_arguments.strip_prefix(said) {
            Some("") => {}
            Some(rest) => {
                let delta = ArgumentsDelta { text: rest.to_owned() };
                let draft = EventDraft::of_call(item.clone(), call.call_id.clone(), EventBody::ToolArgumentsDelta(delta));
                self.tell(draft);
            }
            None => self.warn("stream.done-differs", "an item ended otherwise than it was told; its end counts"),
        }
        let ready = ArgumentsReady {
            raw_arguments: call.raw_arguments.clone(),
            input: call.input.clone(),
        };
        let draft = EventDraft::of_call(item.clone(), call.call_id.clone(), EventBody::ToolArgumentsReady(ready));
        self.tell(draft);
    }

    fn settle_call(&mut self, open: &Open, made: Made) {
        let id = open.id();
        let UnifiedItemBody::ToolCall(call) = &made.body else {
            let status = made.status;
            self.complete(&id, status, Some(made));
            return;
        };
        self.ready(&id, &open.arguments, call);
        let is_same = open.call.as_ref().is_some_and(|begun| {
            let mut expected = begun.clone();
            expected.raw_arguments.clone_from(&call.raw_arguments);
            expected.input.clone_from(&call.input);
            expected.lifecycle = call.lifecycle;
            expected == *call
        });
        let status = made.status;
        if !is_same {
            self.complete(&id, status, Some(made));
            return;
        }
        self.references(&id, None, open, made.provider_data.as_deref().unwrap_or_default());
        self.complete(&id, status, None);
    }

    /// References that the item does not have yet.
    fn references(&mut self, item: &UnifiedId, part: Option<&UnifiedId>, open: &Open, references: &[UnifiedProviderDataRef]) {
        let told = open.wire_id.as_ref().map(|_| item.resource(number::ITEM_ID));
        for reference in references.iter().filter(|reference| Some(&reference.resource_id) != told.as_ref()) {
            self.refer(item, part, reference);
        }
    }

    fn settle_parts(&mut self, open: &mut Open, mut made: Made) {
        let id = open.id();
        let parts = match &mut made.body {
            UnifiedItemBody::Message(message) => message.parts.clone(),
            UnifiedItemBody::Reasoning(reasoning) => reasoning.parts.clone(),
            _ => Vec::new(),
        };
        let fits = open.parts.len() <= parts.len() && open.parts.iter().zip(&parts).all(|(said, part)| said.fits(part));
        let status = made.status;
        if !fits {
            self.warn("stream.done-differs", "an item ended otherwise than it was told; its end counts");
            self.complete(&id, status, Some(made));
            return;
        }
        for (n, part) in parts.iter().enumerate() {
            self.settle_part(open, n, part);
        }
        self.references(&id, None, open, made.provider_data.as_deref().unwrap_or_default());
        self.complete(&id, status, None);
    }

    fn settle_part(&mut self, open: &Open, n: usize, part: &UnifiedContentPart) {
        let item = open.id();
        let id = &part.part_id;
        let said = open.parts.get(n);
        if said.is_none() {
            let mut started = part.clone();
            started.base.provider_data.clone_from(&part.base.provider_data);
            match &mut started.body {
                PartBody::Text(text) => *text = TextPart::default(),
                PartBody::Refusal(refusal) => refusal.text.clear(),
                PartBody::Reasoning(reasoning) => {
                    reasoning.text.clear();
                    reasoning.private_state = None;
                }
                _ => {}
            }
            self.item_delta(&item, Some(id), ItemDelta::PartStarted(PartStarted { part: started }));
        }
        let before = said.map_or("", |said| said.text.as_str());
        let rest = part
            .as_text()
            .and_then(|text| text.strip_prefix(before))
            .unwrap_or_default()
            .to_owned();
        let of_part = |body: EventBody| EventDraft::of_part(item.clone(), id.clone(), body);
        match &part.body {
            PartBody::Text(text) => {
                let known = said.map_or(0, |said| said.logprobs.len());
                let logprobs = text.logprobs.as_ref().map(|all| all.get(known..).unwrap_or_default().to_vec());
                let logprobs = logprobs.filter(|more| !more.is_empty());
                if !rest.is_empty() || logprobs.is_some() {
                    self.tell(of_part(EventBody::TextDelta(TextDelta { text: rest, logprobs })));
                }
                let known = said.map_or(0, |said| said.annotations.len());
                for annotation in text.annotations.iter().flatten().skip(known) {
                    let annotation = annotation.clone();
                    self.tell(of_part(EventBody::CitationReady(CitationReady { annotation })));
                }
            }
            PartBody::Refusal(_) if !rest.is_empty() => self.tell(of_part(EventBody::TextDelta(TextDelta {
                text: rest,
                logprobs: None,
            }))),
            PartBody::Reasoning(reasoning) => {
                if !rest.is_empty() {
                    self.tell(of_part(EventBody::ReasoningDelta(TextDelta {
                        text: rest,
                        logprobs: None,
                    })));
                }
                if let Some(state) = &reasoning.private_state {
                    let ready = SignatureReady {
                        provider_data: state.r#ref.clone(),
                        issuer: state.issuer,
                    };
                    self.tell(of_part(EventBody::SignatureReady(ready)));
                }
            }
            _ => {}
        }
        if said.is_some() {
            for reference in part.base.provider_data.iter().flatten() {
                self.refer(&item, Some(id), reference);
            }
        }
        self.item_delta(&item, Some(id), ItemDelta::PartCompleted(PartCompleted {}));
    }

    /// What is known of an item that never ended: code that nothing else tells.
    pub(super) fn partial(&mut self, open: &Open) {
        if open.kind != Kind::Hosted || open.arguments.is_empty() || open.node.kind() != "code_interpreter_call" {
            return;
        }
        let mut node = open.node.clone();
        node.put("code", Node::text(&open.arguments));
        node.put("status", Node::text("incomplete"));
        let mut copy = Open::new(open.ids.clone(), &node);
        let made = self.hosted(&mut copy, &node);
        let Some(mut head) = made.into_iter().next() else { return };
        if let UnifiedItemBody::CodeExecution(call) = &mut head.body {
            call.lifecycle = UnifiedToolLifecycle::Cancelled;
        }
        head.status = ItemStatus::Incomplete;
        self.complete(&open.id(), ItemStatus::Incomplete, Some(head));
    }
}

impl Part {
    /// Whether what was told is the beginning of what the part is.
    fn fits(&self, part: &UnifiedContentPart) -> bool {
        let begins = |text: &str| text.starts_with(self.text.as_str());
        match (&self.body, &part.body) {
            (PartBody::Text(_), PartBody::Text(text)) => {
                let annotations = text.annotations.as_deref().unwrap_or_default();
                let logprobs = text.logprobs.as_deref().unwrap_or_default();
                begins(&text.text) && annotations.starts_with(&self.annotations) && logprobs.starts_with(&self.logprobs)
            }
            (PartBody::Refusal(_), PartBody::Refusal(refusal)) => begins(&refusal.text),
            (PartBody::Reasoning(mine), PartBody::Reasoning(reasoning)) => mine.form == reasoning.form && begins(&reasoning.text),
            _ => false,
        }
    }
}

fn started_call(node: &Node, id: &UnifiedId) -> ToolCallItem {
    ToolCallItem {
        call_id: decode_item::call_id(node, id),
        name: node.str("name").unwrap_or_default(),
        tool_type: if node.kind() == "custom_tool_call" {
            UnifiedToolType::Custom
        } else {
            UnifiedToolType::Function
        },
        namespace: node.str("namespace"),
        server_label: None,
        input: None,
        raw_arguments: String::new(),
        lifecycle: UnifiedToolLifecycle::ArgumentsStreaming,
        caller: caller(node),
        execution: Execution::Client,
        provider_executed: false,
        private_linkage: None,
    }
}

fn text_body() -> PartBody {
    PartBody::Text(TextPart::default())
}

fn refusal_body() -> PartBody {
    PartBody::Refusal(RefusalPart {
        text: String::new(),
        category: None,
    })
}

fn reasoning_body(list: List) -> PartBody {
    PartBody::Reasoning(ReasoningPart {
        text: String::new(),
        form: if list == List::Summary {
            ReasoningForm::Summary
        } else {
            ReasoningForm::Full
        },
        state: ReasoningState::Disclosed,
        private_state: None,
    })
}
