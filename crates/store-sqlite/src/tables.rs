//! [`SqliteTables`]: the rows that a batch reads and writes, inside the writer's transaction.

use bytes::Bytes;
use rusqlite::Connection;
use throughline_format::resource::ResourceStatus;
use throughline_format::{
    Sha256, Timestamp, UnifiedArtifact, UnifiedConversation, UnifiedId, UnifiedItem, UnifiedItemRevision, UnifiedLease, UnifiedOperation,
    UnifiedProviderCheckpoint, UnifiedResultV2,
};
use throughline_store::apply::{BranchRow, Tables};
use throughline_store::{
    IssuedId, LineageRow, RecordKind, Sealed, SealedResource, SessionKeyRow, StoreError, StoredAnnotation, StoredArtifact,
};

use crate::error::Result;
use crate::rows::{conversations, index, journal, operations, resources};

pub(crate) struct SqliteTables<'a> {
    connection: &'a Connection,
    conversation_id: &'a UnifiedId,
    /// The number of the conversation, once it is known.
    conversation: Option<i64>,
    /// The branch of the last item, with its number.
    branch: Option<(UnifiedId, i64)>,
}

impl<'a> SqliteTables<'a> {
    pub(crate) const fn new(connection: &'a Connection, conversation_id: &'a UnifiedId) -> Self {
        Self {
            connection,
            conversation_id,
            conversation: None,
            branch: None,
        }
    }

    fn own(&self) -> Result<i64> {
        self.conversation
            .ok_or_else(|| StoreError::internal("a row was written before its conversation"))
    }
}

