//! Parts as blocks of the wire; requests and responses share this.

use super::kept;
use super::tool_names::Names;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::keeper;
use crate::media;
use crate::projection::LossCollector;
use crate::raw::{self};
use crate::raw::{json, object};
use crate::visible_text::visible_text;
use throughline_format::loss::LossSeverity;
use throughline_format::media::{InlineEncoding, UnifiedDataSource, decode_base64, encode_base64};
use throughline_format::part::{GroundingSourcePart, JsonPart, MediaPart, TextPart};
use throughline_format::{
    Json, PartBody, ProtocolFamily, UnifiedContentPart, UnifiedId, UnifiedProtocolProfile, UnifiedProviderDataRef, UnifiedToolDefinition,
};

/// Media types of inline images.
const IMAGE_TYPES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Writes blocks and reports what they cannot say.
pub(super) struct BlockEncoder<'a> {
    /// Context of the target.
    pub(super) context: &'a EncodeContext,
    /// Profile of the wire.
    pub(super) profile: UnifiedProtocolProfile,
    /// Names of the request's tools.
    pub(super) names: Names,
    /// Losses so far.
    pub(super) loss: LossCollector,
}

/// Where a block comes from, for loss entries.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// Pointer into the record.
    pub(super) path: &'a str,
    /// Its item.
    pub(super) item: &'a UnifiedId,
}

/// An object with a `type`.
pub(super) fn typed<const N: usize>(kind: &str, members: [(&str, Option<Json>); N]) -> Json {
    let mut list = vec![("type".to_owned(), json(kind))];
    list.extend(
        members
            .into_iter()
            .filter_map(|(key, value)| value.map(|value| (key.to_owned(), value))),
    );
    object(list)
}

/// A plain text block.
pub(super) fn text(text: &str) -> Json {
    typed("text", [("text", Some(json(text)))])
}

/// Whether the references hold something of another protocol or scope that this wire cannot carry.
pub(super) fn is_native(profile: Option<&UnifiedProtocolProfile>) -> bool {
    profile.is_some_and(|p| p.family == ProtocolFamily::AnthropicMessages)
}

impl<'a> BlockEncoder<'a> {
    /// An encoder without losses, for a request with these tools.
    pub(super) fn new(context: &'a EncodeContext, profile: UnifiedProtocolProfile, tools: &[UnifiedToolDefinition]) -> Self {
        Self {
            context,
            profile,
            names: Names::of(tools, &context.capabilities),
            loss: LossCollector::new(),
        }
    }

    /// A loss at a place.
    pub(super) fn lost(&mut self, severity: LossSeverity, feature: Feature, place: Place<'_>, reason: &str) {
        self.loss.add_for(severity, feature, place.path, reason, Some(place.item));
    }

    /// A remark: the wire says it in its own way.
    pub(super) fn remark(&mut self, path: &str, how: &str) {
        self.loss.remark(Feature::WireSpelling, path, how);
    }

    /// Puts kept fields back; reports those that the target may not see.
    pub(super) fn with_unmapped(&mut self, block: Json, references: Option<&Vec<UnifiedProviderDataRef>>, place: Place<'_>) -> Json {
        let entries = keeper::unmapped_of(references, &self.profile, self.context);
        for reference in references.into_iter().flatten() {
            let known = reference.profile.family == self.profile.family;
            if !known || (entries.is_empty() && reference.schema.ends_with("/unmapped@1")) {
                self.lost(
                    LossSeverity::Info,
                    Feature::WireUnmapped,
                    place,
                    "fields of another owner's wire stay with it",
                );
            }
        }
        raw::put_all(block, &entries)
    }

    /// One part as a block; `None` when nothing of it can be said (reported).
    pub(super) fn part(&mut self, part: &UnifiedContentPart, place: Place<'_>) -> Option<Json> {
        let references = part.base.provider_data.as_ref();
        let block = match &part.body {
            PartBody::Text(inner) => self.text_part(inner, references, place),
            PartBody::Refusal(inner) => {
                self.lost(LossSeverity::Info, Feature::PartRefusal, place, "sent as text");
                Some(text(&inner.text))
            }
            PartBody::Reasoning(_) => self.refuse(Feature::ReasoningText, place),
            PartBody::Image(media) => self.image(media, place),
            PartBody::Document(media) => self.document(media, place),
            PartBody::File(media) => match &media.source {
                UnifiedDataSource::ProviderResource(_) => self
                    .file_id(&media.source, place)
                    .map(|id| typed("container_upload", [("file_id", Some(id))])),
                _ => self.document(media, place),
            },
            PartBody::Audio(_) => self.refuse(Feature::PartAudio, place),
            PartBody::Video(_) => self.refuse(Feature::PartVideo, place),
            PartBody::Binary(_) => self.refuse(Feature::PartFile, place),
            PartBody::Json(inner) => Some(self.json_part(inner, place)),
            PartBody::Citation(_) => self.refuse(Feature::Citation, place),
            PartBody::GroundingSource(source) => {
                if let Some(block) = self.search_result(source, place) {
                    return Some(self.with_unmapped(block, references, place));
                }
                self.lost(LossSeverity::Warning, Feature::GroundingSource, place, "sent as text");
                let said = visible_text(std::slice::from_ref(part));
                (!said.is_empty()).then(|| text(&said))
            }
            PartBody::ArtifactReference(_) => self.refuse(Feature::PartArtifact, place),
        }?;
        Some(self.with_unmapped(block, references, place))
    }

