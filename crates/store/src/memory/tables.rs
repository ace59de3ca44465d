//! The rows of a memory store inside one batch: the batch works on a copy of its conversation, which replaces the old one when
//! everything has succeeded.

use std::sync::Arc;

use bytes::Bytes;
use throughline_format::operation::SealedBytes;
use throughline_format::resource::ResourceStatus;
use throughline_format::{
    Sha256, Timestamp, UnifiedArtifact, UnifiedConversation, UnifiedId, UnifiedItem, UnifiedItemRevision, UnifiedLease, UnifiedOperation,
    UnifiedProviderCheckpoint, UnifiedResultV2,
};

use super::state::{Changes, Kind, Numbered, OperationEntry, Scope, Shared, State};
use crate::apply::{BranchRow, Tables};
use crate::records::{IssuedId, LineageRow, SealedResource, SessionKeyRow, StoredAnnotation, StoredArtifact};
use crate::{RecordKind, Sealed, StoreError};

pub(super) struct MemoryTables<'a> {
    state: &'a State,
    conversation_id: UnifiedId,
    scope: Option<Scope>,
    added: Vec<(Kind, UnifiedId)>,
    removed: Vec<(Kind, UnifiedId)>,
    shared: Arc<Shared>,
    next_number: u64,
}

impl<'a> MemoryTables<'a> {
    pub(super) fn new(state: &'a State, conversation_id: &UnifiedId) -> Self {
        Self {
            state,
            conversation_id: conversation_id.clone(),
            scope: state.scopes.get(conversation_id).map(|scope| scope.as_ref().clone()),
            added: Vec::new(),
            removed: Vec::new(),
            shared: state.shared.clone(),
            next_number: state.next_number,
        }
    }

    pub(super) fn into_changes(self) -> Changes {
        Changes {
            conversation_id: self.conversation_id,
            scope: self.scope,
            added: self.added,
            removed: self.removed,
            shared: self.shared,
            next_number: self.next_number,
        }
    }

    /// Looks in the conversation of the batch first, then where the index says.
    fn find<T>(&self, kind: Kind, id: &UnifiedId, pick: impl Fn(&Scope) -> Option<T>) -> Option<T> {
        if let Some(found) = self.scope.as_ref().and_then(&pick) {
            return Some(found);
        }
        let home = self.state.homes.get(&(kind, id.clone()))?;
        if *home == self.conversation_id {
            None
        } else {
            self.state.scopes.get(home).and_then(|scope| pick(scope))
        }
    }

    /// The conversation of the batch, for writing.
    fn own(&mut self) -> Result<&mut Scope, StoreError> {
        self.scope
            .as_mut()
            .ok_or_else(|| StoreError::internal("a row was written before its conversation"))
    }

    fn operation_entry(&mut self, id: &UnifiedId) -> Result<&mut OperationEntry, StoreError> {
        let entry = self
            .own()?
            .operations
            .get_mut(id)
            .ok_or_else(|| StoreError::internal("a row was written before its operation"))?;
        Ok(Arc::make_mut(&mut entry.row))
    }

    fn number<T>(&mut self, row: T) -> Numbered<T> {
        self.next_number += 1;
        Numbered {
            number: self.next_number,
            row,
        }
    }

    fn note(&mut self, kind: Kind, id: &UnifiedId) {
        self.added.push((kind, id.clone()));
    }
}

