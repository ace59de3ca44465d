//! Recovery at start: what was running when the process went down ends as interrupted, with everything that was committed;
//! work that its provider goes on with is gone on with here, and what only waited goes on waiting (`kept`).
//!
//! It is idempotent: killed in the middle, it goes on at the next start with what is left.

use crate::checkpoints;
use crate::engine::Engine;
use crate::lineage::atoms::atoms;
use crate::lineage::chain::Link;
use crate::ports::Router;
use crate::progress::Progress;
use crate::scribe::Scribe;
use crate::terminal::{self, Ending};
use std::sync::Arc;
use throughline_format::item::InterruptionCause;
use throughline_format::{ErrorCategory, OperationState, UnifiedError, UnifiedOperation};
use throughline_store::{OperationFilter, WriteBatch};

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Operations that ended as interrupted.
    pub interrupted: usize,
    /// Operations whose provider goes on with them; they have a producer again.
    pub resumed: usize,
    /// Operations that wait as before, for a slot or for a decision.
    pub waiting: usize,
    /// Operations that could not be ended; each is logged with its reason.
    pub failed: usize,
}

/// Operations per page.
const PAGE: usize = 200;

impl Engine {
    /// Ends every operation that has no producer any more, but for work that its provider goes on with, which is read on by
    /// the target that the routes give for it, and for what waits for a slot or a decision, which goes on waiting. Call it at start;
    /// operations of this engine are left alone.
    ///
    /// # Errors
    /// When the store cannot list operations. One that cannot be ended is counted and logged, and stops nothing.
    pub async fn recover(self: &Arc<Self>, router: &dyn Router) -> Result<RecoveryReport, UnifiedError> {
        let mut report = RecoveryReport::default();
        let mut after = None;
        loop {
            let filter = OperationFilter {
                states: vec![OperationState::Queued, OperationState::Running, OperationState::RequiresAction],
                after: after.take(),
                limit: PAGE,
                ..OperationFilter::default()
            };
            let page = self.store.operations(filter).await.map_err(|e| e.to_unified())?;
            after = page.last().map(|o| o.operation_id.clone());
            let full = page.len() == PAGE;
            for operation in page {
                let id = operation.operation_id.clone();
                if self.publishers.get(&id).is_some() {
                    continue;
                }
                match self.wait_on(&operation, router).await {
                    Ok(true) => {
                        report.waiting += 1;
                        continue;
                    }
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(operation = %id, code = %error.code, "an operation that waited cannot go on");
                    }
                }
                match self.resume_job(&operation, router).await {
                    Ok(true) => {
                        report.resumed += 1;
                        continue;
                    }
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(operation = %id, code = %error.code, "work of a provider cannot be gone on with");
                    }
                }
                match self.interrupt_or_fail(operation).await {
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

    /// Ends an operation as interrupted, or with the error for which the store will never take that.
    async fn interrupt_or_fail(&self, operation: UnifiedOperation) -> Result<(), UnifiedError> {
        match self.interrupt(operation.clone()).await {
            Err(error) if !error.retryable => {
                tracing::error!(operation = %operation.operation_id, code = %error.code, "an operation ends with this error alone");
                terminal::end_bare(self, &operation, error).await.map(drop)
            }
            outcome => outcome,
        }
    }

    async fn interrupt(&self, mut operation: UnifiedOperation) -> Result<(), UnifiedError> {
        let mut scribe = Scribe::resume(self, &operation, 0).await?;
        let now = self.clock.now();
        let error = UnifiedError::new(
            ErrorCategory::Interrupted,
            "process-restart",
            "the gateway was stopped while the answer was on its way; ask again to go on",
        );
        let ending = Ending::interrupted(error, InterruptionCause::ProcessRestart);
        let events = scribe.write_end(terminal::drafts(ending, &scribe.fold, &operation.operation_id, now), now)?;
        let items = scribe.fold.items();
        let progress = Progress::find(self, items).await?;
        let rows = match self.link_before(&operation).await? {
            Some(link) => terminal::evidence(&operation, progress.branch(&operation), link, items, items, now),
            None => Vec::new(),
        };
        let batch = WriteBatch::new(now, operation.conversation_id.clone());
        let mut batch = terminal::batch(batch, &mut operation, &scribe.fold, &events, rows, None, &progress)?;
        let head = scribe.fold.items().last().map(|item| &item.id);
        let branch_id = progress.branch(&operation);
        batch
            .ops
            .extend(checkpoints::outdated(self, &operation.conversation_id, branch_id, head, &[]).await?);
        terminal::commit(self, batch, &operation, &progress).await
    }

    /// The chain up to the end of the operation's input, from the journal: the client's own view went down with the process.
    pub(crate) async fn link_before(&self, operation: &UnifiedOperation) -> Result<Option<Link>, UnifiedError> {
        let mut path = self.branch_path(&operation.source_branch_id).await?;
        // A question that was asked again added nothing to the branch.
        if let Some(last) = operation.input_item_ids.last().or(operation.source_head_item_id.as_ref()) {
            let Some(end) = path.iter().position(|item| item.id == *last) else {
                return Ok(None);
            };
            path.truncate(end + 1);
        } else {
            path.clear();
        }
        let root = Link::root(self.lineage_key.as_slice(), &operation.principal_ref);
        Ok(Some(root.along(&atoms(&path)).last().copied().unwrap_or(root)))
    }
}
