//! An answer under construction: streams and unstreamed responses go through the same steps, so they cannot differ.

use super::decode_block::Whole;
use super::decode_call::CallKind;
use super::kept::{self, Keeper};
use super::usage;
use super::wire::{Ending, Members, Response, ToolUseBlock};
use crate::codec::Decoded;
use crate::context::DecodeContext;
use crate::feature::Feature;
use crate::keeper::Keep;
use crate::raw::below;
use crate::raw::{self};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use throughline_format::event::{
    ItemCompleted, ItemDelta, ItemDeltaEvent, ItemStarted, LossUpdate, ResponseMetadata, UsageUpdate, Warning,
};
use throughline_format::item::{ItemStatus, Role};
use throughline_format::provenance::ItemOrigin;
use throughline_format::resource::{Issuer, ResourceType};
use throughline_format::status::SafetyDetail;
use throughline_format::{
    EventBody, EventDraft, Json, Timestamp, UnifiedError, UnifiedFinishReason, UnifiedId, UnifiedItem, UnifiedItemBody,
    UnifiedResponseStatus,
};

/// Number of the first side resource of an answer's root, apart from those of the request of the same operation.
const ROOT: u64 = 16;

/// Number of the first event that is kept.
const ODD: u64 = 64;
/// Most events that are kept of one stream.
const MAX_ODD: u64 = 64;

/// Most members of pieces that are named.
const MAX_FIELDS: usize = 64;

/// ID of the payload of an event that was not understood.
pub(super) fn odd_id(operation_id: &UnifiedId, number: u64) -> UnifiedId {
    operation_id.resource(ODD + number)
}

/// A block that is open.
pub(super) enum Open {
    /// Text: part of the message item.
    Text {
        item_id: UnifiedId,
        part_id: UnifiedId,
        citations: Vec<Json>,
        path: String,
    },
    /// Thinking; its part begins when it is known whether there is text.
    Thinking {
        item_id: UnifiedId,
        begun: bool,
        signature: Option<String>,
        path: String,
    },
    /// A call with its argument text so far.
    Call {
        item_id: UnifiedId,
        call_id: String,
        given: Option<Json>,
        text: String,
    },
    /// A call that is told when its input is whole.
    Held {
        block: Box<ToolUseBlock>,
        kind: CallKind,
        text: String,
        path: String,
    },
    /// A block that comes whole.
    Whole { raw: Json, path: String },
    /// Withheld thinking, whole.
    Redacted {
        block: super::wire::RedactedThinkingBlock,
        path: String,
    },
}

/// The message item that takes text blocks.
pub(super) struct Run {
    pub(super) item_id: UnifiedId,
    pub(super) parts: u64,
    pub(super) open: u64,
    /// Another kind of block has begun: the item ends with its last open part.
    pub(super) ending: bool,
}

/// The answer so far.
pub(super) struct Answer {
    pub(super) keeper: Keeper,
    pub(super) out: Decoded,
    pub(super) model: Option<String>,
    pub(super) items: Vec<UnifiedId>,
    pub(super) runs: Vec<Run>,
    pub(super) open: BTreeMap<u64, Open>,
    /// Calls of the client and of hosted tools, the latter with their items until a result comes.
    pub(super) client_calls: BTreeSet<String>,
    pub(super) hosted_calls: BTreeMap<String, UnifiedId>,
    pub(super) usage: Vec<(String, Json)>,
    pub(super) root: Vec<(String, Json)>,
    pub(super) ending: Ending,
    /// The provider's handle of the message.
    pub(super) message_id: Option<String>,
    /// Whether the message has begun.
    pub(super) started: bool,
    pub(super) losses_told: usize,
    /// Number of events and changes that were not understood.
    odd: u64,
    /// Names of unknown members of pieces.
    piece_fields: BTreeSet<String>,
}

