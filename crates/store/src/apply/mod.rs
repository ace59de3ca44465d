//! The rules of a store, written once: what each [`WriteOp`] checks and changes.
//!
//! A store implements [`Tables`], plain reads and writes of rows inside one transaction, and calls [`apply_batch`]. It commits
//! when that gives a receipt, and rolls back when it gives an error. So the rules are the same in every store, and a new store
//! has only rows to think of.

mod check;
mod conversation;
mod journal;
mod operations;
mod path;
mod resources;

use std::collections::HashSet;

use bytes::Bytes;
use throughline_format::resource::ResourceStatus;
use throughline_format::{
    Sha256, Timestamp, UnifiedArtifact, UnifiedBranch, UnifiedConversation, UnifiedId, UnifiedItem, UnifiedItemRevision, UnifiedLease,
    UnifiedOperation, UnifiedProviderCheckpoint, UnifiedResultV2,
};

pub use check::{BatchCost, CheckedBatch, ItemTexts, check_artifact_size, check_batch};
pub use path::{Segment, segments};

use crate::batch::{CommitReceipt, WriteBatch, WriteOp};
use crate::records::{IssuedId, LineageRow, SealedResource, SessionKeyRow, StoredAnnotation, StoredArtifact};
use crate::{RecordKind, Sealed, StoreError, StoreLimits};

/// A branch and where it left its parent.
#[derive(Clone, Debug, PartialEq)]
pub struct BranchRow {
    /// The record.
    pub branch: UnifiedBranch,
    /// The sequence of the fork item, 0 for a root.
    pub fork_sequence: u64,
}

/// The rows of one conversation, and the IDs of all, inside one transaction.
///
/// Reads by ID look everywhere, since IDs are unique in the whole store; they see what the transaction wrote before.
/// Inserts are called only after a read has found the ID free; that of an item looks itself, since there are many.
pub trait Tables {
    /// The conversation of the batch, and whether it is marked as deleted.
    fn conversation(&mut self) -> Result<Option<(UnifiedConversation, bool)>, StoreError>;
    /// Adds it.
    fn insert_conversation(&mut self, conversation: &UnifiedConversation) -> Result<(), StoreError>;
    /// Moves the retention clock.
    fn set_last_updated_at(&mut self, time: Timestamp) -> Result<(), StoreError>;
    /// Marks it as deleted, which hides it from every read.
    fn mark_deleted(&mut self) -> Result<(), StoreError>;

    /// A branch.
    fn branch(&mut self, id: &UnifiedId) -> Result<Option<BranchRow>, StoreError>;
    /// How many branches the conversation has.
    fn branch_count(&mut self) -> Result<usize, StoreError>;
    /// Adds one.
    fn insert_branch(&mut self, row: &BranchRow) -> Result<(), StoreError>;
    /// Moves its head.
    fn set_branch_head(&mut self, branch_id: &UnifiedId, item_id: &UnifiedId, sequence: u64) -> Result<(), StoreError>;

    /// An item.
    fn item(&mut self, id: &UnifiedId) -> Result<Option<UnifiedItem>, StoreError>;
    /// Adds one, which is `text` as JSON, unless its ID is taken; whether it was free.
    fn insert_item(&mut self, item: &UnifiedItem, text: &str) -> Result<bool, StoreError>;
    /// A revision and the conversation that its item is in.
    fn revision(&mut self, id: &UnifiedId) -> Result<Option<UnifiedItemRevision>, StoreError>;
    /// The revisions of an item in order.
    fn revisions(&mut self, item_id: &UnifiedId) -> Result<Vec<UnifiedItemRevision>, StoreError>;
    /// Adds one.
    fn insert_revision(&mut self, revision: &UnifiedItemRevision) -> Result<(), StoreError>;

