//! Work of hosted tools and blocks that are kept whole; citations.

use super::decode_block::{Whole, message};
use super::kept::{self, Keeper, references};
use super::wire::{Block, Citation};
use crate::feature::Feature;
use crate::wire::peek_tag;
use serde::Deserialize;
use throughline_format::citation::{
    SourceType, SpanOf, Support, SupportRelation, UnifiedCitation, UnifiedSource, UnifiedSpan, UnifiedTextAnnotation,
};
use throughline_format::item::{ProviderSwitchItem, ServerToolResultItem, SwitchReason};
use throughline_format::media::UnifiedIndexUnit;
use throughline_format::part::GroundingSourcePart;
use throughline_format::resource::ResourceType;
use throughline_format::tool::Execution;
use throughline_format::{Json, PartBody, UnifiedAttribution, UnifiedContentPart, UnifiedId, UnifiedItemBody, UnifiedToolType};

impl Keeper {
    /// A block that this version has no type for, or one that holds private state of the provider: kept whole, with its meaning where it is known.
    pub(super) fn raw(&mut self, item_id: &UnifiedId, raw: &Json, path: &str) -> Whole {
        let kind = peek_tag(raw.as_str(), "type").unwrap_or_default();
        let body = if kind.ends_with("_tool_result") {
            self.server_result(item_id, &kind, raw, path)
        } else {
            match kind.as_str() {
                "fallback" => raw.decode::<FallbackBlock>().ok().map(|block| {
                    UnifiedItemBody::ProviderSwitch(ProviderSwitchItem {
                        from: Some(block.from.attribution()),
                        to: block.to.attribution(),
                        from_profile: None,
                        to_profile: self.profile.clone(),
                        reason: SwitchReason::Fallback,
                    })
                }),
                "compaction" => raw
                    .decode::<CompactionBlock>()
                    .ok()
                    .and_then(|block| block.content)
                    .map(|text| message(vec![UnifiedContentPart::text(item_id.part(0), text)])),
                _ => None,
            }
        };
        if body.is_none() {
            self.loss.info(
                Feature::WireUnmapped,
                path,
                format!("a block of type {kind:.60} has no Unified word; kept for the same owner"),
            );
        }
        let payload = raw.as_str().as_bytes().to_vec();
        let kept = self.payload(
            kept::BLOCK,
            ResourceType::Other("block".into()),
            Some(item_id),
            item_id.resource(2),
            payload,
            path,
        );
        Whole {
            body: body.unwrap_or_else(|| message(Vec::new())),
            provider_data: references([Some(kept)]),
        }
    }

    fn server_result(&mut self, item_id: &UnifiedId, kind: &str, raw: &Json, path: &str) -> Option<UnifiedItemBody> {
        let block: ServerResult = raw.decode().ok()?;
        let tool = kind.trim_end_matches("_tool_result");
        let mut output = Vec::new();
        let mut is_error = block.is_error;
        match block.content {
            None => {}
            Some(content) if content.as_str().starts_with('{') => {
                let inner: ResultContent = content.decode().ok()?;
                if inner.kind.ends_with("_error") {
                    is_error = Some(true);
                }
                let texts = [inner.error_code, inner.error_message, inner.stdout, inner.stderr, inner.text];
                output.extend(
                    texts
                        .into_iter()
                        .flatten()
                        .filter(|t| !t.is_empty())
                        .enumerate()
                        .map(|(n, text)| UnifiedContentPart::text(item_id.part(n as u64), text)),
                );
                if let Some(url) = inner.url {
                    output.push(source_part(item_id.part(output.len() as u64), url, None, None));
                }
                if let Some(Ok(document)) = inner.content.map(|c| c.decode::<Block>()) {
                    let part_id = item_id.part(output.len() as u64);
                    // The document stays in the private copy; what it says about itself is told there.
                    let mut scratch = Keeper::new(self.context.clone(), self.profile.clone(), self.issuer);
                    output.extend(
                        scratch
                            .part(&part_id, document, &format!("{path}/content/content"))
                            .ok()
                            .map(|mut part| {
                                part.base.provider_data = None;
                                part
                            }),
                    );
                }
                for name in inner.tool_references.unwrap_or_default() {
                    output.push(UnifiedContentPart::text(item_id.part(output.len() as u64), name.tool_name));
                }
            }
            Some(content) => {
                if let Ok(text) = content.decode::<String>() {
                    output.push(UnifiedContentPart::text(item_id.part(0), text));
                }
                for entry in content.decode::<Vec<FoundEntry>>().unwrap_or_default() {
                    let part_id = item_id.part(output.len() as u64);
                    match (entry.url, entry.text) {
                        (Some(url), _) => output.push(source_part(part_id, url, entry.title, entry.page_age)),
                        (None, Some(text)) => output.push(UnifiedContentPart::text(part_id, text)),
                        (None, None) => {}
                    }
                }
            }
        }
        Some(UnifiedItemBody::ServerToolResult(ServerToolResultItem {
            call_id: block.tool_use_id,
            tool_type: hosted_type(tool),
            name: None,
            output,
            is_error,
            error: None,
            execution: Execution::Provider,
        }))
    }
}

