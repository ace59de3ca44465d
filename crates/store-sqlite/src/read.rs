//! The read traits: each call is one read transaction on one of the readers.

use bytes::Bytes;
use rusqlite::Connection;
use throughline_format::{
    Sha256, Timestamp, UnifiedArtifact, UnifiedBranch, UnifiedConversation, UnifiedId, UnifiedItem, UnifiedItemRevision, UnifiedLease,
    UnifiedOperation, UnifiedProviderCheckpoint, UnifiedResultV2,
};
use throughline_store::{
    ArtifactFiles, ConversationFilter, ConversationReader, EventRange, EventReader, IssuedId, ItemPage, JournalReader, LineageReader,
    LineageRow, OperationFilter, OperationReader, ResourceHead, ResourceReader, SealedPlace, SealedRecord, SealedResource, SessionKeyRow,
    StoreFuture, StoredAnnotation, StoredArtifact, StoredEvent, inline,
};

use crate::error::Result;
use crate::rows::{conversations, index, journal, operations, resources};
use crate::{SqliteReader, SqliteStore};

/// Puts externalised data back into items.
fn join<'a>(connection: &Connection, files: &ArtifactFiles, items: impl IntoIterator<Item = &'a mut UnifiedItem>) -> Result<()> {
    inline::join_items(items, files, &mut |id| {
        Ok(resources::find_artifact(connection, id)?.map(|stored| stored.artifact))
    })
}

fn join_revisions(connection: &Connection, files: &ArtifactFiles, revisions: &mut [UnifiedItemRevision]) -> Result<()> {
    for revision in revisions {
        inline::join_parts(revision.change.parts.as_mut(), files, &mut |id| {
            Ok(resources::find_artifact(connection, id)?.map(|stored| stored.artifact))
        })?;
    }
    Ok(())
}

/// Puts externalised data back into events. What comes out may be longer, so a page may end earlier.
fn join_events(connection: &Connection, files: &ArtifactFiles, found: Vec<StoredEvent>, max_bytes: usize) -> Result<Vec<StoredEvent>> {
    let mut events: Vec<StoredEvent> = Vec::with_capacity(found.len());
    let mut budget = max_bytes;
    for StoredEvent { sequence, bytes } in found {
        let bytes = inline::join_event(bytes, files, &mut |id| {
            Ok(resources::find_artifact(connection, id)?.map(|stored| stored.artifact))
        })?;
        if bytes.len() > budget && !events.is_empty() {
            break;
        }
        budget = budget.saturating_sub(bytes.len());
        events.push(StoredEvent { sequence, bytes });
    }
    Ok(events)
}

