//! The open message of a choice: text, refusals, audio and annotations.

use super::decode_choice::{ChoiceState, OpenMessage};
use super::decode_stream::AnswerDecoder;
use super::private::Form;
use super::{reasoning, wire};
use crate::feature::Feature;
use serde_json::Value;
use throughline_format::citation::{SourceType, SpanOf, UnifiedCitation, UnifiedSource, UnifiedSpan, UnifiedTextAnnotation};
use throughline_format::event::{CitationReady, EventBody, TextDelta};
use throughline_format::item::MessageItem;
use throughline_format::media::UnifiedIndexUnit;
use throughline_format::part::{ReasoningForm, RefusalPart, UnifiedTokenLogprob};
use throughline_format::{EventDraft, Json, PartBody, UnifiedContentPart, UnifiedId, UnifiedItemBody};

impl ChoiceState {
    pub(super) fn open_message(&mut self, answer: &mut AnswerDecoder, form: Option<Form>) {
        if self.message.is_some() {
            return;
        }
        self.close_reasoning(answer);
        self.close_calls(answer, true);
        let references = form.and_then(|f| self.form(answer, &f));
        let item = self.start(
            answer,
            UnifiedItemBody::Message(MessageItem {
                parts: Vec::new(),
                placement: None,
            }),
            references,
        );
        self.message = Some(OpenMessage {
            item,
            parts: 0,
            part: None,
            citations: 0,
        });
    }

    /// The open part of the message, text or refusal; begins one when needed.
    pub(super) fn open_part(&mut self, answer: &mut AnswerDecoder, is_text: bool) -> Option<(UnifiedId, UnifiedId)> {
        let open = self.message.as_mut()?;
        if let Some((part, kind)) = &open.part
            && *kind == is_text
        {
            return Some((open.item.clone(), part.clone()));
        }
        let (item, before) = (open.item.clone(), open.part.take());
        let part = item.part(open.parts);
        open.parts += 1;
        open.part = Some((part.clone(), is_text));
        if let Some((before, _)) = before {
            self.part_completed(answer, &item, &before);
        }
        let content = if is_text {
            UnifiedContentPart::text(part.clone(), "")
        } else {
            UnifiedContentPart::new(
                part.clone(),
                PartBody::Refusal(RefusalPart {
                    text: String::new(),
                    category: None,
                }),
            )
        };
        self.part_started(answer, &item, content);
        Some((item, part))
    }

    pub(super) fn text(&mut self, answer: &mut AnswerDecoder, text: &str, logprobs: Option<Vec<UnifiedTokenLogprob>>, form: Option<Form>) {
        if text.is_empty() && (logprobs.as_ref().is_none_or(Vec::is_empty) || self.message.is_none()) {
            if logprobs.as_ref().is_some_and(|l| !l.is_empty()) {
                let path = format!("/choices/{}/logprobs/content", self.index);
                let why = "probabilities of tokens without text were left out";
                answer.warn("response.tokens-without-text", Feature::PartLogprobs, &path, why);
            }
            return;
        }
        self.open_message(answer, form);
        if let Some((item, part)) = self.open_part(answer, true) {
            self.emit(
                answer,
                EventDraft::of_part(
                    item,
                    part,
                    EventBody::TextDelta(TextDelta {
                        text: text.to_owned(),
                        logprobs,
                    }),
                ),
            );
        }
    }

    pub(super) fn refusal(&mut self, answer: &mut AnswerDecoder, text: &str) {
        self.has_refusal = true;
        self.open_message(answer, None);
        if let Some((item, part)) = self.open_part(answer, false) {
            self.emit(
                answer,
                EventDraft::of_part(
                    item,
                    part,
                    EventBody::TextDelta(TextDelta {
                        text: text.to_owned(),
                        logprobs: None,
                    }),
                ),
            );
        }
    }

    pub(super) fn list(
        &mut self,
        answer: &mut AnswerDecoder,
        list: Vec<wire::Part>,
        mut tokens: Option<Vec<UnifiedTokenLogprob>>,
        base: &str,
    ) {
        for (number, part) in list.into_iter().enumerate() {
            let pointer = format!("{base}/content/{number}");
            let extra = match part {
                wire::Part::Text(part) => {
                    self.text(
                        answer,
                        &part.text,
                        tokens.take(),
                        Some(Form {
                            content: Some("parts".into()),
                            ..Form::default()
                        }),
                    );
                    part.extra
                }
                wire::Part::Thinking(part) => {
                    self.reasoning_text(answer, &reasoning::text_of_thinking(&part), &["thinking"], ReasoningForm::Full);
                    part.extra
                }
                wire::Part::Refusal(part) => {
                    self.refusal(answer, &part.refusal);
                    part.extra
                }
                other => {
                    let why = "a content part of an unknown type was kept aside";
                    answer.warn("response.unknown-part", Feature::ConversationItem, &pointer, why);
                    answer.keep(pointer.clone(), Json::from_serialize(&other).unwrap_or_else(|_| Json::null()));
                    continue;
                }
            };
            for (key, value) in extra.0 {
                answer.keep(format!("{pointer}/{}", throughline_format::json::escape_pointer_token(&key)), value);
            }
        }
    }

