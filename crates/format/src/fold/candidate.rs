//! One candidate of a response: its items, how it stands, and what an event about an item does to it.
//!
//! Every change is checked before it is made, so that a refused event leaves no trace.

use super::FoldProblem;
use crate::event::{EventBody, FieldDelta, ItemDelta, OutputDelta, SignatureReady, TextDelta, ToolLifecycleEvent, UnifiedEventV2};
use crate::item::{ItemStatus, ToolCallItem, UnifiedItem, UnifiedItemBody};
use crate::lifecycle::UnifiedToolLifecycle;
use crate::media::{InlineEncoding, InlineSource, UnifiedDataSource, decode_base64, encode_base64};
use crate::part::{MediaPart, PartBody, ReasoningPrivateState, TextPart, UnifiedContentPart};
use crate::resource::UnifiedProviderDataRef;
use crate::status::{UnifiedFinishReason, UnifiedResponseStatus};
use crate::{Json, UnifiedId};
use std::collections::BTreeMap;

type Applied = Result<(), FoldProblem>;

#[derive(Clone, Debug, Default)]
pub(super) struct Candidate {
    pub(super) items: Vec<UnifiedItem>,
    pub(super) status: Option<UnifiedResponseStatus>,
    /// Where each item stands in `items`, and its parts in it.
    places: BTreeMap<UnifiedId, Place>,
}

/// Where an item stands. Answers may have thousands of items and parts, so nothing searches for them.
#[derive(Clone, Debug)]
struct Place {
    at: usize,
    parts: BTreeMap<UnifiedId, usize>,
    /// The part whose media the last piece went to: its data is standard base64 of our own writing.
    media: Option<UnifiedId>,
}

impl Place {
    fn of(item: &UnifiedItem, at: usize) -> Result<Self, FoldProblem> {
        let mut parts = BTreeMap::new();
        for (index, part) in item.parts().iter().enumerate() {
            if parts.insert(part.part_id.clone(), index).is_some() {
                return Err(FoldProblem::PartBegunTwice);
            }
        }
        Ok(Self { at, parts, media: None })
    }
}

impl Candidate {
    /// Whether an item may begin here, as a check before anything is made for it.
    pub(super) fn may_begin(this: Option<&Self>, item: &UnifiedItem) -> Applied {
        if this.is_some_and(|c| c.places.contains_key(&item.id)) {
            return Err(FoldProblem::ItemBegunTwice);
        }
        Place::of(item, 0).map(|_| ())
    }

    pub(super) fn begin(&mut self, item: UnifiedItem) -> Applied {
        Self::may_begin(Some(self), &item)?;
        self.places.insert(item.id.clone(), Place::of(&item, self.items.len())?);
        self.items.push(item);
        Ok(())
    }

    pub(super) fn has(&self, id: &UnifiedId) -> bool {
        self.places.contains_key(id)
    }

    /// Puts the whole item in the place of the one that began; where that stands in the journal is kept.
    pub(super) fn replace(&mut self, whole: &UnifiedItem, status: ItemStatus) -> Applied {
        let item = self.open_item(Some(&whole.id))?;
        if item.body.kind() != whole.body.kind() {
            return Err(FoldProblem::WrongKind);
        }
        let fresh = Place::of(whole, 0)?;
        finish(item.status, status)?;
        let begun = std::mem::replace(item, whole.clone());
        item.status = status;
        if item.conversation_id.is_pending() {
            item.base.conversation_id = begun.base.conversation_id;
            item.base.branch_id = begun.base.branch_id;
            item.base.sequence = begun.base.sequence;
            item.base.parent_id = begun.base.parent_id;
        }
        if let Some(place) = self.places.get_mut(&whole.id) {
            *place = Place { at: place.at, ..fresh };
        }
        Ok(())
    }

