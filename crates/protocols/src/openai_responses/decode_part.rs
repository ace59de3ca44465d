//! Content parts, annotations and token probabilities from the wire.

use super::kept::{Keeper, number};
use super::wire::Node;
use crate::feature::Feature;
use crate::media;
use throughline_format::cache::{CacheBreakpoint, CacheTtl};
use throughline_format::citation::{
    FilePathAnnotation, SourceType, SpanOf, Support, SupportRelation, UnifiedCitation, UnifiedSource, UnifiedSpan, UnifiedTextAnnotation,
};
use throughline_format::media::{ImageDetail, ResourceSource, UnifiedDataSource, UnifiedIndexUnit, UnifiedMediaMetadata};
use throughline_format::part::{MediaPart, RefusalPart, TextPart, TopLogprob, UnifiedTokenLogprob};
use throughline_format::resource::ResourceType;
use throughline_format::{PartBody, UnifiedContentPart, UnifiedId, UnifiedProviderResourceRef};

/// Parts of a content that is one text or a list; a text is one part.
pub(super) fn parts(keeper: &mut Keeper, item_id: &UnifiedId, content: &Node, path: &str) -> Vec<UnifiedContentPart> {
    if let Some(text) = content.as_text() {
        return vec![UnifiedContentPart::text(item_id.part(0), text)];
    }
    let list = content.as_list().unwrap_or_default().iter().enumerate();
    list.map(|(n, node)| {
        let part_id = item_id.part(n as u64);
        if let Some(mark) = node.get("prompt_cache_breakpoint") {
            let members = if let Node::Object(members) = mark {
                members.as_slice()
            } else {
                &[]
            };
            for (key, _) in members.iter().filter(|(key, _)| !matches!(key.as_str(), "mode" | "ttl")) {
                let key = throughline_format::json::escape_pointer_token(key);
                let path = format!("{path}/{n}/prompt_cache_breakpoint/{key}");
                keeper.loss.warning(
                    Feature::WireUnmapped,
                    path,
                    "a cache mark says where it stands and how long it holds; not sent on",
                );
            }
            let path = format!("{path}/{n}/prompt_cache_breakpoint/mode");
            keeper.loss.only_word(path, mark.str("mode").as_deref(), "explicit");
            keeper.own.push(CacheBreakpoint {
                item_id: item_id.clone(),
                part_id: Some(part_id.clone()),
                ttl: ttl(mark.str("ttl").as_deref()),
            });
        }
        part(keeper, part_id, node, &format!("{path}/{n}"))
    })
    .collect()
}

/// One part; one of an unknown type is kept whole behind an empty text.
pub(super) fn part(keeper: &mut Keeper, part_id: UnifiedId, node: &Node, path: &str) -> UnifiedContentPart {
    if let Some(body) = known(keeper, &part_id, node, path) {
        UnifiedContentPart::new(part_id, body)
    } else {
        let whole = super::wire::Difference {
            set: vec![(String::new(), node.to_json())],
            absent: Vec::new(),
        };
        let references = keeper.difference(Some(&part_id), number::UNMAPPED, path, whole, super::kept::Form::default(), |_| {
            true
        });
        let mut part = UnifiedContentPart::text(part_id, "");
        part.base.provider_data = super::kept::listed(references);
        part
    }
}

fn known(keeper: &mut Keeper, part_id: &UnifiedId, node: &Node, path: &str) -> Option<PartBody> {
    Some(match node.kind().as_str() {
        "input_text" | "output_text" | "text" => {
            let text = node.str("text")?;
            let annotations = node.list("annotations").iter().enumerate();
            let annotations: Vec<_> = annotations
                .filter_map(|(n, node)| annotation(keeper, part_id, n, node, &format!("{path}/annotations/{n}")))
                .collect();
            PartBody::Text(TextPart {
                text,
                annotations: (!annotations.is_empty()).then_some(annotations),
                logprobs: logprobs(node),
                ..TextPart::default()
            })
        }
        "refusal" => PartBody::Refusal(RefusalPart {
            text: node.str("refusal")?,
            category: None,
        }),
        "input_image" | "computer_screenshot" => {
            let source = match (node.str("image_url"), node.str("file_id")) {
                (Some(url), _) => media::source_of_url(&url),
                (None, Some(id)) => file(keeper, part_id, &id, format!("{path}/file_id")),
                (None, None) => return None,
            };
            let media = node.str("detail").map(|detail| UnifiedMediaMetadata {
                detail: Some(ImageDetail::from_word(&detail)),
                ..UnifiedMediaMetadata::default()
            });
            PartBody::Image(MediaPart { source, media })
        }
        "input_file" => {
            let name = node.str("filename");
            let source = match (node.str("file_data"), node.str("file_url"), node.str("file_id")) {
                (Some(data), ..) => match media::source_of_url(&data) {
                    UnifiedDataSource::Url(_) if !data.contains(':') => media::inline(media::type_of_name(name.as_deref()), &data),
                    source => source,
                },
                (None, Some(url), _) => media::source_of_url(&url),
                (None, None, Some(id)) => file(keeper, part_id, &id, format!("{path}/file_id")),
                (None, None, None) => return None,
            };
            let is_document = match &source {
                UnifiedDataSource::Inline(inline) => media::is_document(&inline.media_type),
                UnifiedDataSource::Url(_) => true,
                UnifiedDataSource::Artifact(_) | UnifiedDataSource::ProviderResource(_) => false,
            };
            let media = name.map(|name| UnifiedMediaMetadata {
                name: Some(name),
                ..UnifiedMediaMetadata::default()
            });
            let part = MediaPart { source, media };
            if is_document {
                PartBody::Document(part)
            } else {
                PartBody::File(part)
            }
        }
        "input_audio" => {
            let inner = node.get("input_audio")?;
            let format = inner.str("format").unwrap_or_else(|| "wav".into());
            let media_type = if format == "mp3" {
                "audio/mpeg".to_owned()
            } else {
                format!("audio/{format}")
            };
            PartBody::Audio(MediaPart {
                source: media::inline(&media_type, &inner.str("data")?),
                media: None,
            })
        }
        _ => return None,
    })
}

