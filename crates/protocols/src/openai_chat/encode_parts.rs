//! Content parts to the wire: one run of parts becomes the content of one message.

use super::encode_request::{RequestEncoder, is_own};
use super::private::{Entries, FILE_ID};
use super::wire;
use crate::capability::Support;
use crate::feature::Feature;
use crate::media;
use crate::visible_text::visible_text;
use crate::wire::{Extra, TextOr};
use throughline_format::intent::UnifiedRequirement;
use throughline_format::loss::LossSeverity;
use throughline_format::media::{InlineEncoding, UnifiedDataSource};
use throughline_format::part::MediaPart;
use throughline_format::{Json, PartBody, UnifiedContentPart, UnifiedItem, UnifiedItemBody};

/// A text part.
pub(super) fn text(text: String) -> wire::Part {
    wire::Part::Text(wire::TextPart {
        text,
        extra: Extra::default(),
    })
}

/// The content of one message in the making.
pub(super) struct PartRun<'e> {
    entries: &'e Entries,
    parts: Vec<wire::Part>,
    moved: Vec<wire::Part>,
    /// Wire index of the next part.
    next: usize,
    /// Media go into another message.
    pub moves_media: bool,
}

impl<'e> PartRun<'e> {
    pub(super) const fn new(entries: &'e Entries) -> Self {
        Self {
            entries,
            parts: Vec::new(),
            moved: Vec::new(),
            next: 0,
            moves_media: false,
        }
    }

    /// Adds the parts of an item.
    pub(super) fn item(&mut self, encoder: &mut RequestEncoder, index: usize, parts: &[UnifiedContentPart], takes_media: bool) {
        for (number, part) in parts.iter().enumerate() {
            self.part(encoder, index, number, part, takes_media);
        }
    }

    /// Adds a reasoning item as thinking parts of a dialect.
    pub(super) fn thinking(&mut self, item: &UnifiedItem) {
        for part in item.parts() {
            self.kept();
            let extra = self.extra();
            let thinking = vec![text(part.as_text().unwrap_or_default().to_owned())];
            self.parts.push(wire::Part::Thinking(wire::ThinkingPart { thinking, extra }));
            self.next += 1;
        }
    }

    /// Adds words that are no part of the item.
    pub(super) fn said(&mut self, said: String) {
        self.kept();
        self.parts.push(text(said));
    }

    /// Puts a text before everything.
    pub(super) fn lead(&mut self, lead: String) {
        self.parts.insert(0, text(lead));
    }

    /// Media that the message cannot carry.
    pub(super) fn take_moved(&mut self) -> Vec<wire::Part> {
        std::mem::take(&mut self.moved)
    }

    /// The content; `None` when there is nothing.
    pub(super) fn finish(mut self, as_list: bool) -> Option<TextOr<wire::Part>> {
        self.kept();
        // Empty texts are refused in lists.
        if self.parts.len() > 1 {
            self.parts
                .retain(|p| !matches!(p, wire::Part::Text(t) if t.text.is_empty() && t.extra.is_empty()));
        }
        match self.parts.as_slice() {
            [] => None,
            [wire::Part::Text(only)] if only.extra.is_empty() && (!as_list || only.text.is_empty()) => {
                Some(TextOr::Text(only.text.clone()))
            }
            _ => Some(TextOr::List(self.parts)),
        }
    }

    /// Adds the parts that were kept whole and stand here.
    fn kept(&mut self) {
        while let Some(raw) = self.entries.get(&format!("/content/{}", self.next)) {
            self.parts.push(wire::Part::Unknown(raw.clone()));
            self.next += 1;
        }
    }

    fn extra(&self) -> Extra {
        self.entries.level(
            &format!("/content/{}", self.next),
            &["type", "image_url", "video_url", "file_url", "document_url"],
        )
    }