    /// A found source with its words, as a search result of the client; the wire takes it from users only.
    fn search_result(&mut self, found: &GroundingSourcePart, place: Place<'_>) -> Option<Json> {
        let uri = found.source.uri.as_ref()?;
        let mut content = Vec::new();
        for (n, part) in found.parts.iter().flatten().enumerate() {
            let path = format!("{}/parts/{n}", place.path);
            if part.as_text().is_some_and(|text| !text.trim().is_empty()) {
                let place = Place { path: &path, ..place };
                content.extend(self.part(part, place));
            }
        }
        let excerpt = found.excerpt.as_ref().filter(|text| content.is_empty() && !text.trim().is_empty());
        content.extend(excerpt.map(|words| text(words)));
        if content.is_empty() {
            return None;
        }
        if found.score.is_some() || found.page_age.is_some() {
            self.lost(
                LossSeverity::Info,
                Feature::GroundingSource,
                place,
                "a search result of the wire has no score and no age",
            );
        }
        Some(typed(
            "search_result",
            [
                ("source", Some(json(uri))),
                ("title", Some(json(found.source.title.as_ref().unwrap_or(uri)))),
                ("content", Some(json(&content))),
            ],
        ))
    }

    fn refuse(&mut self, feature: Feature, place: Place<'_>) -> Option<Json> {
        self.lost(LossSeverity::Warning, feature, place, "the target has no form for it");
        None
    }

    fn text_part(&mut self, part: &TextPart, references: Option<&Vec<UnifiedProviderDataRef>>, place: Place<'_>) -> Option<Json> {
        if part.text.is_empty() {
            self.lost(
                LossSeverity::Info,
                Feature::ConversationMessageEmpty,
                place,
                "an empty text is left out",
            );
            return None;
        }
        if part.logprobs.is_some() {
            self.lost(
                LossSeverity::Info,
                Feature::PartLogprobs,
                place,
                "the target has no form for token probabilities",
            );
        }
        let citations = kept::json_of(references, kept::CITATIONS, self.context).filter(|json| !kept::holds_synthetic(json));
        if citations.is_none() && part.annotations.as_ref().is_some_and(|list| !list.is_empty()) {
            self.lost(
                LossSeverity::Warning,
                Feature::Citation,
                place,
                "the model does not see citations of another owner",
            );
        }
        if citations.is_some() && part.annotations.is_some() {
            self.remark(
                &format!("{}/annotations", place.path),
                "units of spans are said by the kind of location",
            );
        }
        Some(typed("text", [("text", Some(json(&part.text))), ("citations", citations)]))
    }

    fn json_part(&mut self, part: &JsonPart, place: Place<'_>) -> Json {
        if part.schema_name.as_ref().is_some_and(|name| name.starts_with(super::JSON_PREFIX)) && part.value.is_object() {
            self.remark(&format!("{}/schemaName", place.path), "said by the type of the block");
            return part.value.clone();
        }
        self.lost(LossSeverity::Info, Feature::PartJson, place, "sent as the JSON text");
        text(part.value.as_str())
    }

    fn file_id(&mut self, source: &UnifiedDataSource, place: Place<'_>) -> Option<Json> {
        let UnifiedDataSource::ProviderResource(held) = source else {
            return None;
        };
        let id = self
            .context
            .private
            .payload(&held.resource.resource_id)
            .and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
        if id.is_none() {
            self.lost(LossSeverity::Warning, Feature::PartFile, place, "the file is held by another owner");
        }
        id.map(|id| json(&id))
    }

