//! Content parts: their data, ranges, citations, and what they refer to.

use super::shared::{self, Ids};
use crate::citation::{SpanOf, UnifiedCitation, UnifiedSource, UnifiedSpan, UnifiedTextAnnotation};
use crate::item::UnifiedItem;
use crate::media::{InlineEncoding, InlineSource, UnifiedDataSource, UnifiedMediaMetadata};
use crate::part::{MediaPart, PartBody, ReasoningPart, ReasoningState, UnifiedContentPart};
use crate::validate::{Check, Rule};
use crate::{Sha256, UnifiedId};
use std::collections::{HashMap, HashSet};

/// Levels of parts in parts.
pub(super) const MAX_PART_DEPTH: usize = 16;

/// What references may point to.
pub(super) struct Known<'a> {
    /// Items with their place.
    pub(super) items: HashMap<&'a UnifiedId, usize>,
    /// Parts.
    pub(super) parts: HashSet<&'a UnifiedId>,
    /// Whether there is no other history that a reference could mean.
    pub(super) whole: bool,
    /// Whether the answer that spans and citations speak of is here.
    pub(super) answer: bool,
}

impl<'a> Known<'a> {
    pub(super) fn of(items: impl Iterator<Item = &'a UnifiedItem>, whole: bool) -> Self {
        let mut known = Self {
            items: HashMap::new(),
            parts: HashSet::new(),
            whole,
            answer: whole,
        };
        for (index, item) in items.enumerate() {
            known.items.entry(&item.id).or_insert(index);
            let mut open = vec![item.parts()];
            while let Some(parts) = open.pop() {
                for part in parts {
                    known.parts.insert(&part.part_id);
                    open.extend(inner(part));
                }
            }
        }
        known
    }

    /// A reference to an item.
    pub(super) fn item(&self, check: &mut Check, member: &str, id: &UnifiedId) {
        check.require(
            !self.whole || self.items.contains_key(id),
            member,
            Rule::UnknownReference,
            "no item has this ID",
        );
    }

    /// A reference to a part.
    pub(super) fn part(&self, check: &mut Check, member: &str, id: &UnifiedId) {
        check.require(
            !self.whole || self.parts.contains(id),
            member,
            Rule::UnknownReference,
            "no part has this ID",
        );
    }

    /// A reference to a part of the answer.
    pub(super) fn answer_part(&self, check: &mut Check, member: &str, id: &UnifiedId) {
        check.require(
            !self.answer || self.parts.contains(id),
            member,
            Rule::UnknownReference,
            "no part of the answer has this ID",
        );
    }
}

/// Parts inside a part.
fn inner(part: &UnifiedContentPart) -> Option<&[UnifiedContentPart]> {
    match &part.body {
        PartBody::GroundingSource(source) => source.parts.as_deref(),
        PartBody::Text(_)
        | PartBody::Reasoning(_)
        | PartBody::Refusal(_)
        | PartBody::Image(_)
        | PartBody::Audio(_)
        | PartBody::Video(_)
        | PartBody::Document(_)
        | PartBody::File(_)
        | PartBody::Binary(_)
        | PartBody::Json(_)
        | PartBody::Citation(_)
        | PartBody::ArtifactReference(_) => None,
    }
}

/// Goes through parts and the parts in them, with their places.
fn walk<'p>(
    check: &mut Check,
    member: &str,
    parts: &'p [UnifiedContentPart],
    mut visit: impl FnMut(&mut Check, &'p UnifiedContentPart, usize),
) {
    let mut open = vec![(format!("/{member}"), parts, 1_usize)];
    while let Some((at, list, depth)) = open.pop() {
        for (index, part) in list.iter().enumerate() {
            let here = format!("{at}/{index}");
            check.below(&here, |check| visit(check, part, depth));
            if let Some(deeper) = inner(part) {
                if depth < MAX_PART_DEPTH {
                    open.push((format!("{here}/parts"), deeper, depth + 1));
                } else {
                    check.below(&here, |check| {
                        check.broken_at("parts", Rule::PartDepth, format_args!("at most {MAX_PART_DEPTH} levels"));
                    });
                }
            }
        }
    }
}

/// Notes the IDs of parts.
pub(super) fn ids<'a>(check: &mut Check, member: &str, parts: &'a [UnifiedContentPart], seen: &mut Ids<'a>) {
    walk(check, member, parts, |check, part, _| seen.add(check, "partId", &part.part_id));
}