impl Answer {
    /// An answer that has not begun.
    pub(super) fn new(context: &DecodeContext) -> Self {
        Self {
            keeper: Keeper::new(context, super::profile(), Issuer::Provider),
            out: Decoded::default(),
            model: None,
            items: Vec::new(),
            runs: Vec::new(),
            open: BTreeMap::new(),
            client_calls: BTreeSet::new(),
            hosted_calls: BTreeMap::new(),
            usage: Vec::new(),
            root: Vec::new(),
            ending: Ending {
                stop_reason: None,
                stop_sequence: None,
                stop_details: None,
                extra: crate::wire::Extra::default(),
            },
            message_id: None,
            started: false,
            losses_told: 0,
            odd: 0,
            piece_fields: BTreeSet::new(),
        }
    }

    /// Hands out what came up since the last call.
    pub(super) fn take(&mut self) -> Decoded {
        let mut out = std::mem::take(&mut self.out);
        out.resources.append(&mut self.keeper.resources);
        out
    }

    pub(super) fn context(&self) -> Arc<DecodeContext> {
        self.keeper.context.clone()
    }

    /// The message begins; content that it brings along is taken whole. `whole` tells that nothing follows, so that its figures are
    /// the last ones.
    pub(super) fn start(&mut self, message: Response, whole: bool) {
        self.started = true;
        let context = self.context();
        if let Some(id) = &message.id {
            let resource = context.operation_id.resource(ROOT + 1);
            self.keeper.payload(
                Keep {
                    schema: kept::MESSAGE_ID,
                    resource_type: ResourceType::Response,
                    subject: None,
                    resource_id: resource,
                    paths: vec!["/id".to_owned()],
                },
                id.as_bytes().to_vec(),
            );
        }
        self.message_id = message.id;
        let model = context.model(message.model);
        self.model = Some(model.clone());
        self.out.push(context.started(self.keeper.profile.clone(), &model, None));
        self.root.extend(below("", message.extra.0));
        self.end(Ending {
            stop_reason: message.stop_reason,
            stop_sequence: message.stop_sequence,
            stop_details: message.stop_details,
            extra: crate::wire::Extra::default(),
        });
        self.usage(message.usage, whole || self.ending.stop_reason.is_some());
        for (index, block) in message.content.unwrap_or_default().into_iter().enumerate() {
            self.begin(index as u64, block);
            self.close(index as u64);
        }
    }

    /// Usage fields replace those of the same name; `last` tells that counting is over.
    pub(super) fn usage(&mut self, usage: Option<Members>, last: bool) {
        let Some(usage) = usage.filter(|usage| !usage.extra.is_empty()) else {
            return;
        };
        for (key, value) in usage.extra.0 {
            assign(&mut self.usage, key, value);
        }
        let unified = usage::decode(&raw::object(self.usage.clone()), last);
        self.out.push(EventBody::UsageUpdate(UsageUpdate { usage: unified }));
    }

    /// How the message ends, as far as it is told; and fields beside it.
    pub(super) fn end(&mut self, ending: Ending) {
        self.root.extend(below("", ending.extra.0));
        if ending.stop_reason.is_some() {
            self.ending.stop_reason = ending.stop_reason;
        }
        if ending.stop_sequence.is_some() {
            self.ending.stop_sequence = ending.stop_sequence;
        }
        if ending.stop_details.is_some() {
            self.ending.stop_details = ending.stop_details;
        }
    }

    /// Keeps an error body as it was written.
    pub(super) fn error_body(&mut self, text: &str) {
        let resource = self.context().operation_id.resource(ROOT + 3);
        self.keeper.payload(
            Keep {
                schema: kept::ERROR_BODY,
                resource_type: ResourceType::Other("error".into()),
                subject: None,
                resource_id: resource,
                paths: vec![String::new()],
            },
            text.as_bytes().to_vec(),
        );
    }

    /// Fields of the message without a Unified word.
    pub(super) fn root_fields(&mut self, fields: Vec<(String, Json)>) {
        self.root.extend(below("", fields));
    }

