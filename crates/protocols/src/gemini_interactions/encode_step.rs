//! Items of the record as steps of the wire; requests, responses and streams share it.

use super::decode_step::text_content;
use super::kept::{self, form_of, step_of, with_members};
use super::profile;
use crate::call_arguments;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::google::media;
use crate::keeper::{text_of, unmapped_of};
use crate::projection::LossCollector;
use crate::raw::{json, number, object, put_all};
use crate::told;
use crate::visible_text::visible_text;
use throughline_format::citation::{SourceType, UnifiedTextAnnotation};
use throughline_format::item::{ReasoningItem, Role, ToolCallItem, ToolResultItem};
use throughline_format::loss::LossSeverity::{self, Info, Warning};
use throughline_format::media::{InlineEncoding, MediaResolution, UnifiedDataSource, UnifiedIndexUnit, encode_base64};
use throughline_format::part::{MediaPart, TextPart};
use throughline_format::{
    Json, PartBody, UnifiedContentPart, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedProtocolProfile, UnifiedProviderDataRef,
};

/// Writes steps and reports what they cannot say.
pub(super) struct StepEncoder<'a> {
    /// Context of the target.
    pub(super) context: &'a EncodeContext,
    /// Profile of the wire.
    pub(super) profile: UnifiedProtocolProfile,
    /// Whether an answer is written and no history.
    pub(super) answering: bool,
    /// Losses so far.
    pub(super) loss: LossCollector,
}

/// Where something comes from, for loss entries.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// Pointer into the record.
    pub(super) path: &'a str,
    /// Its item.
    pub(super) item: &'a UnifiedId,
}

/// An object with a `type`.
pub(super) fn typed(kind: &str, members: Vec<(&str, Option<Json>)>) -> Json {
    let mut list = vec![("type".to_owned(), json(kind))];
    let rest = members
        .into_iter()
        .filter_map(|(key, value)| value.map(|value| (key.to_owned(), value)));
    list.extend(rest);
    object(list)
}

/// The name of a function as the wire may carry it.
pub(super) fn wire_name(namespace: Option<&str>, name: &str) -> String {
    crate::tool_name::wire(namespace, name, super::MAX_NAME).into_owned()
}

impl<'a> StepEncoder<'a> {
    /// An encoder without losses.
    pub(super) fn new(context: &'a EncodeContext) -> Self {
        Self {
            context,
            profile: profile(),
            answering: false,
            loss: LossCollector::new(),
        }
    }

    /// Whether something came over this very protocol.
    pub(super) fn is_native(&self, profile: Option<&UnifiedProtocolProfile>) -> bool {
        profile.is_some_and(|p| p.family == self.profile.family)
    }

    /// A loss at a place.
    pub(super) fn lost(&mut self, severity: LossSeverity, feature: Feature, place: Place<'_>, reason: &str) {
        self.loss.add_for(severity, feature, place.path, reason, Some(place.item));
    }

    /// Puts kept fields and the form back; reports those that the target may not see.
    pub(super) fn finish(&mut self, made: Json, references: Option<&Vec<UnifiedProviderDataRef>>, place: Place<'_>) -> Json {
        let entries = unmapped_of(references, &self.profile, self.context);
        for reference in references.into_iter().flatten() {
            let foreign = reference.profile.family != self.profile.family;
            if foreign || (entries.is_empty() && reference.schema.ends_with("/unmapped@1")) {
                let feature = if reference.schema.contains("signature") {
                    Feature::ReasoningSignature
                } else {
                    Feature::WireUnmapped
                };
                self.lost(Info, feature, place, "what another owner's wire said besides stays with it");
            }
        }
        put_all(with_members(made, &form_of(references, self.context)), &entries)
    }

