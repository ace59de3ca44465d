//! Key rotation over the traits: sealed records move to the current key in bounded batches.
//!
//! A batch names the record that it replaces, so a rotation may be stopped anywhere, run beside writers, and is simply gone on
//! with. Keys that nothing is sealed with any more stay in the ring: the oldest one carries the look-up hashes
//! ([`Vault::hash_version`]).

use std::collections::BTreeMap;

use throughline_format::{Timestamp, UnifiedId};

use crate::records::{ResealedRecord, SealedRecord};
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
    /// Whether nothing is left to do.
    pub done: bool,
}

/// Moves some records to the current key. Repeat until it is done, or until a step has resealed nothing: what is left then does
/// not open.
pub async fn rotate_step(store: &dyn UnifiedStateStore, vault: &Vault, now: Timestamp) -> Result<RotationStep, StoreError> {
    let records = store.sealed_under_other_keys(vault.current_version(), STEP).await?;
    let mut step = RotationStep {
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
        let count = records.len() as u64;
        let mut batch = WriteBatch::new(now, conversation_id);
        batch.ops.extend(records.into_iter().map(WriteOp::Reseal));
        match store.commit(batch).await {
            Ok(_) => step.resealed += count,
            // Somebody else resealed one, or retention took the conversation: the next step sees what is left.
            Err(StoreError::Duplicate { .. } | StoreError::NotFound { .. }) => step.resealed += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(step)
}

fn reseal(vault: &Vault, record: &SealedRecord) -> Result<ResealedRecord, StoreError> {
    Ok(ResealedRecord {
        kind: record.context.kind,
        record_id: record.context.record_id.clone(),
        replaces: record.sealed.digest(),
        sealed: vault.reseal(&record.context, &record.sealed)?,
    })
}
