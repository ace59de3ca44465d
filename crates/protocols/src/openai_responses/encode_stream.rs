//! Streams to the wire. The encoder folds the events that it gets, so that the last event of an item and of the response says
//! what the unstreamed response would.

use super::encode_hosted::is_companion;
use super::encode_item::{Mode, Writer};
use super::encode_response::{companion, report, response, unsaid, write};
use super::wire::Node;
use crate::codec::{StreamEncoder, WireFrame};
use crate::context::EncodeContext;
use crate::openai::errors;
use crate::projection::LossCollector;
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::event::ItemDelta;
use throughline_format::item::ItemStatus;
use throughline_format::tool::Execution;
use throughline_format::{
    ErrorCategory, EventBody, Fold, ProtocolFamily, UnifiedContentPart, UnifiedError, UnifiedEventV2, UnifiedId, UnifiedItem,
    UnifiedItemBody, UnifiedLossReport, UnifiedToolLifecycle, UnifiedToolType,
};

/// A part that was begun.
pub(super) struct Told {
    /// Name of its index.
    pub(super) list: &'static str,
    pub(super) at: usize,
    /// The event that tells its text.
    pub(super) delta: &'static str,
}

/// A wire item that was begun.
pub(super) struct Head {
    pub(super) index: usize,
    pub(super) kind: String,
    pub(super) wire_id: String,
    second: Option<UnifiedId>,
    /// Whether an outcome belongs to it that may still come.
    waits: bool,
    is_done: bool,
    /// Argument text that was sent.
    pub(super) sent: String,
    pub(super) is_ready: bool,
    pub(super) is_executing: bool,
    /// Parts that were begun, and those that ended.
    pub(super) parts: BTreeMap<UnifiedId, Told>,
    pub(super) ended: BTreeSet<UnifiedId>,
    pub(super) annotations: BTreeMap<UnifiedId, usize>,
}

/// Encoder of one stream.
pub(super) struct ResponsesStreamEncoder {
    pub(super) context: EncodeContext,
    loss: LossCollector,
    fold: Option<Fold>,
    number: u64,
    pub(super) is_own: bool,
    response_id: Option<String>,
    pub(super) heads: BTreeMap<UnifiedId, Head>,
    order: Vec<UnifiedId>,
    /// Where each item stands in the fold.
    places: BTreeMap<UnifiedId, usize>,
    /// Wire items whose outcome is an item that has not begun.
    waiting: Vec<UnifiedId>,
    /// The wire item of an outcome.
    owners: BTreeMap<UnifiedId, UnifiedId>,
    calls: super::decode_item::Calls,
    error: Option<UnifiedError>,
    has_ended: bool,
}

impl ResponsesStreamEncoder {
    pub(super) fn new(context: EncodeContext) -> Self {
        Self {
            context,
            loss: LossCollector::new(),
            fold: None,
            number: 0,
            is_own: false,
            response_id: None,
            heads: BTreeMap::new(),
            order: Vec::new(),
            places: BTreeMap::new(),
            waiting: Vec::new(),
            owners: BTreeMap::new(),
            calls: super::decode_item::Calls::new(),
            error: None,
            has_ended: false,
        }
    }

    pub(super) fn frame(&mut self, kind: &'static str, members: Vec<(&str, Option<Node>)>) -> WireFrame {
        let mut node = Node::typed(kind, [("sequence_number", Some(Node::of(&self.number)))]);
        self.number += 1;
        for (key, value) in members {
            if let Some(value) = value {
                node.put(key, value);
            }
        }
        // Opaque values keep their white space, and a frame is one line. JSON has no line ends but between its tokens.
        WireFrame {
            event: Some(kind),
            data: node.to_text().replace(['\n', '\r'], ""),
        }
    }

    /// The response object as it stands.
    fn response(&self) -> Option<Node> {
        let result = self.fold.as_ref()?.result();
        let mut node = response(&result, &self.context, self.is_own);
        if let Some(id) = &self.response_id {
            node.put("id", Node::text(id));
        }
        Some(node)
    }

    fn begin(&mut self) -> Vec<WireFrame> {
        let Some(mut node) = self.response() else { return Vec::new() };
        // How the response ends is not known yet, also where the same owner has kept it.
        node.put("status", Node::text("in_progress"));
        for key in ["error", "incomplete_details", "usage"] {
            node.put(key, Node::null());
        }
        node.put("output", Node::List(Vec::new()));
        self.response_id = node.str("id");
        let created = self.frame("response.created", vec![("response", Some(node.clone()))]);
        let running = self.frame("response.in_progress", vec![("response", Some(node))]);
        vec![created, running]
    }

