//! What can be said about a batch without looking at the store: its size and shape.

use serde::Serialize;
use throughline_format::annotation::Finding;
use throughline_format::resource::ProviderDataScope;
use throughline_format::{UnifiedItem, UnifiedPortableAnnotation, UnifiedProviderCheckpoint, UnifiedResourceOwner};

use crate::batch::{WriteBatch, WriteOp};
use crate::inline;
use crate::records::SealedResource;
use crate::sealing::Sealed;
use crate::{MAX_EVENT_SEQUENCE, Oversize, StoreError, StoreLimits, owner_fingerprint};

/// What a batch takes of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchCost {
    /// Bytes of everything that it carries.
    pub bytes: usize,
    /// Stream events.
    pub events: usize,
}

/// What the check of a batch found out, for those who apply it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedBatch {
    /// What it takes of a queue.
    pub cost: BatchCost,
    /// The items that it appends.
    pub items: ItemTexts,
}

/// Items as JSON, in the order of their batch: written once, measured and stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemTexts {
    text: Vec<u8>,
    /// Where each item ends.
    ends: Vec<usize>,
}

impl ItemTexts {
    /// Writes an item; gives its length.
    fn push(&mut self, item: &UnifiedItem) -> Result<usize, StoreError> {
        let start = self.text.len();
        serde_json::to_writer(&mut self.text, item).map_err(|_| no_json())?;
        self.ends.push(self.text.len());
        Ok(self.text.len() - start)
    }

    /// The item at this position among all of the batch.
    pub(super) fn get(&self, at: usize) -> Option<&str> {
        let start = match at.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        std::str::from_utf8(self.text.get(start..*self.ends.get(at)?)?).ok()
    }
}

/// Checks sizes and shape before the batch is queued, so that a bad batch costs nobody else anything.
pub fn check_batch(batch: &WriteBatch, limits: &StoreLimits) -> Result<CheckedBatch, StoreError> {
    count("batch", batch.ops.len(), limits.batch_ops)?;
    let (mut cost, mut texts) = (BatchCost::default(), ItemTexts::default());
    let (mut items, mut rows) = (0, 0);
    for op in &batch.ops {
        cost.bytes += check_op(op, limits, &mut texts)?;
        match op {
            WriteOp::AppendItems { items: new, .. } => items += new.len(),
            WriteOp::AppendEvents { events, .. } => cost.events += events.len(),
            WriteOp::PutLineage(new) => rows += new.len(),
            WriteOp::PutIssuedIds(new) => rows += new.len(),
            WriteOp::PutSessionKeys(new) => rows += new.len(),
            WriteOp::DeleteConversation { .. } if batch.ops.len() > 1 => {
                return Err(StoreError::invalid("/ops", "deleting a conversation stands alone in its batch"));
            }
            _ => {}
        }
    }
    count("batch", items, limits.batch_items)?;
    count("batch", cost.events, limits.batch_events)?;
    count("batch", rows, limits.batch_index_rows)?;
    bounded(Oversize::Batch, cost.bytes, limits.batch_bytes)?;
    Ok(CheckedBatch { cost, items: texts })
}

/// Bytes of one operation; items are written to `texts`.
fn check_op(op: &WriteOp, limits: &StoreLimits, texts: &mut ItemTexts) -> Result<usize, StoreError> {
    match op {
        WriteOp::CreateConversation(conversation) => record(conversation, limits),
        WriteOp::CreateBranch(branch) => record(branch, limits),
        WriteOp::AppendItems { items, .. } => items.iter().try_fold(0, |sum, item| {
            Ok(sum + bounded(Oversize::Item, texts.push(item)?, limits.item_bytes)?)
        }),
        WriteOp::AddRevision(revision) => bounded(Oversize::Item, json_length(revision)?, limits.item_bytes),
        WriteOp::PutOperation(operation) | WriteOp::UpdateOperation(operation) => record(operation, limits),
        WriteOp::AppendEvents {
            first_sequence, events, ..
        } => {
            let last = first_sequence.saturating_add(events.len() as u64);
            if *first_sequence == 0 || last > MAX_EVENT_SEQUENCE {
                return Err(StoreError::invalid("/firstSequence", "event numbers go from 1 to 4294967295"));
            }
            events.iter().try_fold(0, |sum, event| {
                bounded(Oversize::Event, inline::kept_length(event, limits), limits.event_bytes)?;
                Ok(sum + event.len())
            })
        }
        WriteOp::PutResult { result, .. } => bounded(Oversize::Result, json_length(result.as_ref())?, limits.result_bytes),
        WriteOp::PutResource(resource) => check_resource(resource, limits),
        WriteOp::PutCheckpoint(checkpoint) => check_checkpoint(checkpoint, limits),
        WriteOp::Reseal(resealed) => bounded(Oversize::Payload, resealed.sealed.as_bytes().len(), limits.payload_bytes),
        WriteOp::PutAnnotation { annotation, .. } => {
            check_annotation(annotation)?;
            record(annotation, limits)
        }
        WriteOp::PutArtifact { artifact, .. } => {
            check_artifact_size(artifact.size, limits)?;
            record(artifact, limits)
        }
        WriteOp::PutLineage(rows) => Ok(rows.len() * INDEX_ROW_BYTES),
        WriteOp::PutIssuedIds(rows) => Ok(rows.len() * INDEX_ROW_BYTES),
        WriteOp::PutSessionKeys(rows) => Ok(rows.len() * INDEX_ROW_BYTES),
        WriteOp::AcquireLease(lease) => record(lease, limits),
        WriteOp::SetResourceStatus { .. }
        | WriteOp::SetCheckpointStatus { .. }
        | WriteOp::AddArtifactRef { .. }
        | WriteOp::PinArtifact { .. }
        | WriteOp::UnpinArtifact { .. }
        | WriteOp::ReleaseLease { .. }
        | WriteOp::DeleteOperation { .. }
        | WriteOp::DeleteConversation { .. } => Ok(INDEX_ROW_BYTES),
    }
}