    /// Adds one part.
    pub(super) fn part(&mut self, encoder: &mut RequestEncoder, index: usize, number: usize, part: &UnifiedContentPart, takes_media: bool) {
        self.kept();
        let items = &encoder.request.conversation.items;
        let Some(item) = items.get(index) else { return };
        let member = if matches!(item.body, UnifiedItemBody::Message(_) | UnifiedItemBody::CompactionSummary(_)) {
            "parts"
        } else {
            "output"
        };
        let suffix = format!("/{member}/{number}");
        let own = is_own(item);
        let support = encoder.capabilities.support(media_feature(&part.body));
        let mut lose =
            |severity, feature, more: &str, reason: &str| encoder.lose(severity, feature, index, &format!("{suffix}{more}"), reason);
        let wire = match &part.body {
            PartBody::Text(t) => {
                if t.annotations.is_some() && !self.entries.covers("/annotations") {
                    lose(
                        LossSeverity::Warning,
                        Feature::Citation,
                        "/annotations",
                        "the target takes no citations in a request",
                    );
                }
                if t.logprobs.is_some() {
                    lose(
                        LossSeverity::Info,
                        Feature::PartLogprobs,
                        "/logprobs",
                        "the target takes no token probabilities in a request",
                    );
                }
                if t.text.is_empty() && !own {
                    lose(
                        LossSeverity::Info,
                        Feature::ConversationMessageEmpty,
                        "",
                        "an empty text is left out",
                    );
                    return;
                }
                wire::Part::Text(wire::TextPart {
                    text: t.text.clone(),
                    extra: self.extra(),
                })
            }
            PartBody::Refusal(r) if item.role == Some(throughline_format::item::Role::Assistant) => {
                wire::Part::Refusal(wire::RefusalPart {
                    refusal: r.text.clone(),
                    extra: self.extra(),
                })
            }
            PartBody::Refusal(r) => text(r.text.clone()),
            PartBody::Json(json) => {
                let more = if json.schema_name.is_some() { "/schemaName" } else { "" };
                lose(LossSeverity::Info, Feature::PartJson, more, "the JSON is said as text");
                text(json.value.as_str().to_owned())
            }
            PartBody::Reasoning(_) => {
                lose(
                    LossSeverity::Warning,
                    Feature::ReasoningText,
                    "",
                    "the target takes no reasoning of others",
                );
                return;
            }
            PartBody::Citation(_) => {
                lose(
                    LossSeverity::Warning,
                    Feature::Citation,
                    "",
                    "the target takes no citations in a request",
                );
                return;
            }
            PartBody::GroundingSource(_) => {
                let Some(said) = Some(visible_text(std::slice::from_ref(part))).filter(|said| !said.is_empty()) else {
                    lose(
                        LossSeverity::Warning,
                        Feature::GroundingSource,
                        "",
                        "the target has no form for sources",
                    );
                    return;
                };
                lose(
                    LossSeverity::Warning,
                    Feature::GroundingSource,
                    "",
                    "a source that was found is said in text",
                );
                text(said)
            }
            PartBody::ArtifactReference(_) => {
                lose(
                    LossSeverity::Warning,
                    Feature::PartArtifact,
                    "",
                    "the artifact was not resolved before the projection",
                );
                return;
            }
            PartBody::Image(m)
            | PartBody::Audio(m)
            | PartBody::Video(m)
            | PartBody::Document(m)
            | PartBody::File(m)
            | PartBody::Binary(m) => {
                let feature = media_feature(&part.body);
                if let Support::Unsupported(why) = support
                    && self.entries.get(&format!("/content/{}/type", self.next)).is_none()
                    && !(own && feature == Feature::PartVideo)
                {
                    lose(LossSeverity::Warning, feature, "", why);
                    return;
                }
                if !takes_media {
                    lose(LossSeverity::Warning, feature, "", "the target takes media only from the user");
                    return;
                }
                match self.media(encoder, &part.body, m, own) {
                    Ok((wire, notes)) => {
                        let said: &[&str] = match &part.body {
                            PartBody::Image(_) => &["detail"],
                            PartBody::Document(_) | PartBody::File(_) => &["name"],
                            _ => &[],
                        };
                        let told = [&["mediaType", "resolution", "title", "context", "citationsEnabled"], said].concat();
                        let place = format!("{}{suffix}", RequestEncoder::path(index));
                        encoder.loss.media(m.media.as_ref(), feature, &place, &told);
                        for (feature, more, reason) in notes {
                            let path = format!("{suffix}{more}");
                            if matches!(feature, Feature::WireSpelling | Feature::RecordBookkeeping) {
                                encoder
                                    .loss
                                    .remark(feature, format!("{}{path}", RequestEncoder::path(index)), reason);
                            } else {
                                encoder.lose(LossSeverity::Info, feature, index, &path, reason);
                            }
                        }
                        if self.moves_media && !matches!(wire, wire::Part::Text(_)) {
                            self.moved.push(wire);
                            self.next += 1;
                            return;
                        }
                        wire
                    }
                    Err(reason) => {
                        let severity = LossSeverity::of_requirement(UnifiedRequirement::Preferred);
                        encoder.lose(severity, feature, index, &suffix, reason);
                        return;
                    }
                }
            }
        };
        let mut wire = wire;
        let is_last = number + 1 == item.parts().len();
        if let Some(extra) = extra_of(&mut wire) {
            encoder.marks.put(&item.id, &part.part_id, is_last, extra);
        }
        self.parts.push(wire);
        self.next += 1;
    }