    /// Audio is handed out as one part when the choice ends: its transcript is not known before.
    pub(super) fn audio(&mut self, answer: &mut AnswerDecoder, audio: wire::Audio, base: &str) {
        for (key, value) in [
            ("id", audio.id.map(|i| Json::from_value(&Value::String(i)))),
            ("expires_at", audio.expires_at),
        ] {
            if let Some(value) = value {
                answer.keep(format!("{base}/audio/{key}"), value);
            }
        }
        for (key, value) in audio.extra.0 {
            answer.keep(
                format!("{base}/audio/{}", throughline_format::json::escape_pointer_token(&key)),
                value,
            );
        }
        if audio.data.is_none() && audio.transcript.is_none() {
            return;
        }
        let (bytes, transcript) = self.audio.get_or_insert_default();
        transcript.push_str(audio.transcript.as_deref().unwrap_or_default());
        if let Some(data) = audio.data {
            self.pending_base64.push_str(&data);
            let whole = if data.ends_with('=') {
                self.pending_base64.len()
            } else {
                self.pending_base64.len() / 4 * 4
            };
            if let Some((ready, rest)) = self.pending_base64.split_at_checked(whole) {
                bytes.extend(throughline_format::media::decode_base64(ready).unwrap_or_default());
                self.pending_base64 = rest.to_owned();
            }
        }
    }

    pub(super) fn annotation(&mut self, answer: &mut AnswerDecoder, raw: &Json, number: usize, base: &str) {
        let value = raw.parse();
        let is_plain = value
            .as_object()
            .is_some_and(|o| o.keys().all(|k| k == "type" || k == "url_citation"))
            && value.get("url_citation").and_then(Value::as_object).is_some_and(|c| {
                c.keys()
                    .all(|k| matches!(k.as_str(), "url" | "title" | "start_index" | "end_index"))
            });
        let pointer = format!("{base}/annotations/{number}");
        if !is_plain || self.message.is_none() {
            answer.keep(pointer.clone(), raw.clone());
        }
        let Some(citation) = value.get("url_citation") else { return };
        if self.message.is_none() {
            answer.warn(
                "response.late-annotation",
                Feature::Citation,
                &pointer,
                "an annotation came when its text had ended; it is kept aside",
            );
            return;
        }
        let Some((item, part)) = self.open_part(answer, true) else { return };
        let count = self.message.as_mut().map_or(0, |m| {
            m.citations += 1;
            m.citations - 1
        });
        let text = |key: &str| citation.get(key).and_then(Value::as_str).map(str::to_owned);
        let at = |key: &str| citation.get(key).and_then(Value::as_u64);
        let spans = at("start_index").zip(at("end_index")).map(|(start, end)| {
            vec![UnifiedSpan {
                of: SpanOf::Answer,
                start,
                end,
                unit: UnifiedIndexUnit::Character,
                part_id: Some(part.clone()),
            }]
        });
        let source = UnifiedSource {
            source_id: UnifiedId::parse(&format!("{part}.s{count}")).unwrap_or_else(|_| part.clone()),
            r#type: SourceType::Web,
            uri: text("url"),
            title: text("title"),
            resource: None,
            document_index: None,
            document_item_id: None,
            document_part_id: None,
            license: None,
            published_at: None,
        };
        let citation = UnifiedCitation {
            source,
            quoted_text: None,
            spans,
            supports: None,
            confidence: None,
            queries: None,
            retrieved_at: None,
        };
        let ready = EventBody::CitationReady(CitationReady {
            annotation: UnifiedTextAnnotation::Citation(citation),
        });
        self.emit(answer, EventDraft::of_part(item, part, ready));
    }

    pub(super) fn close_message(&mut self, answer: &mut AnswerDecoder) {
        let Some(mut open) = self.message.take() else { return };
        if let Some((part, _)) = open.part.take() {
            self.part_completed(answer, &open.item, &part);
        }
        self.complete(answer, &open.item);
    }
}