    /// The steps of an item; what has no form is reported.
    pub(super) fn item(&mut self, item: &UnifiedItem, path: &str) -> Option<Json> {
        if !self.answering && self.loss.hides(item, path) {
            return None;
        }
        let references = item.base.provider_data.as_ref();
        let place = Place { path, item: &item.id };
        if let Some(own) = step_of(references, self.context) {
            self.loss.remark(Feature::WireSpelling, path, "written as the provider wrote it");
            return Some(own);
        }
        let model = matches!(item.role, Some(Role::Assistant));
        match &item.body {
            UnifiedItemBody::Message(message) => {
                if matches!(item.role, Some(Role::System | Role::Developer)) {
                    let reason = "the target takes no system text in the conversation; it is said by the user";
                    self.lost(Warning, Feature::ConversationSystemInline, place, reason);
                }
                let contents = self.contents(item, &message.parts, &format!("{path}/parts"));
                if contents.is_empty() {
                    self.lost(Info, Feature::ConversationMessageEmpty, place, "an empty message is left out");
                    return None;
                }
                let kind = if model { "model_output" } else { "user_input" };
                let made = typed(kind, vec![("content", Some(json(&contents)))]);
                Some(self.finish(made, references, place))
            }
            UnifiedItemBody::Reasoning(reasoning) => self.thought(item, reasoning, path),
            UnifiedItemBody::ToolCall(call) => Some(self.call(item, call, place)),
            UnifiedItemBody::ToolResult(result) => Some(self.result(item, result, path)),
            UnifiedItemBody::ServerToolCall(_)
            | UnifiedItemBody::ServerToolResult(_)
            | UnifiedItemBody::CodeExecution(_)
            | UnifiedItemBody::CodeExecutionResult(_)
            | UnifiedItemBody::SearchResult(_)
            | UnifiedItemBody::RetrievalResult(_)
            | UnifiedItemBody::ComputerAction(_)
            | UnifiedItemBody::ComputerActionResult(_)
            | UnifiedItemBody::ApprovalRequest(_)
            | UnifiedItemBody::ApprovalResponse(_) => self.told(item, place),
            UnifiedItemBody::CompactionSummary(summary) if !summary.replaces => {
                self.lost(Info, Feature::ConversationItem, place, crate::compacted::ALL_IS_SENT);
                None
            }
            UnifiedItemBody::CompactionSummary(summary) => {
                let said = visible_text(&summary.parts);
                if said.trim().is_empty() {
                    self.lost(Info, Feature::ConversationMessageEmpty, place, "an empty summary is left out");
                    return None;
                }
                Some(user_text(&said))
            }
            UnifiedItemBody::Artifact(_) | UnifiedItemBody::Reference(_) => {
                self.lost(Info, Feature::ConversationItem, place, "the target has no form for this item");
                None
            }
            UnifiedItemBody::ProviderSwitch(_) | UnifiedItemBody::Interruption(_) | UnifiedItemBody::Error(_) => {
                self.loss.marker(path, &item.id);
                None
            }
        }
    }

    /// What has no form here, told as text.
    fn told(&mut self, item: &UnifiedItem, place: Place<'_>) -> Option<Json> {
        let (feature, reason) = told::reported(item);
        self.lost(Warning, feature, place, reason);
        let said = told::told(item)?;
        Some(match told::teller(item) {
            Role::User => user_text(&said),
            _ => typed("model_output", vec![("content", Some(json(&[text_content(&said)])))]),
        })
    }

    fn contents(&mut self, item: &UnifiedItem, parts: &[UnifiedContentPart], path: &str) -> Vec<Json> {
        let mut made = Vec::new();
        for (n, part) in parts.iter().enumerate() {
            let path = format!("{path}/{n}");
            let place = Place {
                path: &path,
                item: &item.id,
            };
            made.extend(self.part(part, place));
        }
        made
    }