    /// What an event about an item that has begun does to it; events of other kinds do nothing here.
    pub(super) fn apply(&mut self, event: &UnifiedEventV2) -> Applied {
        let (item_id, part_id) = (event.item_id.as_ref(), event.part_id.as_ref());
        match &event.body {
            EventBody::ItemFailed(_) => self.open_item(item_id)?.status = ItemStatus::Failed,
            EventBody::ItemDelta(change) => match &change.delta {
                ItemDelta::PartStarted(started) => self.push_part(item_id, &started.part)?,
                ItemDelta::PartCompleted(_) => {
                    self.open_part(item_id, part_id)?;
                }
                ItemDelta::Media(piece) => self.append_media(item_id, part_id, &piece.base64)?,
                ItemDelta::Output(output) => self.append_output(item_id, part_id, output)?,
                ItemDelta::Field(field) => {
                    let reference = provider_data(field)?;
                    if part_id.is_some() {
                        self.open_part(item_id, part_id)?
                            .provider_data
                            .get_or_insert_default()
                            .push(reference);
                    } else {
                        self.open_item(item_id)?.provider_data.get_or_insert_default().push(reference);
                    }
                }
            },
            EventBody::TextDelta(delta) => match &mut self.open_part(item_id, part_id)?.body {
                PartBody::Text(part) => append_text(part, delta),
                PartBody::Refusal(part) => part.text.push_str(&delta.text),
                _ => return Err(FoldProblem::WrongKind),
            },
            EventBody::ReasoningDelta(delta) => match &mut self.open_part(item_id, part_id)?.body {
                PartBody::Reasoning(part) => part.text.push_str(&delta.text),
                _ => return Err(FoldProblem::WrongKind),
            },
            EventBody::SignatureReady(ready) => {
                if part_id.is_some() {
                    sign_part(self.open_part(item_id, part_id)?, ready);
                } else {
                    call(self.item(item_id)?)?.private_linkage = Some(ready.provider_data.clone());
                }
            }
            EventBody::ToolArgumentsDelta(delta) => {
                let call = call(self.open_item(item_id)?)?;
                if call.lifecycle != UnifiedToolLifecycle::ArgumentsStreaming {
                    return Err(FoldProblem::IllegalTransition {
                        from: call.lifecycle,
                        to: UnifiedToolLifecycle::ArgumentsStreaming,
                    });
                }
                call.raw_arguments.push_str(&delta.text);
            }
            EventBody::ToolArgumentsReady(ready) => {
                let call = call(self.open_item(item_id)?)?;
                transition(&mut call.lifecycle, UnifiedToolLifecycle::ArgumentsReady)?;
                call.raw_arguments.clone_from(&ready.raw_arguments);
                call.input.clone_from(&ready.input);
            }
            EventBody::ToolLifecycle(change) => move_call(self.item(item_id)?, change)?,
            EventBody::CitationReady(ready) => match &mut self.open_part(item_id, part_id)?.body {
                PartBody::Text(part) => part.annotations.get_or_insert_default().push(ready.annotation.clone()),
                _ => return Err(FoldProblem::WrongKind),
            },
            EventBody::SourceReady(ready) | EventBody::ArtifactReady(ready) => self.push_part(item_id, &ready.part)?,
            _ => {}
        }
        Ok(())
    }

    /// Closes what a torn stream left open: items become incomplete, calls without complete arguments are cancelled.
    pub(super) fn close(&mut self, status: &UnifiedResponseStatus) {
        if self.status.as_ref().is_none_or(|s| s.finish_reason.is_none()) {
            self.status = Some(status.clone());
        }
        let closed = if status.finish_reason == Some(UnifiedFinishReason::Cancelled) {
            ItemStatus::Cancelled
        } else {
            ItemStatus::Incomplete
        };
        for item in &mut self.items {
            if item.status == ItemStatus::InProgress {
                item.status = closed;
                if let Ok(lifecycle) = lifecycle_mut(&mut item.body)
                    && *lifecycle == UnifiedToolLifecycle::ArgumentsStreaming
                {
                    *lifecycle = UnifiedToolLifecycle::Cancelled;
                }
            }
        }
    }

    /// The item, finished or not.
    fn item(&mut self, id: Option<&UnifiedId>) -> Result<&mut UnifiedItem, FoldProblem> {
        let place = id.and_then(|id| self.places.get(id)).ok_or(FoldProblem::UnknownItem)?;
        self.items.get_mut(place.at).ok_or(FoldProblem::UnknownItem)
    }

