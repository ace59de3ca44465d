//! Retention as a loop over the traits: what has not been updated for the configured time goes, in bounded steps.
//!
//! Each step is a transaction of its own and is checked again inside it, so that the loop may be stopped anywhere and is gone on
//! with by the next one. Time is an argument: whoever calls has the clock.

use throughline_format::Timestamp;

use crate::records::{CollectRequest, StoreMeta, SweepRequest};
use crate::{DeletionCondition, StoreError, UnifiedStateStore, WriteBatch, WriteOp};

/// Conversations that are looked up at once.
const PAGE: usize = 100;

/// What a cleanup removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanupReport {
    /// Conversations that were marked and are no longer visible.
    pub marked: u64,
    /// Conversations whose rows are gone.
    pub removed: u64,
    /// Rows that are gone.
    pub rows: u64,
    /// Artifacts that are gone.
    pub artifacts: u64,
    /// Bytes of artifacts that are gone.
    pub bytes: u64,
}

/// Removes every conversation beyond the store's retention time that no operation and no lease holds, and the artifacts that
/// nothing has referred to for an hour. It touches no clock; a conversation that is changed in between stays.
///
/// On an error what was done stays done, and the next call goes on.
pub async fn clean(store: &dyn UnifiedStateStore, now: &(dyn Fn() -> Timestamp + Sync)) -> Result<CleanupReport, StoreError> {
    clean_with(store, store.meta().retention_days, now).await
}

/// [`clean`] with another retention than the store's own.
pub async fn clean_with(
    store: &dyn UnifiedStateStore,
    retention_days: u32,
    now: &(dyn Fn() -> Timestamp + Sync),
) -> Result<CleanupReport, StoreError> {
    let mut report = CleanupReport::default();
    let meta = StoreMeta {
        retention_days,
        ..store.meta()
    };
    loop {
        let time = now();
        let cutoff = meta.retention_cutoff(time);
        let expired = store.expired_conversations(cutoff, time, PAGE).await?;
        let mut marked = 0;
        for conversation_id in expired {
            let delete = WriteOp::DeleteConversation {
                only_if: DeletionCondition::NotUpdatedSince(cutoff),
            };
            match store.commit(WriteBatch::new(time, conversation_id).with(delete)).await {
                Ok(_) => marked += 1,
                // It was changed, taken up or removed meanwhile.
                Err(error) if is_kept(&error) => {}
                Err(error) => return Err(error),
            }
        }
        report.marked += marked;
        if marked == 0 {
            break;
        }
    }
    loop {
        let step = store.sweep(SweepRequest::new(now())).await?;
        report.rows += step.rows;
        report.removed += step.conversations;
        if !step.more {
            break;
        }
    }
    loop {
        let step = store.collect(CollectRequest::new(now())).await?;
        report.artifacts += step.artifacts;
        report.bytes += step.bytes;
        if !step.more {
            return Ok(report);
        }
    }
}

fn is_kept(error: &StoreError) -> bool {
    matches!(
        error.code(),
        "conflict.retained" | "conflict.operation-active" | "not-found.resource"
    )
}
