//! Committed events as a stream of the wire: every chunk is a response that holds the next parts.

use super::encode_item::Piece;
use super::encode_part::{PartEncoder, Place, text};
use super::encode_response::{self, Shell};
use super::{Dialect, kept};
use crate::codec::{StreamEncoder, WireFrame};
use crate::context::EncodeContext;
use crate::google::status;
use crate::keeper::to_json;
use crate::projection::LossCollector;
use crate::raw::{self, json, object, put};
use throughline_format::event::{ItemDelta, PartStarted, StreamCompleted};
use throughline_format::part::ReasoningState;
use throughline_format::{
    Count, EventBody, Json, PartBody, UnifiedContentPart, UnifiedError, UnifiedEventV2, UnifiedId, UnifiedItem, UnifiedItemBody,
    UnifiedLossReport, UnifiedProviderDataRef, UnifiedResponseStatus, UnifiedUsage,
};

/// The encoder of one stream.
pub(super) struct Encoder {
    context: EncodeContext,
    dialect: Dialect,
    loss: LossCollector,
    native: bool,
    model: String,
    response_id: Json,
    usage: Option<UnifiedUsage>,
    error: Option<UnifiedError>,
    ended: bool,
    /// Class of service, as told.
    tier: Option<String>,
    /// Items whose content comes in pieces.
    items: Vec<UnifiedItem>,
    /// Parts whose content comes in pieces.
    parts: Vec<Open>,
    /// How the other candidates ended.
    others: Vec<(Count, UnifiedResponseStatus)>,
}

/// A part that is open.
struct Open {
    part: UnifiedContentPart,
    /// Whether something of it was written.
    written: bool,
    signature: Option<UnifiedProviderDataRef>,
}