/// The bound of an artifact's content.
pub fn check_artifact_size(size: u64, limits: &StoreLimits) -> Result<(), StoreError> {
    if size <= limits.artifact_bytes {
        return Ok(());
    }
    Err(StoreError::TooLarge {
        what: Oversize::Artifact,
        size,
        limit: limits.artifact_bytes,
    })
}

/// About what a row of hashes and ids takes.
const INDEX_ROW_BYTES: usize = 256;

fn check_resource(resource: &SealedResource, limits: &StoreLimits) -> Result<usize, StoreError> {
    check_owner(&resource.owner, Some(resource))?;
    Ok(record(&resource.owner, limits)? + bounded(Oversize::Payload, resource.sealed.as_bytes().len(), limits.payload_bytes)?)
}

fn check_checkpoint(checkpoint: &UnifiedProviderCheckpoint, limits: &StoreLimits) -> Result<usize, StoreError> {
    let size = bounded(Oversize::Payload, checkpoint.encrypted_payload.0.len(), limits.payload_bytes)?;
    Sealed::from_bytes(checkpoint.encrypted_payload.0.clone())?;
    Ok(record(&checkpoint.owner, limits)? + size)
}

/// What anybody may see has a registered schema, keeps to it, and holds no credential. What has none is owner-private.
fn check_annotation(annotation: &UnifiedPortableAnnotation) -> Result<(), StoreError> {
    match throughline_format::annotation::check(&annotation.schema, ProviderDataScope::PortableAnnotation, &annotation.payload) {
        Finding::Valid => Ok(()),
        Finding::Unknown => Err(StoreError::invalid(
            "/annotation/schema",
            "a portable annotation needs a registered schema; seal what has none as a private resource",
        )),
        Finding::Invalid(violations) => {
            let first = violations.into_iter().next();
            let (path, message) = first.map_or_else(Default::default, |violation| (violation.path, violation.message));
            Err(StoreError::invalid(format!("/annotation/payload{path}"), message))
        }
    }
}

/// The fingerprint next to an owner must be the one of that owner: reuse is decided by it.
fn check_owner(owner: &UnifiedResourceOwner, resource: Option<&SealedResource>) -> Result<(), StoreError> {
    let right = owner_fingerprint(owner)?;
    match resource {
        Some(resource) if resource.owner_fingerprint != right => {
            Err(StoreError::invalid("/ownerFingerprint", "it is not the fingerprint of the owner"))
        }
        _ => Ok(()),
    }
}

fn record<T: Serialize>(record: &T, limits: &StoreLimits) -> Result<usize, StoreError> {
    bounded(Oversize::Record, json_length(record)?, limits.record_bytes)
}

fn bounded(what: Oversize, size: usize, limit: usize) -> Result<usize, StoreError> {
    if size > limit {
        Err(StoreError::TooLarge {
            what,
            size: size as u64,
            limit: limit as u64,
        })
    } else {
        Ok(size)
    }
}

fn count(what: &'static str, count: usize, limit: usize) -> Result<(), StoreError> {
    if count > limit {
        Err(StoreError::Limit {
            what,
            count: count as u64,
            limit: limit as u64,
        })
    } else {
        Ok(())
    }
}

/// Length of the compact JSON without building it.
fn json_length<T: Serialize>(value: &T) -> Result<usize, StoreError> {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).map_err(|_| no_json())?;
    Ok(counter.0)
}

fn no_json() -> StoreError {
    StoreError::invalid("", "the record has no JSON form")
}