    /// An operation.
    fn operation(&mut self, id: &UnifiedId) -> Result<Option<UnifiedOperation>, StoreError>;
    /// The operation that holds an idempotency key.
    fn operation_by_key(&mut self, principal_ref: &str, key_hash: &Sha256) -> Result<Option<UnifiedOperation>, StoreError>;
    /// Whether an operation of the conversation has not ended.
    fn has_active_operation(&mut self) -> Result<bool, StoreError>;
    /// Adds one.
    fn insert_operation(&mut self, operation: &UnifiedOperation) -> Result<(), StoreError>;
    /// Hides it from every read, and drops its result; whether it was there to be seen.
    fn delete_operation(&mut self, id: &UnifiedId) -> Result<bool, StoreError>;
    /// Replaces the record.
    fn update_operation(&mut self, operation: &UnifiedOperation) -> Result<(), StoreError>;
    /// The number of the last event.
    fn last_sequence(&mut self, operation_id: &UnifiedId) -> Result<u64, StoreError>;
    /// Events `first ..= last`, all of which are there.
    fn events(&mut self, operation_id: &UnifiedId, first: u64, last: u64) -> Result<Vec<Bytes>, StoreError>;
    /// Adds one.
    fn insert_event(&mut self, operation_id: &UnifiedId, sequence: u64, bytes: &Bytes) -> Result<(), StoreError>;
    /// The result.
    fn result(&mut self, operation_id: &UnifiedId) -> Result<Option<UnifiedResultV2>, StoreError>;
    /// Adds it.
    fn insert_result(&mut self, operation_id: &UnifiedId, result: &UnifiedResultV2) -> Result<(), StoreError>;

    /// A private resource.
    fn resource(&mut self, id: &UnifiedId) -> Result<Option<SealedResource>, StoreError>;
    /// Adds one.
    fn insert_resource(&mut self, resource: &SealedResource) -> Result<(), StoreError>;
    /// Changes its status.
    fn set_resource_status(&mut self, id: &UnifiedId, status: ResourceStatus) -> Result<(), StoreError>;
    /// A checkpoint.
    fn checkpoint(&mut self, id: &UnifiedId) -> Result<Option<UnifiedProviderCheckpoint>, StoreError>;
    /// Adds one; its owner's fingerprint and sealed payload come along.
    fn insert_checkpoint(
        &mut self,
        checkpoint: &UnifiedProviderCheckpoint,
        owner_fingerprint: &Sha256,
        sealed: &Sealed,
    ) -> Result<(), StoreError>;
    /// Changes its status.
    fn set_checkpoint_status(&mut self, id: &UnifiedId, status: ResourceStatus) -> Result<(), StoreError>;
    /// Removes checkpoints of a branch beyond a number: those that are not active first, the oldest of them first.
    fn retire_checkpoints(&mut self, branch_id: &UnifiedId, keep: usize) -> Result<(), StoreError>;
    /// Replaces the sealed payload of a resource or checkpoint.
    fn replace_sealed(&mut self, kind: RecordKind, id: &UnifiedId, sealed: &Sealed) -> Result<(), StoreError>;
    /// An annotation and its conversation.
    fn annotation(&mut self, id: &UnifiedId) -> Result<Option<(UnifiedId, StoredAnnotation)>, StoreError>;
    /// Adds one.
    fn insert_annotation(&mut self, annotation: &StoredAnnotation) -> Result<(), StoreError>;

    /// Adds a link; an equal one is kept as it is.
    fn put_lineage(&mut self, row: &LineageRow) -> Result<(), StoreError>;
    /// Adds an issued id; an equal one is kept as it is.
    fn put_issued_id(&mut self, row: &IssuedId) -> Result<(), StoreError>;
    /// Adds a session key; an equal one is kept as it is.
    fn put_session_key(&mut self, row: &SessionKeyRow) -> Result<(), StoreError>;