/// The same reads for the store and for those who only read. Both have `read` and `artifacts`.
macro_rules! reads {
    ($store:ty) => {
        impl ConversationReader for $store {
            fn conversation<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedConversation>> {
                let id = id.clone();
                self.read(move |connection| conversations::live(connection, &id))
            }

            fn conversations(&self, filter: ConversationFilter) -> StoreFuture<'_, Vec<UnifiedConversation>> {
                self.read(move |connection| conversations::live_list(connection, &filter))
            }

            fn branch<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedBranch>> {
                let id = id.clone();
                self.read(move |connection| Ok(conversations::live_branch(connection, &id)?.map(|row| row.branch)))
            }

            fn branches<'a>(&'a self, conversation_id: &'a UnifiedId) -> StoreFuture<'a, Vec<UnifiedBranch>> {
                let id = conversation_id.clone();
                self.read(move |connection| {
                    Ok(conversations::live_branches(connection, &id)?
                        .into_iter()
                        .map(|row| row.branch)
                        .collect())
                })
            }

            fn leases<'a>(&'a self, conversation_id: &'a UnifiedId) -> StoreFuture<'a, Vec<UnifiedLease>> {
                let id = conversation_id.clone();
                self.read(move |connection| conversations::live_leases(connection, &id))
            }

            fn expired_conversations(&self, not_updated_since: Timestamp, now: Timestamp, limit: usize) -> StoreFuture<'_, Vec<UnifiedId>> {
                self.read(move |connection| conversations::expired(connection, not_updated_since, now, limit))
            }
        }

        impl JournalReader for $store {
            fn item<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedItem>> {
                let id = id.clone();
                let files = self.artifacts();
                self.read(move |connection| {
                    let mut item = journal::live_item(connection, &id)?;
                    join(connection, &files, item.iter_mut())?;
                    Ok(item)
                })
            }

            fn branch_items<'a>(&'a self, branch_id: &'a UnifiedId, page: ItemPage) -> StoreFuture<'a, Vec<UnifiedItem>> {
                let id = branch_id.clone();
                let files = self.artifacts();
                self.read(move |connection| {
                    let mut items = journal::live_branch_items(connection, &id, &page)?;
                    join(connection, &files, &mut items)?;
                    Ok(items)
                })
            }

            fn revisions<'a>(&'a self, item_id: &'a UnifiedId) -> StoreFuture<'a, Vec<UnifiedItemRevision>> {
                let id = item_id.clone();
                let files = self.artifacts();
                self.read(move |connection| {
                    let mut revisions = journal::live_revisions(connection, &id)?;
                    join_revisions(connection, &files, &mut revisions)?;
                    Ok(revisions)
                })
            }

            fn branch_revisions<'a>(&'a self, branch_id: &'a UnifiedId) -> StoreFuture<'a, Vec<UnifiedItemRevision>> {
                let id = branch_id.clone();
                let files = self.artifacts();
                self.read(move |connection| {
                    let mut revisions = journal::live_branch_revisions(connection, &id)?;
                    join_revisions(connection, &files, &mut revisions)?;
                    Ok(revisions)
                })
            }

            fn annotations<'a>(&'a self, conversation_id: &'a UnifiedId) -> StoreFuture<'a, Vec<StoredAnnotation>> {
                let id = conversation_id.clone();
                self.read(move |connection| journal::live_annotations(connection, &id))
            }
        }

        impl OperationReader for $store {
            fn operation<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedOperation>> {
                let id = id.clone();
                self.read(move |connection| operations::live(connection, &id))
            }

            fn operations(&self, filter: OperationFilter) -> StoreFuture<'_, Vec<UnifiedOperation>> {
                self.read(move |connection| operations::live_list(connection, &filter))
            }

            fn operation_by_idempotency_key<'a>(
                &'a self,
                principal_ref: &'a str,
                key_hash: &'a Sha256,
            ) -> StoreFuture<'a, Option<UnifiedOperation>> {
                let (principal_ref, key_hash) = (principal_ref.to_owned(), *key_hash);
                self.read(move |connection| operations::live_by_key(connection, &principal_ref, &key_hash))
            }

            fn result<'a>(&'a self, operation_id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedResultV2>> {
                let id = operation_id.clone();
                let files = self.artifacts();
                self.read(move |connection| {
                    let mut result = operations::live_result(connection, &id)?;
                    join(connection, &files, result.iter_mut().flat_map(|result| &mut result.output))?;
                    Ok(result)
                })
            }
        }

        impl EventReader for $store {
            fn events_after<'a>(&'a self, operation_id: &'a UnifiedId, range: EventRange) -> StoreFuture<'a, Vec<StoredEvent>> {
                let id = operation_id.clone();
                let files = self.artifacts();
                self.read(move |connection| {
                    let found = operations::live_events(connection, &id, range)?;
                    join_events(connection, &files, found, range.max_bytes)
                })
            }

            fn last_sequence<'a>(&'a self, operation_id: &'a UnifiedId) -> StoreFuture<'a, u64> {
                let id = operation_id.clone();
                self.read(move |connection| operations::live_last_sequence(connection, &id))
            }
        }

        impl ResourceReader for $store {
            fn resource<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<SealedResource>> {
                let id = id.clone();
                self.read(move |connection| resources::live(connection, &id))
            }

            fn resources<'a>(
                &'a self,
                conversation_id: &'a UnifiedId,
                owner_fingerprint: Option<&'a Sha256>,
            ) -> StoreFuture<'a, Vec<SealedResource>> {
                let (id, owner) = (conversation_id.clone(), owner_fingerprint.copied());
                self.read(move |connection| resources::live_list(connection, &id, owner.as_ref()))
            }

            fn resource_heads<'a>(
                &'a self,
                conversation_id: &'a UnifiedId,
                after: u64,
                limit: usize,
            ) -> StoreFuture<'a, Vec<ResourceHead>> {
                let id = conversation_id.clone();
                self.read(move |connection| resources::live_heads(connection, &id, after, limit))
            }

            fn resources_by_id<'a>(&'a self, ids: &'a [UnifiedId]) -> StoreFuture<'a, Vec<SealedResource>> {
                let ids = ids.to_vec();
                self.read(move |connection| resources::live_by_id(connection, &ids))
            }

            fn resources_by_payload_hash<'a>(
                &'a self,
                principal_ref: &'a str,
                hashes: &'a [Sha256],
            ) -> StoreFuture<'a, Vec<SealedResource>> {
                let (principal_ref, hashes) = (principal_ref.to_owned(), hashes.to_vec());
                self.read(move |connection| resources::live_by_payload_hash(connection, &principal_ref, &hashes))
            }

            fn checkpoint<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedProviderCheckpoint>> {
                let id = id.clone();
                self.read(move |connection| resources::live_checkpoint(connection, &id))
            }

            fn checkpoints<'a>(
                &'a self,
                conversation_id: &'a UnifiedId,
                branch_id: Option<&'a UnifiedId>,
            ) -> StoreFuture<'a, Vec<UnifiedProviderCheckpoint>> {
                let (id, branch_id) = (conversation_id.clone(), branch_id.cloned());
                self.read(move |connection| resources::live_checkpoints(connection, &id, branch_id.as_ref()))
            }

            fn sealed_under_other_keys(
                &self,
                current_key_version: u32,
                after: Option<SealedPlace>,
                limit: usize,
            ) -> StoreFuture<'_, Vec<SealedRecord>> {
                self.read(move |connection| resources::live_under_other_keys(connection, current_key_version, after, limit))
            }

            fn artifact<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<StoredArtifact>> {
                let id = id.clone();
                self.read(move |connection| resources::find_artifact(connection, &id))
            }

            fn artifact_by_digest<'a>(&'a self, principal_ref: &'a str, sha256: &'a Sha256) -> StoreFuture<'a, Option<StoredArtifact>> {
                let (principal_ref, sha256) = (principal_ref.to_owned(), *sha256);
                self.read(move |connection| resources::find_artifact_by_digest(connection, &principal_ref, &sha256))
            }

            fn artifact_content<'a>(&'a self, artifact: &'a UnifiedArtifact) -> StoreFuture<'a, Bytes> {
                let (files, sha256, size) = (self.artifacts(), artifact.sha256, artifact.size);
                self.read(move |_| files.get(&sha256, size).map(Bytes::from))
            }
        }

        impl LineageReader for $store {
            fn lineage<'a>(&'a self, principal_ref: &'a str, links: &'a [Sha256]) -> StoreFuture<'a, Vec<LineageRow>> {
                let (principal_ref, links) = (principal_ref.to_owned(), links.to_vec());
                self.read(move |connection| index::live_lineage(connection, &principal_ref, &links))
            }

            fn issued_ids<'a>(&'a self, principal_ref: &'a str, id_hashes: &'a [Sha256]) -> StoreFuture<'a, Vec<IssuedId>> {
                let (principal_ref, id_hashes) = (principal_ref.to_owned(), id_hashes.to_vec());
                self.read(move |connection| index::live_issued_ids(connection, &principal_ref, &id_hashes))
            }

            fn session_keys<'a>(&'a self, principal_ref: &'a str, key_hash: &'a Sha256) -> StoreFuture<'a, Vec<SessionKeyRow>> {
                let (principal_ref, key_hash) = (principal_ref.to_owned(), *key_hash);
                self.read(move |connection| index::live_session_keys(connection, &principal_ref, &key_hash))
            }
        }
    };
}

reads!(SqliteStore);
reads!(SqliteReader);