    pub(super) fn next_item(&mut self) -> UnifiedId {
        let id = self.context().item_id(self.items.len() as u64);
        self.items.push(id.clone());
        id
    }

    pub(super) fn item(&self, id: &UnifiedId, status: ItemStatus, body: UnifiedItemBody) -> UnifiedItem {
        let context = self.context();
        let position = self.items.iter().position(|item| item == id).unwrap_or_default();
        let parent = position.checked_sub(1).and_then(|before| self.items.get(before)).cloned();
        let provenance = context.provenance(ItemOrigin::Provider, self.keeper.profile.clone(), self.model.as_deref());
        let mut item = context.item(id.clone(), position as u64, parent, Role::Assistant, provenance, body);
        item.status = status;
        item
    }

    pub(super) fn tell(&mut self, draft: EventDraft) {
        self.out.drafts.push(draft);
    }

    pub(super) fn started_item(&mut self, id: &UnifiedId, whole: Whole) {
        let mut item = self.item(id, ItemStatus::InProgress, whole.body);
        item.base.provider_data = whole.provider_data;
        self.tell(EventDraft::of_item(id.clone(), EventBody::ItemStarted(ItemStarted { item })));
    }

    pub(super) fn completed_item(&mut self, id: &UnifiedId, whole: Whole) {
        self.ended_item(id, ItemStatus::Completed, whole);
    }

    /// An item that is told whole at its end.
    pub(super) fn ended_item(&mut self, id: &UnifiedId, status: ItemStatus, whole: Whole) {
        let mut item = self.item(id, status, whole.body);
        item.base.provider_data = whole.provider_data;
        self.tell(EventDraft::of_item(
            id.clone(),
            EventBody::ItemCompleted(ItemCompleted { status, item: Some(item) }),
        ));
    }

    pub(super) fn finish_item(&mut self, id: &UnifiedId, status: ItemStatus) {
        self.tell(EventDraft::of_item(
            id.clone(),
            EventBody::ItemCompleted(ItemCompleted { status, item: None }),
        ));
    }

    pub(super) fn item_delta(&mut self, item_id: &UnifiedId, part_id: Option<&UnifiedId>, delta: ItemDelta) {
        let mut draft = EventDraft::of_item(item_id.clone(), EventBody::ItemDelta(ItemDeltaEvent { delta }));
        draft.part_id = part_id.cloned();
        self.tell(draft);
    }

    /// Something of the stream that is left out, with what it is a feature of and where it stood. A warning and no loss entry:
    /// the result of a stream and that of the same answer unstreamed are the same.
    pub(super) fn left_out(&mut self, code: &str, feature: Feature, path: &str, how: &str) {
        self.warn(code, format!("{} at {path}: {how}", feature.as_str()));
    }

    /// Something of the stream that this version does not understand: kept for its owner, and told once.
    pub(super) fn odd(&mut self, code: &str, raw: &Json, what: &str) {
        let (number, path) = (self.odd, format!("/events/{}", self.odd));
        self.odd += 1;
        if number >= MAX_ODD {
            self.left_out(code, Feature::WireUnmapped, &path, "beyond the bounds of what is kept");
            return;
        }
        let resource_id = odd_id(&self.context().operation_id, number);
        let payload = raw.as_str().as_bytes().to_vec();
        let kind = ResourceType::Other("event".into());
        self.keeper.payload(
            Keep {
                schema: kept::EVENT,
                resource_type: kind,
                subject: None,
                resource_id,
                paths: vec![path.clone()],
            },
            payload,
        );
        let how = format!("{what} is kept for the same owner");
        self.left_out(code, Feature::WireUnmapped, &path, &how);
    }