    fn item(&self, id: &UnifiedId) -> Option<&UnifiedItem> {
        self.fold.as_ref()?.items().get(*self.places.get(id)?)
    }

    fn place(&self, id: &UnifiedId) -> usize {
        self.places.get(id).copied().unwrap_or_default()
    }

    fn written(&mut self, group: &[&UnifiedItem], report: bool) -> Option<Node> {
        let mut writer = Writer::new(self.context.private.as_ref(), Mode::Answer);
        writer.calls = std::mem::take(&mut self.calls);
        let node = write(&mut writer, group);
        let notes = std::mem::take(&mut writer.notes);
        self.calls = std::mem::take(&mut writer.calls);
        let at = group.first().map_or(0, |head| self.place(&head.id));
        for note in notes.into_iter().filter(|_| report) {
            note.tell(&mut self.loss, &format!("/output/{at}"), group.first().map(|item| &item.id));
        }
        node
    }

    /// An item begins: a wire item of its own, or the outcome of one.
    fn started(&mut self, item: &UnifiedItem) -> Vec<WireFrame> {
        let is_mine = |id: &UnifiedId| self.item(id).is_some_and(|first| is_companion(&first.body, &item.body));
        if let Some(at) = self.waiting.iter().position(is_mine) {
            let owner = self.waiting.remove(at);
            if let Some(head) = self.heads.get_mut(&owner) {
                head.second = Some(item.id.clone());
            }
            self.owners.insert(item.id.clone(), owner);
            return Vec::new();
        }
        let mut empty = item.clone();
        if let Some(parts) = empty
            .parts_mut()
            .filter(|_| matches!(item.body, UnifiedItemBody::Message(_) | UnifiedItemBody::Reasoning(_)))
        {
            parts.clear();
        }
        if let UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) = &mut empty.body
            && item.status == ItemStatus::InProgress
            && call.tool_type != UnifiedToolType::ToolSearch
        {
            call.raw_arguments.clear();
            call.input = None;
        }
        empty.base.status = ItemStatus::InProgress;
        let Some(mut node) = self.written(&[&empty], false) else {
            let at = self.place(&item.id);
            unsaid(&mut self.loss, item, &format!("/output/{at}"));
            return Vec::new();
        };
        if item.status == ItemStatus::InProgress && node.has("arguments") {
            node.put("arguments", Node::text(""));
        }
        let head = Head {
            index: self.heads.len(),
            kind: node.kind(),
            wire_id: node.str("id").unwrap_or_default(),
            second: None,
            waits: waits(item),
            is_done: false,
            sent: String::new(),
            is_ready: false,
            is_executing: false,
            parts: BTreeMap::new(),
            ended: BTreeSet::new(),
            annotations: BTreeMap::new(),
        };
        let index = Some(Node::of(&head.index));
        if head.waits {
            self.waiting.push(item.id.clone());
        }
        self.heads.insert(item.id.clone(), head);
        self.order.push(item.id.clone());
        let mut frames = vec![self.frame("response.output_item.added", vec![("output_index", index), ("item", Some(node))])];
        for part in item.parts() {
            frames.extend(self.whole_part(&item.id, part));
        }
        frames
    }

    /// An item is complete; it ends when its outcome is there too.
    fn completed(&mut self, id: &UnifiedId) -> Vec<WireFrame> {
        let head = self.owners.get(id).unwrap_or(id).clone();
        let is_waiting = self.heads.get(&head).is_none_or(|h| h.is_done || h.waits && h.second.is_none());
        let is_open = |item: Option<&UnifiedItem>| item.is_none_or(|item| item.status == ItemStatus::InProgress);
        let second = self.heads.get(&head).and_then(|h| h.second.clone());
        if is_waiting || is_open(self.item(&head)) || second.is_some_and(|second| is_open(self.item(&second))) {
            return Vec::new();
        }
        self.finish(&head)
    }

    /// Ends a wire item with everything that it says.
    fn finish(&mut self, id: &UnifiedId) -> Vec<WireFrame> {
        let Some(item) = self.item(id).cloned() else { return Vec::new() };
        let second = self.heads.get(id).and_then(|head| head.second.clone());
        let second = second.and_then(|second| self.item(&second)).cloned();
        let group: Vec<&UnifiedItem> = std::iter::once(&item).chain(&second).collect();
        let mut frames = Vec::new();
        for part in item.parts() {
            let is_told = self.heads.get(id).is_some_and(|head| head.parts.contains_key(&part.part_id));
            if !is_told && matches!(item.body, UnifiedItemBody::Message(_) | UnifiedItemBody::Reasoning(_)) {
                frames.extend(self.whole_part(id, part));
            }
            frames.extend(self.part_done(id, part));
        }
        let Some(mut node) = self.written(&group, true) else {
            return frames;
        };
        if let Some(second) = &second {
            let at = self.place(&second.id);
            companion(&mut self.loss, second, &format!("/output/{at}"));
        }
        let Some((index, wire_id, kind)) = self.heads.get_mut(id).map(|head| {
            head.is_done = true;
            (head.index, head.wire_id.clone(), head.kind.clone())
        }) else {
            return frames;
        };
        if let Some((_, _, member)) = Self::argument_events(&kind)
            && let Some(text) = node.str(member)
        {
            frames.extend(self.arguments_done(id, &text));
        }
        frames.extend(self.progress(id, Some(item.status)));
        // One item has one ID throughout.
        if node.kind() == kind && node.has("id") {
            node.put("id", Node::text(&wire_id));
        }
        let members = vec![("output_index", Some(Node::of(&index))), ("item", Some(node))];
        frames.push(self.frame("response.output_item.done", members));
        frames
    }

    /// The last events of the stream.
    fn end(&mut self) -> Vec<WireFrame> {
        if std::mem::replace(&mut self.has_ended, true) {
            return Vec::new();
        }
        let mut frames = Vec::new();
        for id in self.order.clone() {
            let is_open = self.item(&id).is_none_or(|item| item.status == ItemStatus::InProgress);
            if self.heads.get(&id).is_some_and(|head| !head.is_done) && !is_open {
                frames.extend(self.finish(&id));
            }
        }
        let Some(result) = self.fold.as_ref().map(Fold::result) else {
            return frames;
        };
        if self.response_id.is_none() {
            let error = self
                .error
                .clone()
                .or(result.error)
                .unwrap_or_else(|| UnifiedError::new(ErrorCategory::Internal, "operation", "the operation ended before it began"));
            frames.push(self.error_frame(&error));
            return frames;
        }
        report(&result, self.context.private.as_ref(), self.is_own, &mut self.loss);
        let whole = super::encode_response::encode(&result, &self.context);
        let mut node = Node::read_str(&whole.body).unwrap_or_else(|_| Node::null());
        if !node.has("output") {
            // The owner's answer was an error body and no response.
            node = self.response().unwrap_or(node);
        }
        if let Some(id) = &self.response_id {
            node.put("id", Node::text(id));
        }
        let kind = match node.str("status").as_deref() {
            Some("failed" | "cancelled") => "response.failed",
            Some("incomplete") => "response.incomplete",
            Some("queued") => "response.queued",
            Some("in_progress") => "response.in_progress",
            _ => "response.completed",
        };
        frames.push(self.frame(kind, vec![("response", Some(node))]));
        frames
    }

    fn error_frame(&mut self, error: &UnifiedError) -> WireFrame {
        let object = errors::object(error);
        let text = |key: &str| {
            object
                .pointer(&format!("/error/{key}"))
                .and_then(|value| value.as_str())
                .map(Node::text)
        };
        self.frame(
            "error",
            vec![
                ("code", text("code").or_else(|| Some(Node::null()))),
                ("message", text("message")),
                ("param", text("param").or_else(|| Some(Node::null()))),
            ],
        )
    }

    fn part_of(&self, item: Option<&UnifiedId>, part: Option<&UnifiedId>) -> Option<UnifiedContentPart> {
        let item = self.item(item?)?;
        item.parts().iter().find(|known| Some(&known.part_id) == part).cloned()
    }
}

