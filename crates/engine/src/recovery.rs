//! Recovery at start: what was running when the process went down ends as interrupted, with everything that was committed.
//!
//! It is idempotent: killed in the middle, it goes on at the next start with what is left.

use crate::engine::Engine;
use crate::lineage::atoms::atoms;
use crate::lineage::chain::Link;
use crate::producer::Seat;
use crate::terminal::{self, Ending};
use bytes::Bytes;
use std::sync::Arc;
use throughline_format::item::InterruptionCause;
use throughline_format::json::decode::decode_unscanned;
use throughline_format::{
    ErrorCategory, EventBody, Fold, OperationState, UnifiedError, UnifiedEventV2, UnifiedId, UnifiedItem, UnifiedOperation,
};
use throughline_store::{EventRange, ItemPage, OperationFilter, WriteBatch};

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Operations that ended as interrupted.
    pub interrupted: usize,
    /// Operations that could not be ended; each is logged with its reason.
    pub failed: usize,
}

/// Operations per page.
const PAGE: usize = 200;

impl Engine {
    /// Ends every operation that no process runs any more. Call it once, before the first turn.
    ///
    /// # Errors
    /// When the store cannot list operations. One that cannot be ended is counted and logged, and stops nothing.
    pub async fn recover(self: &Arc<Self>) -> Result<RecoveryReport, UnifiedError> {
        let mut report = RecoveryReport::default();
        let mut after = None;
        loop {
            let filter = OperationFilter {
                conversation_id: None,
                principal_ref: None,
                states: vec![OperationState::Queued, OperationState::Running, OperationState::RequiresAction],
                after: after.take(),
                limit: PAGE,
            };
            let page = self.store.operations(filter).await.map_err(|e| e.to_unified())?;
            after = page.last().map(|o| o.operation_id.clone());
            let full = page.len() == PAGE;
            for operation in page {
                let id = operation.operation_id.clone();
                match self.interrupt(operation).await {
                    Ok(()) => report.interrupted += 1,
                    Err(error) => {
                        report.failed += 1;
                        tracing::error!(operation = %id, code = %error.code, message = %error.message, "an interrupted operation could not be ended");
                    }
                }
            }
            if !full {
                return Ok(report);
            }
        }
    }

    async fn interrupt(&self, mut operation: UnifiedOperation) -> Result<(), UnifiedError> {
        let mut fold = self.fold_committed(&operation.operation_id).await?;
        let now = self.clock.now();
        let error = UnifiedError::new(
            ErrorCategory::Interrupted,
            "process-restart",
            "the gateway was stopped while the answer was on its way; ask again to go on",
        );
        let drafts = terminal::drafts(
            Ending::interrupted(error, InterruptionCause::ProcessRestart),
            &fold,
            &operation.operation_id,
            now,
        );
        let mut seat = self.seat_after(&operation, &fold, 0).await?;
        let mut events: Vec<(u64, Bytes)> = Vec::new();
        for mut draft in drafts {
            match &mut draft.body {
                EventBody::ItemCompleted(done) => {
                    if let Some(item) = &mut done.item {
                        seat.take(item);
                    }
                }
                EventBody::StreamCompleted(done) => done.item_ids = fold.items().iter().map(|i| i.id.clone()).collect(),
                _ => {}
            }
            let event = draft.stamp(&operation.operation_id, fold.last_sequence() + 1, now);
            fold.push(&event)
                .map_err(|e| UnifiedError::new(ErrorCategory::Internal, "event-grammar", e.to_string()))?;
            let bytes = serde_json::to_vec(&event).map_err(|e| UnifiedError::new(ErrorCategory::Internal, "event", e.to_string()))?;
            events.push((event.sequence, bytes.into()));
        }
        let rows = match self.link_before(&operation).await? {
            Some(link) => terminal::evidence(&operation, link, fold.items(), fold.items(), now),
            None => Vec::new(),
        };
        let request_id = operation.operation_id.clone();
        let batch = WriteBatch::new(now, operation.conversation_id.clone());
        let batch = terminal::batch(batch, &mut operation, &fold, &events, rows, request_id)?;
        let branch_id = operation.source_branch_id.clone();
        terminal::commit(self, batch, &operation, &branch_id).await
    }

    /// The fold of everything that the store has of an operation.
    pub(crate) async fn fold_committed(&self, operation_id: &UnifiedId) -> Result<Fold, UnifiedError> {
        let mut fold = Fold::new(operation_id.clone());
        loop {
            let range = EventRange {
                after: fold.last_sequence(),
                through: u64::from(u32::MAX),
                max_events: 1_000,
                max_bytes: 8 * 1024 * 1024,
            };
            let events = self.store.events_after(operation_id, range).await.map_err(|e| e.to_unified())?;
            if events.is_empty() {
                return Ok(fold);
            }
            for stored in events {
                let event: UnifiedEventV2 = decode_unscanned(&stored.bytes).map_err(|_| {
                    UnifiedError::new(
                        ErrorCategory::Storage,
                        "corrupt",
                        format!("event {} cannot be read", stored.sequence),
                    )
                })?;
                fold.push(&event)
                    .map_err(|e| UnifiedError::new(ErrorCategory::Storage, "corrupt", e.to_string()))?;
            }
        }
    }

    /// Where the next item of an operation stands, after those that its committed events began.
    pub(crate) async fn seat_after(&self, operation: &UnifiedOperation, fold: &Fold, first_item: u64) -> Result<Seat, UnifiedError> {
        let branch = self.store.branch(&operation.source_branch_id).await.map_err(|e| e.to_unified())?;
        let head = branch.map_or(0, |b| b.head_sequence);
        Ok(Seat {
            conversation_id: operation.conversation_id.clone(),
            branch_id: operation.source_branch_id.clone(),
            first_item,
            next_sequence: head + fold.items().len() as u64 + 1,
            last_item: fold
                .items()
                .last()
                .map(|i| i.id.clone())
                .or_else(|| operation.input_item_ids.last().cloned()),
        })
    }

    /// The chain up to the end of the operation's input, from the journal: the client's own view went down with the process.
    async fn link_before(&self, operation: &UnifiedOperation) -> Result<Option<Link>, UnifiedError> {
        let mut path: Vec<UnifiedItem> = Vec::new();
        loop {
            let page = ItemPage {
                after_sequence: path.last().map_or(0, |i| i.sequence),
                limit: 1_000,
                ..ItemPage::default()
            };
            let items = self
                .store
                .branch_items(&operation.source_branch_id, page)
                .await
                .map_err(|e| e.to_unified())?;
            let full = items.len() == 1_000;
            path.extend(items);
            if !full {
                break;
            }
        }
        let end = operation
            .input_item_ids
            .last()
            .and_then(|last| path.iter().position(|i| i.id == *last));
        let root = Link::root(self.lineage_key.as_slice(), &operation.principal_ref);
        Ok(end.map(|end| {
            path.truncate(end + 1);
            root.along(&atoms(&path)).last().copied().unwrap_or(root)
        }))
    }
}
