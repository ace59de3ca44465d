//! Blocks of the wire as items and parts; requests, responses and streams share this.

use super::decode_citation::{citation, source_id};
use super::kept::{self, Keeper};
use super::wire::{Block, DocumentBlock, ImageBlock, SearchResultBlock, Source, TextBlock, ThinkingBlock};
use crate::keeper::Keep;
use crate::keeper::references;
use crate::raw;
use crate::side::SideResource;
use crate::wire::{TextOr, peek_tag};
use serde::Deserialize;
use throughline_format::citation::{SourceType, UnifiedSource};
use throughline_format::item::{MessageItem, ReasoningItem};
use throughline_format::media::{InlineEncoding, InlineSource, ResourceSource, UnifiedDataSource, UnifiedMediaMetadata, UrlSource};
use throughline_format::part::{
    GroundingSourcePart, JsonPart, MediaPart, ReasoningForm, ReasoningPart, ReasoningPrivateState, ReasoningState, TextPart,
};
use throughline_format::resource::ResourceType;
use throughline_format::{
    Json, PartBody, UnifiedContentPart, UnifiedId, UnifiedItemBody, UnifiedProviderDataRef, UnifiedProviderResourceRef,
};

/// A decoded block that is an item of its own.
pub(super) struct Whole {
    /// Kind and content.
    pub(super) body: UnifiedItemBody,
    /// References of the item.
    pub(super) provider_data: Option<Vec<UnifiedProviderDataRef>>,
}

impl Keeper {
    /// A text block as a part.
    pub(super) fn text(&mut self, part_id: &UnifiedId, block: TextBlock, path: &str) -> UnifiedContentPart {
        let unmapped = self.unmapped(part_id, path, block.extra.into_unmapped());
        let raw = block.citations.filter(|list| !list.is_empty());
        let annotations = raw
            .as_ref()
            .map(|list| list.iter().enumerate().map(|(n, raw)| citation(part_id, n, raw)).collect());
        let kept = raw.map(|list| self.citations(part_id, &list, &format!("{path}/citations")));
        let mut part = UnifiedContentPart::new(
            part_id.clone(),
            PartBody::Text(TextPart {
                text: block.text,
                annotations,
                ..TextPart::default()
            }),
        );
        part.base.provider_data = references([unmapped, kept]);
        part
    }

    /// Keeps the citations of a text as they were written: some hold private indexes.
    pub(super) fn citations(&mut self, part_id: &UnifiedId, list: &[Json], path: &str) -> UnifiedProviderDataRef {
        let payload = raw::json(list).as_str().as_bytes().to_vec();
        self.payload(
            Keep {
                schema: kept::CITATIONS,
                resource_type: ResourceType::Other("citations".into()),
                subject: Some(part_id),
                resource_id: part_id.resource(2),
                paths: vec![path.to_owned()],
            },
            payload,
        )
    }

    /// A media source, with what has to be kept of it.
    fn source(&mut self, part_id: &UnifiedId, source: Source, path: &str) -> (UnifiedDataSource, Vec<(String, Json)>) {
        let inline = |media_type: String, data: String, encoding| {
            UnifiedDataSource::Inline(InlineSource {
                media_type,
                data,
                encoding,
            })
        };
        match source {
            Source::Base64(s) => (
                inline(s.media_type, s.data, InlineEncoding::Base64),
                raw::below("/source", s.extra.0),
            ),
            Source::Text(s) => (
                inline(s.media_type.unwrap_or_else(|| "text/plain".into()), s.data, InlineEncoding::Utf8),
                raw::below("/source", s.extra.0),
            ),
            Source::Url(s) => (
                UnifiedDataSource::Url(UrlSource {
                    url: s.url,
                    headers_ref: None,
                }),
                raw::below("/source", s.extra.0),
            ),
            Source::File(s) => (
                self.file(part_id, s.file_id, &format!("{path}/source/file_id")),
                raw::below("/source", s.extra.0),
            ),
            Source::Unknown(raw) => {
                let text = raw.decode::<ContentSource>().map(|s| s.content.text()).unwrap_or_default();
                (
                    inline("text/plain".into(), text, InlineEncoding::Utf8),
                    vec![("/source".into(), raw)],
                )
            }
        }
    }

