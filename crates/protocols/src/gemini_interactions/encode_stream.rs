//! Committed events as a stream of the wire: steps by index, each begun, changed and ended.

use super::decode_step::text_content;
use super::encode_response::{self, counters, interaction_id};
use super::encode_step::{StepEncoder, annotation_json, typed};
use super::{errors, kept};
use crate::codec::{StreamEncoder, WireFrame};
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::keeper::text_of;
use crate::projection::LossCollector;
use crate::raw::{self, json, object};
use throughline_format::event::{ItemDelta, StreamCompleted};
use throughline_format::{
    EventBody, Json, PartBody, UnifiedContentPart, UnifiedError, UnifiedEventV2, UnifiedId, UnifiedItem, UnifiedItemBody,
    UnifiedLossReport, UnifiedUsage,
};

/// The encoder of one stream.
pub(super) struct Encoder {
    context: EncodeContext,
    loss: LossCollector,
    native: bool,
    begun: bool,
    ended: bool,
    model: String,
    id: Json,
    number: u64,
    usage: Option<UnifiedUsage>,
    tier: Option<String>,
    error: Option<UnifiedError>,
    open: Vec<Slot>,
    next: u64,
}

/// A step that is open.
struct Slot {
    item: UnifiedItem,
    index: u64,
    /// Parts with their text so far.
    parts: Vec<(UnifiedContentPart, String)>,
    arguments: String,
}

impl Encoder {
    /// An encoder at the begin of a stream.
    pub(super) fn new(context: &EncodeContext) -> Self {
        Self {
            context: context.clone(),
            loss: LossCollector::new(),
            native: false,
            begun: false,
            ended: false,
            model: context.target_model.clone().unwrap_or_else(|| crate::UNSPECIFIED_MODEL.into()),
            id: json("interaction"),
            number: 0,
            usage: None,
            tier: None,
            error: None,
            open: Vec::new(),
            next: 0,
        }
    }