impl Tables for MemoryTables<'_> {
    fn conversation(&mut self) -> Result<Option<(UnifiedConversation, bool)>, StoreError> {
        Ok(self.scope.as_ref().map(|scope| (scope.conversation.clone(), scope.deleted)))
    }

    fn insert_conversation(&mut self, conversation: &UnifiedConversation) -> Result<(), StoreError> {
        self.scope = Some(Scope::new(conversation.clone()));
        Ok(())
    }

    fn set_last_updated_at(&mut self, time: Timestamp) -> Result<(), StoreError> {
        self.own()?.conversation.last_updated_at = time;
        Ok(())
    }

    fn mark_deleted(&mut self) -> Result<(), StoreError> {
        self.own()?.deleted = true;
        Ok(())
    }

    fn branch(&mut self, id: &UnifiedId) -> Result<Option<BranchRow>, StoreError> {
        Ok(self.find(Kind::Branch, id, |scope| scope.branches.get(id).map(|entry| entry.row.clone())))
    }

    fn branch_count(&mut self) -> Result<usize, StoreError> {
        Ok(self.own()?.branches.len())
    }

    fn insert_branch(&mut self, row: &BranchRow) -> Result<(), StoreError> {
        let id = row.branch.branch_id.clone();
        let row = self.number(row.clone());
        self.note(Kind::Branch, &id);
        self.own()?.branches.insert(id, row);
        Ok(())
    }

    fn set_branch_head(&mut self, branch_id: &UnifiedId, item_id: &UnifiedId, sequence: u64) -> Result<(), StoreError> {
        if let Some(entry) = self.own()?.branches.get_mut(branch_id) {
            entry.row.branch.head_item_id = Some(item_id.clone());
            entry.row.branch.head_sequence = sequence;
        }
        Ok(())
    }

    fn item(&mut self, id: &UnifiedId) -> Result<Option<UnifiedItem>, StoreError> {
        Ok(self.find(Kind::Item, id, |scope| scope.items.get(id).map(|item| item.as_ref().clone())))
    }

    fn insert_item(&mut self, item: &UnifiedItem, _text: &str) -> Result<bool, StoreError> {
        if self.item(&item.id)?.is_some() {
            return Ok(false);
        }
        self.note(Kind::Item, &item.id);
        let scope = self.own()?;
        scope.places.insert((item.branch_id.clone(), item.sequence), item.id.clone());
        scope.items.insert(item.id.clone(), Arc::new(item.clone()));
        Ok(true)
    }

    fn revision(&mut self, id: &UnifiedId) -> Result<Option<UnifiedItemRevision>, StoreError> {
        Ok(self.find(Kind::Revision, id, |scope| {
            scope.revision(id).map(|revision| revision.as_ref().clone())
        }))
    }

    fn revisions(&mut self, item_id: &UnifiedId) -> Result<Vec<UnifiedItemRevision>, StoreError> {
        let found = self.find(Kind::Item, item_id, |scope| scope.revisions.get(item_id).cloned());
        Ok(found.unwrap_or_default().iter().map(|revision| revision.as_ref().clone()).collect())
    }

    fn insert_revision(&mut self, revision: &UnifiedItemRevision) -> Result<(), StoreError> {
        self.note(Kind::Revision, &revision.revision_id);
        self.own()?
            .revisions
            .entry(revision.item_id.clone())
            .or_default()
            .push(Arc::new(revision.clone()));
        Ok(())
    }

    fn operation(&mut self, id: &UnifiedId) -> Result<Option<UnifiedOperation>, StoreError> {
        Ok(self.find(Kind::Operation, id, |scope| {
            scope.operations.get(id).map(|entry| entry.row.record.clone())
        }))
    }

    fn operation_by_key(&mut self, principal_ref: &str, key_hash: &Sha256) -> Result<Option<UnifiedOperation>, StoreError> {
        let own = self.scope.iter().filter(|scope| !scope.deleted);
        let others = self
            .state
            .all_live()
            .filter(|scope| scope.conversation.conversation_id != self.conversation_id);
        let mut operations = own.chain(others).flat_map(Scope::live_operations);
        let holder = operations.find(|entry| {
            let record = &entry.row.record;
            record.principal_ref == principal_ref && record.idempotency_key_hash.as_ref() == Some(key_hash)
        });
        Ok(holder.map(|entry| entry.row.record.clone()))
    }

    fn has_active_operation(&mut self) -> Result<bool, StoreError> {
        Ok(self.own()?.operations.values().any(|entry| !entry.row.record.state.is_terminal()))
    }

    fn insert_operation(&mut self, operation: &UnifiedOperation) -> Result<(), StoreError> {
        let entry = self.number(Arc::new(OperationEntry {
            record: operation.clone(),
            events: Vec::new(),
            result: None,
            deleted: false,
        }));
        self.note(Kind::Operation, &operation.operation_id);
        self.own()?.operations.insert(operation.operation_id.clone(), entry);
        Ok(())
    }

    fn update_operation(&mut self, operation: &UnifiedOperation) -> Result<(), StoreError> {
        self.operation_entry(&operation.operation_id)?.record = operation.clone();
        Ok(())
    }

    fn delete_operation(&mut self, id: &UnifiedId) -> Result<bool, StoreError> {
        let entry = self.operation_entry(id)?;
        entry.result = None;
        Ok(!std::mem::replace(&mut entry.deleted, true))
    }

    fn last_sequence(&mut self, operation_id: &UnifiedId) -> Result<u64, StoreError> {
        Ok(self.operation_entry(operation_id)?.events.len() as u64)
    }

    fn events(&mut self, operation_id: &UnifiedId, first: u64, last: u64) -> Result<Vec<Bytes>, StoreError> {
        let entry = self.operation_entry(operation_id)?;
        let numbered = (1u64..).zip(&entry.events);
        Ok(numbered
            .filter(|(sequence, _)| (first..=last).contains(sequence))
            .map(|(_, bytes)| bytes.clone())
            .collect())
    }

    fn insert_event(&mut self, operation_id: &UnifiedId, sequence: u64, bytes: &Bytes) -> Result<(), StoreError> {
        let entry = self.operation_entry(operation_id)?;
        entry.events.push(bytes.clone());
        entry.record.last_sequence = sequence;
        Ok(())
    }

    fn result(&mut self, operation_id: &UnifiedId) -> Result<Option<UnifiedResultV2>, StoreError> {
        Ok(self
            .operation_entry(operation_id)?
            .result
            .as_ref()
            .map(|result| result.as_ref().clone()))
    }

    fn insert_result(&mut self, operation_id: &UnifiedId, result: &UnifiedResultV2) -> Result<(), StoreError> {
        self.operation_entry(operation_id)?.result = Some(Arc::new(result.clone()));
        Ok(())
    }

    fn resource(&mut self, id: &UnifiedId) -> Result<Option<SealedResource>, StoreError> {
        Ok(self.find(Kind::Resource, id, |scope| scope.resources.get(id).map(|entry| entry.row.clone())))
    }

    fn insert_resource(&mut self, resource: &SealedResource) -> Result<(), StoreError> {
        let entry = self.number(resource.clone());
        self.note(Kind::Resource, &resource.resource_id);
        self.own()?.resources.insert(resource.resource_id.clone(), entry);
        Ok(())
    }

    fn set_resource_status(&mut self, id: &UnifiedId, status: ResourceStatus) -> Result<(), StoreError> {
        if let Some(entry) = self.own()?.resources.get_mut(id) {
            entry.row.status = status;
        }
        Ok(())
    }

    fn checkpoint(&mut self, id: &UnifiedId) -> Result<Option<UnifiedProviderCheckpoint>, StoreError> {
        Ok(self.find(Kind::Checkpoint, id, |scope| {
            scope.checkpoints.get(id).map(|entry| entry.row.clone())
        }))
    }

    fn insert_checkpoint(
        &mut self,
        checkpoint: &UnifiedProviderCheckpoint,
        _owner_fingerprint: &Sha256,
        _sealed: &Sealed,
    ) -> Result<(), StoreError> {
        let entry = self.number(checkpoint.clone());
        self.note(Kind::Checkpoint, &checkpoint.checkpoint_id);
        self.own()?.checkpoints.insert(checkpoint.checkpoint_id.clone(), entry);
        Ok(())
    }

    fn set_checkpoint_status(&mut self, id: &UnifiedId, status: ResourceStatus) -> Result<(), StoreError> {
        if let Some(entry) = self.own()?.checkpoints.get_mut(id) {
            entry.row.status = status;
        }
        Ok(())
    }

    fn retire_checkpoints(&mut self, branch_id: &UnifiedId, keep: usize) -> Result<(), StoreError> {
        let scope = self.own()?;
        let of_branch = scope.checkpoints.values().filter(|entry| entry.row.branch_id == *branch_id);
        let mut known: Vec<(bool, u64, UnifiedId)> = of_branch
            .map(|entry| {
                let is_active = entry.row.status == ResourceStatus::Active;
                (is_active, entry.number, entry.row.checkpoint_id.clone())
            })
            .collect();
        known.sort_unstable();
        let beyond = known.len().saturating_sub(keep);
        let mut retired = Vec::with_capacity(beyond);
        for (_, _, id) in known.into_iter().take(beyond) {
            scope.checkpoints.remove(&id);
            retired.push((Kind::Checkpoint, id));
        }
        self.removed.append(&mut retired);
        Ok(())
    }

    fn replace_sealed(&mut self, kind: RecordKind, id: &UnifiedId, sealed: &Sealed) -> Result<(), StoreError> {
        let scope = self.own()?;
        match kind {
            RecordKind::Resource => {
                if let Some(entry) = scope.resources.get_mut(id) {
                    entry.row.sealed = sealed.clone();
                }
            }
            RecordKind::Checkpoint => {
                if let Some(entry) = scope.checkpoints.get_mut(id) {
                    entry.row.encrypted_payload = SealedBytes(sealed.as_bytes().to_vec());
                }
            }
            // No row of a store; the rules refuse it before.
            RecordKind::Diagnostic => {}
        }
        Ok(())
    }

    fn annotation(&mut self, id: &UnifiedId) -> Result<Option<(UnifiedId, StoredAnnotation)>, StoreError> {
        let pick = |scope: &Scope| {
            scope
                .annotations
                .get(id)
                .map(|row| (scope.conversation.conversation_id.clone(), row.clone()))
        };
        Ok(self.find(Kind::Annotation, id, pick))
    }

    fn insert_annotation(&mut self, annotation: &StoredAnnotation) -> Result<(), StoreError> {
        let id = annotation.annotation.resource_id.clone();
        self.note(Kind::Annotation, &id);
        self.own()?.annotations.insert(id, annotation.clone());
        Ok(())
    }

    fn put_lineage(&mut self, row: &LineageRow) -> Result<(), StoreError> {
        let numbered = self.number(row.clone());
        let rows = &mut self.own()?.lineage;
        let is_same = |old: &LineageRow| {
            (&old.link, &old.branch_id, &old.item_id, old.ordinal, old.lineage_version)
                == (&row.link, &row.branch_id, &row.item_id, row.ordinal, row.lineage_version)
        };
        if !rows.iter().any(|old| is_same(&old.row)) {
            rows.push(numbered);
        }
        Ok(())
    }

    fn put_issued_id(&mut self, row: &IssuedId) -> Result<(), StoreError> {
        let numbered = self.number(row.clone());
        let rows = &mut self.own()?.issued_ids;
        if !rows
            .iter()
            .any(|old| (&old.row.id_hash, &old.row.item_id) == (&row.id_hash, &row.item_id))
        {
            rows.push(numbered);
        }
        Ok(())
    }

    fn put_session_key(&mut self, row: &SessionKeyRow) -> Result<(), StoreError> {
        let numbered = self.number(row.clone());
        let rows = &mut self.own()?.session_keys;
        if !rows
            .iter()
            .any(|old| (&old.row.key_hash, &old.row.operation_id) == (&row.key_hash, &row.operation_id))
        {
            rows.push(numbered);
        }
        Ok(())
    }

    fn artifact(&mut self, id: &UnifiedId) -> Result<Option<StoredArtifact>, StoreError> {
        Ok(self.shared.artifacts.get(id).cloned())
    }

    fn insert_artifact(&mut self, principal_ref: &str, artifact: &UnifiedArtifact) -> Result<(), StoreError> {
        let stored = StoredArtifact {
            principal_ref: principal_ref.to_owned(),
            artifact: artifact.clone(),
            references: 0,
        };
        Arc::make_mut(&mut self.shared)
            .artifacts
            .insert(artifact.artifact_id.clone(), stored);
        Ok(())
    }

    fn put_artifact_ref(&mut self, artifact_id: &UnifiedId, subject: &UnifiedId) -> Result<bool, StoreError> {
        let added = self.own()?.artifact_refs.insert((artifact_id.clone(), subject.clone()));
        let shared = Arc::make_mut(&mut self.shared);
        if let (true, Some(stored)) = (added, shared.artifacts.get_mut(artifact_id)) {
            stored.references += 1;
            shared.pending_gc.remove(&stored.artifact.sha256);
        }
        Ok(added)
    }

    fn put_pin(&mut self, sha256: &Sha256, owner: &UnifiedId, expires_at: Timestamp) -> Result<(), StoreError> {
        let shared = Arc::make_mut(&mut self.shared);
        shared.pins.insert((*sha256, owner.clone()), expires_at);
        shared.pending_gc.remove(sha256);
        Ok(())
    }

    fn delete_pin(&mut self, sha256: &Sha256, owner: &UnifiedId) -> Result<(), StoreError> {
        Arc::make_mut(&mut self.shared).pins.remove(&(*sha256, owner.clone()));
        Ok(())
    }

    fn lease(&mut self, id: &UnifiedId) -> Result<Option<UnifiedLease>, StoreError> {
        Ok(self.find(Kind::Lease, id, |scope| scope.leases.get(id).cloned()))
    }

    fn has_live_lease(&mut self, now: Timestamp) -> Result<bool, StoreError> {
        Ok(self.own()?.leases.values().any(|lease| lease.expires_at > now))
    }

    fn put_lease(&mut self, lease: &UnifiedLease) -> Result<(), StoreError> {
        self.note(Kind::Lease, &lease.lease_id);
        self.own()?.leases.insert(lease.lease_id.clone(), lease.clone());
        Ok(())
    }

    fn delete_lease(&mut self, id: &UnifiedId) -> Result<(), StoreError> {
        if self.own()?.leases.remove(id).is_some() {
            self.removed.push((Kind::Lease, id.clone()));
            self.added.retain(|(kind, added)| !(*kind == Kind::Lease && added == id));
        }
        Ok(())
    }
}