impl Tables for SqliteTables<'_> {
    fn conversation(&mut self) -> Result<Option<(UnifiedConversation, bool)>> {
        let found = conversations::find(self.connection, self.conversation_id)?;
        self.conversation = found.as_ref().map(|(number, _, _)| *number);
        Ok(found.map(|(_, conversation, deleted)| (conversation, deleted)))
    }

    fn insert_conversation(&mut self, conversation: &UnifiedConversation) -> Result<()> {
        self.conversation = Some(conversations::insert(self.connection, conversation)?);
        Ok(())
    }

    fn set_last_updated_at(&mut self, time: Timestamp) -> Result<()> {
        conversations::set_last_updated_at(self.connection, self.own()?, time)
    }

    fn mark_deleted(&mut self) -> Result<()> {
        conversations::mark_deleted(self.connection, self.own()?)
    }

    fn branch(&mut self, id: &UnifiedId) -> Result<Option<BranchRow>> {
        conversations::find_branch(self.connection, id)
    }

    fn branch_count(&mut self) -> Result<usize> {
        conversations::branch_count(self.connection, self.own()?)
    }

    fn insert_branch(&mut self, row: &BranchRow) -> Result<()> {
        conversations::insert_branch(self.connection, self.own()?, row)
    }

    fn set_branch_head(&mut self, branch_id: &UnifiedId, item_id: &UnifiedId, sequence: u64) -> Result<()> {
        conversations::set_branch_head(self.connection, branch_id, item_id, sequence)
    }

    fn item(&mut self, id: &UnifiedId) -> Result<Option<UnifiedItem>> {
        journal::find_item(self.connection, id)
    }

    fn insert_item(&mut self, item: &UnifiedItem, text: &str) -> Result<bool> {
        let conversation = self.own()?;
        // Items come in runs of one branch.
        let branch = match &self.branch {
            Some((id, number)) if *id == item.branch_id => *number,
            _ => conversations::branch_number(self.connection, &item.branch_id)?,
        };
        self.branch = Some((item.branch_id.clone(), branch));
        journal::insert_item(self.connection, conversation, branch, item, text)
    }

    fn revision(&mut self, id: &UnifiedId) -> Result<Option<UnifiedItemRevision>> {
        journal::find_revision(self.connection, id)
    }

    fn revisions(&mut self, item_id: &UnifiedId) -> Result<Vec<UnifiedItemRevision>> {
        journal::revisions(self.connection, item_id)
    }

    fn insert_revision(&mut self, revision: &UnifiedItemRevision) -> Result<()> {
        journal::insert_revision(self.connection, self.own()?, revision)
    }

    fn operation(&mut self, id: &UnifiedId) -> Result<Option<UnifiedOperation>> {
        operations::find(self.connection, id)
    }

    fn operation_by_key(&mut self, principal_ref: &str, key_hash: &Sha256) -> Result<Option<UnifiedOperation>> {
        operations::live_by_key(self.connection, principal_ref, key_hash)
    }

    fn has_active_operation(&mut self) -> Result<bool> {
        operations::has_active(self.connection, self.own()?)
    }

    fn insert_operation(&mut self, operation: &UnifiedOperation) -> Result<()> {
        operations::insert(self.connection, self.own()?, operation)
    }

    fn delete_operation(&mut self, id: &UnifiedId) -> Result<bool> {
        operations::delete(self.connection, id)
    }

    fn update_operation(&mut self, operation: &UnifiedOperation) -> Result<()> {
        operations::update(self.connection, operation)
    }

    fn last_sequence(&mut self, operation_id: &UnifiedId) -> Result<u64> {
        operations::find_last_sequence(self.connection, operation_id)
    }

    fn events(&mut self, operation_id: &UnifiedId, first: u64, last: u64) -> Result<Vec<Bytes>> {
        operations::events(self.connection, operation_id, first, last)
    }

    fn insert_event(&mut self, operation_id: &UnifiedId, sequence: u64, bytes: &Bytes) -> Result<()> {
        operations::insert_event(self.connection, operation_id, sequence, bytes)
    }

    fn result(&mut self, operation_id: &UnifiedId) -> Result<Option<UnifiedResultV2>> {
        operations::find_result(self.connection, operation_id)
    }

    fn insert_result(&mut self, operation_id: &UnifiedId, result: &UnifiedResultV2) -> Result<()> {
        operations::insert_result(self.connection, operation_id, result)
    }

    fn resource(&mut self, id: &UnifiedId) -> Result<Option<SealedResource>> {
        resources::find(self.connection, id)
    }

    fn insert_resource(&mut self, resource: &SealedResource) -> Result<()> {
        resources::insert(self.connection, self.own()?, resource)
    }

    fn set_resource_status(&mut self, id: &UnifiedId, status: ResourceStatus) -> Result<()> {
        resources::set_status(self.connection, id, status)
    }

    fn checkpoint(&mut self, id: &UnifiedId) -> Result<Option<UnifiedProviderCheckpoint>> {
        resources::find_checkpoint(self.connection, id)
    }

    fn insert_checkpoint(&mut self, checkpoint: &UnifiedProviderCheckpoint, owner_fingerprint: &Sha256, sealed: &Sealed) -> Result<()> {
        resources::insert_checkpoint(self.connection, self.own()?, checkpoint, owner_fingerprint, sealed)
    }

    fn retire_checkpoints(&mut self, branch_id: &UnifiedId, keep: usize) -> Result<()> {
        resources::retire_checkpoints(self.connection, self.own()?, branch_id, keep)
    }

    fn set_checkpoint_status(&mut self, id: &UnifiedId, status: ResourceStatus) -> Result<()> {
        resources::set_checkpoint_status(self.connection, id, status)
    }

    fn replace_sealed(&mut self, kind: RecordKind, id: &UnifiedId, sealed: &Sealed) -> Result<()> {
        resources::replace_sealed(self.connection, kind, id, sealed)
    }

    fn annotation(&mut self, id: &UnifiedId) -> Result<Option<(UnifiedId, StoredAnnotation)>> {
        journal::find_annotation(self.connection, id)
    }

    fn insert_annotation(&mut self, annotation: &StoredAnnotation) -> Result<()> {
        journal::insert_annotation(self.connection, self.own()?, annotation)
    }

    fn put_lineage(&mut self, row: &LineageRow) -> Result<()> {
        index::put_lineage(self.connection, self.own()?, row)
    }

    fn put_issued_id(&mut self, row: &IssuedId) -> Result<()> {
        index::put_issued_id(self.connection, self.own()?, row)
    }

    fn put_session_key(&mut self, row: &SessionKeyRow) -> Result<()> {
        index::put_session_key(self.connection, self.own()?, row)
    }

    fn artifact(&mut self, id: &UnifiedId) -> Result<Option<StoredArtifact>> {
        resources::find_artifact(self.connection, id)
    }

    fn insert_artifact(&mut self, principal_ref: &str, artifact: &UnifiedArtifact) -> Result<()> {
        resources::insert_artifact(self.connection, principal_ref, artifact)
    }

    fn put_artifact_ref(&mut self, artifact_id: &UnifiedId, subject: &UnifiedId) -> Result<bool> {
        resources::put_artifact_ref(self.connection, self.own()?, artifact_id, subject)
    }

    fn put_pin(&mut self, sha256: &Sha256, owner: &UnifiedId, expires_at: Timestamp) -> Result<()> {
        resources::put_pin(self.connection, sha256, owner, expires_at)
    }

    fn delete_pin(&mut self, sha256: &Sha256, owner: &UnifiedId) -> Result<()> {
        resources::delete_pin(self.connection, sha256, owner)
    }

    fn lease(&mut self, id: &UnifiedId) -> Result<Option<UnifiedLease>> {
        conversations::find_lease(self.connection, id)
    }

    fn has_live_lease(&mut self, now: Timestamp) -> Result<bool> {
        conversations::has_live_lease(self.connection, self.own()?, now)
    }

    fn put_lease(&mut self, lease: &UnifiedLease) -> Result<()> {
        conversations::put_lease(self.connection, self.own()?, lease)
    }

    fn delete_lease(&mut self, id: &UnifiedId) -> Result<()> {
        conversations::delete_lease(self.connection, self.own()?, id)
    }
}