    fn with<T>(&mut self, run: impl FnOnce(&mut StepEncoder<'_>) -> T) -> T {
        let context = self.context.clone();
        let mut encoder = StepEncoder::new(&context);
        encoder.answering = true;
        std::mem::swap(&mut encoder.loss, &mut self.loss);
        let made = run(&mut encoder);
        std::mem::swap(&mut encoder.loss, &mut self.loss);
        made
    }

    /// A frame; the ID of an event is its number, so that a client can say where it stopped.
    fn frame(&mut self, kind: &'static str, members: Vec<(&str, Json)>) -> WireFrame {
        self.number += 1;
        let mut list = vec![("event_type".to_owned(), json(kind))];
        list.extend(members.into_iter().map(|(key, value)| (key.to_owned(), value)));
        list.push(("event_id".into(), json(&self.number.to_string())));
        WireFrame {
            event: Some(kind),
            data: object(list).as_str().replace(['\n', '\r'], " "),
        }
    }

    fn begin(&mut self, frames: &mut Vec<WireFrame>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let interaction = object(vec![
            ("id".into(), self.id.clone()),
            ("object".into(), json("interaction")),
            ("model".into(), json(&self.model)),
            ("status".into(), json("in_progress")),
        ]);
        frames.push(self.frame("interaction.created", vec![("interaction", interaction)]));
    }

    fn slot(&mut self, item: Option<&UnifiedId>) -> Option<&mut Slot> {
        self.open.iter_mut().rev().find(|slot| Some(&slot.item.id) == item)
    }

    fn delta(&mut self, index: u64, delta: Json) -> WireFrame {
        self.frame("step.delta", vec![("index", json(&index)), ("delta", delta)])
    }

    fn started(&mut self, item: &UnifiedItem, frames: &mut Vec<WireFrame>) {
        let step = match &item.body {
            UnifiedItemBody::Message(_) => typed("model_output", Vec::new()),
            UnifiedItemBody::Reasoning(_) => typed("thought", Vec::new()),
            UnifiedItemBody::ToolCall(_) => {
                let made = self.with(|encoder| encoder.item(item, "/output"));
                let Some(made) = made else { return };
                raw::put(&made, "/arguments", &object(Vec::new()))
            }
            _ => return,
        };
        self.begin(frames);
        let index = self.next;
        self.next += 1;
        frames.push(self.frame("step.start", vec![("index", json(&index)), ("step", step)]));
        self.open.push(Slot {
            item: item.clone(),
            index,
            parts: Vec::new(),
            arguments: String::new(),
        });
    }

    /// A step that comes whole.
    fn whole(&mut self, item: &UnifiedItem, frames: &mut Vec<WireFrame>) {
        let Some(step) = self.with(|encoder| encoder.item(item, "/output")) else {
            return;
        };
        self.begin(frames);
        let index = self.next;
        self.next += 1;
        frames.push(self.frame("step.start", vec![("index", json(&index)), ("step", step)]));
        frames.push(self.frame("step.stop", vec![("index", json(&index))]));
    }

    fn part_started(&mut self, event: &UnifiedEventV2, part: &UnifiedContentPart, frames: &mut Vec<WireFrame>) {
        let text = part.as_text().unwrap_or_default().to_owned();
        let Some(slot) = self.slot(event.item_id.as_ref()) else { return };
        slot.parts.push((part.clone(), String::new()));
        if !text.is_empty() {
            self.text(event.item_id.as_ref(), Some(&part.part_id), &text, frames);
        }
    }

    fn text(&mut self, item: Option<&UnifiedId>, part: Option<&UnifiedId>, text: &str, frames: &mut Vec<WireFrame>) {
        let Some(slot) = self.slot(item) else { return };
        let index = slot.index;
        let Some((known, so_far)) = slot.parts.iter_mut().find(|(p, _)| Some(&p.part_id) == part) else {
            return;
        };
        so_far.push_str(text);
        // A summary is told as a whole, when its part ends.
        if !matches!(known.body, PartBody::Reasoning(_)) {
            let delta = text_content(text);
            frames.push(self.delta(index, delta));
        }
    }

    fn part_completed(&mut self, event: &UnifiedEventV2, frames: &mut Vec<WireFrame>) {
        let Some(slot) = self.slot(event.item_id.as_ref()) else { return };
        let (index, item) = (slot.index, slot.item.clone());
        let Some((part, text)) = slot.parts.iter().find(|(p, _)| Some(&p.part_id) == event.part_id.as_ref()).cloned() else {
            return;
        };
        match &part.body {
            PartBody::Reasoning(_) if !text.is_empty() => {
                let delta = typed("thought_summary", vec![("content", Some(text_content(&text)))]);
                frames.push(self.delta(index, delta));
            }
            PartBody::Text(_) | PartBody::Refusal(_) | PartBody::Reasoning(_) => {}
            _ => {
                let made = self.with(|encoder| {
                    let place = super::encode_step::Place {
                        path: "/output",
                        item: &item.id,
                    };
                    encoder.part(&part, place)
                });
                if let Some(made) = made {
                    frames.push(self.delta(index, made));
                }
            }
        }
    }

    fn completed(&mut self, event: &UnifiedEventV2, whole: Option<&UnifiedItem>, frames: &mut Vec<WireFrame>) {
        let at = self.open.iter().position(|slot| Some(&slot.item.id) == event.item_id.as_ref());
        match (at, whole) {
            (Some(at), _) => {
                let slot = self.open.remove(at);
                frames.push(self.frame("step.stop", vec![("index", json(&slot.index))]));
            }
            (None, Some(item)) => self.whole(item, frames),
            (None, None) => {
                let reason = "the wire has no form for an item of this kind";
                self.loss.warning(Feature::ConversationItem, "/output", reason);
            }
        }
    }

    fn finish(&mut self, done: &StreamCompleted, frames: &mut Vec<WireFrame>) {
        self.ended = true;
        self.begin(frames);
        let native = self.native;
        let mut shell = encode_response::shell(&self.context, native);
        if let Some(error) = self
            .error
            .take()
            .filter(|_| shell.is_empty() || done.status.original_reason.is_none())
        {
            self.loss.untold_usage(self.usage.as_ref());
            frames.push(self.frame("error", vec![("error", errors::event(&error))]));
            return;
        }
        for slot in std::mem::take(&mut self.open) {
            frames.push(self.frame("step.stop", vec![("index", json(&slot.index))]));
        }
        let usage = self.usage.take();
        let own = shell.iter().find(|(key, _)| key == "usage").map(|(_, usage)| usage.clone());
        let word = self.with(|encoder| encode_response::status(encoder, &done.status, native));
        let counted = self.with(|encoder| counters(encoder, own, usage.as_ref(), native));
        if shell.is_empty() {
            shell.push(("id".to_owned(), self.id.clone()));
            shell.push(("object".into(), json("interaction")));
            shell.push(("model".into(), json(&self.model)));
            shell.push(("status".into(), word));
            shell.extend(counted.map(|u| ("usage".to_owned(), u)));
            let tier = self.tier.take();
            let tier = self.with(|encoder| encode_response::service_tier(encoder, tier.as_deref()));
            shell.extend(tier.map(|tier| ("service_tier".to_owned(), tier)));
        }
        frames.push(self.frame("interaction.completed", vec![("interaction", object(shell))]));
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
            EventBody::ResponseStarted(started) => {
                self.native = started.profile.family == super::profile().family;
                self.id = interaction_id(&started.response_id);
                if self.context.target_model.is_none() {
                    self.model.clone_from(&started.model.model);
                }
                self.tier.clone_from(&started.model.service_tier);
                self.begin(&mut frames);
            }
            EventBody::ResponseMetadata(metadata) if metadata.service_tier.is_some() => {
                self.tier.clone_from(&metadata.service_tier);
            }
            EventBody::UsageUpdate(update) => self.usage = Some(update.usage.clone()),
            EventBody::ItemStarted(started) => self.started(&started.item, &mut frames),
            EventBody::ItemDelta(change) => match &change.delta {
                ItemDelta::PartStarted(started) => self.part_started(event, &started.part, &mut frames),
                ItemDelta::PartCompleted(_) => self.part_completed(event, &mut frames),
                ItemDelta::Media(_) | ItemDelta::Output(_) | ItemDelta::Field(_) => {}
            },
            EventBody::ItemCompleted(done) => self.completed(event, done.item.as_ref(), &mut frames),
            EventBody::ItemFailed(_) => self.completed(event, None, &mut frames),
            EventBody::TextDelta(delta) | EventBody::ReasoningDelta(delta) if !delta.text.is_empty() => {
                self.text(item_id, part_id, &delta.text, &mut frames);
            }
            EventBody::SignatureReady(ready) => {
                let own = text_of(Some(&vec![ready.provider_data.clone()]), kept::SIGNATURE, &self.context).filter(|_| self.native);
                let index = self.slot(item_id).map(|slot| slot.index);
                if let (Some(own), Some(index)) = (own, index) {
                    let delta = typed("thought_signature", vec![("signature", Some(json(&own)))]);
                    frames.push(self.delta(index, delta));
                }
            }
            EventBody::ToolArgumentsDelta(delta) => {
                let text = delta.text.clone();
                if let Some(slot) = self.slot(item_id) {
                    slot.arguments.push_str(&text);
                    let index = slot.index;
                    let delta = typed("arguments_delta", vec![("arguments", Some(json(&text)))]);
                    frames.push(self.delta(index, delta));
                }
            }
            EventBody::ToolArgumentsReady(ready) => {
                let whole = ready.raw_arguments.clone();
                if let Some(slot) = self.slot(item_id).filter(|slot| slot.arguments.is_empty()) {
                    slot.arguments.clone_from(&whole);
                    let index = slot.index;
                    let delta = typed("arguments_delta", vec![("arguments", Some(json(&whole)))]);
                    frames.push(self.delta(index, delta));
                }
            }
            EventBody::CitationReady(ready) => {
                let Some(slot) = self.slot(item_id) else { return frames };
                let index = slot.index;
                let text = slot
                    .parts
                    .iter()
                    .find(|(p, _)| Some(&p.part_id) == part_id)
                    .map(|(_, text)| text.clone());
                let made = text.and_then(|text| annotation_json(&text, &ready.annotation));
                match made {
                    Some(made) => {
                        let delta = typed("text_annotation_delta", vec![("annotations", Some(json(&[made])))]);
                        frames.push(self.delta(index, delta));
                    }
                    None => self
                        .loss
                        .warning(Feature::Citation, "/output", "a remark that the wire has no form for"),
                }
            }
            EventBody::OperationFailed(failed) => self.error = Some(failed.error.clone()),
            EventBody::OperationCancelled(_) | EventBody::OperationExpired(_) => {
                let category = throughline_format::ErrorCategory::Cancelled;
                let error = UnifiedError::new(category, "operation", "the operation was ended before its answer");
                self.error = Some(error);
            }
            EventBody::StreamCompleted(done) => self.finish(done, &mut frames),
            EventBody::OperationCreated(_)
            | EventBody::OperationQueued(_)
            | EventBody::OperationRunning(_)
            | EventBody::OperationRequiresAction(_)
            | EventBody::OperationCompleted(_)
            | EventBody::ResponseMetadata(_)
            | EventBody::TextDelta(_)
            | EventBody::ReasoningDelta(_)
            | EventBody::ToolLifecycle(_)
            | EventBody::SourceReady(_)
            | EventBody::ArtifactReady(_)
            | EventBody::CheckpointReady(_)
            | EventBody::CheckpointInvalidated(_)
            | EventBody::Warning(_)
            | EventBody::LossUpdate(_)
            | EventBody::Error(_)
            | EventBody::Heartbeat(_) => {}
        }
        frames
    }

    fn loss(&self) -> &UnifiedLossReport {
        self.loss.report()
    }
}