/// Whether an outcome belongs to the wire item of an item and may still come.
fn waits(item: &UnifiedItem) -> bool {
    match &item.body {
        UnifiedItemBody::ServerToolCall(call) => call.tool_type != UnifiedToolType::ToolSearch,
        UnifiedItemBody::CodeExecution(call) => {
            call.execution == Execution::Provider && super::decode_item::call_kind(&item.body).is_none()
        }
        UnifiedItemBody::ComputerAction(call) => call.approval_id.is_some(),
        _ => false,
    }
}

impl StreamEncoder for ResponsesStreamEncoder {
    fn push(&mut self, event: &UnifiedEventV2) -> Vec<WireFrame> {
        if matches!(event.body, EventBody::Heartbeat(_)) {
            return vec![];
        }
        let fold = self.fold.get_or_insert_with(|| Fold::new(event.operation_id.clone()));
        if self.has_ended || fold.push(event).is_err() {
            return Vec::new();
        }
        // Items begin one after the other, so only the last one can be new.
        let items = fold.items();
        if let Some(last) = items.last().filter(|_| items.len() > self.places.len()) {
            self.places.insert(last.id.clone(), items.len() - 1);
        }
        if event.candidate.is_some() {
            return Vec::new();
        }
        let item = event.item_id.as_ref();
        match &event.body {
            EventBody::ResponseStarted(started) => {
                self.is_own = started.profile.family == ProtocolFamily::OpenAiResponses;
                if self.response_id.is_some() { Vec::new() } else { self.begin() }
            }
            EventBody::ItemStarted(started) => self.started(&started.item),
            EventBody::ItemCompleted(done) => {
                let Some(id) = item.or(done.item.as_ref().map(|item| &item.id)).cloned() else {
                    return Vec::new();
                };
                let is_known = self.heads.contains_key(&id) || self.heads.values().any(|head| head.second.as_ref() == Some(&id));
                let mut frames = match &done.item {
                    Some(whole) if !is_known => self.started(whole),
                    _ => Vec::new(),
                };
                frames.extend(self.completed(&id));
                frames
            }
            EventBody::ItemFailed(_) => item.cloned().map(|id| self.completed(&id)).unwrap_or_default(),
            EventBody::ItemDelta(change) => match (&change.delta, item) {
                (ItemDelta::PartStarted(started), Some(item)) => self.whole_part(&item.clone(), &started.part),
                (ItemDelta::PartCompleted(_), Some(item)) => match self.part_of(Some(item), event.part_id.as_ref()) {
                    Some(part) => self.part_done(&item.clone(), &part),
                    None => Vec::new(),
                },
                _ => Vec::new(),
            },
            EventBody::TextDelta(delta) | EventBody::ReasoningDelta(delta) => match (item, &event.part_id) {
                (Some(item), Some(part)) => self.text(item, part, delta),
                _ => Vec::new(),
            },
            EventBody::CitationReady(ready) => match (item, self.part_of(item, event.part_id.as_ref())) {
                (Some(item), Some(part)) => self.annotation(&item.clone(), &part, &ready.annotation),
                _ => Vec::new(),
            },
            EventBody::ToolArgumentsDelta(delta) => item.cloned().map(|id| self.arguments(&id, &delta.text)).unwrap_or_default(),
            EventBody::ToolArgumentsReady(ready) => {
                let Some(id) = item.cloned() else { return Vec::new() };
                let whole = match (ready.raw_arguments.trim(), &ready.input) {
                    ("", Some(input)) if !self.is_own => input.as_str().to_owned(),
                    ("", None) if !self.is_own && self.heads.get(&id).is_some_and(|head| head.kind != "custom_tool_call") => {
                        "{}".to_owned()
                    }
                    _ => ready.raw_arguments.clone(),
                };
                self.arguments_done(&id, &whole)
            }
            EventBody::ToolLifecycle(change) if change.to == UnifiedToolLifecycle::Executing => {
                item.cloned().map(|id| self.progress(&id, None)).unwrap_or_default()
            }
            EventBody::OperationFailed(failed) => {
                self.error = Some(failed.error.clone());
                Vec::new()
            }
            EventBody::OperationCancelled(_) => {
                self.error = Some(UnifiedError::new(
                    ErrorCategory::Cancelled,
                    "operation",
                    "the operation was cancelled",
                ));
                Vec::new()
            }
            EventBody::OperationExpired(_) => {
                self.error = Some(UnifiedError::new(
                    ErrorCategory::Timeout,
                    "operation",
                    "the operation took too long",
                ));
                Vec::new()
            }
            EventBody::StreamCompleted(_) => self.end(),
            EventBody::OperationCreated(_)
            | EventBody::OperationQueued(_)
            | EventBody::OperationRunning(_)
            | EventBody::OperationRequiresAction(_)
            | EventBody::OperationCompleted(_)
            | EventBody::ResponseMetadata(_)
            | EventBody::SignatureReady(_)
            | EventBody::ToolLifecycle(_)
            | EventBody::SourceReady(_)
            | EventBody::ArtifactReady(_)
            | EventBody::UsageUpdate(_)
            | EventBody::CheckpointReady(_)
            | EventBody::CheckpointInvalidated(_)
            | EventBody::Warning(_)
            | EventBody::LossUpdate(_)
            | EventBody::Error(_)
            | EventBody::Heartbeat(_) => Vec::new(),
        }
    }

    fn loss(&self) -> &UnifiedLossReport {
        self.loss.report()
    }
}