    /// A part as a content; `None` when nothing of it can be said (reported).
    pub(super) fn part(&mut self, part: &UnifiedContentPart, place: Place<'_>) -> Option<Json> {
        let references = part.base.provider_data.as_ref();
        let kept = references.is_some_and(|r| r.iter().any(|r| r.profile.family == self.profile.family));
        if part.as_text().is_some_and(str::is_empty) && !kept {
            self.lost(Info, Feature::ConversationMessageEmpty, place, "an empty text is left out");
            return None;
        }
        let made = match &part.body {
            PartBody::Text(inner) => Some(self.text(inner, references, place)),
            PartBody::Refusal(inner) => {
                self.lost(Info, Feature::PartRefusal, place, "sent as text");
                Some(text_content(&inner.text))
            }
            PartBody::Image(media) => self.media("image", media, Feature::PartImage, place),
            PartBody::Audio(media) => self.media("audio", media, Feature::PartAudio, place),
            PartBody::Video(media) => self.media("video", media, Feature::PartVideo, place),
            PartBody::Document(media) | PartBody::File(media) => self.media("document", media, Feature::PartDocument, place),
            PartBody::Json(inner) => {
                self.lost(Info, Feature::PartJson, place, "sent as the JSON text");
                Some(text_content(inner.value.as_str()))
            }
            PartBody::GroundingSource(_) => {
                self.lost(Warning, Feature::GroundingSource, place, "sent as text");
                let said = visible_text(std::slice::from_ref(part));
                (!said.is_empty()).then(|| text_content(&said))
            }
            PartBody::Reasoning(_) => self.refuse(Feature::ReasoningText, place),
            PartBody::Binary(_) => self.refuse(Feature::PartFile, place),
            PartBody::Citation(_) => self.refuse(Feature::Citation, place),
            PartBody::ArtifactReference(_) => self.refuse(Feature::PartArtifact, place),
        }?;
        Some(self.finish(made, references, place))
    }

    fn refuse(&mut self, feature: Feature, place: Place<'_>) -> Option<Json> {
        self.lost(Warning, feature, place, "the target has no form for it");
        None
    }

    fn text(&mut self, inner: &TextPart, references: Option<&Vec<UnifiedProviderDataRef>>, place: Place<'_>) -> Json {
        if inner.logprobs.is_some() {
            self.lost(Info, Feature::PartLogprobs, place, "the target has no token probabilities");
        }
        let own = form_of(references, self.context).iter().any(|(key, _)| key == "annotations");
        let mut annotations = Vec::new();
        if own {
            let at = format!("{}/annotations", place.path);
            self.loss.remark(Feature::WireSpelling, at, "written as the provider wrote them");
        } else {
            for annotation in inner.annotations.iter().flatten() {
                if self.answering {
                    annotations.extend(annotation_json(&inner.text, annotation));
                }
            }
            if inner.annotations.as_ref().is_some_and(|a| a.len() > annotations.len()) {
                self.lost(
                    Warning,
                    Feature::Citation,
                    place,
                    "the model does not see citations of another owner",
                );
            } else if !annotations.is_empty() {
                let reason = "quoted words, confidence and queries of a citation are not told";
                self.lost(Info, Feature::Citation, place, reason);
            }
        }
        typed(
            "text",
            vec![
                ("text", Some(json(&inner.text))),
                ("annotations", (!annotations.is_empty()).then(|| json(&annotations))),
            ],
        )
    }

