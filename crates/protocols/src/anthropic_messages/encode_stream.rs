//! Committed events as a stream of the wire: one block open at a time, others wait behind it.

use super::answer::odd_id;
use super::encode_block::is_native;
use super::encode_response::{self, Writer, stop_reason};
use super::out_block::OutBlock;
use super::{errors, usage};
use crate::codec::{StreamEncoder, WireFrame};
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::keeper;
use crate::raw::{self};
use crate::raw::{json, object};
use crate::turn_usage;
use std::collections::VecDeque;
use throughline_format::event::{ItemDelta, StreamCompleted};
use throughline_format::{
    EventBody, Json, UnifiedError, UnifiedEventV2, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedLossReport, UnifiedUsage,
};

/// The encoder of one stream.
pub(super) struct Encoder {
    writer: Writer,
    begun: bool,
    ended: bool,
    index: u64,
    slots: VecDeque<Slot>,
    model: String,
    native: bool,
    usage: Option<UnifiedUsage>,
    /// Class of service that the answer reports.
    tier: Option<String>,
    error: Option<UnifiedError>,
    /// Number of events and changes so far that the decoder did not understand.
    odd: u64,
    /// Items whose content comes in pieces.
    items: Vec<UnifiedItem>,
}

/// A block on its way to the wire.
struct Slot {
    item_id: UnifiedId,
    part_id: Option<UnifiedId>,
    block: OutBlock,
    /// Pieces that wait for the slot to become the first.
    waiting: Vec<Json>,
    /// Whether `content_block_start` is out.
    open: bool,
    /// Whether the block is complete.
    done: bool,
}

impl Encoder {
    /// An encoder at the begin of a stream.
    pub(super) fn new(context: &EncodeContext) -> Self {
        let model = context.target_model.clone().unwrap_or_else(|| crate::UNSPECIFIED_MODEL.into());
        Self {
            writer: Writer::new(context.clone()),
            begun: false,
            ended: false,
            index: 0,
            slots: VecDeque::new(),
            model,
            native: false,
            usage: None,
            tier: None,
            odd: 0,
            error: None,
            items: Vec::new(),
        }
    }

    fn begin(&mut self, frames: &mut Vec<WireFrame>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let counters = self.usage.as_ref().map(|usage| turn_usage::of_answer(usage).0);
        let (usage, unknown) = usage::encode(counters.as_ref());
        if unknown {
            self.writer.loss.info(
                Feature::ResponseUsage,
                "/usage",
                "the wire demands counters at the begin; unknown ones are written as zero",
            );
        }
        let message = object(vec![
            ("id".into(), json(&self.writer.message_id())),
            ("type".into(), json("message")),
            ("role".into(), json("assistant")),
            ("model".into(), json(&self.model)),
            ("content".into(), json::<[Json]>(&[])),
            ("stop_reason".into(), Json::null()),
            ("stop_sequence".into(), Json::null()),
            ("usage".into(), usage),
        ]);
        frames.push(frame("message_start", vec![("message", message)]));
    }

    /// Writes what may be written: the first slot's pieces, and following slots once it is done.
    fn pump(&mut self, frames: &mut Vec<WireFrame>) {
        while let Some(slot) = self.slots.front_mut() {
            if slot.done && slot.block.is_void() && !slot.open {
                self.slots.pop_front();
                continue;
            }
            // Nothing is begun that may turn out to be nothing.
            if !slot.open && slot.waiting.is_empty() && !slot.done && slot.block.may_be_void() {
                return;
            }
            let index = self.index;
            let start = (!slot.open).then(|| slot.block.start());
            slot.open = true;
            let pieces = std::mem::take(&mut slot.waiting);
            let done = slot.done;
            if let Some(start) = start {
                self.begin(frames);
                frames.push(frame(
                    "content_block_start",
                    vec![("index", json(&index)), ("content_block", start)],
                ));
            }
            frames.extend(
                pieces
                    .into_iter()
                    .map(|piece| frame("content_block_delta", vec![("index", json(&index)), ("delta", piece)])),
            );
            if !done {
                return;
            }
            frames.push(frame("content_block_stop", vec![("index", json(&index))]));
            self.index += 1;
            self.slots.pop_front();
        }
    }

