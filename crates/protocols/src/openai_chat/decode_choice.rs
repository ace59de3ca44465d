//! One choice of an answer: which items and parts are open, and what a delta does to them.

use super::decode_call::Call;
use super::decode_stream::AnswerDecoder;
use super::private::{EXECUTED_TOOLS, Form, REASONING_DETAILS};
use super::reasoning::{self, Piece, TAGS, TagSplitter};
use super::{profile, usage, wire};
use crate::media;
use crate::pairing::FreeIds;
use crate::side::SideResource;
use crate::wire::TextOr;
use serde_json::Value;
use throughline_format::event::{
    EventBody, ItemCompleted, ItemDelta, ItemDeltaEvent, ItemStarted, PartCompleted, PartStarted, SignatureReady, TextDelta,
};
use throughline_format::item::{ItemStatus, ReasoningItem, Role};
use throughline_format::json::escape_pointer_token;
use throughline_format::media::{Transcript, UnifiedMediaMetadata};
use throughline_format::part::{MediaPart, ReasoningForm, ReasoningPart, ReasoningState, TopLogprob, UnifiedTokenLogprob};
use throughline_format::provenance::ItemOrigin;
use throughline_format::resource::Issuer;
use throughline_format::{
    Count, EventDraft, Json, PartBody, UnifiedContentPart, UnifiedId, UnifiedItemBody, UnifiedProviderDataRef, UnifiedResponseStatus,
};

/// Candidates of one answer; an index beyond is no index. The API itself allows 128.
pub(super) const CANDIDATES: Count = 1_024;

/// Ordinals in a row that a candidate has for its first items.
const ITEMS_PER_CANDIDATE: Count = 10_000;

/// Ordinal of item `number` of a candidate: no two items of an answer share one, however many there are.
///
/// The first items of a candidate are numbered in its own row of [`ITEMS_PER_CANDIDATE`]; those beyond take turns behind all rows.
const fn ordinal(candidate: Count, number: Count) -> Count {
    match number.checked_sub(ITEMS_PER_CANDIDATE) {
        None => candidate * ITEMS_PER_CANDIDATE + number,
        // Saturation is beyond what fits into memory.
        Some(beyond) => (CANDIDATES * ITEMS_PER_CANDIDATE + candidate).saturating_add(beyond.saturating_mul(CANDIDATES)),
    }
}

/// The open reasoning item.
pub(super) struct OpenReasoning {
    pub item: UnifiedId,
    pub part: UnifiedId,
    pub has_text: bool,
    pub details: Vec<Value>,
}

/// The open message item.
pub(super) struct OpenMessage {
    pub item: UnifiedId,
    pub parts: Count,
    /// The open part, and whether it is text.
    pub part: Option<(UnifiedId, bool)>,
    pub citations: Count,
}

/// State of one choice.
pub(super) struct ChoiceState {
    pub index: Count,
    /// Its items in order.
    pub items: Vec<UnifiedId>,
    pub reasoning: Option<OpenReasoning>,
    pub message: Option<OpenMessage>,
    pub calls: Vec<Call>,
    /// IDs of its calls, which no two of them share.
    pub call_ids: FreeIds,
    pub finish: Option<String>,
    pub has_refusal: bool,
    pub audio: Option<(Vec<u8>, String)>,
    pub pending_base64: String,
    /// Tells reasoning in tags apart, where the dialect puts it into the content.
    pub tags: Option<TagSplitter>,
    /// Annotations so far.
    pub annotations: usize,
}

impl ChoiceState {
    pub(super) fn new(index: Count) -> Self {
        Self {
            index,
            items: Vec::new(),
            reasoning: None,
            message: None,
            calls: Vec::new(),
            call_ids: FreeIds::default(),
            finish: None,
            has_refusal: false,
            audio: None,
            pending_base64: String::new(),
            tags: None,
            annotations: 0,
        }
    }

