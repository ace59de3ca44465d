//! What an answer rests on: sources, citations with byte spans, addresses that were read.

use super::wire_answer::{CitationSource, Citations, Grounding, GroundingChunk, PublicationDate, Segment, SourceChunk};
use crate::span::slice;
use throughline_format::citation::{
    SourceType, SpanOf, Support, SupportRelation, UnifiedCitation, UnifiedSource, UnifiedSpan, UnifiedTextAnnotation,
};
use throughline_format::media::UnifiedIndexUnit;
use throughline_format::part::GroundingSourcePart;
use throughline_format::{PartBody, UnifiedContentPart, UnifiedId};

/// A visible text of the answer.
#[derive(Clone, Debug)]
pub(super) struct Told {
    /// Its item.
    pub(super) item: UnifiedId,
    /// Its part.
    pub(super) part: UnifiedId,
    /// The text.
    pub(super) text: String,
    /// Number of its part in the content of the wire.
    pub(super) wire_part: u64,
}

/// A citation and where it belongs; the place of a span that fits no text is not told.
pub(super) struct Placed {
    /// Index into the texts.
    pub(super) told: usize,
    /// The citation.
    pub(super) annotation: UnifiedTextAnnotation,
    /// Whether a span was told that fits no text.
    pub(super) span_lost: bool,
}

/// Where a span stands: index into the texts, and bytes of that text.
fn locate(told: &[Told], segment: &Segment) -> Option<(usize, u64, u64)> {
    let (start, end) = (segment.start_index.unwrap_or(0), segment.end_index?);
    let fits = |text: &str| slice(text, start, end).is_some_and(|found| segment.text.as_deref().is_none_or(|said| said == found));
    let part = segment.part_index.unwrap_or(0);
    let named = told.iter().position(|t| t.wire_part == part && fits(&t.text));
    if let Some(at) = named.or_else(|| segment.text.as_ref().and_then(|_| told.iter().position(|t| fits(&t.text)))) {
        return Some((at, start, end));
    }
    // In a stream the offsets count over all of the text.
    let mut before = 0;
    let whole: String = told.iter().map(|t| t.text.as_str()).collect();
    if !fits(&whole) {
        return None;
    }
    for (at, t) in told.iter().enumerate() {
        let length = t.text.len() as u64;
        if start >= before && end <= before + length {
            return Some((at, start - before, end - before));
        }
        before += length;
    }
    None
}

fn span(told: &[Told], segment: &Segment) -> (usize, Option<UnifiedSpan>) {
    if let Some((at, start, end)) = locate(told, segment) {
        let span = UnifiedSpan {
            of: SpanOf::Answer,
            start,
            end,
            unit: UnifiedIndexUnit::Utf8Byte,
            part_id: told.get(at).map(|t| t.part.clone()),
        };
        (at, Some(span))
    } else {
        let said = segment.text.as_deref().unwrap_or_default();
        let holds = |t: &Told| !said.is_empty() && t.text.contains(said);
        let at = told.iter().position(holds).unwrap_or_else(|| told.len().saturating_sub(1));
        (at, None)
    }
}

/// Citations of the answer's words, one for each source of each piece of text.
pub(super) fn citations(told: &[Told], grounding: &Grounding, source_of: &UnifiedId) -> Vec<Placed> {
    let mut placed = Vec::new();
    let chunks = grounding.grounding_chunks.as_deref().unwrap_or_default();
    if told.is_empty() {
        return placed;
    }
    for support in grounding.grounding_supports.iter().flatten() {
        let Some(segment) = &support.segment else { continue };
        let (at, found) = span(told, segment);
        let Some(text) = told.get(at) else { continue };
        for (n, index) in support.grounding_chunk_indices.iter().flatten().enumerate() {
            let chunk = usize::try_from(*index).ok().and_then(|i| chunks.get(i));
            let Some(source) = chunk.and_then(|chunk| source(chunk, &numbered(source_of, *index))) else {
                continue;
            };
            let confidence = support.confidence_scores.as_ref().and_then(|scores| scores.get(n)).copied();
            placed.push(Placed {
                told: at,
                span_lost: found.is_none(),
                annotation: UnifiedTextAnnotation::Citation(UnifiedCitation {
                    source: source.0,
                    quoted_text: segment.text.clone(),
                    spans: found.clone().map(|s| vec![s]),
                    supports: Some(Support {
                        part_id: text.part.clone(),
                        relation: SupportRelation::Supports,
                    }),
                    confidence,
                    queries: None,
                    retrieved_at: None,
                }),
            });
        }
    }
    placed
}