    /// A provider file; its handle is kept apart.
    pub(super) fn file(&mut self, part_id: &UnifiedId, file_id: String, path: &str) -> UnifiedDataSource {
        let kept = self.payload(
            Keep {
                schema: kept::FILE,
                resource_type: ResourceType::File,
                subject: Some(part_id),
                resource_id: part_id.resource(0),
                paths: vec![path.to_owned()],
            },
            file_id.into_bytes(),
        );
        UnifiedDataSource::ProviderResource(ResourceSource {
            resource: UnifiedProviderResourceRef {
                resource_id: kept.resource_id,
                resource_type: ResourceType::File,
                owner_fingerprint: self.context.owner_fingerprint,
                status: None,
                expires_at: None,
            },
        })
    }

    fn image(&mut self, part_id: &UnifiedId, block: ImageBlock, path: &str) -> UnifiedContentPart {
        let (source, mut fields) = self.source(part_id, block.source, path);
        fields.extend(block.extra.into_unmapped());
        let mut part = UnifiedContentPart::new(part_id.clone(), PartBody::Image(MediaPart { source, media: None }));
        part.base.provider_data = references([self.unmapped(part_id, path, fields)]);
        part
    }

    fn document(&mut self, part_id: &UnifiedId, block: DocumentBlock, path: &str) -> UnifiedContentPart {
        let (source, mut fields) = self.source(part_id, block.source, path);
        fields.extend(block.extra.into_unmapped());
        let media = UnifiedMediaMetadata {
            title: block.title,
            context: block.context,
            citations_enabled: block.citations.as_ref().and_then(|c| c.enabled),
            ..UnifiedMediaMetadata::default()
        };
        fields.extend(raw::below("/citations", block.citations.map(|c| c.extra.0).unwrap_or_default()));
        let media = (media != UnifiedMediaMetadata::default()).then_some(media);
        let mut part = UnifiedContentPart::new(part_id.clone(), PartBody::Document(MediaPart { source, media }));
        part.base.provider_data = references([self.unmapped(part_id, path, fields)]);
        part
    }

    /// A search result of the client: a source with its texts.
    fn search_result(&mut self, part_id: &UnifiedId, block: SearchResultBlock, path: &str) -> UnifiedContentPart {
        let mut fields: Vec<_> = block.extra.into_unmapped().collect();
        fields.extend(block.citations.map(|switch| ("/citations".to_owned(), raw::json(&switch))));
        let mut parts = Vec::new();
        let content = block.content;
        for (n, inner) in content.iter().flatten().enumerate() {
            if let Block::Text(text) = inner {
                let id = part_id.part(parts.len() as u64);
                let path = format!("{path}/content/{n}");
                parts.push(self.text(&id, text.clone(), &path));
            }
        }
        let plain = |inner: &Block| matches!(inner, Block::Text(text) if text.cache_control.is_none());
        if !content.iter().flatten().all(plain) {
            // A content that is more than plain texts comes back as it was.
            fields.push(("/content".into(), raw::json(&content)));
        }
        let source = UnifiedSource {
            source_id: source_id(part_id, 0),
            r#type: SourceType::Search,
            uri: block.source,
            title: block.title,
            resource: None,
            document_index: None,
            document_item_id: None,
            document_part_id: None,
            license: None,
            published_at: None,
        };
        let found = GroundingSourcePart {
            source,
            score: None,
            excerpt: None,
            page_age: None,
            parts: content.map(|_| parts),
        };
        let mut part = UnifiedContentPart::new(part_id.clone(), PartBody::GroundingSource(found));
        part.base.provider_data = references([self.unmapped(part_id, path, fields)]);
        part
    }