    /// An artifact.
    fn artifact(&mut self, id: &UnifiedId) -> Result<Option<StoredArtifact>, StoreError>;
    /// Adds one without references.
    fn insert_artifact(&mut self, principal_ref: &str, artifact: &UnifiedArtifact) -> Result<(), StoreError>;
    /// Adds a reference from the conversation and takes the digest off the list for collection; whether it is new.
    fn put_artifact_ref(&mut self, artifact_id: &UnifiedId, subject: &UnifiedId) -> Result<bool, StoreError>;
    /// Adds or renews a pin and takes the digest off the list for collection.
    fn put_pin(&mut self, sha256: &Sha256, owner: &UnifiedId, expires_at: Timestamp) -> Result<(), StoreError>;
    /// Drops a pin.
    fn delete_pin(&mut self, sha256: &Sha256, owner: &UnifiedId) -> Result<(), StoreError>;

    /// A lease.
    fn lease(&mut self, id: &UnifiedId) -> Result<Option<UnifiedLease>, StoreError>;
    /// Whether a lease of the conversation is live.
    fn has_live_lease(&mut self, now: Timestamp) -> Result<bool, StoreError>;
    /// Adds or renews one.
    fn put_lease(&mut self, lease: &UnifiedLease) -> Result<(), StoreError>;
    /// Drops one of the conversation.
    fn delete_lease(&mut self, id: &UnifiedId) -> Result<(), StoreError>;
}

/// Applies a batch that was checked to the tables, in order. On an error the transaction must be rolled back.
pub fn apply_batch(
    tables: &mut dyn Tables,
    batch: &WriteBatch,
    checked: &CheckedBatch,
    limits: &StoreLimits,
) -> Result<CommitReceipt, StoreError> {
    let mut run = Run::begin(tables, batch, checked, limits)?;
    for op in &batch.ops {
        run.apply(op)?;
    }
    run.finish()
}

/// A batch on its way through the tables.
struct Run<'a> {
    tables: &'a mut dyn Tables,
    batch: &'a WriteBatch,
    texts: &'a ItemTexts,
    /// How many of them were appended.
    texts_taken: usize,
    limits: &'a StoreLimits,
    conversation: Option<UnifiedConversation>,
    /// A deleted conversation is absent for everything but creating it again.
    deleted: bool,
    created: bool,
    /// Operations that this batch ends; they still take the events and the result that come with the end.
    ended: HashSet<UnifiedId>,
    touched: bool,
    receipt: CommitReceipt,
}

impl<'a> Run<'a> {
    fn begin(
        tables: &'a mut dyn Tables,
        batch: &'a WriteBatch,
        checked: &'a CheckedBatch,
        limits: &'a StoreLimits,
    ) -> Result<Self, StoreError> {
        let (conversation, deleted) = match tables.conversation()? {
            Some((_, true)) => (None, true),
            Some((conversation, false)) => (Some(conversation), false),
            None => (None, false),
        };
        let receipt = CommitReceipt::default();
        Ok(Self {
            tables,
            batch,
            texts: &checked.items,
            texts_taken: 0,
            limits,
            conversation,
            deleted,
            created: false,
            ended: HashSet::new(),
            touched: false,
            receipt,
        })
    }

