//! How a producer ends its operation: with everything that the last commit takes, and again while the store refuses it.

use crate::checkpoints::{self, Refused};
use crate::lineage::{calls, issued};
use crate::live::StopCause;
use crate::producer::{Producer, Stop};
use crate::scribe::Written;
use crate::terminal::{self, Ending};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::Duration;
use throughline_format::item::InterruptionCause;
use throughline_format::{ErrorCategory, Sha256, Timestamp, UnifiedError, UnifiedItem, UnifiedResultV2};
use throughline_protocols::DecodeContext;
use throughline_store::{IssuedId, LineageRow, WriteBatch, WriteOp};

/// First and longest pause between two tries to commit the end.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Producer {
    /// Ends an operation whose answer did not end by itself. While the store refuses, it is tried again: subscribers wait, and
    /// nobody takes the branch. What the store will never take ends with its error alone. A process that goes down meanwhile
    /// leaves the end to recovery.
    pub(crate) async fn end(&mut self, stop: Stop) {
        if self.outlives(&stop) {
            return;
        }
        let ending = self.ending(stop);
        let mut pause = FIRST_PAUSE;
        let mut never: Option<UnifiedError> = None;
        loop {
            let outcome = match &never {
                None => self.try_end(&ending).await,
                Some(reason) => self.end_bare(reason.clone()).await,
            };
            let Err(error) = outcome else { return };
            let (operation, code) = (&self.operation.operation_id, &error.code);
            if !error.retryable {
                if never.is_some() {
                    tracing::error!(%operation, %code, "the operation could not be ended; the next start tries again");
                    return;
                }
                tracing::error!(%operation, %code, "the store does not take the end of the operation; it ends with this error alone");
                never = Some(error);
                continue;
            }
            tracing::error!(%operation, %code, "the end of the operation was not committed; trying again");
            if self.engine.stopping.load(Ordering::SeqCst) {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Whatever stopped the answer may have left the scribe ahead of the store.
    async fn try_end(&mut self, ending: &Ending) -> Result<(), UnifiedError> {
        self.resume_from_store().await?;
        if self.scribe.fold.is_complete() {
            // The commit was there after all; its answer was lost.
            return Ok(());
        }
        let batch = WriteBatch::new(self.engine.clock.now(), self.operation.conversation_id.clone());
        self.finish(batch, Vec::new(), ending.clone()).await
    }

    /// Ends the operation with an error and nothing else.
    pub(crate) async fn end_bare(&mut self, reason: UnifiedError) -> Result<(), UnifiedError> {
        let (ended, events) = terminal::end_bare(&self.engine, &self.operation, reason).await?;
        self.operation = ended;
        self.live.publish(events);
        Ok(())
    }

    fn ending(&mut self, stop: Stop) -> Ending {
        match stop {
            Stop::Cancelled(request) => match request.cause {
                StopCause::Shutdown => Ending::interrupted(
                    UnifiedError::new(
                        ErrorCategory::Interrupted,
                        "shutdown",
                        "the gateway was stopped while the answer was on its way",
                    ),
                    InterruptionCause::ProcessRestart,
                ),
                StopCause::Deadline => Ending::Expired,
                StopCause::Client { reason } => {
                    self.operation.cancel_requested_at = Some(request.at);
                    Ending::Cancelled { reason }
                }
            },
            Stop::Failed(error) if error.category == ErrorCategory::Interrupted => {
                Ending::interrupted(error, InterruptionCause::ConnectionLost)
            }
            Stop::Failed(error) => Ending::Failed { error },
        }
    }

    /// Commits the end: events, items, result, operation, lineage and lease in one transaction; then publishes.
    pub(crate) async fn finish(&mut self, mut batch: WriteBatch, mut events: Vec<Written>, ending: Ending) -> Result<(), UnifiedError> {
        let now = self.engine.clock.now();
        // Only what ended well can be gone on from: of a torn answer the provider knows more or less than the journal.
        let handles = std::mem::take(&mut self.handles);
        let (made, told) = match ending {
            Ending::Completed { .. } => handles.settle(&self.engine),
            _ => (Vec::new(), Vec::new()),
        };
        let mut drafts: Vec<_> = self.refused.iter().map(Refused::event).chain(told).collect();
        drafts.extend(terminal::drafts(ending, &self.scribe.fold, &self.operation.operation_id, now));
        events.extend(self.scribe.write_end(drafts, now)?);
        let checkpoints = self.checkpoint_changes(made, now).await?;
        let issued = self.issued_ids()?;
        if !issued.is_empty() {
            batch.push(WriteOp::PutIssuedIds(issued));
        }
        let mut ended = self.operation.clone();
        let request_id = Some(self.asker.request_id.clone());
        let mut batch = terminal::batch(
            batch,
            &mut ended,
            &self.scribe.fold,
            &events,
            self.lineage_rows(),
            request_id,
            &self.journal,
        )?;
        batch.ops.extend(checkpoints);
        terminal::commit(&self.engine, batch, &ended, &self.journal).await?;
        self.operation = ended;
        self.live.publish(events);
        Ok(())
    }

    /// The checkpoints that the end makes, and what becomes of those that stand at other heads.
    async fn checkpoint_changes(&self, made: Vec<checkpoints::Pending>, now: Timestamp) -> Result<Vec<WriteOp>, UnifiedError> {
        let operation = &self.operation;
        let result = self.scribe.fold.result();
        let before = operation.input_item_ids.last().or(operation.source_head_item_id.as_ref());
        let head = result.output.last().map(|item| &item.id).or(before);
        let (conversation, branch) = (&operation.conversation_id, self.journal.branch(operation));
        let mut changes = checkpoints::outdated(&self.engine, conversation, branch, head, &self.refused).await?;
        if let Some(head) = head {
            for pending in made {
                changes.extend(pending.at(&self.engine.vault, operation, branch, head, result.state.as_ref(), now)?);
            }
        }
        Ok(changes)
    }

    /// What this answer issued to the client: its call IDs and the private payloads that went with it.
    fn issued_ids(&self) -> Result<Vec<IssuedId>, UnifiedError> {
        let codec = self.asker.codec.as_ref();
        let items = self.scribe.fold.items();
        let calls = items
            .iter()
            .filter(|i| calls::is_call(i))
            .filter_map(|i| i.call_id().map(|call| (i, call)));
        let mut hashes: BTreeMap<Sha256, &UnifiedItem> = BTreeMap::new();
        for (item, call) in calls {
            hashes.insert(issued::of_call(&self.engine.vault, codec, call)?, item);
        }
        hashes.extend(self.issued_states.iter().filter_map(|hash| items.last().map(|item| (*hash, item))));
        let row = |(id_hash, item): (Sha256, &UnifiedItem)| IssuedId {
            principal_ref: self.operation.principal_ref.clone(),
            id_hash,
            conversation_id: self.operation.conversation_id.clone(),
            branch_id: self.journal.branch(&self.operation).clone(),
            item_id: item.id.clone(),
            created_at: self.engine.clock.now(),
        };
        Ok(hashes.into_iter().map(row).collect())
    }

    /// Evidence of what the client got: the answer as its own codec says it, decoded again by that codec; else as it is stored.
    fn lineage_rows(&self) -> Vec<LineageRow> {
        let result = self.scribe.fold.result();
        // A codec that panics here would leave an answer that is whole without its end.
        let as_delivered = std::panic::catch_unwind(AssertUnwindSafe(|| self.as_delivered(&result)))
            .ok()
            .flatten();
        terminal::evidence(
            &self.operation,
            self.journal.branch(&self.operation),
            self.link,
            as_delivered.as_deref().unwrap_or(&result.output),
            &result.output,
            self.engine.clock.now(),
        )
    }

    fn as_delivered(&self, result: &UnifiedResultV2) -> Option<Vec<UnifiedItem>> {
        let codec = self.asker.codec.as_ref();
        let encoded = codec.encode_response(result, &self.encode).ok()?;
        let context = DecodeContext {
            synthetic: self.engine.synthetic.clone(),
            ..DecodeContext::offline()
        };
        let decoded = codec.decode_response(encoded.body.as_bytes(), &context).ok()?;
        let mut offline = throughline_protocols::offline::OfflineFold::new();
        offline.push(decoded).ok()?;
        Some(offline.fold.items().to_vec())
    }
}