/// Recited sources.
pub(super) fn recited(told: &[Told], citations: &Citations, source_of: &UnifiedId) -> Vec<Placed> {
    let all = citations
        .citation_sources
        .iter()
        .flatten()
        .chain(citations.citations.iter().flatten());
    let made = all.enumerate().filter_map(|(n, cited)| {
        let segment = Segment {
            part_index: None,
            start_index: cited.start_index,
            end_index: cited.end_index,
            text: None,
            extra: crate::wire::Extra::default(),
        };
        let (at, found) = span(told, &segment);
        let text = told.get(at)?;
        Some(Placed {
            told: at,
            span_lost: found.is_none() && cited.end_index.is_some(),
            annotation: UnifiedTextAnnotation::Citation(UnifiedCitation {
                source: recited_source(cited, numbered(source_of, 1_000 + n as u64)),
                quoted_text: found.as_ref().and_then(|s| slice(&text.text, s.start, s.end)).map(str::to_owned),
                spans: found.map(|s| vec![s]),
                supports: Some(Support {
                    part_id: text.part.clone(),
                    relation: SupportRelation::Recites,
                }),
                confidence: None,
                queries: None,
                retrieved_at: None,
            }),
        })
    });
    made.collect()
}

fn recited_source(cited: &CitationSource, source_id: UnifiedId) -> UnifiedSource {
    UnifiedSource {
        uri: cited.uri.clone(),
        title: cited.title.clone(),
        license: cited.license.clone().filter(|l| !l.is_empty()),
        published_at: cited.publication_date.as_ref().and_then(date),
        ..bare(source_id, SourceType::Web)
    }
}

/// A date as far as it is known.
fn date(date: &PublicationDate) -> Option<String> {
    let year = date.year?;
    Some(match (date.month, date.day) {
        (Some(month), Some(day)) => format!("{year:04}-{month:02}-{day:02}"),
        (Some(month), None) => format!("{year:04}-{month:02}"),
        _ => format!("{year:04}"),
    })
}

fn bare(source_id: UnifiedId, kind: SourceType) -> UnifiedSource {
    UnifiedSource {
        source_id,
        r#type: kind,
        uri: None,
        title: None,
        resource: None,
        document_index: None,
        document_item_id: None,
        document_part_id: None,
        license: None,
        published_at: None,
    }
}

/// ID of a source of an item or answer.
fn numbered(of: &UnifiedId, number: u64) -> UnifiedId {
    UnifiedId::parse(&format!("{of}.s{number}")).unwrap_or_else(|_| of.part(number))
}

/// A chunk as a source, with its words and whether it was retrieved from a store.
fn source(chunk: &GroundingChunk, source_id: &UnifiedId) -> Option<(UnifiedSource, Option<String>, bool)> {
    let (kind, told, retrieved): (_, &SourceChunk, _) = match chunk {
        GroundingChunk { web: Some(told), .. } => (SourceType::Web, told, false),
        GroundingChunk {
            retrieved_context: Some(told),
            ..
        } => (SourceType::Document, told, true),
        GroundingChunk { maps: Some(told), .. } => (SourceType::Place, told, false),
        GroundingChunk { image: Some(told), .. } => (SourceType::Image, told, false),
        _ => return None,
    };
    let source = UnifiedSource {
        uri: told
            .uri
            .clone()
            .or_else(|| told.source_uri.clone())
            .or_else(|| told.image_uri.clone())
            .or_else(|| told.file_search_store.clone()),
        title: told.title.clone(),
        ..bare(source_id.clone(), kind)
    };
    Some((source, told.text.clone(), retrieved))
}

/// Sources of a search and of a retrieval, as parts of items with these IDs.
pub(super) fn sources(grounding: &Grounding, source_of: &UnifiedId, retrieved: bool, item: &UnifiedId) -> Vec<UnifiedContentPart> {
    let chunks = grounding.grounding_chunks.iter().flatten().enumerate();
    let found = chunks.filter_map(|(n, chunk)| source(chunk, &numbered(source_of, n as u64)));
    found
        .filter(|(.., is)| *is == retrieved)
        .enumerate()
        .map(|(n, (source, excerpt, _))| {
            let part = GroundingSourcePart {
                source,
                score: None,
                excerpt,
                page_age: None,
                parts: None,
            };
            UnifiedContentPart::new(item.part(n as u64), PartBody::GroundingSource(part))
        })
        .collect()
}