    /// Whether its finish reason was told.
    pub(super) const fn has_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// How it ended.
    pub(super) fn status(&self) -> UnifiedResponseStatus {
        usage::status(self.finish.as_deref(), !self.calls.is_empty(), self.has_refusal)
    }

    /// Takes a choice of a whole answer or of a chunk.
    pub(super) fn take(&mut self, answer: &mut AnswerDecoder, choice: wire::Choice, position: usize) {
        // A chunk holds one choice at a time, so its place in the list says nothing.
        let base = if answer.whole {
            format!("/choices/{position}")
        } else {
            format!("/choices/{}", self.index)
        };
        for (key, value) in choice.extra.0 {
            if key == "usage" {
                answer.usage(value.clone());
            }
            answer.keep(format!("{base}/{}", escape_pointer_token(&key)), value);
        }
        if answer.whole {
            // The first choice has no index in the record, and an empty finish reason no word.
            answer.keep(format!("{base}/index"), Json::from_value(&choice.index.into()));
            if let (Some(_), Some(delta)) = (&choice.message, &choice.delta) {
                answer.keep(
                    format!("{base}/delta"),
                    Json::from_serialize(delta).unwrap_or_else(|_| Json::null()),
                );
            }
            if choice.message.is_none() {
                answer.form.absent.push(format!("{base}/message"));
            }
            if choice.finish_reason.as_deref() == Some("") {
                answer.keep(format!("{base}/finish_reason"), Json::from_value(&"".into()));
            }
        }
        let mut logprobs = choice.logprobs;
        if let Some(empty) = logprobs
            .as_ref()
            .filter(|l| answer.whole && l.content.is_none() && l.refusal.is_none())
        {
            answer.keep(
                format!("{base}/logprobs"),
                Json::from_serialize(empty).unwrap_or_else(|_| Json::null()),
            );
        }
        if let Some(probabilities) = &mut logprobs {
            // A refusal has no probabilities in the record; those of a stream are pieces of one list.
            if let Some(refusal) = probabilities.refusal.take() {
                answer.keep_appended(format!("{base}/logprobs/refusal"), refusal);
            }
            for (key, value) in std::mem::take(&mut probabilities.extra.0) {
                answer.keep_appended(format!("{base}/logprobs/{}", escape_pointer_token(&key)), value);
            }
        }
        let tokens = logprobs.and_then(|l| l.content).map(tokens);
        if let Some(text) = choice.text {
            self.text(answer, &text, None, None);
        }
        if let Some(message) = choice.message.or(choice.delta) {
            self.delta(answer, message, tokens, &format!("{base}/message"));
        }
        if let Some(word) = choice.finish_reason.filter(|w| !w.is_empty()) {
            self.finish = Some(word);
            self.close(answer);
        }
    }

