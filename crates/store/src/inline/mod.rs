//! Long inline data at the boundary of persistence: out of items and events on the way in, back into them on the way out.
//!
//! A store with an artifact directory calls [`split`] before it applies a batch and [`join_items`] after it has read items, so
//! that its callers never see a difference: an item is read back as it was appended, and its fingerprint is the same in both forms
//! (spec, "Validation and canonicalization": canonical serialisation externalises bytes). What stands in the stored item is an
//! artifact source whose ID begins with [`PREFIX`] and says how the data was written. Such an ID is the store's own: an item that
//! comes with one must name an artifact of its principal ([`reserved`]), or knowing a digest would be enough to read the bytes.
//!
//! Base64 that is not written the usual way (line breaks, URL alphabet) stays in the item, since its bytes alone do not tell its
//! spelling; the bound of the item holds for it.

mod events;

use throughline_format::media::{
    ArtifactSource, InlineEncoding, InlineSource, UnifiedDataSource, UnifiedMediaMetadata, decode_base64, encode_base64,
};
use throughline_format::part::MediaPart;
use throughline_format::{PartBody, Sha256, Timestamp, UnifiedArtifact, UnifiedContentPart, UnifiedId, UnifiedItem};

use crate::batch::{WriteBatch, WriteOp};
use crate::{ArtifactFiles, Oversize, StoreError, StoreLimits};

pub use events::join_event;
pub(crate) use events::kept_length;

/// What the ID of externalised data begins with.
pub const PREFIX: &str = "art_inline.";

/// Data that left an item.
#[derive(Debug)]
pub struct Content {
    /// Its digest.
    pub sha256: Sha256,
    /// Its bytes, to be stored durably before the batch is.
    pub bytes: Vec<u8>,
}

/// Whether [`split`] would change the batch.
pub fn needs_split(batch: &WriteBatch, limits: &StoreLimits) -> bool {
    let long = |media: &MediaPart| matches!(&media.source, UnifiedDataSource::Inline(inline) if inline.data.len() > limits.inline_bytes);
    batch_events(batch).any(|event| events::is_long(event, limits.inline_bytes)) || batch_parts(batch).any(|part| any_media(part, &long))
}

/// IDs of externalised data that the batch brings along instead of data.
pub fn reserved(batch: &WriteBatch) -> Vec<UnifiedId> {
    let mut found = std::cell::RefCell::new(Vec::new());
    for part in batch_parts(batch) {
        any_media(part, &|media| {
            if let UnifiedDataSource::Artifact(source) = &media.source
                && source.artifact_id.as_str().starts_with(PREFIX)
            {
                found.borrow_mut().push(source.artifact_id.clone());
            }
            false
        });
    }
    batch_events(batch).for_each(|event| events::reserved(event, found.get_mut()));
    std::mem::take(found.get_mut())
}

/// Takes inline data over the bound out of the batch, and adds metadata and references of what it took.
pub fn split(batch: &mut WriteBatch, principal_ref: &str, limits: &StoreLimits) -> Result<Vec<Content>, StoreError> {
    let mut splitter = Splitter::new(principal_ref, limits);
    let mut ops = Vec::with_capacity(batch.ops.len());
    for mut op in std::mem::take(&mut batch.ops) {
        match &mut op {
            WriteOp::AppendItems { items, .. } => items.iter_mut().try_for_each(|item| splitter.item(item))?,
            WriteOp::AddRevision(revision) => {
                let subject = revision.item_id.clone();
                splitter.parts(revision.change.parts.as_mut(), &subject)?;
            }
            WriteOp::AppendEvents { operation_id, events, .. } => {
                for event in events.iter_mut() {
                    if let Some(kept) = events::split(event, &mut splitter, operation_id)? {
                        *event = kept;
                    }
                }
            }
            WriteOp::PutResult { operation_id, result } => {
                for item in &mut result.output {
                    splitter.parts(item.parts_mut(), operation_id)?;
                }
            }
            _ => {}
        }
        for (artifact, subject) in splitter.artifacts.drain(..) {
            let artifact_id = artifact.artifact_id.clone();
            ops.push(WriteOp::PutArtifact {
                principal_ref: principal_ref.to_owned(),
                artifact: UnifiedArtifact {
                    created_at: batch.now,
                    ..artifact
                },
            });
            ops.push(WriteOp::AddArtifactRef { artifact_id, subject });
        }
        ops.push(op);
    }
    batch.ops = ops;
    let bytes: usize = splitter.contents.iter().map(|content| content.bytes.len()).sum();
    if bytes > limits.batch_bytes {
        return Err(StoreError::TooLarge {
            what: Oversize::Batch,
            size: bytes as u64,
            limit: limits.batch_bytes as u64,
        });
    }
    Ok(splitter.contents)
}