    /// The item, when it is not finished yet.
    pub(super) fn open_item(&mut self, id: Option<&UnifiedId>) -> Result<&mut UnifiedItem, FoldProblem> {
        let item = self.item(id)?;
        if item.status.is_terminal() {
            Err(FoldProblem::ItemFinished)
        } else {
            Ok(item)
        }
    }

    /// The parts of an open item and the places of the parts.
    #[allow(clippy::type_complexity)] // two loans of one candidate
    fn open_parts(&mut self, id: Option<&UnifiedId>) -> Result<(&mut Vec<UnifiedContentPart>, &mut Place), FoldProblem> {
        let place = id.and_then(|id| self.places.get_mut(id)).ok_or(FoldProblem::UnknownItem)?;
        let item = self.items.get_mut(place.at).ok_or(FoldProblem::UnknownItem)?;
        if item.status.is_terminal() {
            return Err(FoldProblem::ItemFinished);
        }
        Ok((item.parts_mut().ok_or(FoldProblem::WrongKind)?, place))
    }

    fn open_part(&mut self, item_id: Option<&UnifiedId>, part_id: Option<&UnifiedId>) -> Result<&mut UnifiedContentPart, FoldProblem> {
        let part_id = part_id.ok_or(FoldProblem::UnknownPart)?;
        let (parts, place) = self.open_parts(item_id)?;
        let at = *place.parts.get(part_id).ok_or(FoldProblem::UnknownPart)?;
        parts.get_mut(at).ok_or(FoldProblem::UnknownPart)
    }

    fn push_part(&mut self, item_id: Option<&UnifiedId>, part: &UnifiedContentPart) -> Applied {
        let (parts, place) = self.open_parts(item_id)?;
        if place.parts.contains_key(&part.part_id) {
            return Err(FoldProblem::PartBegunTwice);
        }
        place.parts.insert(part.part_id.clone(), parts.len());
        parts.push(part.clone());
        Ok(())
    }

    /// Appends a whole part, then text to the part that the event names; the text part is made when it is not there.
    fn append_output(&mut self, item_id: Option<&UnifiedId>, part_id: Option<&UnifiedId>, output: &OutputDelta) -> Applied {
        let (parts, place) = self.open_parts(item_id)?;
        if output.part.as_ref().is_some_and(|p| place.parts.contains_key(&p.part_id)) {
            return Err(FoldProblem::PartBegunTwice);
        }
        if output.text.is_some() {
            let part_id = part_id.ok_or(FoldProblem::UnknownPart)?;
            let known = place.parts.get(part_id).and_then(|at| parts.get(*at));
            let target = known.or_else(|| output.part.as_ref().filter(|p| p.part_id == *part_id));
            if target.is_some_and(|p| !matches!(p.body, PartBody::Text(_))) {
                return Err(FoldProblem::WrongKind);
            }
        }
        if let Some(part) = &output.part {
            self.push_part(item_id, part)?;
        }
        if let (Some(text), Some(part_id)) = (&output.text, part_id) {
            match self.open_part(item_id, Some(part_id)) {
                Ok(UnifiedContentPart {
                    body: PartBody::Text(part),
                    ..
                }) => part.text.push_str(text),
                _ => self.push_part(item_id, &UnifiedContentPart::text(part_id.clone(), text.clone()))?,
            }
        }
        Ok(())
    }

    fn append_media(&mut self, item_id: Option<&UnifiedId>, part_id: Option<&UnifiedId>, piece: &str) -> Applied {
        let known = part_id.ok_or(FoldProblem::UnknownPart)?;
        let (parts, place) = self.open_parts(item_id)?;
        let part = place
            .parts
            .get(known)
            .and_then(|at| parts.get_mut(*at))
            .ok_or(FoldProblem::UnknownPart)?;
        let source = &mut media_of(part).ok_or(FoldProblem::WrongKind)?.source;
        let UnifiedDataSource::Inline(inline) = source else {
            return Err(FoldProblem::WrongKind);
        };
        let piece = decode_base64(piece).ok_or(FoldProblem::BadField)?;
        if place.media.as_ref() != Some(known) {
            // The first piece: whatever stood there before is written as standard base64.
            inline.data = encode_base64(&inline.bytes().ok_or(FoldProblem::BadField)?);
            inline.encoding = InlineEncoding::Base64;
            place.media = Some(known.clone());
        }
        append_bytes(inline, &piece);
        Ok(())
    }
}