    pub(super) fn delta(
        &mut self,
        answer: &mut AnswerDecoder,
        message: wire::Message,
        tokens: Option<Vec<UnifiedTokenLogprob>>,
        base: &str,
    ) {
        for (key, value) in &message.extra.0 {
            let pointer = format!("{base}/{}", escape_pointer_token(key));
            if key == EXECUTED_TOOLS {
                answer.executed.push((pointer, value.clone()));
            } else {
                answer.keep(pointer, value.clone());
            }
        }
        self.reasoning_delta(answer, &message, base);
        let has_calls = message.tool_calls.as_ref().is_some_and(|c| !c.is_empty());
        let mut tokens = tokens;
        match message.content {
            None => {}
            Some(TextOr::Text(text)) if text.is_empty() && tokens.is_none() && answer.whole => {
                answer.keep(format!("{base}/content"), Json::from_value(&Value::String(text)));
            }
            Some(TextOr::Text(text)) => self.content(answer, &text, tokens.take()),
            Some(TextOr::List(list)) => self.list(answer, list, tokens.take(), base),
        }
        match message.refusal {
            Some(text) if !text.is_empty() => self.refusal(answer, &text),
            Some(text) if answer.whole => answer.keep(format!("{base}/refusal"), Json::from_value(&Value::String(text))),
            _ => {}
        }
        if let Some(audio) = message.audio {
            let has_content = [&audio.data, &audio.transcript]
                .iter()
                .any(|t| t.as_ref().is_some_and(|t| !t.is_empty()));
            if answer.whole && !has_content {
                answer.keep(
                    format!("{base}/audio"),
                    Json::from_serialize(&audio).unwrap_or_else(|_| Json::null()),
                );
            } else {
                self.audio(answer, audio, base);
            }
        }
        for annotation in message.annotations.into_iter().flatten() {
            self.annotation(answer, &annotation, self.annotations, base);
            self.annotations += 1;
        }
        for (position, call) in message.tool_calls.into_iter().flatten().enumerate() {
            self.call(answer, call, position, base, false);
        }
        let is_empty = |f: &wire::FunctionCall| {
            f.name.as_deref().unwrap_or_default().is_empty() && super::arguments_text(f.arguments.as_ref()).is_empty()
        };
        if let Some(function) = message
            .function_call
            .as_ref()
            .filter(|f| answer.whole && (has_calls || is_empty(f)))
        {
            answer.keep(
                format!("{base}/function_call"),
                Json::from_serialize(function).unwrap_or_else(|_| Json::null()),
            );
            answer.lose(
                format!("{base}/function_call"),
                "a call without a name is no call; kept for the same protocol",
            );
        }
        if let Some(function) = message.function_call.filter(|f| !has_calls && (!answer.whole || !is_empty(f))) {
            let call = wire::Call {
                index: Some(0),
                id: None,
                kind: None,
                function: Some(function),
                custom: None,
                extra_content: None,
                extra: crate::wire::Extra::default(),
            };
            self.call(answer, call, 0, base, true);
        }
    }

    /// Content as one text, which begins with its reasoning in some dialects.
    fn content(&mut self, answer: &mut AnswerDecoder, text: &str, mut tokens: Option<Vec<UnifiedTokenLogprob>>) {
        if !answer.splits_tags {
            self.text(answer, text, tokens, None);
            return;
        }
        let pieces = self.tags.get_or_insert_default().push(text);
        for piece in pieces {
            self.piece(answer, piece, &mut tokens);
        }
    }

    fn piece(&mut self, answer: &mut AnswerDecoder, piece: Piece, tokens: &mut Option<Vec<UnifiedTokenLogprob>>) {
        match piece {
            Piece::Thought(thought) => self.reasoning_text(answer, &thought, &[TAGS], ReasoningForm::Full),
            Piece::Text(text) => self.text(answer, &text, tokens.take(), None),
        }
    }

    // ---- items -------------------------------------------------------------------------------------------------

    pub(super) fn emit(&self, answer: &mut AnswerDecoder, draft: EventDraft) {
        answer.out.drafts.push(draft.candidate(self.index));
    }

    pub(super) fn start(
        &mut self,
        answer: &mut AnswerDecoder,
        body: UnifiedItemBody,
        provider_data: Option<Vec<UnifiedProviderDataRef>>,
    ) -> UnifiedId {
        answer.begin();
        let ordinal = self.items.len() as Count;
        let id = self.next_id(answer);
        let provenance = answer.context.provenance(ItemOrigin::Provider, profile(), Some(&answer.model));
        let parent = self.items.last().cloned();
        let mut item = answer.context.item(id.clone(), ordinal, parent, Role::Assistant, provenance, body);
        item.status = ItemStatus::InProgress;
        item.provider_data = provider_data;
        self.items.push(id.clone());
        self.emit(
            answer,
            EventDraft::of_item(id.clone(), EventBody::ItemStarted(ItemStarted { item })),
        );
        id
    }

    pub(super) fn next_id(&self, answer: &AnswerDecoder) -> UnifiedId {
        answer.context.item_id(ordinal(self.index, self.items.len() as Count))
    }