/// Puts externalised data back into items. `find` gives the metadata of an artifact.
pub fn join_items<'a>(
    items: impl IntoIterator<Item = &'a mut UnifiedItem>,
    files: &ArtifactFiles,
    find: &mut dyn FnMut(&UnifiedId) -> Result<Option<UnifiedArtifact>, StoreError>,
) -> Result<(), StoreError> {
    for item in items {
        join_parts(item.parts_mut(), files, find)?;
    }
    Ok(())
}

/// The same for the parts of a revision.
pub fn join_parts(
    parts: Option<&mut Vec<UnifiedContentPart>>,
    files: &ArtifactFiles,
    find: &mut dyn FnMut(&UnifiedId) -> Result<Option<UnifiedArtifact>, StoreError>,
) -> Result<(), StoreError> {
    each_media(parts, &mut |media| {
        let UnifiedDataSource::Artifact(source) = &media.source else {
            return Ok(());
        };
        let Some(form) = Form::of(&source.artifact_id) else {
            return Ok(());
        };
        // Without metadata it is a name that somebody else made up.
        let Some(artifact) = find(&source.artifact_id)?.filter(|artifact| artifact.sha256 == source.sha256) else {
            return Ok(());
        };
        let bytes = files.get(&artifact.sha256, artifact.size)?;
        media.source = UnifiedDataSource::Inline(InlineSource {
            data: form.write(bytes)?,
            encoding: form.encoding,
            media_type: artifact.media_type,
        });
        match form.media {
            Media::Absent => media.media = None,
            Media::Untyped => media.media.get_or_insert_default().media_type = None,
            Media::Typed => {}
        }
        Ok(())
    })
}

/// What the part's `media` said before: an externalised part has the media type there.
#[derive(Clone, Copy)]
enum Media {
    Absent,
    Untyped,
    Typed,
}

/// How the data was written; two letters of the ID.
#[derive(Clone, Copy)]
struct Form {
    encoding: InlineEncoding,
    media: Media,
}

impl Form {
    fn of(id: &UnifiedId) -> Option<Self> {
        let mut letters = id.as_str().strip_prefix(PREFIX)?.chars();
        let encoding = match letters.next()? {
            'y' => InlineEncoding::Bytes,
            'b' => InlineEncoding::Base64,
            'u' => InlineEncoding::Utf8,
            _ => return None,
        };
        let media = match letters.next()? {
            'n' => Media::Absent,
            'a' => Media::Untyped,
            'p' => Media::Typed,
            _ => return None,
        };
        (letters.next()? == '.').then_some(Self { encoding, media })
    }

    fn id(self, principal_ref: &str, media_type: &str, sha256: &Sha256) -> Result<UnifiedId, StoreError> {
        let encoding = match self.encoding {
            InlineEncoding::Bytes => 'y',
            InlineEncoding::Base64 => 'b',
            InlineEncoding::Utf8 => 'u',
        };
        let media = match self.media {
            Media::Absent => 'n',
            Media::Untyped => 'a',
            Media::Typed => 'p',
        };
        // Of one principal, so that nobody learns what somebody else has stored.
        let place = Sha256::of_all([
            principal_ref.as_bytes(),
            b"\n",
            media_type.as_bytes(),
            b"\n",
            sha256.as_bytes().as_slice(),
        ])
        .to_hex();
        let text = format!("{PREFIX}{encoding}{media}.{}", place.get(..40).unwrap_or(&place));
        UnifiedId::parse(&text).map_err(|_| StoreError::internal("the ID of externalised data is no ID"))
    }

    /// The bytes that data stands for, when the data can be made of them again exactly.
    fn read(self, data: &str) -> Option<Vec<u8>> {
        match self.encoding {
            InlineEncoding::Utf8 => Some(data.as_bytes().to_vec()),
            InlineEncoding::Bytes | InlineEncoding::Base64 => decode_base64(data).filter(|bytes| encode_base64(bytes) == data),
        }
    }

    fn write(self, bytes: Vec<u8>) -> Result<String, StoreError> {
        match self.encoding {
            InlineEncoding::Utf8 => String::from_utf8(bytes).map_err(|_| StoreError::Corrupt {
                detail: "externalised text is no UTF-8".to_owned(),
            }),
            InlineEncoding::Bytes | InlineEncoding::Base64 => Ok(encode_base64(&bytes)),
        }
    }
}

struct Splitter<'a> {
    principal_ref: &'a str,
    bound: usize,
    artifact_bytes: u64,
    contents: Vec<Content>,
    /// Metadata, with what refers to it.
    artifacts: Vec<(UnifiedArtifact, UnifiedId)>,
}

impl<'a> Splitter<'a> {
    const fn new(principal_ref: &'a str, limits: &StoreLimits) -> Self {
        Self {
            principal_ref,
            bound: limits.inline_bytes,
            artifact_bytes: limits.artifact_bytes,
            contents: Vec::new(),
            artifacts: Vec::new(),
        }
    }