    fn apply(&mut self, op: &WriteOp) -> Result<(), StoreError> {
        let changed = match op {
            WriteOp::CreateConversation(conversation) => self.create_conversation(conversation),
            WriteOp::CreateBranch(branch) => self.create_branch(branch),
            WriteOp::AppendItems {
                branch_id,
                expected_head,
                items,
            } => self.append_items(branch_id, expected_head.as_ref(), items),
            WriteOp::AddRevision(revision) => self.add_revision(revision),
            WriteOp::PutOperation(operation) => self.put_operation(operation),
            WriteOp::UpdateOperation(operation) => self.update_operation(operation),
            WriteOp::AppendEvents {
                operation_id,
                first_sequence,
                events,
            } => self.append_events(operation_id, *first_sequence, events),
            WriteOp::PutResult { operation_id, result } => self.put_result(operation_id, result),
            WriteOp::DeleteOperation { operation_id } => self.delete_operation(operation_id),
            WriteOp::PutResource(resource) => self.put_resource(resource),
            WriteOp::SetResourceStatus { resource_id, status } => self.set_resource_status(resource_id, *status),
            WriteOp::PutCheckpoint(checkpoint) => self.put_checkpoint(checkpoint),
            WriteOp::SetCheckpointStatus { checkpoint_id, status } => self.set_checkpoint_status(checkpoint_id, *status),
            WriteOp::Reseal(resealed) => self.reseal(resealed),
            WriteOp::PutAnnotation { subject, annotation } => self.put_annotation(subject.as_ref(), annotation),
            WriteOp::PutLineage(rows) => self.put_lineage(rows),
            WriteOp::PutIssuedIds(rows) => self.put_issued_ids(rows),
            WriteOp::PutSessionKeys(rows) => self.put_session_keys(rows),
            WriteOp::PutArtifact { principal_ref, artifact } => self.put_artifact(principal_ref, artifact),
            WriteOp::AddArtifactRef { artifact_id, subject } => self.add_artifact_ref(artifact_id, subject),
            WriteOp::PinArtifact { sha256, owner, expires_at } => self.tables.put_pin(sha256, owner, *expires_at).map(|()| true),
            WriteOp::UnpinArtifact { sha256, owner } => self.tables.delete_pin(sha256, owner).map(|()| true),
            WriteOp::AcquireLease(lease) => self.acquire_lease(lease),
            WriteOp::ReleaseLease { lease_id } => self.release_lease(lease_id),
            WriteOp::DeleteConversation { only_if } => self.delete_conversation(*only_if),
        }?;
        // What was repeated has changed nothing, so it does not move the clock either.
        self.touched |= changed && op.touches();
        Ok(())
    }

    fn finish(mut self) -> Result<CommitReceipt, StoreError> {
        if self.created {
            self.check_default_branch()?;
        }
        if self.touched {
            let old = self.existing()?.last_updated_at;
            // The clock of the caller may go backwards; the conversation's never does.
            let time = self.batch.now.max(old);
            self.tables.set_last_updated_at(time)?;
            self.receipt.last_updated_at = Some(time);
        } else {
            self.receipt.last_updated_at = self.conversation.as_ref().map(|conversation| conversation.last_updated_at);
        }
        Ok(self.receipt)
    }

    /// The conversation of the batch, which must be there and not deleted.
    fn existing(&self) -> Result<&UnifiedConversation, StoreError> {
        self.conversation
            .as_ref()
            .ok_or_else(|| StoreError::not_found("conversation", &self.batch.conversation_id))
    }

    /// Refuses a record that names another conversation than the batch.
    fn check_scope(&self, conversation_id: &UnifiedId) -> Result<(), StoreError> {
        self.existing()?;
        if *conversation_id == self.batch.conversation_id {
            Ok(())
        } else {
            Err(StoreError::invalid(
                "/conversationId",
                "a batch changes one conversation; put the records of another into their own batch",
            ))
        }
    }

    /// A branch of this conversation. One of another conversation is as if absent.
    fn own_branch(&mut self, id: &UnifiedId) -> Result<BranchRow, StoreError> {
        self.existing()?;
        let row = self.tables.branch(id)?;
        row.filter(|row| row.branch.conversation_id == self.batch.conversation_id)
            .ok_or_else(|| StoreError::not_found("branch", id))
    }

    fn own_item(&mut self, id: &UnifiedId) -> Result<UnifiedItem, StoreError> {
        self.existing()?;
        let item = self.tables.item(id)?;
        item.filter(|item| item.conversation_id == self.batch.conversation_id)
            .ok_or_else(|| StoreError::not_found("item", id))
    }

    fn own_operation(&mut self, id: &UnifiedId) -> Result<UnifiedOperation, StoreError> {
        self.existing()?;
        let operation = self.tables.operation(id)?;
        operation
            .filter(|operation| operation.conversation_id == self.batch.conversation_id)
            .ok_or_else(|| StoreError::not_found("operation", id))
    }
}