    fn slot(&mut self, item_id: Option<&UnifiedId>, part_id: Option<&UnifiedId>) -> Option<&mut Slot> {
        let item_id = item_id?;
        self.slots
            .iter_mut()
            .rev()
            .find(|slot| slot.item_id == *item_id && slot.part_id.as_ref() == part_id && !slot.done)
    }

    fn add(&mut self, item_id: &UnifiedId, part_id: Option<&UnifiedId>, block: OutBlock) {
        self.slots.push_back(Slot {
            item_id: item_id.clone(),
            part_id: part_id.cloned(),
            block,
            waiting: Vec::new(),
            open: false,
            done: false,
        });
    }

    /// A block that is complete from the begin.
    fn add_whole(&mut self, item_id: &UnifiedId, block: OutBlock) {
        let waiting = block.pieces();
        self.slots.push_back(Slot {
            item_id: item_id.clone(),
            part_id: None,
            block,
            waiting,
            open: false,
            done: true,
        });
    }

    fn started(&mut self, item: &UnifiedItem) {
        self.items.push(item.clone());
        // Computer actions and code stand in the item already.
        if let UnifiedItemBody::ComputerAction(_) | UnifiedItemBody::CodeExecution(_) = &item.body {
            for block in self.writer.item(item, "/output") {
                self.add_whole(&item.id, block);
            }
        }
        if let UnifiedItemBody::ToolCall(_) | UnifiedItemBody::ServerToolCall(_) = &item.body
            && let Some(mut block) = self.writer.item(item, "").pop()
        {
            block.empty_input();
            self.add(&item.id, None, block);
        }
        // Parts that stand in the item already count as whole.
        if !item.parts().is_empty() {
            for block in self.writer.item(item, "") {
                self.add_whole(&item.id, block);
            }
        }
    }

    fn item_delta(&mut self, event: &UnifiedEventV2, delta: &ItemDelta) {
        let (Some(item_id), part_id) = (event.item_id.as_ref(), event.part_id.as_ref()) else {
            return;
        };
        match delta {
            ItemDelta::PartStarted(started) => {
                let Some(item) = self.items.iter().rev().find(|i| i.id == *item_id).cloned() else {
                    return;
                };
                if !matches!(item.body, UnifiedItemBody::Message(_) | UnifiedItemBody::Reasoning(_)) {
                    return;
                }
                let part_id = Some(&started.part.base.part_id);
                let Some(block) = self.writer.part(&item, &started.part, "") else {
                    return;
                };
                let pieces = block.pieces_of_text();
                self.add(item_id, part_id, block);
                if let Some(slot) = self.slot(Some(item_id), part_id) {
                    slot.waiting = pieces;
                }
            }
            ItemDelta::PartCompleted(_) => self.complete_part(item_id, part_id),
            ItemDelta::Field(field) => {
                let Ok(reference) = field.value.decode() else { return };
                let list = self.writer.citations(&reference);
                if let (Some(list), Some(slot)) = (list, self.slot(Some(item_id), part_id)) {
                    slot.block.set_citations(list);
                }
            }
            ItemDelta::Media(_) | ItemDelta::Output(_) => {}
        }
    }

    /// What the decoder did not understand goes on to its owner where it stood, as far as the stream has a place for it.
    fn odd(&mut self, event: &UnifiedEventV2, code: &str, frames: &mut Vec<WireFrame>) {
        if !super::KEPT_ODD.contains(&code) {
            return;
        }
        let id = odd_id(&event.operation_id, self.odd);
        self.odd += 1;
        let raw = self.writer.context.private.payload(&id).filter(|_| self.native);
        let Some(raw) = raw.and_then(|bytes| keeper::to_json(&bytes)).filter(Json::is_object) else {
            return;
        };
        if code == super::UNKNOWN_DELTA && self.slots.front().is_some_and(|slot| slot.open) {
            frames.push(frame("content_block_delta", vec![("index", json(&self.index)), ("delta", raw)]));
        } else if code == super::UNKNOWN_EVENT {
            self.begin(frames);
            frames.push(WireFrame {
                event: None,
                data: one_line(&raw),
            });
        }
    }

