//! Parts of the record as parts of the wire; requests and responses share it.

use super::kept::{form_of, signature_of};
use super::models::{Generation, generation};
use super::{Dialect, kept, versions};
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::google::media;
use crate::keeper::{text_of, unmapped_of};
use crate::projection::LossCollector;
use crate::raw::{self, json, number, object, put, put_all};
use crate::visible_text::visible_text;
use throughline_format::loss::LossSeverity::{self, Info, Warning};
use throughline_format::media::{InlineEncoding, MediaResolution, UnifiedDataSource, encode_base64};
use throughline_format::part::{MediaPart, ReasoningPart, ReasoningState};
use throughline_format::resource::UnmappedEntry;
use throughline_format::{Json, PartBody, UnifiedContentPart, UnifiedId, UnifiedItem, UnifiedProtocolProfile, UnifiedProviderDataRef};

/// Writes parts and reports what they cannot say.
pub(super) struct PartEncoder<'a> {
    /// Context of the target.
    pub(super) context: &'a EncodeContext,
    /// Dialect of the target.
    pub(super) dialect: Dialect,
    /// Profile of the wire.
    pub(super) profile: UnifiedProtocolProfile,
    /// The model that is asked.
    pub(super) model: String,
    /// Whether an answer is written and no history: then nobody checks what is sent back.
    pub(super) answering: bool,
    /// Whether the target is asked in the version that has no more than texts and data.
    pub(super) reduced: bool,
    /// Nodes that the schemas of the request may still unfold to.
    pub(super) schema_nodes: usize,
    /// Losses so far.
    pub(super) loss: LossCollector,
}

/// Where a part comes from, for loss entries.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// Pointer into the record.
    pub(super) path: &'a str,
    /// Its item.
    pub(super) item: &'a UnifiedId,
}

/// A part of one member.
pub(super) fn part_of(key: &str, value: Json) -> Json {
    object(vec![(key.to_owned(), value)])
}

/// A text part.
pub(super) fn text(text: &str) -> Json {
    part_of("text", json(text))
}

impl<'a> PartEncoder<'a> {
    /// An encoder without losses.
    pub(super) fn new(context: &'a EncodeContext, dialect: Dialect, model: &str) -> Self {
        Self {
            context,
            dialect,
            profile: dialect.profile(),
            model: model.to_owned(),
            answering: false,
            reduced: versions::is_reduced(dialect, context.dialect.as_deref()),
            schema_nodes: super::schema::MAX_NODES,
            loss: LossCollector::new(),
        }
    }

    /// Generation of the model that is asked.
    pub(super) fn generation(&self) -> Generation {
        match generation(&self.model) {
            // Only the envelope has models of other vendors; elsewhere such a name is an alias of somebody's.
            Generation::Foreign if self.dialect != Dialect::Antigravity => Generation::Unknown,
            known => known,
        }
    }

    /// Whether the name of the model tells that it is none of Gemini's, whoever serves it.
    pub(super) fn serves_another_vendor(&self) -> bool {
        generation(&self.model) == Generation::Foreign
    }

    /// Whether something came over this very protocol.
    pub(super) fn is_native(&self, profile: Option<&UnifiedProtocolProfile>) -> bool {
        !self.reduced && profile.is_some_and(|p| p.family == self.profile.family)
    }

    /// Whether an item came over this very protocol.
    pub(super) fn is_own(&self, item: &UnifiedItem) -> bool {
        self.is_native(item.base.provenance.profile.as_ref())
    }

    /// A loss at a place.
    pub(super) fn lost(&mut self, severity: LossSeverity, feature: Feature, place: Place<'_>, reason: &str) {
        self.loss.add_for(severity, feature, place.path, reason, Some(place.item));
    }