    fn media(&mut self, kind: &str, media: &MediaPart, feature: Feature, place: Place<'_>) -> Option<Json> {
        let about = media.media.clone().unwrap_or_default();
        let (mut data, mut uri, mut mime) = (None, None, about.media_type.clone());
        match &media.source {
            UnifiedDataSource::Inline(inline) => {
                if inline.data.is_empty() {
                    return self.refuse(feature, place);
                }
                mime = Some(inline.media_type.clone()).filter(|m| !m.is_empty());
                data = Some(match inline.encoding {
                    InlineEncoding::Utf8 => {
                        let at = format!("{}/source/data", place.path);
                        self.loss.remark(Feature::WireSpelling, at, "written as base64");
                        encode_base64(inline.data.as_bytes())
                    }
                    InlineEncoding::Base64 | InlineEncoding::Bytes => inline.data.clone(),
                });
            }
            UnifiedDataSource::Url(url) => match crate::media::data_url(&url.url) {
                Some((media_type, inner)) => {
                    (data, mime) = (Some(inner.to_owned()), Some(crate::media::bare_type(media_type).to_owned()));
                }
                None => uri = Some(url.url.clone()),
            },
            UnifiedDataSource::ProviderResource(_) | UnifiedDataSource::Artifact(_) => {
                self.lost(Warning, feature, place, "the data is held by another owner, or not at hand");
                return None;
            }
        }
        let resolution = match &about.resolution {
            Some(MediaResolution::Word(word)) => Some(media::resolution_word(*word).to_ascii_lowercase()),
            Some(MediaResolution::Tokens(_)) => {
                self.lost(Info, feature, place, "the target has words for resolutions only");
                None
            }
            None => None,
        };
        if resolution.is_some() {
            let at = format!("{}/media/resolution", place.path);
            self.loss.remark(Feature::WireSpelling, at, "said by the wire's own word");
        }
        let name = about.name.as_ref().filter(|_| kind == "video");
        let named: &[&str] = if name.is_some() { &["name"] } else { &[] };
        let told = [&["mediaType", "resolution", "channels", "sampleRate"], named].concat();
        self.loss.media(media.media.as_ref(), feature, place.path, &told);
        Some(typed(
            kind,
            vec![
                ("data", data.map(|d| json(&d))),
                ("uri", uri.map(|u| json(&u))),
                ("mime_type", mime.map(|m| json(&m))),
                ("name", name.map(json)),
                ("resolution", resolution.map(|r| json(&r))),
                ("channels", about.channels.map(|n| json(&n))),
                ("sample_rate", about.sample_rate.map(|n| json(&n))),
            ],
        ))
    }