/// Appends bytes to standard base64; only its last group is opened, so that many pieces cost no more than one.
fn append_bytes(inline: &mut InlineSource, piece: &[u8]) {
    let whole = if inline.data.ends_with('=') {
        inline.data.len().saturating_sub(4)
    } else {
        inline.data.len()
    };
    let mut bytes = inline.data.get(whole..).and_then(decode_base64).unwrap_or_default();
    bytes.extend_from_slice(piece);
    inline.data.truncate(whole);
    inline.data.push_str(&encode_base64(&bytes));
}

fn media_of(part: &mut UnifiedContentPart) -> Option<&mut MediaPart> {
    match &mut part.body {
        PartBody::Image(media)
        | PartBody::Audio(media)
        | PartBody::Video(media)
        | PartBody::Document(media)
        | PartBody::File(media)
        | PartBody::Binary(media) => Some(media),
        PartBody::Text(_)
        | PartBody::Reasoning(_)
        | PartBody::Refusal(_)
        | PartBody::Json(_)
        | PartBody::Citation(_)
        | PartBody::GroundingSource(_)
        | PartBody::ArtifactReference(_) => None,
    }
}

fn call(item: &mut UnifiedItem) -> Result<&mut ToolCallItem, FoldProblem> {
    match &mut item.body {
        UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) => Ok(call),
        _ => Err(FoldProblem::WrongKind),
    }
}

/// An open item ends in a state of its table.
pub(super) fn finish(from: ItemStatus, to: ItemStatus) -> Applied {
    if from.may_become(to) {
        Ok(())
    } else {
        Err(FoldProblem::IllegalStatus { from, to })
    }
}

fn lifecycle_mut(body: &mut UnifiedItemBody) -> Result<&mut UnifiedToolLifecycle, FoldProblem> {
    match body {
        UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) => Ok(&mut call.lifecycle),
        UnifiedItemBody::ComputerAction(call) => Ok(&mut call.lifecycle),
        UnifiedItemBody::CodeExecution(call) => Ok(&mut call.lifecycle),
        _ => Err(FoldProblem::WrongKind),
    }
}

fn transition(lifecycle: &mut UnifiedToolLifecycle, to: UnifiedToolLifecycle) -> Applied {
    if !lifecycle.may_become(to) {
        return Err(FoldProblem::IllegalTransition { from: *lifecycle, to });
    }
    *lifecycle = to;
    Ok(())
}

/// A call goes on to another state; the event must name the state that it is in.
fn move_call(item: &mut UnifiedItem, change: &ToolLifecycleEvent) -> Applied {
    let lifecycle = lifecycle_mut(&mut item.body)?;
    if *lifecycle != change.from {
        return Err(FoldProblem::IllegalTransition {
            from: *lifecycle,
            to: change.to,
        });
    }
    transition(lifecycle, change.to)?;
    if let Some(execution) = change.execution {
        match &mut item.body {
            UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) => call.execution = execution,
            UnifiedItemBody::ComputerAction(call) => call.execution = execution,
            UnifiedItemBody::CodeExecution(call) => call.execution = execution,
            _ => {}
        }
    }
    Ok(())
}

fn append_text(part: &mut TextPart, delta: &TextDelta) {
    part.text.push_str(&delta.text);
    if let Some(more) = &delta.logprobs {
        part.logprobs.get_or_insert_default().extend(more.iter().cloned());
    }
}

fn provider_data(field: &FieldDelta) -> Result<UnifiedProviderDataRef, FoldProblem> {
    if field.pointer != "/providerData/-" {
        return Err(FoldProblem::BadField);
    }
    Json::decode(&field.value).map_err(|_| FoldProblem::BadField)
}

fn sign_part(part: &mut UnifiedContentPart, ready: &SignatureReady) {
    let reference = ready.provider_data.clone();
    if let PartBody::Reasoning(reasoning) = &mut part.body {
        reasoning.private_state = Some(ReasoningPrivateState {
            r#ref: reference,
            issuer: ready.issuer,
        });
    } else {
        part.base.provider_data.get_or_insert_default().push(reference);
    }
}