    pub(super) fn complete(&self, answer: &mut AnswerDecoder, item: &UnifiedId) {
        self.emit(
            answer,
            EventDraft::of_item(
                item.clone(),
                EventBody::ItemCompleted(ItemCompleted {
                    status: ItemStatus::Completed,
                    item: None,
                }),
            ),
        );
    }

    /// A form as resource and reference of the item that is about to begin.
    pub(super) fn form(&self, answer: &mut AnswerDecoder, form: &Form) -> Option<Vec<UnifiedProviderDataRef>> {
        let id = self.next_id(answer);
        let resource = form.resource(Some(&id), id.resource(2), "")?;
        let reference = resource.reference();
        answer.out.resources.push(resource);
        Some(vec![reference])
    }

    pub(super) fn part_started(&self, answer: &mut AnswerDecoder, item: &UnifiedId, part: UnifiedContentPart) {
        let id = part.part_id.clone();
        self.emit(
            answer,
            EventDraft::of_part(
                item.clone(),
                id,
                EventBody::ItemDelta(ItemDeltaEvent {
                    delta: ItemDelta::PartStarted(PartStarted { part }),
                }),
            ),
        );
    }

    pub(super) fn part_completed(&self, answer: &mut AnswerDecoder, item: &UnifiedId, part: &UnifiedId) {
        let delta = ItemDelta::PartCompleted(PartCompleted {});
        self.emit(
            answer,
            EventDraft::of_part(item.clone(), part.clone(), EventBody::ItemDelta(ItemDeltaEvent { delta })),
        );
    }

    // ---- reasoning ---------------------------------------------------------------------------------------------

    pub(super) fn reasoning_delta(&mut self, answer: &mut AnswerDecoder, message: &wire::Message, base: &str) {
        let found = reasoning::of_message(message);
        for (name, value) in found.others {
            // Pieces of a stream that differ are pieces of two texts, of which one is told.
            if answer.whole {
                answer.keep(format!("{base}/{name}"), value);
            } else {
                answer.keep_appended(format!("{base}/{name}"), value);
            }
        }
        let text = found.text.unwrap_or_default();
        if text.is_empty() && found.details.is_none() {
            if answer.whole {
                for field in found.fields {
                    answer.keep(format!("{base}/{field}"), Json::from_value(&Value::String(String::new())));
                }
            }
            return;
        }
        self.reasoning_text(answer, &text, &found.fields, found.form);
        if let (Some(details), Some(open)) = (found.details, &mut self.reasoning) {
            reasoning::merge_details(&mut open.details, &details.parse());
        }
    }

    pub(super) fn reasoning_text(&mut self, answer: &mut AnswerDecoder, text: &str, fields: &[&str], form: ReasoningForm) {
        if self.reasoning.as_ref().is_some_and(|open| !open.has_text && !text.is_empty()) {
            self.close_reasoning(answer);
        }
        if self.reasoning.is_none() {
            self.close_message(answer);
            self.close_calls(answer, true);
            let spelled = Form {
                reasoning: fields.iter().map(|f| (*f).to_owned()).collect(),
                ..Form::default()
            };
            let references = self.form(answer, &spelled);
            let item = self.start(answer, UnifiedItemBody::Reasoning(ReasoningItem { parts: Vec::new() }), references);
            let part = item.part(0);
            let state = if text.is_empty() {
                ReasoningState::Omitted
            } else {
                ReasoningState::Disclosed
            };
            let body = PartBody::Reasoning(ReasoningPart {
                text: String::new(),
                form,
                state,
                private_state: None,
            });
            self.part_started(answer, &item, UnifiedContentPart::new(part.clone(), body));
            self.reasoning = Some(OpenReasoning {
                item,
                part,
                has_text: !text.is_empty(),
                details: Vec::new(),
            });
        }
        if let Some(open) = self.reasoning.as_ref().filter(|_| !text.is_empty()) {
            let event = EventBody::ReasoningDelta(TextDelta {
                text: text.to_owned(),
                logprobs: None,
            });
            self.emit(answer, EventDraft::of_part(open.item.clone(), open.part.clone(), event));
        }
    }