fn file(keeper: &mut Keeper, part_id: &UnifiedId, id: &str, path: String) -> UnifiedDataSource {
    let resource = keeper.hold(part_id, number::HANDLE, ResourceType::File, id, path);
    UnifiedDataSource::ProviderResource(ResourceSource { resource })
}

/// A remark on a text. The wire does not say what its indexes count: characters.
pub(super) fn annotation(keeper: &mut Keeper, part_id: &UnifiedId, n: usize, node: &Node, path: &str) -> Option<UnifiedTextAnnotation> {
    let index = node.value::<u64>("index");
    let (start, end) = (node.value("start_index").or(index), node.value("end_index").or(index));
    let span = start.zip(end).map(|(start, end)| UnifiedSpan {
        of: SpanOf::Answer,
        start,
        end,
        unit: UnifiedIndexUnit::Character,
        part_id: None,
    });
    let mut handle = |key: &str, place: u64, kind: ResourceType| -> Option<UnifiedProviderResourceRef> {
        let id = node.str(key)?;
        let number = number::HANDLE + 1 + 2 * n as u64 + place;
        Some(keeper.hold(part_id, number, kind, &id, format!("{path}/{key}")))
    };
    let (r#type, uri, title, resource) = match node.kind().as_str() {
        "url_citation" => (SourceType::Web, node.str("url"), node.str("title"), None),
        "file_citation" | "container_file_citation" => {
            // The container is known to whoever knows the file; its ID is kept with the members that have no word.
            let resource = handle("file_id", 0, ResourceType::File);
            (SourceType::File, None, node.str("filename"), resource)
        }
        "file_path" => {
            let resource = handle("file_id", 0, ResourceType::File);
            return Some(UnifiedTextAnnotation::FilePath(FilePathAnnotation {
                artifact_id: None,
                resource,
                span,
            }));
        }
        _ => {
            let reason = "a remark without a word; kept for the same protocol";
            keeper.loss.info(Feature::WireUnmapped, path, reason);
            return None;
        }
    };
    Some(UnifiedTextAnnotation::Citation(UnifiedCitation {
        source: UnifiedSource {
            source_id: source_id(part_id, n),
            r#type,
            uri,
            title,
            resource,
            document_index: None,
            document_item_id: None,
            document_part_id: None,
            license: None,
            published_at: None,
        },
        quoted_text: None,
        spans: span.map(|span| vec![span]),
        supports: Some(Support {
            part_id: part_id.clone(),
            relation: SupportRelation::Supports,
        }),
        confidence: None,
        queries: None,
        retrieved_at: None,
    }))
}

/// ID of a source of a part.
pub(super) fn source_id(part_id: &UnifiedId, n: usize) -> UnifiedId {
    UnifiedId::parse(&format!("{part_id}.s{n}")).unwrap_or_else(|_| part_id.clone())
}

/// Token probabilities of a text or of a delta; none for an empty list.
pub(super) fn logprobs(node: &Node) -> Option<Vec<UnifiedTokenLogprob>> {
    let list = node.list("logprobs");
    let token = |node: &Node| {
        let top = node.get("top_logprobs").and_then(Node::as_list).map(|top| {
            let one = |node: &Node| {
                Some(TopLogprob {
                    token: node.str("token")?,
                    bytes: node.value("bytes"),
                    logprob: node.value("logprob")?,
                })
            };
            top.iter().filter_map(one).collect()
        });
        Some(UnifiedTokenLogprob {
            token: node.str("token")?,
            bytes: node.value("bytes"),
            logprob: node.value("logprob")?,
            top,
        })
    };
    let tokens: Vec<_> = list.iter().filter_map(token).collect();
    (!tokens.is_empty()).then_some(tokens)
}

/// Life of a cache mark.
pub(super) fn ttl(word: Option<&str>) -> Option<CacheTtl> {
    match word? {
        "5m" => Some(CacheTtl::FiveMinutes),
        "1h" => Some(CacheTtl::OneHour),
        "30m" => Some(CacheTtl::Seconds(1_800)),
        "12h" => Some(CacheTtl::Seconds(43_200)),
        "24h" => Some(CacheTtl::Seconds(86_400)),
        _ => None,
    }
}