    /// One medium with what is lost of it, or why it cannot be said.
    #[allow(clippy::type_complexity)] // a list of notes, used once
    fn media(
        &self,
        encoder: &RequestEncoder,
        body: &PartBody,
        part: &MediaPart,
        own: bool,
    ) -> Result<(wire::Part, Vec<(Feature, &'static str, &'static str)>), &'static str> {
        let pointer = format!("/content/{}", self.next);
        let extra = self.extra();
        let mut notes = Vec::new();
        let meta = part.media.as_ref();
        if meta.is_some_and(|m| m.title.is_some() || m.context.is_some() || m.citations_enabled.is_some()) {
            notes.push((
                Feature::PartDocumentContext,
                "/media",
                "the target has no title, context and citation flag of a document",
            ));
        }
        let is_image = matches!(body, PartBody::Image(_));
        for (member, reason) in meta.map(|meta| media::unsaid(meta, &part.source, is_image)).unwrap_or_default() {
            notes.push((Feature::PartFile, member, reason));
        }
        let handle = |source: &UnifiedDataSource| match source {
            UnifiedDataSource::ProviderResource(r) => encoder
                .context
                .private
                .payload(&r.resource.resource_id)
                .and_then(|b| String::from_utf8(b.to_vec()).ok()),
            _ => None,
        };
        let url = match &part.source {
            UnifiedDataSource::Url(u) if !encoder.same_family && !media::is_reachable(&u.url) => return Err(media::UNREACHABLE),
            UnifiedDataSource::Url(u) => Some(u.url.clone()),
            UnifiedDataSource::Inline(i) => Some(media::to_data_url(i)),
            UnifiedDataSource::Artifact(_) => return Err("the artifact was not resolved before the projection"),
            UnifiedDataSource::ProviderResource(_) => None,
        };
        let address = |member: &str, url: String, detail: Option<String>| match self.entries.get(&format!("{pointer}/{member}")) {
            Some(_) => wire::ObjectOrText::Text(url),
            None => wire::ObjectOrText::Object(wire::Address {
                url,
                detail,
                extra: self.entries.level(&format!("{pointer}/{member}"), &[]),
            }),
        };
        let written: Option<String> = self.entries.get(&format!("{pointer}/type")).and_then(|k| k.decode().ok());
        let is_address = matches!(part.source, UnifiedDataSource::Url(_));
        let of_dialect = match body {
            PartBody::Video(_) if encoder.dialect.video => Some("video_url"),
            PartBody::Document(_) | PartBody::File(_) if is_address => encoder.dialect.document_url,
            _ => None,
        };
        let wire = match (body, written.as_deref().or(of_dialect), url) {
            (PartBody::Video(_), Some("video_url"), Some(url)) => wire::Part::VideoUrl(wire::VideoPart {
                video_url: address("video_url", url, None),
                extra,
            }),
            (_, Some("file_url"), Some(url)) => wire::Part::FileUrl(wire::FileUrlPart {
                file_url: address("file_url", url, None),
                extra,
            }),
            (_, Some("document_url"), Some(url)) => wire::Part::DocumentUrl(wire::DocumentUrlPart {
                document_url: match self.entries.get(&format!("{pointer}/document_url")) {
                    None if written.is_some() => address("document_url", url, None),
                    _ => wire::ObjectOrText::Text(url),
                },
                extra,
            }),
            (PartBody::Document(_) | PartBody::File(_), Some("file"), Some(url)) => wire::Part::File(wire::FilePart {
                file: wire::File {
                    file_data: Some(url),
                    file_id: None,
                    filename: meta.and_then(|m| m.name.clone().or_else(|| m.title.clone())),
                    extra: Extra::default(),
                },
                extra,
            }),
            (PartBody::Image(_), _, Some(url)) => {
                let detail = meta.and_then(media::detail);
                wire::Part::ImageUrl(wire::ImagePart {
                    image_url: address("image_url", url, detail),
                    extra,
                })
            }
            (PartBody::Video(_), ..) => return Err("the target takes no video"),
            (PartBody::Audio(_), _, Some(_)) => {
                let UnifiedDataSource::Inline(inline) = &part.source else {
                    return Err("the target takes audio only as data");
                };
                let format = media::audio_format(&inline.media_type);
                if !own && !matches!(format, "wav" | "mp3") {
                    return Err("the target takes audio only as wav and mp3");
                }
                if format != inline.media_type {
                    notes.push((
                        Feature::WireSpelling,
                        "/source/mediaType",
                        "the media type is said as a format word",
                    ));
                }
                let input_audio = wire::InputAudio {
                    data: media::base64_of(inline),
                    format: Some(format.to_owned()),
                    extra: self.entries.level(&format!("{pointer}/input_audio"), &[]),
                };
                wire::Part::InputAudio(wire::InputAudioPart { input_audio, extra })
            }
            (_, _, Some(url)) => {
                let UnifiedDataSource::Inline(inline) = &part.source else {
                    return Err("the target takes files only as data or by its own handle");
                };
                if !own && inline.media_type.starts_with("text/") {
                    let said = match inline.encoding {
                        InlineEncoding::Utf8 => Some(inline.data.clone()),
                        _ => inline.bytes().and_then(|b| String::from_utf8(b).ok()),
                    };
                    let Some(said) = said else {
                        return Err("the text of the file cannot be read");
                    };
                    notes.push((Feature::PartDocument, "", "a text document is said as text"));
                    return Ok((text(said), notes));
                }
                let filename = meta
                    .and_then(|m| m.name.clone().or_else(|| m.title.clone()))
                    .or_else(|| (!own).then(|| "document.pdf".to_owned()));
                let file = wire::File {
                    file_data: Some(url),
                    file_id: None,
                    filename,
                    extra: self.entries.level(&format!("{pointer}/file"), &[]),
                };
                wire::Part::File(wire::FilePart { file, extra })
            }
            (_, _, None) => {
                let Some(file_id) = handle(&part.source) else {
                    return Err("the handle belongs to another owner (openai-chat/file-id@1)");
                };
                debug_assert!(FILE_ID.starts_with("openai-chat/"));
                notes.push((
                    Feature::RecordBookkeeping,
                    "/source/resource",
                    "the handle itself is sent; whose it is shows in the credential",
                ));
                let filename = meta.and_then(|m| m.name.clone());
                let file = wire::File {
                    file_data: None,
                    file_id: Some(file_id),
                    filename,
                    extra: self.entries.level(&format!("{pointer}/file"), &[]),
                };
                wire::Part::File(wire::FilePart { file, extra })
            }
        };
        Ok((wire, notes))
    }
}

/// Members of a part that its type does not name.
fn extra_of(part: &mut wire::Part) -> Option<&mut Extra> {
    Some(match part {
        wire::Part::Text(p) => &mut p.extra,
        wire::Part::Refusal(p) => &mut p.extra,
        wire::Part::ImageUrl(p) => &mut p.extra,
        wire::Part::InputAudio(p) => &mut p.extra,
        wire::Part::File(p) => &mut p.extra,
        wire::Part::Thinking(p) => &mut p.extra,
        wire::Part::VideoUrl(p) => &mut p.extra,
        wire::Part::FileUrl(p) => &mut p.extra,
        wire::Part::DocumentUrl(p) => &mut p.extra,
        wire::Part::Unknown(_) => return None,
    })
}

fn media_feature(body: &PartBody) -> Feature {
    match body {
        PartBody::Image(_) => Feature::PartImage,
        PartBody::Audio(_) => Feature::PartAudio,
        PartBody::Video(_) => Feature::PartVideo,
        PartBody::Document(_) => Feature::PartDocument,
        _ => Feature::PartFile,
    }
}

/// JSON of a value that always has one.
pub(super) fn json_of<T: serde::Serialize>(value: &T) -> Option<Json> {
    Json::from_serialize(value).ok()
}
