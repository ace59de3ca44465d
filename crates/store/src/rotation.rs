//! Key rotation over the traits: sealed records move to the current key in bounded batches.
//!
//! A batch names the record that it replaces, so a rotation may be stopped anywhere, run beside writers, and is simply gone on
//! with. Keys that nothing is sealed with any more stay in the ring: the oldest one carries the look-up hashes
//! ([`Vault::hash_version`]).

use std::collections::BTreeMap;

use throughline_format::{Timestamp, UnifiedId};

use crate::records::{ResealedRecord, SealedPlace, SealedRecord};
use crate::{StoreError, UnifiedStateStore, Vault, WriteBatch, WriteOp};

/// Records of one step, so that their payloads fit into memory whatever their size.
const STEP: usize = 32;

/// What one step of a rotation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RotationStep {
    /// Records that are sealed with the current key now.
    pub resealed: u64,
    /// Records that do not open and so stay as they are.
    pub damaged: u64,
    /// Records that somebody else resealed or removed meanwhile.
    pub skipped: u64,
    /// Where the next step goes on.
    pub after: Option<SealedPlace>,
    /// Whether nothing was left behind the place that the step was given.
    pub done: bool,
}

/// Moves some records behind a place of the list to the current key. Repeat with the place that it gives until it is done: what is
/// left then does not open.
pub async fn rotate_step(
    store: &dyn UnifiedStateStore,
    vault: &Vault,
    after: Option<SealedPlace>,
    now: Timestamp,
) -> Result<RotationStep, StoreError> {
    let records = store.sealed_under_other_keys(vault.current_version(), after, STEP).await?;
    let mut step = RotationStep {
        after: records.last().map_or(after, |record| Some(record.place)),
        done: records.is_empty(),
        ..RotationStep::default()
    };
    let mut by_conversation: BTreeMap<UnifiedId, Vec<ResealedRecord>> = BTreeMap::new();
    for record in records {
        match reseal(vault, &record) {
            Ok(resealed) => by_conversation.entry(record.context.conversation_id).or_default().push(resealed),
            Err(StoreError::SealedRecord) => step.damaged += 1,
            Err(error) => return Err(error),
        }
    }
    for (conversation_id, records) in by_conversation {
        let batch = |records: &[ResealedRecord]| {
            let mut batch = WriteBatch::new(now, conversation_id.clone());
            batch.ops.extend(records.iter().cloned().map(WriteOp::Reseal));
            batch
        };
        if store_all(store, batch(&records)).await? {
            step.resealed += records.len() as u64;
            continue;
        }
        for record in &records {
            let is_stored = store_all(store, batch(std::slice::from_ref(record))).await?;
            *(if is_stored { &mut step.resealed } else { &mut step.skipped }) += 1;
        }
    }
    Ok(step)
}

/// Stores a batch; false when somebody else resealed one of its records, or retention took the conversation.
async fn store_all(store: &dyn UnifiedStateStore, batch: WriteBatch) -> Result<bool, StoreError> {
    match store.commit(batch).await {
        Ok(_) => Ok(true),
        Err(StoreError::Duplicate { .. } | StoreError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn reseal(vault: &Vault, record: &SealedRecord) -> Result<ResealedRecord, StoreError> {
    Ok(ResealedRecord {
        kind: record.context.kind,
        record_id: record.context.record_id.clone(),
        replaces: record.sealed.digest(),
        sealed: vault.reseal(&record.context, &record.sealed)?,
    })
}