    fn item(&mut self, item: &mut UnifiedItem) -> Result<(), StoreError> {
        let subject = item.id.clone();
        self.parts(item.parts_mut(), &subject)
    }

    fn parts(&mut self, parts: Option<&mut Vec<UnifiedContentPart>>, subject: &UnifiedId) -> Result<(), StoreError> {
        each_media(parts, &mut |media| self.media(media, subject))
    }

    fn media(&mut self, media: &mut MediaPart, subject: &UnifiedId) -> Result<(), StoreError> {
        let UnifiedDataSource::Inline(inline) = &media.source else {
            return Ok(());
        };
        if inline.data.len() <= self.bound {
            return Ok(());
        }
        let form = Form {
            encoding: inline.encoding,
            media: match &media.media {
                None => Media::Absent,
                Some(media) if media.media_type.is_none() => Media::Untyped,
                Some(_) => Media::Typed,
            },
        };
        let Some(bytes) = form.read(&inline.data) else {
            return Ok(());
        };
        let size = bytes.len() as u64;
        if size > self.artifact_bytes {
            return Err(StoreError::TooLarge {
                what: Oversize::Artifact,
                size,
                limit: self.artifact_bytes,
            });
        }
        let sha256 = Sha256::of(&bytes);
        let artifact_id = form.id(self.principal_ref, &inline.media_type, &sha256)?;
        let artifact = UnifiedArtifact {
            artifact_id: artifact_id.clone(),
            sha256,
            size,
            media_type: inline.media_type.clone(),
            name: None,
            sealed: false,
            created_at: Timestamp::EPOCH,
        };
        self.artifacts.push((artifact, subject.clone()));
        self.contents.push(Content { sha256, bytes });
        if !matches!(form.media, Media::Typed) {
            // Where the canonical form looks for the type of bytes that stand elsewhere.
            let metadata: &mut UnifiedMediaMetadata = media.media.get_or_insert_default();
            metadata.media_type = Some(inline.media_type.clone());
        }
        media.source = UnifiedDataSource::Artifact(ArtifactSource { artifact_id, sha256 });
        Ok(())
    }
}

/// The events in a batch.
fn batch_events(batch: &WriteBatch) -> impl Iterator<Item = &bytes::Bytes> {
    batch.ops.iter().flat_map(|op| match op {
        WriteOp::AppendEvents { events, .. } => events.as_slice(),
        _ => &[],
    })
}

/// The top-level parts of everything in a batch that is read back as items.
fn batch_parts(batch: &WriteBatch) -> impl Iterator<Item = &UnifiedContentPart> {
    batch.ops.iter().flat_map(op_parts)
}

fn op_parts(op: &WriteOp) -> Box<dyn Iterator<Item = &UnifiedContentPart> + '_> {
    match op {
        WriteOp::AppendItems { items, .. } => Box::new(items.iter().flat_map(UnifiedItem::parts)),
        WriteOp::AddRevision(revision) => Box::new(revision.change.parts.iter().flatten()),
        WriteOp::PutResult { result, .. } => Box::new(result.output.iter().flat_map(UnifiedItem::parts)),
        _ => Box::new(std::iter::empty()),
    }
}

/// Whether a medium of the part, or of what stands inside it, is one of those looked for.
fn any_media(part: &UnifiedContentPart, test: &dyn Fn(&MediaPart) -> bool) -> bool {
    match &part.body {
        PartBody::Image(media)
        | PartBody::Audio(media)
        | PartBody::Video(media)
        | PartBody::Document(media)
        | PartBody::File(media)
        | PartBody::Binary(media) => test(media),
        // Records of more than 64 levels are refused before they come here.
        PartBody::GroundingSource(source) => source.parts.iter().flatten().any(|part| any_media(part, test)),
        PartBody::Text(_)
        | PartBody::Reasoning(_)
        | PartBody::Refusal(_)
        | PartBody::Json(_)
        | PartBody::Citation(_)
        | PartBody::ArtifactReference(_) => false,
    }
}

/// Calls `change` with every medium of the parts and of what stands inside them.
fn each_media(
    parts: Option<&mut Vec<UnifiedContentPart>>,
    change: &mut dyn FnMut(&mut MediaPart) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    for part in parts.into_iter().flatten() {
        match &mut part.body {
            PartBody::Image(media)
            | PartBody::Audio(media)
            | PartBody::Video(media)
            | PartBody::Document(media)
            | PartBody::File(media)
            | PartBody::Binary(media) => change(media)?,
            PartBody::GroundingSource(source) => each_media(source.parts.as_mut(), change)?,
            PartBody::Text(_)
            | PartBody::Reasoning(_)
            | PartBody::Refusal(_)
            | PartBody::Json(_)
            | PartBody::Citation(_)
            | PartBody::ArtifactReference(_) => {}
        }
    }
    Ok(())
}