    /// Puts kept fields, the form and the signature back; reports what the target may not see.
    pub(super) fn finish(
        &mut self,
        part: Json,
        references: Option<&Vec<UnifiedProviderDataRef>>,
        signature: Option<String>,
        place: Place<'_>,
    ) -> Json {
        if self.reduced {
            self.unsaid(references, place);
            return part;
        }
        let entries = unmapped_of(references, &self.profile, self.context);
        for reference in references.into_iter().flatten() {
            let foreign = reference.profile.family != self.profile.family;
            if reference.schema == kept::SIGNATURE && signature.is_none() {
                self.lost(
                    Info,
                    Feature::ReasoningSignature,
                    place,
                    "private reasoning state never leaves its owner",
                );
            } else if foreign || (entries.is_empty() && reference.schema.ends_with("/unmapped@1")) {
                self.lost(Info, Feature::WireUnmapped, place, "fields of another owner's wire stay with it");
            }
        }
        let part = put_all(put_all(part, &entries), &form_of(references, self.context));
        match signature {
            Some(signature) => put(&part, "/thoughtSignature", &json(&signature)),
            None => part,
        }
    }

    /// Reports what the version has no members for beside a part.
    fn unsaid(&mut self, references: Option<&Vec<UnifiedProviderDataRef>>, place: Place<'_>) {
        for reference in references.into_iter().flatten() {
            if reference.schema == kept::SIGNATURE {
                self.lost(Info, Feature::ReasoningSignature, place, versions::NO_MEMBER);
            } else if reference.schema.ends_with("/unmapped@1") {
                self.lost(Info, Feature::WireUnmapped, place, versions::NO_MEMBER);
            }
        }
    }

    /// One part of a message or result; empty when nothing of it can be said (reported).
    pub(super) fn part(&mut self, part: &UnifiedContentPart, native: bool, place: Place<'_>) -> Vec<Json> {
        let references = part.base.provider_data.as_ref();
        let signature = signature_of(references, self.context);
        let mut before = Vec::new();
        let made = match &part.body {
            PartBody::Text(inner) => {
                if inner.annotations.as_ref().is_some_and(|a| !a.is_empty()) {
                    self.lost(Warning, Feature::Citation, place, "the model does not see citations again");
                }
                if inner.logprobs.is_some() {
                    self.lost(Info, Feature::PartLogprobs, place, "token probabilities are not sent back");
                }
                Some(text(&inner.text))
            }
            PartBody::Refusal(inner) => {
                self.lost(Info, Feature::PartRefusal, place, "sent as text");
                Some(text(&inner.text))
            }
            PartBody::Reasoning(_) => self.refuse(Feature::ReasoningText, place),
            PartBody::Image(media) => self.media(media, native, Feature::PartImage, place),
            PartBody::Audio(media) => self.media(media, native, Feature::PartAudio, place),
            PartBody::Video(media) => self.media(media, native, Feature::PartVideo, place),
            PartBody::Document(media) => {
                before.extend(self.about_document(media, place));
                self.media(media, native, Feature::PartDocument, place)
            }
            PartBody::File(media) | PartBody::Binary(media) => self.media(media, native, Feature::PartFile, place),
            PartBody::Json(inner) => {
                self.lost(Info, Feature::PartJson, place, "sent as the JSON text");
                Some(text(inner.value.as_str()))
            }
            PartBody::Citation(_) => self.refuse(Feature::Citation, place),
            PartBody::GroundingSource(_) => {
                self.lost(Warning, Feature::GroundingSource, place, "sent as text");
                let said = visible_text(std::slice::from_ref(part));
                (!said.is_empty()).then(|| text(&said))
            }
            PartBody::ArtifactReference(_) => self.refuse(Feature::PartArtifact, place),
        };
        if let Some(made) = made {
            before.push(self.finish(made, references, signature, place));
        }
        before
    }

    fn refuse(&mut self, feature: Feature, place: Place<'_>) -> Option<Json> {
        self.lost(Warning, feature, place, "the target has no form for it");
        None
    }

    /// Title and context of a document, which the wire tells as text.
    fn about_document(&mut self, media: &MediaPart, place: Place<'_>) -> Option<Json> {
        let about = media.media.as_ref()?;
        let lines: Vec<&str> = [&about.title, &about.context].into_iter().flatten().map(String::as_str).collect();
        if about.citations_enabled.is_some() || !lines.is_empty() {
            self.lost(
                Warning,
                Feature::PartDocumentContext,
                place,
                "title and context of a document are sent as text",
            );
        }
        (!lines.is_empty()).then(|| text(&lines.join("\n")))
    }

