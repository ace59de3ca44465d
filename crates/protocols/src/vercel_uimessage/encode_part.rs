//! Content parts to the wire. Files, sources and data stand in messages and streams in the same form.

use super::private::Kept;
use super::{Major, media};
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::object::Object;
use crate::projection::LossCollector;
use crate::raw::json;
use std::collections::BTreeSet;
use throughline_format::citation::{SpanOf, UnifiedCitation, UnifiedSource, UnifiedTextAnnotation};
use throughline_format::media::{InlineEncoding, UnifiedDataSource, UnifiedIndexUnit};
use throughline_format::part::{GroundingSourcePart, MediaPart, TextPart};
use throughline_format::{Count, Json, PartBody, UnifiedContentPart};

/// What every encoder of this wire has.
pub(super) struct Out<'a> {
    pub context: &'a EncodeContext,
    pub loss: LossCollector,
    pub major: Major,
    /// Addresses and titles that the message shows as sources already.
    pub shown: BTreeSet<String>,
}

impl<'a> Out<'a> {
    pub(super) fn new(context: &'a EncodeContext) -> Self {
        Self {
            context,
            loss: LossCollector::new(),
            major: Major::of(context),
            shown: BTreeSet::new(),
        }
    }

    /// What is kept of a part.
    pub(super) fn kept(&self, part: &UnifiedContentPart) -> Kept {
        let state = match &part.body {
            PartBody::Reasoning(reasoning) => reasoning.private_state.as_ref().map(|state| &state.r#ref),
            _ => None,
        };
        Kept::of(self.context.private.as_ref(), part.provider_data.iter().flatten().chain(state))
    }

    /// A text part, and the sources that its citations name.
    pub(super) fn text(&mut self, part: &UnifiedContentPart, text: &TextPart, state: Option<&str>, path: &str) -> Vec<Object> {
        let kept = self.kept(part);
        let mut object = Object::of_type("text").with("text", &text.text).with_some("state", state.as_ref());
        let mut sources = Vec::new();
        let is_kept = kept.form.members.iter().any(|(key, _)| key == "citations");
        if !is_kept {
            let (citations, found) = self.citations(text, path);
            sources = found;
            if !citations.is_empty() {
                object = object.with("citations", &citations);
            }
        }
        self.text_members(text, path);
        kept.apply(&mut object);
        let mut list = vec![object];
        list.append(&mut sources);
        list
    }

    /// Members of a text that this wire cannot say.
    pub(super) fn text_members(&mut self, text: &TextPart, path: &str) {
        for (member, feature, there) in [
            ("logprobs", Feature::PartLogprobs, text.logprobs.is_some()),
            ("language", Feature::PartText, text.language.is_some()),
            ("style", Feature::PartText, text.style.is_some()),
        ] {
            if there {
                self.loss
                    .info(feature, format!("{path}/{member}"), "the target has no place for it");
            }
        }
    }

    /// The citations of a text from major 7 on, and what they cite as sources.
    pub(super) fn citations(&mut self, text: &TextPart, path: &str) -> (Vec<Json>, Vec<Object>) {
        let (mut citations, mut sources) = (Vec::new(), Vec::new());
        for (number, annotation) in text.annotations.iter().flatten().enumerate() {
            let path = format!("{path}/annotations/{number}");
            let (citation, source) = self.annotation(annotation, &text.text, &path);
            citations.extend(citation);
            sources.extend(source);
        }
        (citations, sources)
    }

    /// One remark of a text: a citation in the target's form, and a source that was not shown yet.
    pub(super) fn annotation(&mut self, annotation: &UnifiedTextAnnotation, text: &str, path: &str) -> (Option<Json>, Option<Object>) {
        let UnifiedTextAnnotation::Citation(citation) = annotation else {
            self.loss.warning(Feature::Citation, path, "the target has only citations");
            return (None, None);
        };
        let source = self.source_once(&citation.source);
        if self.major < Major::Seven {
            self.loss.info(
                Feature::CitationSpan,
                path,
                "before major 7 a citation is a source of the whole message",
            );
            return (None, source);
        }
        if !is_sayable(citation) {
            self.loss.info(
                Feature::CitationSpan,
                path,
                "the target says source, words and the place in the answer",
            );
        }
        let mut object = Object::default().with("source", &cited(&citation.source));
        let span = citation.spans.iter().flatten().find(|span| span.of == SpanOf::Answer);
        if let Some((start, end)) = span.and_then(|s| Some((utf16(text, s.start, s.unit)?, utf16(text, s.end, s.unit)?))) {
            object = object.with("startIndex", &start).with("endIndex", &end);
        }
        object = object.with_some("citedText", citation.quoted_text.as_ref());
        (Some(object.to_json()), source)
    }

    fn source_once(&mut self, source: &UnifiedSource) -> Option<Object> {
        let name = source.uri.clone().or_else(|| source.title.clone())?;
        self.shown.insert(name).then(|| source_part(source))
    }

    /// A part that is no text and no reasoning.
    pub(super) fn other(&mut self, part: &UnifiedContentPart, path: &str) -> Option<Object> {
        let kept = self.kept(part);
        let mut object = match &part.body {
            PartBody::Image(media)
            | PartBody::Audio(media)
            | PartBody::Video(media)
            | PartBody::Document(media)
            | PartBody::File(media)
            | PartBody::Binary(media) => self.file(part.body.kind(), media, path)?,
            PartBody::GroundingSource(source) => self.grounding(source, path),
            PartBody::Citation(citation) => {
                self.loss.info(Feature::Citation, path, "as a source of the message");
                source_part(&citation.source)
            }
            PartBody::Json(data) => match &data.schema_name {
                Some(name) if name.starts_with("data-") => {
                    let mut object = Object::of_type(name);
                    object.set("data", data.value.clone());
                    object
                }
                _ => {
                    self.loss.info(Feature::PartJson, path, "as the text of the value");
                    Object::of_type("text").with("text", data.value.as_str())
                }
            },
            PartBody::Refusal(refusal) => {
                self.loss.info(Feature::PartRefusal, path, "as text");
                Object::of_type("text").with("text", &refusal.text)
            }
            PartBody::ArtifactReference(_) => {
                self.loss
                    .warning(Feature::PartArtifact, path, "the target cannot reach the artifact store");
                return None;
            }
            PartBody::Reasoning(reasoning) => {
                // Reasoning has items of its own; elsewhere it is text.
                self.loss.info(Feature::ReasoningText, path, "as reasoning of its own");
                Object::of_type("reasoning").with("text", &reasoning.text)
            }
            PartBody::Text(text) => {
                self.text_members(text, path);
                Object::of_type("text").with("text", &text.text)
            }
        };
        kept.apply(&mut object);
        Some(object)
    }

    fn file(&mut self, kind: &str, part: &MediaPart, path: &str) -> Option<Object> {
        let feature = match kind {
            "image" => Feature::PartImage,
            "audio" => Feature::PartAudio,
            "video" => Feature::PartVideo,
            "document" => Feature::PartDocument,
            _ => Feature::PartFile,
        };
        let Some((url, media_type)) = media::address_of(kind, part) else {
            self.loss.warning(
                feature,
                path,
                "the data is held by a provider or by the artifact store, and has no address",
            );
            return None;
        };
        let name = part.media.as_ref().and_then(|m| m.name.clone());
        if matches!(&part.source, UnifiedDataSource::Inline(inline) if inline.encoding == InlineEncoding::Utf8) {
            self.loss.renamed(format!("{path}/source"), "text stands in a data URL as base64");
        }
        self.loss.media(part.media.as_ref(), feature, path, &["name", "mediaType"]);
        Some(
            Object::of_type("file")
                .with("mediaType", &media_type)
                .with_some("filename", name.as_ref())
                .with("url", &url),
        )
    }

    fn grounding(&mut self, part: &GroundingSourcePart, path: &str) -> Object {
        let source = &part.source;
        if let Some(name) = source.uri.clone().or_else(|| source.title.clone()) {
            self.shown.insert(name);
        }
        let beyond = part.score.is_some() || part.excerpt.is_some() || part.page_age.is_some() || part.parts.is_some();
        let other = UnifiedSource {
            uri: None,
            title: None,
            source_id: source.source_id.clone(),
            r#type: source.r#type.clone(),
            ..source.clone()
        };
        if beyond || other != super::decode_parts::blank_source(source.source_id.clone(), source.r#type.clone()) {
            self.loss
                .info(Feature::GroundingSource, path, "the target says only address and title");
        }
        source_part(source)
    }
}

/// A source as a part: by its address, else by its title.
fn source_part(source: &UnifiedSource) -> Object {
    let title = source.title.clone();
    match &source.uri {
        Some(uri) => Object::of_type("source-url")
            .with("sourceId", source.source_id.as_str())
            .with("url", uri)
            .with_some("title", title.as_ref()),
        None => Object::of_type("source-document")
            .with("sourceId", source.source_id.as_str())
            .with("mediaType", "application/octet-stream")
            .with("title", &title.unwrap_or_default()),
    }
}

/// A source inside a citation.
fn cited(source: &UnifiedSource) -> Object {
    let object = Object::of_type("source");
    let id = source.source_id.as_str();
    match &source.uri {
        Some(uri) => object
            .with("sourceType", "url")
            .with("id", id)
            .with("url", uri)
            .with_some("title", source.title.as_ref()),
        None => object
            .with("sourceType", "document")
            .with("id", id)
            .with("mediaType", "application/octet-stream")
            .with("title", source.title.as_deref().unwrap_or_default()),
    }
}

/// Whether the target's citation says everything that is known.
fn is_sayable(citation: &UnifiedCitation) -> bool {
    crate::cited::untold(citation, &["quotedText", "source/title"]).is_empty()
        && citation.spans.as_ref().is_none_or(|spans| {
            spans.len() <= 1
                && spans
                    .iter()
                    .all(|span| span.of == SpanOf::Answer && span.unit == UnifiedIndexUnit::Utf16)
        })
}

/// An index of a text in UTF-16 units, as JavaScript counts.
fn utf16(text: &str, index: Count, unit: UnifiedIndexUnit) -> Option<Count> {
    let index = usize::try_from(index).ok()?;
    let length = |part: &str| part.encode_utf16().count() as Count;
    match unit {
        UnifiedIndexUnit::Utf16 => Some(index as Count),
        UnifiedIndexUnit::Utf8Byte => text.get(..index.min(text.len())).map(length),
        UnifiedIndexUnit::CodePoint | UnifiedIndexUnit::Character => {
            let end = text.char_indices().nth(index).map_or(text.len(), |(at, _)| at);
            text.get(..end).map(length)
        }
        UnifiedIndexUnit::Token | UnifiedIndexUnit::Page | UnifiedIndexUnit::Block | UnifiedIndexUnit::None => None,
    }
}

/// Output of a tool as one value: text, a JSON value, or a list of parts as the SDK's models take it.
pub(super) fn output(parts: &[UnifiedContentPart]) -> Json {
    match parts {
        [] => json(""),
        [
            UnifiedContentPart {
                body: PartBody::Text(text),
                ..
            },
        ] => json(&text.text),
        [
            UnifiedContentPart {
                body: PartBody::Json(data),
                ..
            },
        ] => data.value.clone(),
        parts => {
            let value: Vec<Object> = parts.iter().filter_map(output_part).collect();
            Object::of_type("content").with("value", &value).to_json()
        }
    }
}

fn output_part(part: &UnifiedContentPart) -> Option<Object> {
    match &part.body {
        PartBody::Text(text) => Some(Object::of_type("text").with("text", &text.text)),
        PartBody::Refusal(refusal) => Some(Object::of_type("text").with("text", &refusal.text)),
        PartBody::Reasoning(reasoning) => Some(Object::of_type("text").with("text", &reasoning.text)),
        PartBody::Json(data) => Some(Object::of_type("text").with("text", data.value.as_str())),
        PartBody::Image(media)
        | PartBody::Audio(media)
        | PartBody::Video(media)
        | PartBody::Document(media)
        | PartBody::File(media)
        | PartBody::Binary(media) => {
            let (url, media_type) = media::address_of(part.body.kind(), media)?;
            let filename = media.media.as_ref().and_then(|m| m.name.as_ref());
            Some(
                Object::of_type("file")
                    .with("mediaType", &media_type)
                    .with_some("filename", filename)
                    .with("url", &url),
            )
        }
        PartBody::GroundingSource(source) => Some(source_part(&source.source)),
        PartBody::Citation(citation) => Some(source_part(&citation.source)),
        PartBody::ArtifactReference(_) => None,
    }
}

/// Whether [`output`] says everything of a part.
pub(super) fn is_whole_output(parts: &[UnifiedContentPart], part: &UnifiedContentPart) -> bool {
    match &part.body {
        PartBody::Text(text) => text.annotations.is_none() && text.logprobs.is_none() && text.language.is_none() && text.style.is_none(),
        PartBody::Json(data) => parts.len() == 1 && data.schema_name.is_none(),
        PartBody::Refusal(_)
        | PartBody::Reasoning(_)
        | PartBody::Image(_)
        | PartBody::Audio(_)
        | PartBody::Video(_)
        | PartBody::Document(_)
        | PartBody::File(_)
        | PartBody::Binary(_)
        | PartBody::GroundingSource(_)
        | PartBody::Citation(_)
        | PartBody::ArtifactReference(_) => false,
    }
}
