//! Other IDs for items and parts, everywhere that a record refers to one of the same history.
//!
//! An item that comes from somewhere else (a client's request, a bundle) gets IDs of the place where it goes; this visits every
//! member that names an item or a part, so that references keep what they mean; artifacts are visited by functions of their own. IDs of
//! operations, requests, responses and private resources, and call and approval IDs, are no history and are left alone.

use crate::UnifiedId;
use crate::citation::{UnifiedCitation, UnifiedSource, UnifiedSpan, UnifiedTextAnnotation};
use crate::item::{ReferenceTarget, UnifiedItem, UnifiedItemBody};
use crate::media::UnifiedDataSource;
use crate::part::{PartBody, UnifiedContentPart};

/// Gives `rename` every ID of an item or part in the record, its own included.
pub fn item(item: &mut UnifiedItem, rename: &mut dyn FnMut(&mut UnifiedId)) {
    rename(&mut item.base.id);
    item.base.parent_id.iter_mut().for_each(&mut *rename);
    match &mut item.body {
        UnifiedItemBody::CompactionSummary(summary) => {
            rename(&mut summary.covers.from_item_id);
            rename(&mut summary.covers.to_item_id);
        }
        UnifiedItemBody::Reference(reference) => {
            if let ReferenceTarget::Item(target) = &mut reference.target {
                rename(&mut target.item_id);
            }
        }
        UnifiedItemBody::Message(_)
        | UnifiedItemBody::Reasoning(_)
        | UnifiedItemBody::ToolCall(_)
        | UnifiedItemBody::ToolResult(_)
        | UnifiedItemBody::ApprovalRequest(_)
        | UnifiedItemBody::ApprovalResponse(_)
        | UnifiedItemBody::ServerToolCall(_)
        | UnifiedItemBody::ServerToolResult(_)
        | UnifiedItemBody::ComputerAction(_)
        | UnifiedItemBody::ComputerActionResult(_)
        | UnifiedItemBody::CodeExecution(_)
        | UnifiedItemBody::CodeExecutionResult(_)
        | UnifiedItemBody::SearchResult(_)
        | UnifiedItemBody::RetrievalResult(_)
        | UnifiedItemBody::Artifact(_)
        | UnifiedItemBody::ProviderSwitch(_)
        | UnifiedItemBody::Interruption(_)
        | UnifiedItemBody::Error(_) => {}
    }
    for content in item.parts_mut().into_iter().flatten() {
        part(content, rename);
    }
}

/// Gives `rename` every ID of an item or part in a part, its own included.
pub fn part(part: &mut UnifiedContentPart, rename: &mut dyn FnMut(&mut UnifiedId)) {
    rename(&mut part.base.part_id);
    match &mut part.body {
        PartBody::Text(text) => {
            for annotation in text.annotations.iter_mut().flatten() {
                match annotation {
                    UnifiedTextAnnotation::Citation(cited) => citation(cited, rename),
                    UnifiedTextAnnotation::FilePath(path) => path.span.iter_mut().for_each(|found| span(found, rename)),
                    UnifiedTextAnnotation::Speech(speech) => speech.span.iter_mut().for_each(|found| span(found, rename)),
                }
            }
        }
        PartBody::Citation(cited) => citation(cited, rename),
        PartBody::GroundingSource(found) => {
            source(&mut found.source, rename);
            for inner in found.parts.iter_mut().flatten() {
                self::part(inner, rename);
            }
        }
        PartBody::Reasoning(_)
        | PartBody::Refusal(_)
        | PartBody::Image(_)
        | PartBody::Audio(_)
        | PartBody::Video(_)
        | PartBody::Document(_)
        | PartBody::File(_)
        | PartBody::Binary(_)
        | PartBody::Json(_)
        | PartBody::ArtifactReference(_) => {}
    }
}

/// Gives `rename` every ID of an artifact in the record.
pub fn artifacts(item: &mut UnifiedItem, rename: &mut dyn FnMut(&mut UnifiedId)) {
    if let UnifiedItemBody::Artifact(artifact) = &mut item.body {
        rename(&mut artifact.artifact_id);
    }
    for content in item.parts_mut().into_iter().flatten() {
        part_artifacts(content, rename);
    }
}

/// Gives `rename` every ID of an artifact in a part.
pub fn part_artifacts(part: &mut UnifiedContentPart, rename: &mut dyn FnMut(&mut UnifiedId)) {
    match &mut part.body {
        PartBody::Text(text) => {
            for annotation in text.annotations.iter_mut().flatten() {
                if let UnifiedTextAnnotation::FilePath(path) = annotation {
                    path.artifact_id.iter_mut().for_each(&mut *rename);
                }
            }
        }
        PartBody::Image(media)
        | PartBody::Audio(media)
        | PartBody::Video(media)
        | PartBody::Document(media)
        | PartBody::File(media)
        | PartBody::Binary(media) => {
            if let UnifiedDataSource::Artifact(source) = &mut media.source {
                rename(&mut source.artifact_id);
            }
        }
        PartBody::ArtifactReference(reference) => rename(&mut reference.artifact_id),
        PartBody::GroundingSource(found) => {
            for inner in found.parts.iter_mut().flatten() {
                part_artifacts(inner, rename);
            }
        }
        PartBody::Reasoning(_) | PartBody::Refusal(_) | PartBody::Json(_) | PartBody::Citation(_) => {}
    }
}

/// IDs of a part and of the parts inside it.
pub fn part_ids(part: &UnifiedContentPart, ids: &mut Vec<UnifiedId>) {
    ids.push(part.part_id.clone());
    if let PartBody::GroundingSource(found) = &part.body {
        found.parts.iter().flatten().for_each(|inner| part_ids(inner, ids));
    }
}

fn citation(citation: &mut UnifiedCitation, rename: &mut dyn FnMut(&mut UnifiedId)) {
    source(&mut citation.source, rename);
    citation.spans.iter_mut().flatten().for_each(|found| span(found, rename));
    citation.supports.iter_mut().for_each(|supports| rename(&mut supports.part_id));
}

fn source(source: &mut UnifiedSource, rename: &mut dyn FnMut(&mut UnifiedId)) {
    source.document_item_id.iter_mut().for_each(&mut *rename);
    source.document_part_id.iter_mut().for_each(&mut *rename);
}

fn span(span: &mut UnifiedSpan, rename: &mut dyn FnMut(&mut UnifiedId)) {
    span.part_id.iter_mut().for_each(&mut *rename);
}