    fn media(&mut self, media: &MediaPart, native: bool, feature: Feature, place: Place<'_>) -> Option<Json> {
        let about = media.media.clone().unwrap_or_default();
        let mut members = match &media.source {
            UnifiedDataSource::Inline(inline) => {
                let data = match inline.encoding {
                    InlineEncoding::Utf8 => {
                        let at = format!("{}/source/data", place.path);
                        self.loss.remark(Feature::WireSpelling, at, "written as base64");
                        encode_base64(inline.data.as_bytes())
                    }
                    // Proto JSON takes the standard and the URL-safe spelling.
                    InlineEncoding::Base64 | InlineEncoding::Bytes => inline.data.clone(),
                };
                self.inline(&inline.media_type, data, native, feature, place)?
            }
            UnifiedDataSource::Url(url) => {
                if let Some((media_type, data)) = crate::media::data_url(&url.url) {
                    self.inline(crate::media::bare_type(media_type), data.to_owned(), native, feature, place)?
                } else if self.reduced {
                    self.lost(Warning, feature, place, "version v1 of the API reads only data in the body");
                    return None;
                } else {
                    let told = about.media_type.clone();
                    let media_type = told.or_else(|| media::guessed_type(&url.url).filter(|_| !native).map(str::to_owned));
                    file(&url.url, media_type)
                }
            }
            UnifiedDataSource::ProviderResource(held) => {
                let uri = self.context.private.payload(&held.resource.resource_id);
                let Some(uri) = uri.and_then(|b| String::from_utf8(b.to_vec()).ok()).filter(|_| native) else {
                    self.lost(Warning, feature, place, "the file is held by another owner");
                    return None;
                };
                file(&uri, about.media_type.clone())
            }
            UnifiedDataSource::Artifact(_) => {
                self.lost(Warning, feature, place, "the data is not at hand");
                return None;
            }
        };
        if let Some(name) = &about.name {
            if native || self.dialect != Dialect::Gemini {
                let pointer = format!("/{}/displayName", members.0);
                members.1 = put(&members.1, &pointer, &json(name));
            } else {
                self.lost(Info, feature, place, "the target takes no file names");
            }
        }
        let mut made = members.1;
        let offsets = about.time.unwrap_or_default();
        let offset = |s: Option<f64>| s.map(|s| json(&media::duration(s)));
        for (key, value) in [
            ("startOffset", offset(offsets.start_seconds)),
            ("endOffset", offset(offsets.end_seconds)),
            ("fps", about.fps.map(number)),
        ] {
            if let Some(value) = value {
                made = put(&made, &format!("/videoMetadata/{key}"), &value);
            }
        }
        let (resolution, detail) = if self.reduced {
            if about.resolution.is_some() || about.detail.is_some() {
                self.lost(Info, Feature::PartImageDetail, place, versions::NO_MEMBER);
            }
            (&None, &None)
        } else {
            (&about.resolution, &about.detail)
        };
        if resolution.is_some() {
            let at = format!("{}/media/resolution", place.path);
            self.loss.remark(Feature::WireSpelling, at, "said by the wire's own word");
        }
        match resolution {
            Some(MediaResolution::Word(word)) => {
                let level = format!("MEDIA_RESOLUTION_{}", media::resolution_word(*word));
                made = put(&made, "/mediaResolution/level", &json(&level));
            }
            Some(MediaResolution::Tokens(tokens)) => made = put(&made, "/mediaResolution/numTokens", &json(&tokens.tokens)),
            None => {}
        }
        if let Some(detail) = detail {
            use throughline_format::media::ImageDetail;
            let level = match detail {
                ImageDetail::Low => Some("MEDIA_RESOLUTION_LOW"),
                ImageDetail::High => Some("MEDIA_RESOLUTION_HIGH"),
                ImageDetail::Auto | ImageDetail::Original | ImageDetail::Other(_) => None,
            };
            self.lost(
                Info,
                Feature::PartImageDetail,
                place,
                "said as a media resolution, where there is one",
            );
            if let (Some(level), None) = (level, resolution) {
                made = put(&made, "/mediaResolution/level", &json(level));
            }
        }
        let told = [
            "name",
            "mediaType",
            "title",
            "context",
            "citationsEnabled",
            "time",
            "fps",
            "resolution",
            "detail",
        ];
        self.loss.media(media.media.as_ref(), feature, place.path, &told);
        Some(made)
    }