/// A source that a hosted tool found.
fn source_part(part_id: UnifiedId, url: String, title: Option<String>, page_age: Option<String>) -> UnifiedContentPart {
    let source = UnifiedSource {
        source_id: source_id(&part_id, 0),
        r#type: SourceType::Web,
        uri: Some(url),
        title,
        resource: None,
        document_index: None,
        document_item_id: None,
        document_part_id: None,
        license: None,
        published_at: None,
    };
    UnifiedContentPart::new(
        part_id,
        PartBody::GroundingSource(GroundingSourcePart {
            source,
            score: None,
            excerpt: None,
            page_age,
            parts: None,
        }),
    )
}

/// ID of a source of a part.
fn source_id(part_id: &UnifiedId, number: usize) -> UnifiedId {
    UnifiedId::parse(&format!("{part_id}.s{number}")).unwrap_or_else(|_| part_id.clone())
}

/// A citation as the record says it; what it cannot say is in the private copy.
pub(super) fn citation(part_id: &UnifiedId, number: usize, raw: &Json) -> UnifiedTextAnnotation {
    let c: Citation = raw.decode().unwrap_or_else(|_| Citation {
        kind: None,
        cited_text: None,
        document_index: None,
        document_title: None,
        url: None,
        title: None,
        source: None,
        search_result_index: None,
        start_char_index: None,
        end_char_index: None,
        start_page_number: None,
        end_page_number: None,
        start_block_index: None,
        end_block_index: None,
        extra: crate::wire::Extra::default(),
    });
    let span = |start: Option<u64>, end: Option<u64>, unit| {
        Some(UnifiedSpan {
            of: SpanOf::Source,
            start: start?,
            end: end?,
            unit,
            part_id: None,
        })
    };
    let spans: Vec<_> = [
        span(c.start_char_index, c.end_char_index, UnifiedIndexUnit::CodePoint),
        span(c.start_page_number, c.end_page_number, UnifiedIndexUnit::Page),
        span(c.start_block_index, c.end_block_index, UnifiedIndexUnit::Block),
    ]
    .into_iter()
    .flatten()
    .collect();
    let r#type = match c.kind.as_deref() {
        Some("web_search_result_location") => SourceType::Web,
        Some("search_result_location") => SourceType::Search,
        _ => SourceType::Document,
    };
    UnifiedTextAnnotation::Citation(UnifiedCitation {
        source: UnifiedSource {
            source_id: source_id(part_id, number),
            r#type,
            uri: c.url.or(c.source),
            title: c.title.or(c.document_title),
            resource: None,
            document_index: c.document_index.or(c.search_result_index),
            document_item_id: None,
            document_part_id: None,
            license: None,
            published_at: None,
        },
        quoted_text: c.cited_text,
        spans: (!spans.is_empty()).then_some(spans),
        supports: Some(Support {
            part_id: part_id.clone(),
            relation: SupportRelation::Supports,
        }),
        confidence: None,
        queries: None,
        retrieved_at: None,
    })
}

/// The kind of tool behind a hosted tool's name, or behind the stem of its result block.
pub(super) fn hosted_type(name: &str) -> UnifiedToolType {
    match name {
        "web_search" => UnifiedToolType::WebSearch,
        "web_fetch" => UnifiedToolType::WebFetch,
        "code_execution" | "bash_code_execution" | "text_editor_code_execution" => UnifiedToolType::CodeExecution,
        "advisor" => UnifiedToolType::Advisor,
        "mcp" => UnifiedToolType::Mcp,
        "memory" => UnifiedToolType::Memory,
        _ if name.starts_with("tool_search") => UnifiedToolType::ToolSearch,
        other => UnifiedToolType::Other(format!("anthropic-messages:{other}").into()),
    }
}

#[derive(Deserialize)]
struct FallbackModel {
    model: Option<String>,
}

impl FallbackModel {
    fn attribution(self) -> UnifiedAttribution {
        UnifiedAttribution {
            model: self.model,
            ..UnifiedAttribution::default()
        }
    }
}

#[derive(Deserialize)]
struct FallbackBlock {
    from: FallbackModel,
    to: FallbackModel,
}

#[derive(Deserialize)]
struct CompactionBlock {
    content: Option<String>,
}

#[derive(Deserialize)]
struct ServerResult {
    tool_use_id: String,
    content: Option<Json>,
    is_error: Option<bool>,
}

#[derive(Deserialize)]
struct ResultContent {
    #[serde(rename = "type", default)]
    kind: String,
    error_code: Option<String>,
    error_message: Option<String>,
    stdout: Option<String>,
    stderr: Option<String>,
    text: Option<String>,
    url: Option<String>,
    content: Option<Json>,
    tool_references: Option<Vec<ToolReference>>,
}

#[derive(Deserialize)]
struct ToolReference {
    tool_name: String,
}

#[derive(Deserialize)]
struct FoundEntry {
    url: Option<String>,
    title: Option<String>,
    page_age: Option<String>,
    text: Option<String>,
}