/// The rules of parts that stand in `member`; `allowed` tells which kinds may stand at the top of this list.
pub(super) fn list(check: &mut Check, member: &str, parts: &[UnifiedContentPart], known: &Known<'_>, allowed: Allowed) {
    walk(check, member, parts, |check, part, depth| {
        let fits = match allowed {
            Allowed::Content => !matches!(part.body, PartBody::Reasoning(_)),
            Allowed::Reasoning => matches!(part.body, PartBody::Reasoning(_)),
            Allowed::Sources if depth == 1 => matches!(part.body, PartBody::GroundingSource(_)),
            Allowed::Sources => !matches!(part.body, PartBody::Reasoning(_)),
        };
        check.require(fits, "kind", Rule::PartKind, allowed.demand());
        one(check, part, known);
    });
}

/// Which parts a list takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    /// Everything but reasoning.
    Content,
    /// Reasoning only.
    Reasoning,
    /// Grounding sources only.
    Sources,
}

impl Allowed {
    const fn demand(self) -> &'static str {
        match self {
            Self::Content => "reasoning parts stand in reasoning items only",
            Self::Reasoning => "a reasoning item has reasoning parts only",
            Self::Sources => "a search finds grounding sources",
        }
    }
}

fn one(check: &mut Check, part: &UnifiedContentPart, known: &Known<'_>) {
    shared::data_refs(check, part.provider_data.as_ref());
    match &part.body {
        PartBody::Text(text) => {
            check.each(
                "annotations",
                text.annotations.iter().flatten(),
                |check, annotation| match annotation {
                    UnifiedTextAnnotation::Citation(c) => citation(check, c, known),
                    UnifiedTextAnnotation::FilePath(file) => spans(check, "span", file.span.as_ref(), known),
                    UnifiedTextAnnotation::Speech(speech) => spans(check, "span", speech.span.as_ref(), known),
                },
            );
        }
        PartBody::Reasoning(part) => reasoning(check, part),
        PartBody::Refusal(_) | PartBody::Json(_) => {}
        PartBody::Image(media)
        | PartBody::Audio(media)
        | PartBody::Video(media)
        | PartBody::Document(media)
        | PartBody::File(media)
        | PartBody::Binary(media) => {
            media_part(check, media);
        }
        PartBody::Citation(c) => citation(check, c, known),
        PartBody::GroundingSource(found) => check.inside("source", |check| source(check, &found.source, known)),
        PartBody::ArtifactReference(reference) => {
            if let Some(media) = &reference.media {
                metadata(check, "media", media);
                same_digest(check, media.sha256.as_ref(), &reference.sha256);
            }
        }
    }
}

