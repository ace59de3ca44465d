//! Retention: conversations that nobody changed for the configured time are removed, in bounded steps.

use crate::engine::Engine;
use throughline_format::UnifiedError;
use throughline_store::{DeletionCondition, StoreError, SweepRequest, WriteBatch, WriteOp};

/// Conversations that one step marks.
const STEP: usize = 100;

/// What a cleanup removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanupReport {
    /// Conversations that were marked and are no longer visible.
    pub marked: u64,
    /// Conversations whose rows are gone.
    pub removed: u64,
    /// Rows that are gone.
    pub rows: u64,
}

impl Engine {
    /// Removes every conversation beyond the retention time that no operation and no lease holds. Reading, replaying and
    /// cleaning touch no clock; a conversation that is changed in between stays.
    ///
    /// # Errors
    /// `storage.*` when the store refuses; what was done stays done, and the next call goes on.
    pub async fn clean(&self) -> Result<CleanupReport, UnifiedError> {
        let mut report = CleanupReport::default();
        loop {
            let now = self.clock.now();
            let cutoff = self.store.meta().retention_cutoff(now);
            let expired = self
                .store
                .expired_conversations(cutoff, now, STEP)
                .await
                .map_err(|e| e.to_unified())?;
            let mut marked = 0;
            for conversation_id in &expired {
                let delete = WriteOp::DeleteConversation {
                    only_if: DeletionCondition::NotUpdatedSince(cutoff),
                };
                match self.commit(WriteBatch::new(now, conversation_id.clone()).with(delete)).await {
                    Ok(_) => marked += 1,
                    // It was changed or taken up meanwhile, so it stays.
                    Err(error) if is_kept(&error) => {}
                    Err(error) => return Err(error.to_unified()),
                }
            }
            report.marked += marked;
            if marked == 0 {
                break;
            }
        }
        loop {
            let step = self
                .store
                .sweep(SweepRequest::new(self.clock.now()))
                .await
                .map_err(|e| e.to_unified())?;
            report.rows += step.rows;
            report.removed += step.conversations;
            if !step.more {
                return Ok(report);
            }
        }
    }
}

fn is_kept(error: &StoreError) -> bool {
    matches!(error.code(), "conflict.retained" | "conflict.operation-active")
}
