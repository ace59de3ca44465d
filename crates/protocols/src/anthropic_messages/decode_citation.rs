//! Citations and sources of the wire.

use super::wire::Citation;
use throughline_format::citation::{
    SourceType, SpanOf, Support, SupportRelation, UnifiedCitation, UnifiedSource, UnifiedSpan, UnifiedTextAnnotation,
};
use throughline_format::media::UnifiedIndexUnit;
use throughline_format::part::GroundingSourcePart;
use throughline_format::{Json, PartBody, UnifiedContentPart, UnifiedId};

/// A source that a hosted tool found.
pub(super) fn source_part(part_id: UnifiedId, url: String, title: Option<String>, page_age: Option<String>) -> UnifiedContentPart {
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
pub(super) fn source_id(part_id: &UnifiedId, number: usize) -> UnifiedId {
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