fn reasoning(check: &mut Check, part: &ReasoningPart) {
    let kept = part.state == ReasoningState::Disclosed || part.text.is_empty();
    check.require(
        kept,
        "text",
        Rule::ReasoningState,
        format_args!("reasoning that is {} has no text", part.state),
    );
    if let Some(private) = &part.private_state {
        check.inside("privateState", |check| {
            check.inside("ref", |check| {
                shared::data_ref(check, &private.r#ref);
                let own = private.r#ref.scope == crate::ProviderDataScope::OwnerPrivate;
                check.require(own, "scope", Rule::AnnotationScope, "private state is owner-private");
            });
        });
    }
}

fn media_part(check: &mut Check, part: &MediaPart) {
    let media = part.media.as_ref();
    check.inside("source", |check| match &part.source {
        UnifiedDataSource::Inline(inline) => inline_data(check, inline),
        UnifiedDataSource::Url(address) => shared::url(check, "url", &address.url),
        UnifiedDataSource::Artifact(_) | UnifiedDataSource::ProviderResource(_) => {}
    });
    let Some(media) = media else { return };
    metadata(check, "media", media);
    match &part.source {
        UnifiedDataSource::Artifact(artifact) => same_digest(check, media.sha256.as_ref(), &artifact.sha256),
        UnifiedDataSource::Inline(inline) if media.size.is_some() || media.sha256.is_some() => {
            let Some(bytes) = inline.bytes() else { return };
            let size = media.size.is_none_or(|size| size == bytes.len() as u64);
            check.inside("media", |check| {
                check.require(size, "size", Rule::MediaFacts, "the data has another size");
            });
            if let Some(digest) = media.sha256 {
                let same = Sha256::of(&bytes) == digest;
                check.inside("media", |check| {
                    check.require(same, "sha256", Rule::MediaFacts, "the data has another digest");
                });
            }
        }
        UnifiedDataSource::Inline(_) | UnifiedDataSource::Url(_) | UnifiedDataSource::ProviderResource(_) => {}
    }
}

pub(super) fn same_digest(check: &mut Check, told: Option<&Sha256>, digest: &Sha256) {
    let same = told.is_none_or(|t| t == digest);
    check.inside("media", |check| {
        check.require(same, "sha256", Rule::MediaFacts, "the artifact has another digest");
    });
}

fn inline_data(check: &mut Check, inline: &InlineSource) {
    shared::media_type(check, "mediaType", &inline.media_type);
    let valid = match inline.encoding {
        InlineEncoding::Utf8 => true,
        InlineEncoding::Base64 => inline.bytes().is_some(),
        InlineEncoding::Bytes => is_standard_base64(&inline.data),
    };
    check.require(
        valid,
        "data",
        Rule::InlineData,
        format_args!("it is not valid as {}", inline.encoding),
    );
}

/// Standard alphabet, padded, nothing else.
fn is_standard_base64(text: &str) -> bool {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

/// What is known about a medium.
pub(super) fn metadata(check: &mut Check, member: &str, media: &UnifiedMediaMetadata) {
    check.inside(member, |check| {
        if let Some(text) = &media.media_type {
            shared::media_type(check, "mediaType", text);
        }
        check.each("pages", media.pages.iter().flatten(), |check, pages| {
            check.require(pages.from >= 1, "from", Rule::Range, "pages count from 1");
            shared::ordered(check, "to", Some(pages.from), Some(pages.to));
        });
        if let Some(range) = &media.range {
            check.inside("range", |check| shared::ordered(check, "end", Some(range.start), Some(range.end)));
        }
        if let Some(time) = &media.time {
            check.inside("time", |check| seconds(check, time.start_seconds, time.end_seconds));
        }
        if let Some(fps) = media.fps.filter(|f| f.is_finite()) {
            check.require(fps > 0.0, "fps", Rule::Number, "it is above 0");
        }
        shared::not_negative(check, "durationSeconds", media.duration_seconds);
        if let Some(transcript) = &media.transcript {
            check.inside("transcript", |check| {
                check.each("words", transcript.words.iter().flatten(), |check, word| {
                    seconds(check, word.start_seconds, word.end_seconds);
                });
            });
        }
    });
}

fn seconds(check: &mut Check, start: Option<f64>, end: Option<f64>) {
    shared::not_negative(check, "startSeconds", start);
    shared::not_negative(check, "endSeconds", end);
    shared::ordered(check, "endSeconds", start.filter(|s| s.is_finite()), end.filter(|e| e.is_finite()));
}

fn citation(check: &mut Check, citation: &UnifiedCitation, known: &Known<'_>) {
    check.inside("source", |check| source(check, &citation.source, known));
    check.each("spans", citation.spans.iter().flatten(), |check, s| span(check, s, known));
    if let Some(supports) = &citation.supports {
        check.inside("supports", |check| known.answer_part(check, "partId", &supports.part_id));
    }
    shared::in_range(check, "confidence", citation.confidence, 0.0, 1.0);
}

fn source(check: &mut Check, source: &UnifiedSource, known: &Known<'_>) {
    if let Some(id) = &source.document_item_id {
        known.item(check, "documentItemId", id);
    }
    if let Some(id) = &source.document_part_id {
        known.part(check, "documentPartId", id);
    }
}

fn spans(check: &mut Check, member: &str, found: Option<&UnifiedSpan>, known: &Known<'_>) {
    if let Some(found) = found {
        check.inside(member, |check| span(check, found, known));
    }
}

fn span(check: &mut Check, span: &UnifiedSpan, known: &Known<'_>) {
    shared::ordered(check, "end", Some(span.start), Some(span.end));
    match (&span.part_id, span.of) {
        (Some(id), SpanOf::Answer) => known.answer_part(check, "partId", id),
        (Some(id), SpanOf::Source) => known.part(check, "partId", id),
        (None, _) => {}
    }
}

/// The rules of one part, which is the place of `check`.
pub(super) fn alone(check: &mut Check, part: &UnifiedContentPart, known: &Known<'_>, allowed: Allowed) {
    one(check, part, known);
    if let Some(deeper) = inner(part) {
        list(
            check,
            "parts",
            deeper,
            known,
            if allowed == Allowed::Reasoning { allowed } else { Allowed::Content },
        );
    }
}