    /// Members of a piece that this version does not know: its text goes on without them, which is told once for each.
    pub(super) fn piece_fields(&mut self, index: u64, extra: &crate::wire::Extra) {
        for (key, _) in &extra.0 {
            if key == "type" || self.piece_fields.len() >= MAX_FIELDS || !self.piece_fields.insert(key.clone()) {
                continue;
            }
            let path = format!("/content/{index}/{}", throughline_format::json::escape_pointer_token(key));
            let how = "a field of a piece of the stream is left out";
            self.left_out("stream.unknown-field", Feature::WireUnmapped, &path, how);
        }
    }

    /// A remark that changes nothing.
    pub(super) fn warn(&mut self, code: &str, text: impl Into<String>) {
        self.out.push(EventBody::Warning(Warning::new(code, &text.into())));
    }

    /// No further text goes to the message item.
    pub(super) fn end_run(&mut self) {
        self.sweep_runs(true);
    }

    pub(super) fn sweep_runs(&mut self, ending: bool) {
        if ending {
            self.runs.iter_mut().for_each(|run| run.ending = true);
        }
        let done: Vec<_> = self
            .runs
            .iter()
            .filter(|run| run.ending && run.open == 0)
            .map(|run| run.item_id.clone())
            .collect();
        self.runs.retain(|run| !run.ending || run.open > 0);
        for item_id in done {
            self.finish_item(&item_id, ItemStatus::Completed);
        }
    }

    /// The message ends well.
    pub(super) fn complete(&mut self) {
        // One block may end another one.
        while let Some((&index, _)) = self.open.first_key_value() {
            self.left_out(
                "stream.block-left-open",
                Feature::ConversationInterruption,
                &format!("/content/{index}"),
                "the message ended before its block; the block ends there",
            );
            self.close(index);
        }
        self.end_run();
        let status = self.status();
        self.finish_root();
        let items = self.items.clone();
        self.out.complete(status, items);
    }

    /// The message ends badly; what is open stays unfinished.
    pub(super) fn fail(&mut self, error: UnifiedError, reason: UnifiedFinishReason) {
        self.finish_root();
        let items = self.items.clone();
        self.out.fail(error, UnifiedResponseStatus::finished(reason, None), items);
    }