    /// Data in the body; refused when the service is known not to read its type.
    fn inline(&mut self, media_type: &str, data: String, native: bool, feature: Feature, place: Place<'_>) -> Option<(&'static str, Json)> {
        if !native && (!is_readable(media_type) || data.is_empty()) {
            self.lost(Warning, feature, place, "the target reads no media of this type");
            return None;
        }
        let blob = object(vec![("mimeType".into(), json(media_type)), ("data".into(), json(&data))]);
        Some(("inlineData", part_of("inlineData", blob)))
    }

    /// Thinking as a part: with its signature for its owner, else as text of the thinking.
    pub(super) fn reasoning(&mut self, part: &UnifiedContentPart, inner: &ReasoningPart, native: bool, place: Place<'_>) -> Option<Json> {
        let references = part.base.provider_data.as_ref();
        let state = inner.private_state.as_ref();
        let signature = state
            .filter(|state| state.r#ref.schema == kept::SIGNATURE)
            .and_then(|state| signature_of(Some(&vec![state.r#ref.clone()]), self.context));
        if state.is_some() && signature.is_none() {
            self.lost(
                Info,
                Feature::ReasoningSignature,
                place,
                "private reasoning state never leaves its owner",
            );
        }
        // The Claude models behind the envelope refuse thinking that they did not sign.
        let refused = !self.answering && self.generation() == Generation::Foreign && signature.is_none();
        if refused || (inner.text.is_empty() && signature.is_none()) {
            let feature = if inner.state == ReasoningState::Redacted {
                Feature::ReasoningRedacted
            } else {
                Feature::ReasoningText
            };
            self.lost(
                Warning,
                feature,
                place,
                "reasoning without a signature of the target's owner is left out",
            );
            return None;
        }
        if !native {
            self.lost(Info, Feature::ReasoningText, place, "sent as thinking without a signature");
        }
        let made = if inner.state == ReasoningState::Omitted && inner.text.is_empty() {
            text("")
        } else {
            object(vec![("text".into(), json(&inner.text)), ("thought".into(), json(&true))])
        };
        Some(self.finish(made, references, signature, place))
    }

    /// A handle of a resource that the target may see.
    pub(super) fn handle(&self, resource_id: &UnifiedId) -> Option<String> {
        self.context
            .private
            .payload(resource_id)
            .and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
    }

    /// The border of a content that an item begins.
    pub(super) fn border(&self, item: &UnifiedItem) -> Option<Border> {
        let value = text_of(item.base.provider_data.as_ref(), kept::CONTENT, self.context)?;
        let value = Json::from_text(value).ok()?;
        Some(Border {
            apart: raw::get(&value, "apart").and_then(|v| v.decode().ok()).unwrap_or_default(),
            members: raw::get(&value, "members").and_then(|v| v.decode().ok()).unwrap_or_default(),
        })
    }
}

/// The border of a content.
#[derive(Clone, Debug, Default)]
pub(super) struct Border {
    /// Whether it stands apart from its neighbour of the same role.
    pub(super) apart: bool,
    /// Members besides the parts.
    pub(super) members: Vec<UnmappedEntry>,
}

fn file(uri: &str, media_type: Option<String>) -> (&'static str, Json) {
    let mut members = vec![("fileUri".to_owned(), json(uri))];
    members.extend(media_type.map(|m| ("mimeType".to_owned(), json(&m))));
    ("fileData", part_of("fileData", object(members)))
}

/// Whether the service reads media of a type.
fn is_readable(media_type: &str) -> bool {
    let bare = media_type.split(';').next().unwrap_or_default().trim();
    let major = bare.split('/').next().unwrap_or_default();
    matches!(major, "image" | "audio" | "video" | "text")
        || matches!(
            bare,
            "application/pdf" | "application/json" | "application/xml" | "application/rtf" | "application/x-javascript"
        )
}