    fn complete_part(&mut self, item_id: &UnifiedId, part_id: Option<&UnifiedId>) {
        let sealer = self.writer.context.synthetic.clone();
        if let Some(slot) = self.slot(Some(item_id), part_id) {
            slot.waiting.extend(slot.block.last_pieces(&sealer));
            slot.done = true;
        }
    }

    /// The item is complete: so are its blocks.
    fn complete_item(&mut self, item_id: &UnifiedId, whole: Option<&UnifiedItem>) {
        let known = self.items.iter().any(|i| i.id == *item_id);
        if let Some(item) = whole.filter(|_| !known) {
            self.items.push(item.clone());
            for block in self.writer.item(item, "") {
                self.add_whole(item_id, block);
            }
            return;
        }
        let open: Vec<_> = self
            .slots
            .iter()
            .filter(|s| s.item_id == *item_id && !s.done)
            .map(|s| s.part_id.clone())
            .collect();
        for part_id in open {
            self.complete_part(item_id, part_id.as_ref());
        }
        let in_pieces = |body: &UnifiedItemBody| match body {
            UnifiedItemBody::ToolCall(_)
            | UnifiedItemBody::ServerToolCall(_)
            | UnifiedItemBody::Message(_)
            | UnifiedItemBody::Reasoning(_)
            | UnifiedItemBody::ComputerAction(_)
            | UnifiedItemBody::CodeExecution(_) => true,
            UnifiedItemBody::ToolResult(_)
            | UnifiedItemBody::ApprovalRequest(_)
            | UnifiedItemBody::ApprovalResponse(_)
            | UnifiedItemBody::ServerToolResult(_)
            | UnifiedItemBody::ComputerActionResult(_)
            | UnifiedItemBody::CodeExecutionResult(_)
            | UnifiedItemBody::SearchResult(_)
            | UnifiedItemBody::RetrievalResult(_)
            | UnifiedItemBody::Artifact(_)
            | UnifiedItemBody::Reference(_)
            | UnifiedItemBody::CompactionSummary(_)
            | UnifiedItemBody::ProviderSwitch(_)
            | UnifiedItemBody::Interruption(_)
            | UnifiedItemBody::Error(_) => false,
        };
        if !self.items.iter().any(|i| i.id == *item_id && in_pieces(&i.body)) {
            self.writer.loss.warning(
                Feature::ConversationItem,
                "/output",
                "the wire has no form for an item of this kind",
            );
        }
    }

    fn finish(&mut self, done: &StreamCompleted, frames: &mut Vec<WireFrame>) {
        self.ended = true;
        if let Some(error) = self.error.take() {
            self.writer.loss.untold_usage(self.usage.as_ref());
            frames.push(WireFrame {
                event: Some("error"),
                data: errors::encode(&error).body,
            });
            return;
        }
        for slot in &mut self.slots {
            slot.done = true;
        }
        self.pump(frames);
        self.begin(frames);
        let root = self.writer.root();
        let (mut delta, beside) = root.split();
        let mut ending = vec![
            (
                "stop_reason".to_owned(),
                stop_reason(&done.status, self.native, &mut self.writer.loss),
            ),
            (
                "stop_sequence".to_owned(),
                done.status.stop_sequence.as_ref().map_or_else(Json::null, json),
            ),
        ];
        ending.extend(
            encode_response::stop_details(&done.status, self.native, &mut self.writer.loss)
                .map(|details| ("stop_details".to_owned(), details)),
        );
        let ending = raw::put_all(object(ending), &std::mem::take(&mut delta));
        let usage = self.writer.usage(self.usage.as_ref(), self.tier.as_deref());
        let event = raw::put_all(
            object(vec![
                ("type".into(), json("message_delta")),
                ("delta".into(), ending),
                ("usage".into(), usage),
            ]),
            &beside,
        );
        frames.push(WireFrame {
            event: Some("message_delta"),
            data: one_line(&event),
        });
        frames.push(frame("message_stop", Vec::new()));
    }
}