    /// A thought: with its signature for its owner; others are left out.
    fn thought(&mut self, item: &UnifiedItem, reasoning: &ReasoningItem, path: &str) -> Option<Json> {
        let native = self.is_native(item.base.provenance.profile.as_ref());
        let place = Place { path, item: &item.id };
        let mut texts = Vec::new();
        let mut signature = None;
        let mut foreign = false;
        for part in &reasoning.parts {
            let PartBody::Reasoning(inner) = &part.body else { continue };
            if !inner.text.is_empty() {
                texts.push(text_content(&inner.text));
            }
            if let Some(state) = &inner.private_state {
                let own = text_of(Some(&vec![state.r#ref.clone()]), kept::SIGNATURE, self.context);
                let own = own.filter(|s| !crate::synthetic::SyntheticSealer::is_synthetic(s));
                foreign |= own.is_none();
                signature = signature.or(own);
            }
        }
        if foreign {
            self.lost(
                Info,
                Feature::ReasoningSignature,
                place,
                "private reasoning state never leaves its owner",
            );
        }
        if !native && signature.is_none() && !self.answering {
            let reason = "thoughts without a signature of the target's owner are left out";
            self.lost(Warning, Feature::ReasoningText, place, reason);
            return None;
        }
        if texts.is_empty() && signature.is_none() && !native {
            self.lost(Warning, Feature::ReasoningRedacted, place, "there is nothing to tell of it");
            return None;
        }
        let summary = (!texts.is_empty()).then(|| json(&texts));
        let made = typed("thought", vec![("signature", signature.map(|s| json(&s))), ("summary", summary)]);
        Some(self.finish(made, item.base.provider_data.as_ref(), place))
    }

    fn call(&mut self, item: &UnifiedItem, call: &ToolCallItem, place: Place<'_>) -> Json {
        let name = if self.answering {
            crate::tool_name::answered(call.namespace.as_deref(), &call.name, super::MAX_NAME).into_owned()
        } else {
            wire_name(call.namespace.as_deref(), &call.name)
        };
        if name != call.name {
            self.lost(Warning, Feature::ToolName, place, "the target's alphabet for tool names is smaller");
        }
        if call.private_linkage.is_some() {
            self.lost(
                Info,
                Feature::ReasoningSignature,
                place,
                "private reasoning state never leaves its owner",
            );
        }
        let arguments = self.arguments(call, place);
        let made = typed(
            "function_call",
            vec![
                ("id", Some(json(&call.call_id))),
                ("name", Some(json(&name))),
                ("arguments", Some(arguments)),
            ],
        );
        self.finish(made, item.base.provider_data.as_ref(), place)
    }

    /// Arguments as the object that the wire demands.
    fn arguments(&mut self, call: &ToolCallItem, place: Place<'_>) -> Json {
        let (arguments, wrapped) = call_arguments::object_of(call);
        if let Some((feature, reason)) = wrapped {
            self.lost(Warning, feature, place, reason);
        }
        arguments
    }

    fn result(&mut self, item: &UnifiedItem, result: &ToolResultItem, path: &str) -> Json {
        let place = Place { path, item: &item.id };
        let value = match result.output.as_slice() {
            [] => json(result.error.as_ref().map_or("", |e| e.message.as_str())),
            [only] => match &only.body {
                PartBody::Text(inner) if only.base.provider_data.is_none() => {
                    if inner.annotations.as_ref().is_some_and(|a| !a.is_empty()) {
                        let path = format!("{path}/output/0");
                        let place = Place {
                            path: &path,
                            item: &item.id,
                        };
                        self.lost(
                            Warning,
                            Feature::Citation,
                            place,
                            "the model does not see citations of another owner",
                        );
                    }
                    json(&inner.text)
                }
                PartBody::Json(inner) if inner.schema_name.is_none() && !inner.value.as_str().starts_with('[') => inner.value.clone(),
                _ => json(&self.contents(item, &result.output, &format!("{path}/output"))),
            },
            several => json(&self.contents(item, several, &format!("{path}/output"))),
        };
        // A list without contents is no result.
        let value = if value.as_str() == "[]" { json("") } else { value };
        if result.error.is_some() {
            self.lost(Info, Feature::ToolResultError, place, "of an error only its words are sent");
        }
        let is_error = result.is_error.or(result.error.as_ref().map(|_| true));
        let name = result.name.as_deref().map(|name| json(&wire_name(None, name)));
        let made = typed(
            "function_result",
            vec![
                ("call_id", Some(json(&result.call_id))),
                ("name", name),
                ("result", Some(value)),
                ("is_error", is_error.map(|e| json(&e))),
            ],
        );
        self.finish(made, item.base.provider_data.as_ref(), place)
    }
}

/// A turn of the user that says this.
pub(super) fn user_text(said: &str) -> Json {
    typed("user_input", vec![("content", Some(json(&[text_content(said)])))])
}

/// A citation as a remark of the wire, its span in bytes.
pub(super) fn annotation_json(text: &str, annotation: &UnifiedTextAnnotation) -> Option<Json> {
    let UnifiedTextAnnotation::Citation(citation) = annotation else {
        return None;
    };
    let url = citation.source.uri.as_ref()?;
    let span = citation
        .spans
        .iter()
        .flatten()
        .find(|s| s.of == throughline_format::citation::SpanOf::Answer);
    let bytes = span.and_then(|s| crate::span::range(text, s, &UnifiedIndexUnit::Utf8Byte));
    let title = citation.source.title.as_ref().map(json);
    let indexes = |members: Vec<(&'static str, Option<Json>)>, kind: &str| {
        let mut members = members;
        members.push(("start_index", bytes.map(|(start, _)| number(start as f64))));
        members.push(("end_index", bytes.map(|(_, end)| number(end as f64))));
        typed(kind, members)
    };
    Some(match citation.source.r#type {
        SourceType::File | SourceType::Document => indexes(vec![("document_uri", Some(json(url))), ("file_name", title)], "file_citation"),
        _ => indexes(vec![("url", Some(json(url))), ("title", title)], "url_citation"),
    })
}