    /// A block that is a part of a message or result; hands back what is an item of its own.
    pub(super) fn part(&mut self, part_id: &UnifiedId, block: Block, path: &str) -> Result<UnifiedContentPart, Block> {
        match block {
            Block::Text(b) => Ok(self.text(part_id, b, path)),
            Block::Image(b) => Ok(self.image(part_id, b, path)),
            Block::Document(b) => Ok(self.document(part_id, b, path)),
            Block::SearchResult(b) => Ok(self.search_result(part_id, b, path)),
            Block::Unknown(raw) => match peek_tag(raw.as_str(), "type").as_deref() {
                Some(kind @ ("tool_reference" | "browser_state")) => {
                    let part = JsonPart {
                        schema_name: Some(format!("{}{kind}", super::JSON_PREFIX)),
                        value: raw,
                    };
                    Ok(UnifiedContentPart::new(part_id.clone(), PartBody::Json(part)))
                }
                Some("container_upload") => match raw.decode::<super::wire::FileSource>() {
                    Ok(mut upload) => {
                        upload.extra.take("type");
                        let source = self.file(part_id, upload.file_id, &format!("{path}/file_id"));
                        let unmapped = self.unmapped(part_id, path, upload.extra.into_unmapped());
                        let mut part = UnifiedContentPart::new(part_id.clone(), PartBody::File(MediaPart { source, media: None }));
                        part.base.provider_data = references([unmapped]);
                        Ok(part)
                    }
                    Err(_) => Err(Block::Unknown(raw)),
                },
                _ => Err(Block::Unknown(raw)),
            },
            other => Err(other),
        }
    }

    /// A thinking block.
    pub(super) fn thinking(&mut self, item_id: &UnifiedId, block: ThinkingBlock, path: &str) -> Whole {
        let part_id = item_id.part(0);
        let unmapped = self.unmapped(item_id, path, block.extra.into_unmapped());
        let signature = block.signature.filter(|s| !s.is_empty());
        let state = if block.thinking.is_empty() && signature.is_some() {
            ReasoningState::Omitted
        } else {
            ReasoningState::Disclosed
        };
        let private_state = signature.map(|s| self.private(&part_id, kept::SIGNATURE, s, format!("{path}/signature")));
        Self::reasoning(
            part_id,
            ReasoningPart {
                text: block.thinking,
                form: ReasoningForm::Full,
                state,
                private_state,
            },
            unmapped,
        )
    }

    /// A redacted thinking block.
    pub(super) fn redacted(&mut self, item_id: &UnifiedId, block: super::wire::RedactedThinkingBlock, path: &str) -> Whole {
        let part_id = item_id.part(0);
        let unmapped = self.unmapped(item_id, path, block.extra.into_unmapped());
        let private_state = Some(self.private(&part_id, kept::REDACTED, block.data, format!("{path}/data")));
        Self::reasoning(
            part_id,
            ReasoningPart {
                text: String::new(),
                form: ReasoningForm::Full,
                state: ReasoningState::Redacted,
                private_state,
            },
            unmapped,
        )
    }

    /// Keeps a signature or redacted data.
    pub(super) fn private(&mut self, part_id: &UnifiedId, schema: &str, text: String, path: String) -> ReasoningPrivateState {
        let resource = SideResource::reasoning(self.profile.clone(), schema, part_id, text.into_bytes(), self.issuer, path);
        let state = ReasoningPrivateState {
            r#ref: resource.reference(),
            issuer: resource.issuer,
        };
        self.resources.push(resource);
        state
    }

    fn reasoning(part_id: UnifiedId, part: ReasoningPart, unmapped: Option<UnifiedProviderDataRef>) -> Whole {
        let part = UnifiedContentPart::new(part_id, PartBody::Reasoning(part));
        Whole {
            body: UnifiedItemBody::Reasoning(ReasoningItem { parts: vec![part] }),
            provider_data: references([unmapped]),
        }
    }
}

/// A message of these parts; the role stands in the base.
pub(super) fn message(parts: Vec<UnifiedContentPart>) -> UnifiedItemBody {
    UnifiedItemBody::Message(MessageItem { parts, placement: None })
}

#[derive(Deserialize)]
struct ContentSource {
    content: TextOr<ContentEntry>,
}

#[derive(Deserialize)]
struct ContentEntry {
    #[serde(default)]
    text: String,
}

impl TextOr<ContentEntry> {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::List(list) => list.into_iter().map(|entry| entry.text).collect::<Vec<_>>().join("\n"),
        }
    }
}