impl StreamEncoder for Encoder {
    fn push(&mut self, event: &UnifiedEventV2) -> Vec<WireFrame> {
        let mut frames = Vec::new();
        if self.ended || event.candidate.is_some() {
            return frames;
        }
        let (item_id, part_id) = (event.item_id.as_ref(), event.part_id.as_ref());
        match &event.body {
            EventBody::Heartbeat(_) => {
                if self.begun {
                    frames.push(frame("ping", Vec::new()));
                }
                return frames;
            }
            EventBody::ResponseStarted(started) => {
                self.native = is_native(Some(&started.profile));
                self.writer.native = self.native;
                self.writer.response_id = Some(started.response_id.clone());
                self.tier.clone_from(&started.model.service_tier);
                if self.writer.context.target_model.is_none() {
                    self.model.clone_from(&started.model.model);
                }
            }
            EventBody::ResponseMetadata(metadata) => {
                let model = metadata.model.as_ref().and_then(|model| model.service_tier.as_ref());
                if let Some(tier) = metadata.service_tier.as_ref().or(model) {
                    self.tier = Some(tier.clone());
                }
            }
            EventBody::UsageUpdate(update) => self.usage = Some(update.usage.clone()),
            EventBody::ItemStarted(started) => self.started(&started.item),
            EventBody::ItemDelta(change) => self.item_delta(event, &change.delta),
            EventBody::ItemCompleted(done) => {
                if let Some(item_id) = item_id {
                    self.complete_item(item_id, done.item.as_ref());
                }
            }
            EventBody::ItemFailed(_) => {
                if let Some(item_id) = item_id {
                    self.complete_item(item_id, None);
                }
            }
            EventBody::TextDelta(delta) | EventBody::ReasoningDelta(delta) => {
                if let Some(slot) = self.slot(item_id, part_id) {
                    slot.waiting.extend(slot.block.append(&delta.text));
                }
            }
            EventBody::SignatureReady(ready) => {
                let payload = self.writer.signature(&ready.provider_data);
                if let (Some(payload), Some(slot)) = (payload, self.slot(item_id, part_id)) {
                    slot.block.sign(payload);
                }
            }
            EventBody::ToolArgumentsDelta(delta) => {
                if let Some(slot) = self.slot(item_id, None) {
                    slot.waiting.extend(slot.block.append(&delta.text));
                }
            }
            EventBody::ToolArgumentsReady(ready) => {
                if let Some(slot) = self.slot(item_id, None) {
                    slot.waiting.extend(slot.block.arguments(&ready.raw_arguments));
                    slot.done = true;
                }
            }
            EventBody::CitationReady(ready) => {
                let citation = self.writer.citation(&ready.annotation, "/output");
                if let (Some(citation), Some(slot)) = (citation, self.slot(item_id, part_id)) {
                    slot.block.cite(citation);
                }
            }
            EventBody::Warning(warning) => {
                self.pump(&mut frames);
                self.odd(event, &warning.code, &mut frames);
                return frames;
            }
            EventBody::OperationFailed(failed) => self.error = Some(failed.error.clone()),
            EventBody::OperationCancelled(_) | EventBody::OperationExpired(_) => {
                let category = throughline_format::ErrorCategory::Cancelled;
                self.error = Some(UnifiedError::new(
                    category,
                    "operation",
                    "the operation was ended before its answer",
                ));
            }
            EventBody::StreamCompleted(done) => {
                self.finish(done, &mut frames);
                return frames;
            }
            _ => {}
        }
        self.pump(&mut frames);
        frames
    }

    fn loss(&self) -> &UnifiedLossReport {
        self.writer.loss.report()
    }

    fn keep_alive(&self) -> std::borrow::Cow<'static, str> {
        if self.begun {
            "event: ping\ndata: {\"type\":\"ping\"}\n\n".into()
        } else {
            ": keep-alive\n\n".into()
        }
    }
}

/// A frame whose event name is its type.
fn frame(kind: &'static str, members: Vec<(&str, Json)>) -> WireFrame {
    let mut list = vec![("type".to_owned(), json(kind))];
    list.extend(members.into_iter().map(|(key, value)| (key.to_owned(), value)));
    WireFrame {
        event: Some(kind),
        data: one_line(&object(list)),
    }
}

/// The JSON as one line: values that are kept as written may stand on several.
fn one_line(value: &Json) -> String {
    value.as_str().replace(['\n', '\r'], " ")
}