impl Encoder {
    /// An encoder at the begin of a stream.
    pub(super) fn new(dialect: Dialect, context: &EncodeContext) -> Self {
        Self {
            context: context.clone(),
            dialect,
            loss: LossCollector::new(),
            native: false,
            model: context.target_model.clone().unwrap_or_else(|| crate::UNSPECIFIED_MODEL.into()),
            response_id: json("response"),
            usage: None,
            error: None,
            ended: false,
            tier: None,
            items: Vec::new(),
            parts: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Runs something with an encoder of parts, whose losses are ours.
    fn with<T>(&mut self, run: impl FnOnce(&mut PartEncoder<'_>) -> T) -> T {
        let context = self.context.clone();
        let mut encoder = PartEncoder::new(&context, self.dialect, &self.model);
        encoder.answering = true;
        std::mem::swap(&mut encoder.loss, &mut self.loss);
        let made = run(&mut encoder);
        std::mem::swap(&mut encoder.loss, &mut self.loss);
        made
    }

    fn frame(&self, members: Vec<(String, Json)>) -> WireFrame {
        let mut members = members;
        members.push(("modelVersion".into(), json(&self.model)));
        members.push(("responseId".into(), self.response_id.clone()));
        self.bare_frame(object(members))
    }

    fn bare_frame(&self, body: Json) -> WireFrame {
        let body = if self.dialect == Dialect::Antigravity {
            object(vec![("response".into(), body)])
        } else {
            body
        };
        WireFrame {
            event: None,
            // Values that are kept as written may stand on several lines.
            data: body.as_str().replace(['\n', '\r'], " "),
        }
    }

    /// A chunk with these parts of a candidate.
    fn chunk(&self, candidate: Option<Count>, parts: &[Json]) -> WireFrame {
        let content = object(vec![("role".into(), json("model")), ("parts".into(), json(parts))]);
        let made = object(vec![("content".into(), content), ("index".into(), json(&candidate.unwrap_or(0)))]);
        self.frame(vec![("candidates".to_owned(), json(&[made]))])
    }

    /// A whole item.
    fn item(&mut self, item: &UnifiedItem, candidate: Option<Count>) -> Vec<WireFrame> {
        let pieces = self.with(|encoder| encoder.item(item, "/output", true));
        let mut parts = Vec::new();
        for (piece, _) in pieces {
            match piece {
                Piece::Part(json) | Piece::Call(json) => parts.push(json),
                Piece::Result(json, beside) => {
                    parts.push(json);
                    parts.extend(beside);
                }
                Piece::Nothing => {}
            }
        }
        if parts.is_empty() {
            return Vec::new();
        }
        vec![self.chunk(candidate, &parts)]
    }

    fn part_started(&mut self, started: &PartStarted, candidate: Option<Count>) -> Vec<WireFrame> {
        let part = &started.part;
        self.parts.push(Open {
            part: part.clone(),
            written: false,
            signature: None,
        });
        match &part.body {
            PartBody::Text(inner) if !inner.text.is_empty() => self.text(&part.part_id, &inner.text.clone(), candidate),
            PartBody::Refusal(inner) if !inner.text.is_empty() => self.text(&part.part_id, &inner.text.clone(), candidate),
            PartBody::Reasoning(inner) if !inner.text.is_empty() => self.text(&part.part_id, &inner.text.clone(), candidate),
            _ => Vec::new(),
        }
    }

    /// A piece of text of a part.
    fn text(&mut self, part_id: &UnifiedId, piece: &str, candidate: Option<Count>) -> Vec<WireFrame> {
        let Some(open) = self.parts.iter_mut().rev().find(|o| o.part.part_id == *part_id) else {
            return Vec::new();
        };
        open.written = true;
        let made = match &open.part.body {
            PartBody::Reasoning(_) => object(vec![("text".into(), json(piece)), ("thought".into(), json(&true))]),
            _ => text(piece),
        };
        vec![self.chunk(candidate, &[made])]
    }

    /// The part is complete: what only a whole part can say is written now.
    fn part_completed(&mut self, item_id: &UnifiedId, part_id: &UnifiedId, candidate: Option<Count>) -> Vec<WireFrame> {
        let Some(at) = self.parts.iter().rposition(|o| o.part.part_id == *part_id) else {
            return Vec::new();
        };
        let open = self.parts.remove(at);
        let native = self.native;
        let mut part = open.part;
        match (&mut part.body, open.signature) {
            (PartBody::Reasoning(inner), Some(reference)) => {
                inner.private_state = Some(throughline_format::part::ReasoningPrivateState {
                    r#ref: reference,
                    issuer: throughline_format::resource::Issuer::Provider,
                });
            }
            (_, Some(reference)) => part.base.provider_data.get_or_insert_default().push(reference),
            (_, None) => {}
        }
        let context = self.context.clone();
        let signed = match &part.body {
            PartBody::Reasoning(inner) => {
                let state = inner.private_state.as_ref().map(|s| vec![s.r#ref.clone()]);
                kept::signature_of(state.as_ref(), &context)
            }
            _ => kept::signature_of(part.base.provider_data.as_ref(), &context),
        };
        if open.written {
            // The text is out; the signature follows it alone.
            let Some(signature) = signed.filter(|_| native) else {
                return Vec::new();
            };
            let mut carrier = put(&text(""), "/thoughtSignature", &json(&signature));
            if matches!(&part.body, PartBody::Reasoning(inner) if inner.state != ReasoningState::Omitted) {
                carrier = put(&carrier, "/thought", &json(&true));
            }
            return vec![self.chunk(candidate, &[carrier])];
        }
        let place_item = item_id.clone();
        let made = self.with(|encoder| {
            let place = Place {
                path: "/output",
                item: &place_item,
            };
            match &part.body {
                PartBody::Reasoning(inner) => encoder.reasoning(&part, inner, native, place).into_iter().collect(),
                PartBody::Text(inner) if inner.text.is_empty() && part.base.provider_data.is_none() => Vec::new(),
                _ => encoder.part(&part, native, place),
            }
        });
        if made.is_empty() {
            return Vec::new();
        }
        vec![self.chunk(candidate, &made)]
    }

    fn item_delta(&mut self, event: &UnifiedEventV2, delta: &ItemDelta) -> Vec<WireFrame> {
        let (Some(item_id), part_id) = (event.item_id.as_ref(), event.part_id.as_ref()) else {
            return Vec::new();
        };
        let in_message = self
            .items
            .iter()
            .rev()
            .find(|i| i.id == *item_id)
            .is_some_and(|i| matches!(i.body, UnifiedItemBody::Message(_) | UnifiedItemBody::Reasoning(_)));
        match delta {
            ItemDelta::PartStarted(started) if in_message => self.part_started(started, event.candidate),
            ItemDelta::PartCompleted(_) => part_id
                .map(|part| self.part_completed(item_id, part, event.candidate))
                .unwrap_or_default(),
            ItemDelta::Media(piece) => {
                let open = self.parts.iter_mut().rev().find(|o| Some(&o.part.part_id) == part_id);
                if let Some(
                    PartBody::Image(media)
                    | PartBody::Audio(media)
                    | PartBody::Video(media)
                    | PartBody::Document(media)
                    | PartBody::File(media),
                ) = open.map(|o| &mut o.part.body)
                    && let throughline_format::media::UnifiedDataSource::Inline(inline) = &mut media.source
                {
                    // Pieces are cut at whole groups.
                    inline.data.push_str(&piece.base64);
                }
                Vec::new()
            }
            ItemDelta::PartStarted(_) | ItemDelta::Output(_) | ItemDelta::Field(_) => Vec::new(),
        }
    }

    /// A call whose arguments are complete.
    fn call(&mut self, item_id: &UnifiedId, raw_arguments: &str, candidate: Option<Count>) -> Vec<WireFrame> {
        let Some(item) = self.items.iter_mut().rev().find(|i| i.id == *item_id) else {
            return Vec::new();
        };
        if let UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) = &mut item.body {
            raw_arguments.clone_into(&mut call.raw_arguments);
            call.input = None;
        }
        let item = item.clone();
        self.item(&item, candidate)
    }

    fn completed(&mut self, event: &UnifiedEventV2, whole: Option<&UnifiedItem>) -> Vec<WireFrame> {
        let Some(item_id) = event.item_id.as_ref() else {
            return Vec::new();
        };
        let known = self.items.iter().find(|i| i.id == *item_id).cloned();
        match (known, whole) {
            (None, Some(item)) => self.item(item, event.candidate),
            (Some(item), whole) => {
                // Its parts were written as they came; what came neither in parts nor in arguments is written now.
                let in_pieces = matches!(
                    item.body,
                    UnifiedItemBody::Message(_) | UnifiedItemBody::Reasoning(_) | UnifiedItemBody::ToolCall(_)
                );
                if in_pieces {
                    let open: Vec<UnifiedId> = self.parts.iter().map(|o| o.part.part_id.clone()).collect();
                    let own = |id: &UnifiedId| id.as_str().starts_with(&format!("{item_id}."));
                    let open: Vec<_> = open.into_iter().filter(own).collect();
                    return open
                        .iter()
                        .flat_map(|part| self.part_completed(item_id, part, event.candidate))
                        .collect();
                }
                let item = whole.cloned().unwrap_or(item);
                self.item(&item, event.candidate)
            }
            (None, None) => Vec::new(),
        }
    }

    fn finish(&mut self, done: &StreamCompleted) -> Vec<WireFrame> {
        self.ended = true;
        let native = self.native;
        let shell = Shell::of(&self.context, native);
        if let Some(error) = self.error.take().filter(|_| shell.members(0).is_none()) {
            self.loss.untold_usage(self.usage.as_ref());
            let own = self.context.private.root_payload(kept::ERROR_BODY);
            let body = own.as_ref().and_then(to_json).map(|b| b.as_str().to_owned());
            let data = body.unwrap_or_else(|| status::encode(&error).body).replace(['\n', '\r'], " ");
            return vec![WireFrame { event: None, data }];
        }
        let mut statuses = vec![(0, done.status.clone())];
        statuses.append(&mut self.others);
        let mut candidates = Vec::new();
        for (index, status) in statuses {
            let word = self.with(|encoder| encode_response::finish_word(encoder, &status, native, "/status"));
            let made = self.with(|encoder| encode_response::candidate(encoder, &shell, index, &[], word));
            candidates.push(without_content(&made, index));
        }
        let mut members = Vec::new();
        if !shell.no_candidates {
            members.push(("candidates".to_owned(), json(&candidates)));
        }
        let (counters, tier) = (self.usage.take(), self.tier.take());
        let usage = self.with(|encoder| encode_response::usage(encoder, counters.as_ref(), tier.as_deref(), native));
        members.extend(usage.map(|u| ("usageMetadata".to_owned(), u)));
        members.push(("modelVersion".into(), json(&self.model)));
        members.push(("responseId".into(), self.response_id.clone()));
        let body = self.with(|encoder| encode_response::wrap(encoder, object(members), &shell, native));
        vec![WireFrame {
            event: None,
            data: body.as_str().replace(['\n', '\r'], " "),
        }]
    }
}

/// The last chunk of a candidate: everything but its content, which is out.
fn without_content(candidate: &Json, index: Count) -> Json {
    let mut members = raw::members(candidate);
    members.retain(|(key, _)| key != "content");
    if !members.iter().any(|(key, _)| key == "index") {
        members.push(("index".into(), json(&index)));
    }
    object(members)
}

impl StreamEncoder for Encoder {
    fn push(&mut self, event: &UnifiedEventV2) -> Vec<WireFrame> {
        if self.ended {
            return Vec::new();
        }
        let (item_id, part_id) = (event.item_id.as_ref(), event.part_id.as_ref());
        match &event.body {
            EventBody::ResponseStarted(started) => {
                let profile = self.dialect.profile();
                self.native = started.profile.family == profile.family;
                self.response_id = encode_response::response_id(&started.response_id);
                if self.context.target_model.is_none() {
                    self.model.clone_from(&started.model.model);
                }
                self.tier.clone_from(&started.model.service_tier);
                Vec::new()
            }
            EventBody::ResponseMetadata(metadata) => {
                if metadata.service_tier.is_some() {
                    self.tier.clone_from(&metadata.service_tier);
                }
                if let (Some(candidate), Some(status)) = (event.candidate, &metadata.status) {
                    self.others.push((candidate, status.clone()));
                }
                Vec::new()
            }
            EventBody::UsageUpdate(update) => {
                self.usage = Some(update.usage.clone());
                Vec::new()
            }
            EventBody::ItemStarted(started) => {
                self.items.push(started.item.clone());
                Vec::new()
            }
            EventBody::ItemDelta(change) => self.item_delta(event, &change.delta),
            EventBody::ItemCompleted(done) => self.completed(event, done.item.as_ref()),
            EventBody::ItemFailed(_) => self.completed(event, None),
            EventBody::TextDelta(delta) | EventBody::ReasoningDelta(delta) => match part_id {
                Some(part) if !delta.text.is_empty() => self.text(part, &delta.text, event.candidate),
                _ => Vec::new(),
            },
            EventBody::SignatureReady(ready) => {
                if let Some(open) = self.parts.iter_mut().rev().find(|o| Some(&o.part.part_id) == part_id) {
                    open.signature = Some(ready.provider_data.clone());
                } else if let Some(item) = self.items.iter_mut().rev().find(|i| Some(&i.id) == item_id)
                    && let UnifiedItemBody::ToolCall(call) = &mut item.body
                {
                    call.private_linkage = Some(ready.provider_data.clone());
                }
                Vec::new()
            }
            EventBody::ToolArgumentsReady(ready) => item_id
                .map(|item| self.call(item, &ready.raw_arguments, event.candidate))
                .unwrap_or_default(),
            EventBody::SourceReady(_) | EventBody::ArtifactReady(_) | EventBody::CitationReady(_) => {
                if !self.native {
                    self.loss.warning(
                        crate::feature::Feature::Citation,
                        "/output",
                        "citations and sources of another owner are not told",
                    );
                }
                Vec::new()
            }
            EventBody::OperationFailed(failed) => {
                self.error = Some(failed.error.clone());
                Vec::new()
            }
            EventBody::OperationCancelled(_) | EventBody::OperationExpired(_) => {
                let category = throughline_format::ErrorCategory::Cancelled;
                self.error = Some(UnifiedError::new(
                    category,
                    "operation",
                    "the operation was ended before its answer",
                ));
                Vec::new()
            }
            EventBody::StreamCompleted(done) => self.finish(done),
            EventBody::OperationCreated(_)
            | EventBody::OperationQueued(_)
            | EventBody::OperationRunning(_)
            | EventBody::OperationRequiresAction(_)
            | EventBody::OperationCompleted(_)
            | EventBody::ToolArgumentsDelta(_)
            | EventBody::ToolLifecycle(_)
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