    /// The source of an image or document; `None` when it cannot be said (reported).
    fn source(&mut self, source: &UnifiedDataSource, place: Place<'_>, feature: Feature) -> Option<Json> {
        match source {
            UnifiedDataSource::Url(url) => match media::data_url(&url.url) {
                Some((media_type, data)) => Some(base64_source(media::bare_type(media_type), data)),
                None if media::is_reachable(&url.url) => Some(typed("url", [("url", Some(json(&url.url)))])),
                None => {
                    self.lost(LossSeverity::Warning, feature, place, media::UNREACHABLE);
                    None
                }
            },
            UnifiedDataSource::ProviderResource(_) => self.file_id(source, place).map(|id| typed("file", [("file_id", Some(id))])),
            UnifiedDataSource::Inline(inline) => Some(match inline.encoding {
                InlineEncoding::Utf8 => typed(
                    "text",
                    [("media_type", Some(json(&inline.media_type))), ("data", Some(json(&inline.data)))],
                ),
                InlineEncoding::Base64 | InlineEncoding::Bytes => base64_source(&inline.media_type, &inline.data),
            }),
            UnifiedDataSource::Artifact(_) => {
                self.lost(LossSeverity::Warning, feature, place, "the data is not at hand");
                None
            }
        }
    }

    /// The type of what the target fetches is not told.
    fn untold_type(&mut self, media: &MediaPart, place: Place<'_>) {
        let is_elsewhere = matches!(media.source, UnifiedDataSource::Url(_) | UnifiedDataSource::ProviderResource(_));
        if is_elsewhere && media.media.as_ref().is_some_and(|m| m.media_type.is_some()) {
            let reason = "the target learns the type from what it fetches";
            self.loss.info(Feature::PartFile, format!("{}/media/mediaType", place.path), reason);
        }
    }

    fn image(&mut self, media: &MediaPart, place: Place<'_>) -> Option<Json> {
        self.untold_type(media, place);
        let told = ["mediaType", "detail", "resolution"];
        self.loss.media(media.media.as_ref(), Feature::PartImage, place.path, &told);
        if media.media.as_ref().is_some_and(|m| m.detail.is_some() || m.resolution.is_some()) {
            self.lost(
                LossSeverity::Info,
                Feature::PartImageDetail,
                place,
                "the target has no detail switch",
            );
        }
        let source = self.source(&media.source, place, Feature::PartImage)?;
        let media_type = source.decode::<Base64Look>().ok();
        if let Some(look) = media_type
            && look.kind == "base64"
            && !IMAGE_TYPES.contains(&look.media_type.as_str())
        {
            self.lost(
                LossSeverity::Warning,
                Feature::PartImage,
                place,
                "the target takes jpeg, png, gif and webp only",
            );
            return None;
        }
        Some(typed("image", [("source", Some(source))]))
    }

    fn document(&mut self, media: &MediaPart, place: Place<'_>) -> Option<Json> {
        self.untold_type(media, place);
        let source = match &media.source {
            UnifiedDataSource::Inline(inline) => {
                let bare = inline.media_type.split(';').next().unwrap_or_default().trim();
                match (inline.encoding, bare) {
                    (InlineEncoding::Utf8, _) => typed(
                        "text",
                        [("media_type", Some(json("text/plain"))), ("data", Some(json(&inline.data)))],
                    ),
                    (_, "application/pdf") => base64_source(bare, &inline.data),
                    (_, bare)
                        if bare.starts_with("text/") || matches!(bare, "application/json" | "application/xml" | "application/yaml") =>
                    {
                        let data = inline.bytes().and_then(|bytes| String::from_utf8(bytes).ok());
                        match data {
                            Some(data) => typed("text", [("media_type", Some(json("text/plain"))), ("data", Some(json(&data)))]),
                            None => return self.refuse(Feature::PartDocument, place),
                        }
                    }
                    _ => return self.refuse(Feature::PartDocument, place),
                }
            }
            other => self.source(other, place, Feature::PartDocument)?,
        };
        let about = media.media.as_ref();
        let title = about.and_then(|m| m.title.as_ref().or(m.name.as_ref()));
        // A name stands as the title of a document that has none.
        let is_titled = about.is_some_and(|m| m.title.is_some());
        let named: &[&str] = if is_titled { &["title"] } else { &["name"] };
        let told = [&["mediaType", "context", "citationsEnabled"], named].concat();
        self.loss.media(about, Feature::PartDocument, place.path, &told);
        let citations = about
            .and_then(|m| m.citations_enabled)
            .map(|on| object(vec![("enabled".into(), json(&on))]));
        let context = about.and_then(|m| m.context.as_ref()).map(json);
        Some(typed(
            "document",
            [
                ("source", Some(source)),
                ("title", title.map(json)),
                ("context", context),
                ("citations", citations),
            ],
        ))
    }
}

#[derive(serde::Deserialize)]
struct Base64Look {
    #[serde(rename = "type")]
    kind: String,
    media_type: String,
}

fn base64_source(media_type: &str, data: &str) -> Json {
    // The wire takes standard base64; other spellings are rewritten, the standard one stays as it was written.
    let standard = data.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='));
    let data = if standard {
        data.to_owned()
    } else {
        decode_base64(data).map_or_else(|| data.to_owned(), |bytes| encode_base64(&bytes))
    };
    typed("base64", [("media_type", Some(json(media_type))), ("data", Some(json(&data)))])
}