    pub(super) fn close_reasoning(&mut self, answer: &mut AnswerDecoder) {
        let Some(open) = self.reasoning.take() else { return };
        if !open.details.is_empty() {
            let payload = serde_json::to_vec(&open.details).unwrap_or_default();
            let path = format!("/choices/{}/message/reasoning_details", self.index);
            let resource = SideResource::reasoning(profile(), REASONING_DETAILS, &open.part, payload, Issuer::Provider, path);
            let ready = SignatureReady {
                provider_data: resource.reference(),
                issuer: resource.issuer,
            };
            answer.out.resources.push(resource);
            self.emit(
                answer,
                EventDraft::of_part(open.item.clone(), open.part.clone(), EventBody::SignatureReady(ready)),
            );
        }
        self.part_completed(answer, &open.item, &open.part);
        self.complete(answer, &open.item);
    }

    /// The choice has ended: everything open ends well.
    pub(super) fn close(&mut self, answer: &mut AnswerDecoder) {
        if let Some(rest) = self.tags.as_mut().and_then(TagSplitter::finish) {
            self.piece(answer, rest, &mut None);
        }
        if let Some((bytes, transcript)) = self.audio.take() {
            self.open_message(answer, None);
            if let Some(open) = &mut self.message {
                let (item, id) = (open.item.clone(), open.item.part(open.parts));
                open.parts += 1;
                let transcript = (!transcript.is_empty()).then_some(Transcript {
                    text: transcript,
                    language: None,
                    words: None,
                });
                let meta = transcript.map(|t| UnifiedMediaMetadata {
                    transcript: Some(t),
                    ..UnifiedMediaMetadata::default()
                });
                let source = media::inline("audio/*", &throughline_format::media::encode_base64(&bytes));
                self.part_started(
                    answer,
                    &item,
                    UnifiedContentPart::new(id, PartBody::Audio(MediaPart { source, media: meta })),
                );
            }
        }
        self.close_reasoning(answer);
        self.close_message(answer);
        self.close_calls(answer, true);
    }

    /// The stream broke: what is open stays so, and private state that came is kept.
    pub(super) fn abandon(&mut self, answer: &mut AnswerDecoder) {
        let has_details = self.reasoning.as_ref().is_some_and(|r| !r.details.is_empty());
        if has_details {
            self.close_reasoning(answer);
        }
    }
}

/// Token probabilities of the record.
fn tokens(list: Vec<wire::TokenLogprob>) -> Vec<UnifiedTokenLogprob> {
    let top = |t: wire::TokenLogprob| TopLogprob {
        token: t.token,
        bytes: t.bytes,
        logprob: t.logprob,
    };
    list.into_iter()
        .map(|t| UnifiedTokenLogprob {
            token: t.token,
            bytes: t.bytes,
            logprob: t.logprob,
            top: t.top_logprobs.map(|l| l.into_iter().map(top).collect()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{CANDIDATES, ITEMS_PER_CANDIDATE, ordinal};
    use std::collections::BTreeSet;

    #[test]
    fn no_two_items_share_an_ordinal() {
        let numbers = || (0..3).chain(ITEMS_PER_CANDIDATE - 2..ITEMS_PER_CANDIDATE + 50);
        let all: BTreeSet<_> = (0..CANDIDATES).flat_map(|c| numbers().map(move |n| ordinal(c, n))).collect();
        assert_eq!(all.len() as u64, CANDIDATES * numbers().count() as u64);
        assert_eq!((ordinal(0, 7), ordinal(1, 7)), (7, 10_007), "short answers keep their numbers");
        assert_eq!(ordinal(CANDIDATES - 1, u64::MAX), u64::MAX, "no overflow");
    }
}