    /// Fields of the message that are kept, usage as written, and what was lost.
    fn finish_root(&mut self) {
        let context = self.context();
        if let Some(tier) = self
            .usage
            .iter()
            .find(|(key, _)| key == "service_tier")
            .and_then(|(_, tier)| tier.decode::<Option<String>>().ok().flatten())
        {
            self.out.push(EventBody::ResponseMetadata(ResponseMetadata {
                service_tier: Some(tier),
                ..ResponseMetadata::default()
            }));
        }
        let mut fields = std::mem::take(&mut self.root);
        self.container(&mut fields);
        self.applied_edits(&fields);
        if let Some(details) = &self.ending.stop_details {
            fields.extend(below("/stop_details", details.extra.0.clone()));
        }
        let mut last: Vec<(String, Json)> = Vec::new();
        for (key, value) in fields {
            assign(&mut last, key, value);
        }
        self.keeper.fields(None, context.operation_id.resource(ROOT), "", last);
        if !self.usage.is_empty() {
            self.report_usage();
            let payload = raw::object(std::mem::take(&mut self.usage)).as_str().as_bytes().to_vec();
            self.keeper.payload(
                Keep {
                    schema: kept::USAGE,
                    resource_type: ResourceType::Other("usage".into()),
                    subject: None,
                    resource_id: context.operation_id.resource(ROOT + 2),
                    paths: vec!["/usage".to_owned()],
                },
                payload,
            );
        }
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

    /// The container that the answer's code ran in: its handle is sealed, and the answer's state refers to it.
    fn container(&mut self, fields: &mut Vec<(String, Json)>) {
        let told = fields.iter().rposition(|(key, value)| key == "/container" && value.is_object());
        let Some((at, mut members)) = told.and_then(|at| Some((at, fields.get(at)?.1.decode::<Members>().ok()?))) else {
            return;
        };
        let Some(handle) = members.extra.take("id").and_then(|id| id.decode::<String>().ok()) else {
            return;
        };
        let expires = members.extra.0.iter().find(|(key, _)| key == "expires_at");
        let expires_at = expires
            .and_then(|(_, time)| time.decode::<String>().ok())
            .and_then(|time| Timestamp::parse(&time).ok());
        let resource_id = self.context().operation_id.resource(ROOT + 4);
        let (schema, kind) = (kept::CONTAINER, ResourceType::Container);
        self.keeper.payload(
            Keep {
                schema,
                resource_type: kind.clone(),
                subject: None,
                resource_id: resource_id.clone(),
                paths: vec!["/container/id".to_owned()],
            },
            handle.into_bytes(),
        );
        let mut resource = self.keeper.resource_ref(resource_id, kind);
        resource.expires_at = expires_at;
        self.out.push(EventBody::ResponseMetadata(ResponseMetadata {
            resources: Some(vec![resource]),
            ..ResponseMetadata::default()
        }));
        // What the reference does not say comes back beside the handle.
        fields.retain(|(key, _)| key != "/container");
        fields.splice(at.min(fields.len())..at.min(fields.len()), below("/container", members.extra.0));
    }

    /// What the provider cleared from its context before it answered.
    fn applied_edits(&mut self, fields: &[(String, Json)]) {
        let told = fields.iter().rev().find(|(key, _)| key == "/context_management");
        let edits = told.and_then(|(_, value)| value.decode::<AppliedEdits>().ok());
        for edit in edits.into_iter().flat_map(|edits| edits.applied_edits) {
            let word = edit
                .extra
                .0
                .iter()
                .find(|(key, _)| key == "type")
                .and_then(|(_, word)| word.decode::<String>().ok())
                .unwrap_or_default();
            let figures: Vec<_> = edit.extra.0.iter().filter(|(key, _)| key != "type").collect();
            let figures: Vec<_> = figures
                .into_iter()
                .map(|(key, value)| format!("{key} {}", value.as_str()))
                .collect();
            self.warn(
                "state.context-edited",
                format!("the provider edited the context: {word:.60} ({:.200})", figures.join(", ")),
            );
        }
    }

    /// Figures and words of the usage that no counter says.
    fn report_usage(&mut self) {
        for key in usage::unsaid(&self.usage) {
            self.keeper.loss.info(
                Feature::WireUnmapped,
                format!("/usage/{key}"),
                "no Unified word; kept for the same owner",
            );
        }
    }

    fn status(&self) -> UnifiedResponseStatus {
        let word = self.ending.stop_reason.clone();
        let reason = match word.as_deref() {
            Some("end_turn" | "stop_sequence") if !self.client_calls.is_empty() => UnifiedFinishReason::ToolCalls,
            Some("end_turn" | "stop_sequence") => UnifiedFinishReason::Stop,
            Some("max_tokens") => UnifiedFinishReason::Length,
            Some("tool_use") => UnifiedFinishReason::ToolCalls,
            Some("pause_turn" | "compaction") => UnifiedFinishReason::Paused,
            Some("refusal") => UnifiedFinishReason::Refusal,
            Some("model_context_window_exceeded") => UnifiedFinishReason::MaxContext,
            _ => UnifiedFinishReason::Unknown,
        };
        let mut status = UnifiedResponseStatus::finished(reason, word);
        status.stop_sequence.clone_from(&self.ending.stop_sequence);
        status.safety = self.ending.stop_details.as_ref().map(|d| SafetyDetail {
            category: d.category.clone(),
            explanation: d.explanation.clone(),
        });
        status
    }
}

#[derive(serde::Deserialize)]
struct AppliedEdits {
    applied_edits: Vec<Members>,
}

/// Sets a member; the last value counts and `null` counts as not told.
fn assign(members: &mut Vec<(String, Json)>, key: String, value: Json) {
    if value.as_str() == "null" {
        return;
    }
    match members.iter_mut().find(|(known, _)| *known == key) {
        Some((_, old)) => *old = value,
        None => members.push((key, value)),
    }
}
