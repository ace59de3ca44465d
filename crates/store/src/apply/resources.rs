//! Private resources, checkpoints, annotations, lineage and artifacts.

use throughline_format::resource::ResourceStatus;
use throughline_format::{UnifiedArtifact, UnifiedId, UnifiedPortableAnnotation, UnifiedProviderCheckpoint};

use super::Run;
use crate::records::{IssuedId, LineageRow, ResealedRecord, SealedResource, SessionKeyRow, StoredAnnotation};
use crate::sealing::{RecordKind, Sealed};
use crate::{StoreError, owner_fingerprint};

impl Run<'_> {
    pub(super) fn put_resource(&mut self, resource: &SealedResource) -> Result<bool, StoreError> {
        self.check_scope(&resource.conversation_id)?;
        if let Some(stored) = self.tables.resource(&resource.resource_id)? {
            let same = SealedResource {
                status: stored.status,
                ..resource.clone()
            } == stored;
            return if same {
                Ok(false)
            } else {
                Err(StoreError::duplicate("resource", &resource.resource_id))
            };
        }
        self.tables.insert_resource(resource)?;
        Ok(true)
    }

    pub(super) fn set_resource_status(&mut self, id: &UnifiedId, status: ResourceStatus) -> Result<bool, StoreError> {
        let stored = self.own_resource(id)?;
        if stored.status == status {
            return Ok(false);
        }
        check_change("resource", id, stored.status, status)?;
        self.tables.set_resource_status(id, status)?;
        Ok(true)
    }

    pub(super) fn put_checkpoint(&mut self, checkpoint: &UnifiedProviderCheckpoint) -> Result<bool, StoreError> {
        self.check_scope(&checkpoint.conversation_id)?;
        if let Some(stored) = self.tables.checkpoint(&checkpoint.checkpoint_id)? {
            let same = UnifiedProviderCheckpoint {
                status: stored.status,
                ..checkpoint.clone()
            } == stored;
            return if same {
                Ok(false)
            } else {
                Err(StoreError::duplicate("checkpoint", &checkpoint.checkpoint_id))
            };
        }
        let branch = self.own_branch(&checkpoint.branch_id)?;
        let head = self.own_item(&checkpoint.journal_head_item_id)?;
        if !self.is_on_path(&branch, &head)? {
            return Err(StoreError::invalid(
                "/journalHeadItemId",
                "the item does not stand on the path of the branch",
            ));
        }
        let sealed = Sealed::from_bytes(checkpoint.encrypted_payload.0.clone())?;
        let fingerprint = owner_fingerprint(&checkpoint.owner)?;
        self.tables.insert_checkpoint(checkpoint, &fingerprint, &sealed)?;
        self.tables.retire_checkpoints(&checkpoint.branch_id, self.limits.checkpoints)?;
        Ok(true)
    }

    pub(super) fn set_checkpoint_status(&mut self, id: &UnifiedId, status: ResourceStatus) -> Result<bool, StoreError> {
        let stored = self.own_checkpoint(id)?;
        if stored.status == status {
            return Ok(false);
        }
        check_change("checkpoint", id, stored.status, status)?;
        self.tables.set_checkpoint_status(id, status)?;
        Ok(true)
    }

    /// Puts the same content under another key. The digest of the old record guards against two rotations at once.
    pub(super) fn reseal(&mut self, resealed: &ResealedRecord) -> Result<bool, StoreError> {
        let id = &resealed.record_id;
        let current = match resealed.kind {
            RecordKind::Resource => self.own_resource(id)?.sealed,
            RecordKind::Checkpoint => Sealed::from_bytes(self.own_checkpoint(id)?.encrypted_payload.0)?,
            RecordKind::Diagnostic => return Err(StoreError::invalid("/kind", "a diagnostic record is no row of the store")),
        };
        if current == resealed.sealed {
            return Ok(false);
        }
        if current.digest() != resealed.replaces {
            return Err(StoreError::duplicate("sealed record", id));
        }
        self.tables.replace_sealed(resealed.kind, id, &resealed.sealed)?;
        Ok(true)
    }

    pub(super) fn put_annotation(
        &mut self,
        subject: Option<&UnifiedId>,
        annotation: &UnifiedPortableAnnotation,
    ) -> Result<bool, StoreError> {
        self.existing()?;
        let row = StoredAnnotation {
            subject: subject.cloned(),
            annotation: annotation.clone(),
        };
        if let Some((conversation_id, stored)) = self.tables.annotation(&annotation.resource_id)? {
            let same = conversation_id == self.batch.conversation_id && stored == row;
            return if same {
                Ok(false)
            } else {
                Err(StoreError::duplicate("annotation", &annotation.resource_id))
            };
        }
        self.tables.insert_annotation(&row)?;
        Ok(true)
    }

    pub(super) fn put_lineage(&mut self, rows: &[LineageRow]) -> Result<bool, StoreError> {
        for row in rows {
            self.check_index_row(&row.conversation_id, &row.principal_ref)?;
            self.tables.put_lineage(row)?;
        }
        Ok(true)
    }

    pub(super) fn put_issued_ids(&mut self, rows: &[IssuedId]) -> Result<bool, StoreError> {
        for row in rows {
            self.check_index_row(&row.conversation_id, &row.principal_ref)?;
            self.tables.put_issued_id(row)?;
        }
        Ok(true)
    }

    pub(super) fn put_session_keys(&mut self, rows: &[SessionKeyRow]) -> Result<bool, StoreError> {
        for row in rows {
            self.check_index_row(&row.conversation_id, &row.principal_ref)?;
            self.tables.put_session_key(row)?;
        }
        Ok(true)
    }

    /// A row of an index leads into this conversation, and only its own principal may find it.
    fn check_index_row(&self, conversation_id: &UnifiedId, principal_ref: &str) -> Result<(), StoreError> {
        self.check_scope(conversation_id)?;
        self.check_principal(principal_ref)
    }

    pub(super) fn put_artifact(&mut self, principal_ref: &str, artifact: &UnifiedArtifact) -> Result<bool, StoreError> {
        if let Some(stored) = self.tables.artifact(&artifact.artifact_id)? {
            // The same content may come again at another time.
            let same = UnifiedArtifact {
                created_at: stored.artifact.created_at,
                ..artifact.clone()
            };
            let same = stored.principal_ref == principal_ref && stored.artifact == same;
            return if same {
                Ok(false)
            } else {
                Err(StoreError::duplicate("artifact", &artifact.artifact_id))
            };
        }
        self.tables.insert_artifact(principal_ref, artifact)?;
        Ok(true)
    }

    pub(super) fn add_artifact_ref(&mut self, artifact_id: &UnifiedId, subject: &UnifiedId) -> Result<bool, StoreError> {
        let principal_ref = self.existing()?.principal_ref.clone();
        // Somebody else's artifact is as if absent: its existence must not leak.
        let stored = self
            .tables
            .artifact(artifact_id)?
            .filter(|stored| stored.principal_ref == principal_ref);
        if stored.is_none() {
            return Err(StoreError::not_found("artifact", artifact_id));
        }
        self.tables.put_artifact_ref(artifact_id, subject)
    }

    fn own_resource(&mut self, id: &UnifiedId) -> Result<SealedResource, StoreError> {
        self.existing()?;
        let resource = self.tables.resource(id)?;
        resource
            .filter(|resource| resource.conversation_id == self.batch.conversation_id)
            .ok_or_else(|| StoreError::not_found("resource", id))
    }

    fn own_checkpoint(&mut self, id: &UnifiedId) -> Result<UnifiedProviderCheckpoint, StoreError> {
        self.existing()?;
        let checkpoint = self.tables.checkpoint(id)?;
        checkpoint
            .filter(|checkpoint| checkpoint.conversation_id == self.batch.conversation_id)
            .ok_or_else(|| StoreError::not_found("checkpoint", id))
    }
}

/// State of a provider follows its table: what ended stays so.
fn check_change(kind: &str, id: &UnifiedId, from: ResourceStatus, to: ResourceStatus) -> Result<(), StoreError> {
    if from.may_become(to) {
        return Ok(());
    }
    Err(StoreError::invalid(
        "/status",
        format!("{kind} {id} is {from} and cannot become {to}"),
    ))
}
