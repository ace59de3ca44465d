//! Reads of a memory store.

use bytes::Bytes;
use throughline_format::{
    Sha256, Timestamp, UnifiedArtifact, UnifiedBranch, UnifiedConversation, UnifiedId, UnifiedItem, UnifiedItemRevision, UnifiedLease,
    UnifiedOperation, UnifiedProviderCheckpoint, UnifiedResultV2,
};

use super::MemoryStore;
use super::state::{Kind, Numbered, Scope, State};
use crate::apply::segments;
use crate::records::{
    ConversationFilter, EventRange, IssuedId, ItemPage, LineageRow, OperationFilter, Order, ResourceHead, SealedPlace, SealedRecord,
    SealedResource, SessionKeyRow, StoredAnnotation, StoredArtifact, StoredEvent,
};
use crate::traits::{ConversationReader, EventReader, JournalReader, LineageReader, OperationReader, ResourceReader, StoreFuture};
use crate::{MAX_LOOKUP, MAX_PAGE, SealContext, Sealed, StoreError, owner_fingerprint};

impl MemoryStore {
    /// Runs a read when the future is polled.
    fn read<'a, T: Send + 'a>(&'a self, read: impl FnOnce(&State) -> Result<T, StoreError> + Send + 'a) -> StoreFuture<'a, T> {
        Box::pin(async move { read(&*self.lock()?) })
    }
}

impl ConversationReader for MemoryStore {
    fn conversation<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedConversation>> {
        self.read(|state| Ok(state.live(id).map(|scope| scope.conversation.clone())))
    }

    fn conversations(&self, filter: ConversationFilter) -> StoreFuture<'_, Vec<UnifiedConversation>> {
        self.read(move |state| {
            let key = |conversation: &UnifiedConversation| (conversation.last_updated_at, conversation.conversation_id.clone());
            let after = match &filter.after {
                Some(after) => Some(
                    state
                        .live(after)
                        .map(|scope| key(&scope.conversation))
                        .ok_or_else(|| StoreError::not_found("conversation", after))?,
                ),
                None => None,
            };
            let mut found: Vec<UnifiedConversation> = state
                .all_live()
                .map(|scope| &scope.conversation)
                .filter(|conversation| {
                    filter
                        .principal_ref
                        .as_ref()
                        .is_none_or(|principal| *principal == conversation.principal_ref)
                })
                .filter(|conversation| filter.updated_since.is_none_or(|since| conversation.last_updated_at >= since))
                .filter(|conversation| after.as_ref().is_none_or(|after| key(conversation) < *after))
                .cloned()
                .collect();
            found.sort_by_key(|conversation| std::cmp::Reverse(key(conversation)));
            found.truncate(filter.limit.min(MAX_PAGE));
            Ok(found)
        })
    }

    fn branch<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedBranch>> {
        self.read(|state| {
            Ok(state
                .home(Kind::Branch, id)
                .and_then(|scope| scope.branches.get(id))
                .map(|entry| entry.row.branch.clone()))
        })
    }

    fn branches<'a>(&'a self, conversation_id: &'a UnifiedId) -> StoreFuture<'a, Vec<UnifiedBranch>> {
        self.read(|state| {
            let branches = state
                .live(conversation_id)
                .map(|scope| in_order(scope.branches.values().cloned().collect()));
            Ok(branches.unwrap_or_default().into_iter().map(|row| row.branch).collect())
        })
    }

    fn leases<'a>(&'a self, conversation_id: &'a UnifiedId) -> StoreFuture<'a, Vec<UnifiedLease>> {
        self.read(|state| {
            Ok(state
                .live(conversation_id)
                .map(|scope| scope.leases.values().cloned().collect())
                .unwrap_or_default())
        })
    }

    fn expired_conversations(&self, not_updated_since: Timestamp, now: Timestamp, limit: usize) -> StoreFuture<'_, Vec<UnifiedId>> {
        self.read(move |state| {
            let mut found: Vec<&UnifiedConversation> = state
                .all_live()
                .filter(|scope| scope.conversation.last_updated_at <= not_updated_since && !scope.is_held(now))
                .map(|scope| &scope.conversation)
                .collect();
            found.sort_by_key(|conversation| (conversation.last_updated_at, conversation.conversation_id.clone()));
            Ok(found
                .into_iter()
                .take(limit.min(MAX_PAGE))
                .map(|conversation| conversation.conversation_id.clone())
                .collect())
        })
    }
}

impl JournalReader for MemoryStore {
    fn item<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedItem>> {
        self.read(|state| {
            Ok(state
                .home(Kind::Item, id)
                .and_then(|scope| scope.items.get(id))
                .map(|item| item.as_ref().clone()))
        })
    }

    fn branch_items<'a>(&'a self, branch_id: &'a UnifiedId, page: ItemPage) -> StoreFuture<'a, Vec<UnifiedItem>> {
        self.read(move |state| {
            let (scope, path) = path(state, branch_id)?;
            let mut items: Vec<&UnifiedId> = path
                .into_iter()
                .filter(|(sequence, _)| *sequence > page.after_sequence && page.through_sequence.is_none_or(|through| *sequence <= through))
                .map(|(_, id)| id)
                .collect();
            if page.order == Order::Descending {
                items.reverse();
            }
            let items = items.into_iter().take(page.limit.min(MAX_PAGE));
            Ok(items
                .filter_map(|id| scope.items.get(id))
                .map(|item| item.as_ref().clone())
                .collect())
        })
    }

    fn revisions<'a>(&'a self, item_id: &'a UnifiedId) -> StoreFuture<'a, Vec<UnifiedItemRevision>> {
        self.read(|state| {
            Ok(state
                .home(Kind::Item, item_id)
                .map(|scope| revisions(scope, item_id).collect())
                .unwrap_or_default())
        })
    }

    fn branch_revisions<'a>(&'a self, branch_id: &'a UnifiedId) -> StoreFuture<'a, Vec<UnifiedItemRevision>> {
        self.read(|state| {
            let (scope, path) = path(state, branch_id)?;
            Ok(path.into_iter().flat_map(|(_, id)| revisions(scope, id)).collect())
        })
    }

    fn annotations<'a>(&'a self, conversation_id: &'a UnifiedId) -> StoreFuture<'a, Vec<StoredAnnotation>> {
        self.read(|state| {
            Ok(state
                .live(conversation_id)
                .map(|scope| scope.annotations.values().cloned().collect())
                .unwrap_or_default())
        })
    }
}

impl OperationReader for MemoryStore {
    fn operation<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedOperation>> {
        self.read(|state| Ok(state.live_operation(id).map(|entry| entry.row.record.clone())))
    }

    fn operations(&self, filter: OperationFilter) -> StoreFuture<'_, Vec<UnifiedOperation>> {
        self.read(move |state| {
            let after = match &filter.after {
                Some(after) => {
                    let entry = state.live_operation(after);
                    entry.ok_or_else(|| StoreError::not_found("operation", after))?.number
                }
                None => 0,
            };
            let scopes = state.all_live().filter(|scope| {
                filter
                    .conversation_id
                    .as_ref()
                    .is_none_or(|id| *id == scope.conversation.conversation_id)
            });
            let found = scopes
                .flat_map(|scope| scope.operations.values())
                .filter(|entry| entry.number > after && entry.row.deleted == filter.deleted)
                .filter(|entry| {
                    filter
                        .principal_ref
                        .as_ref()
                        .is_none_or(|principal| *principal == entry.row.record.principal_ref)
                })
                .filter(|entry| {
                    filter
                        .branch_id
                        .as_ref()
                        .is_none_or(|branch| *branch == entry.row.record.source_branch_id)
                })
                .filter(|entry| filter.states.is_empty() || filter.states.contains(&entry.row.record.state))
                .cloned()
                .collect();
            Ok(in_order(found)
                .into_iter()
                .take(filter.limit.min(MAX_PAGE))
                .map(|entry| entry.record.clone())
                .collect())
        })
    }

    fn operation_by_idempotency_key<'a>(
        &'a self,
        principal_ref: &'a str,
        key_hash: &'a Sha256,
    ) -> StoreFuture<'a, Option<UnifiedOperation>> {
        self.read(move |state| {
            let mut operations = state.all_live().flat_map(Scope::live_operations).map(|entry| &entry.row.record);
            Ok(operations
                .find(|record| record.principal_ref == principal_ref && record.idempotency_key_hash.as_ref() == Some(key_hash))
                .cloned())
        })
    }

    fn result<'a>(&'a self, operation_id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedResultV2>> {
        self.read(|state| {
            Ok(state
                .live_operation(operation_id)
                .and_then(|entry| entry.row.result.as_ref())
                .map(|result| result.as_ref().clone()))
        })
    }
}

impl EventReader for MemoryStore {
    fn events_after<'a>(&'a self, operation_id: &'a UnifiedId, range: EventRange) -> StoreFuture<'a, Vec<StoredEvent>> {
        self.read(move |state| {
            let entry = state.live_operation(operation_id);
            let entry = entry.ok_or_else(|| StoreError::not_found("operation", operation_id))?;
            let skipped = usize::try_from(range.after).unwrap_or(usize::MAX);
            let numbered = (range.after.saturating_add(1)..=range.through).zip(entry.row.events.iter().skip(skipped));
            let mut budget = range.max_bytes;
            let mut events = Vec::new();
            for (sequence, bytes) in numbered.take(range.max_events.min(MAX_PAGE)) {
                if bytes.len() > budget && !events.is_empty() {
                    break;
                }
                budget = budget.saturating_sub(bytes.len());
                events.push(StoredEvent {
                    sequence,
                    bytes: bytes.clone(),
                });
            }
            Ok(events)
        })
    }

    fn last_sequence<'a>(&'a self, operation_id: &'a UnifiedId) -> StoreFuture<'a, u64> {
        self.read(|state| {
            let entry = state.live_operation(operation_id);
            Ok(entry
                .ok_or_else(|| StoreError::not_found("operation", operation_id))?
                .row
                .events
                .len() as u64)
        })
    }
}

impl ResourceReader for MemoryStore {
    fn resource<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<SealedResource>> {
        self.read(|state| {
            Ok(state
                .home(Kind::Resource, id)
                .and_then(|scope| scope.resources.get(id))
                .map(|entry| entry.row.clone()))
        })
    }

    fn resources<'a>(
        &'a self,
        conversation_id: &'a UnifiedId,
        owner_fingerprint: Option<&'a Sha256>,
    ) -> StoreFuture<'a, Vec<SealedResource>> {
        self.read(move |state| {
            let rows = state
                .live(conversation_id)
                .map(|scope| in_order(scope.resources.values().cloned().collect()))
                .unwrap_or_default();
            Ok(rows
                .into_iter()
                .filter(|row: &SealedResource| owner_fingerprint.is_none_or(|owner| *owner == row.owner_fingerprint))
                .collect())
        })
    }

    fn resource_heads<'a>(&'a self, conversation_id: &'a UnifiedId, after: u64, limit: usize) -> StoreFuture<'a, Vec<ResourceHead>> {
        self.read(move |state| {
            let rows = state.live(conversation_id).into_iter().flat_map(|scope| scope.resources.values());
            let heads = rows
                .filter(|entry| entry.number > after)
                .map(|Numbered { number, row }| ResourceHead {
                    number: *number,
                    resource_id: row.resource_id.clone(),
                    resource_type: row.resource_type.clone(),
                    issuer: row.issuer,
                    owner: row.owner.clone(),
                    subject: row.subject.clone(),
                    size: row.sealed.as_bytes().len() as u64,
                });
            let mut heads: Vec<ResourceHead> = heads.collect();
            heads.sort_by_key(|head| head.number);
            heads.truncate(limit.min(MAX_PAGE));
            Ok(heads)
        })
    }

    fn resources_by_id<'a>(&'a self, ids: &'a [UnifiedId]) -> StoreFuture<'a, Vec<SealedResource>> {
        self.read(move |state| {
            check_lookup(ids)?;
            let find = |id| state.home(Kind::Resource, id)?.resources.get(id);
            Ok(ids.iter().filter_map(find).map(|entry| entry.row.clone()).collect())
        })
    }

    fn resources_by_payload_hash<'a>(&'a self, principal_ref: &'a str, hashes: &'a [Sha256]) -> StoreFuture<'a, Vec<SealedResource>> {
        self.read(move |state| {
            check_lookup(hashes)?;
            let scopes = state.all_live().filter(|scope| scope.conversation.principal_ref == principal_ref);
            Ok(newest_first(
                scopes
                    .flat_map(|scope| scope.resources.values())
                    .filter(|entry| hashes.contains(&entry.row.payload_hash)),
            ))
        })
    }

    fn checkpoint<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedProviderCheckpoint>> {
        self.read(|state| {
            Ok(state
                .home(Kind::Checkpoint, id)
                .and_then(|scope| scope.checkpoints.get(id))
                .map(|entry| entry.row.clone()))
        })
    }

    fn checkpoints<'a>(
        &'a self,
        conversation_id: &'a UnifiedId,
        branch_id: Option<&'a UnifiedId>,
    ) -> StoreFuture<'a, Vec<UnifiedProviderCheckpoint>> {
        self.read(move |state| {
            let rows = state.live(conversation_id).into_iter().flat_map(|scope| scope.checkpoints.values());
            Ok(newest_first(
                rows.filter(|entry| branch_id.is_none_or(|id| *id == entry.row.branch_id)),
            ))
        })
    }

    fn sealed_under_other_keys(
        &self,
        current_key_version: u32,
        after: Option<SealedPlace>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<SealedRecord>> {
        self.read(move |state| {
            let mut records = Vec::new();
            for scope in state.all_live() {
                for entry in scope.resources.values() {
                    records.push(SealedRecord {
                        context: entry.row.seal_context(),
                        sealed: entry.row.sealed.clone(),
                        place: SealedPlace {
                            is_checkpoint: false,
                            number: entry.number,
                        },
                    });
                }
                for entry in scope.checkpoints.values() {
                    let row = &entry.row;
                    let context = SealContext::checkpoint(
                        row.checkpoint_id.clone(),
                        row.conversation_id.clone(),
                        row.branch_id.clone(),
                        row.journal_head_item_id.clone(),
                        owner_fingerprint(&row.owner)?,
                    );
                    records.push(SealedRecord {
                        context,
                        sealed: Sealed::from_bytes(row.encrypted_payload.0.clone())?,
                        place: SealedPlace {
                            is_checkpoint: true,
                            number: entry.number,
                        },
                    });
                }
            }
            records.retain(|record| record.sealed.key_version() != current_key_version && Some(record.place) > after);
            records.sort_by_key(|record| record.place);
            records.truncate(limit.min(MAX_PAGE));
            Ok(records)
        })
    }

    fn artifact<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<StoredArtifact>> {
        self.read(|state| Ok(state.shared.artifacts.get(id).cloned()))
    }

    fn artifact_by_digest<'a>(&'a self, principal_ref: &'a str, sha256: &'a Sha256) -> StoreFuture<'a, Option<StoredArtifact>> {
        self.read(move |state| {
            let mut artifacts = state.shared.artifacts.values();
            Ok(artifacts
                .find(|stored| stored.principal_ref == principal_ref && stored.artifact.sha256 == *sha256)
                .cloned())
        })
    }

    fn artifact_content<'a>(&'a self, artifact: &'a UnifiedArtifact) -> StoreFuture<'a, Bytes> {
        self.read(|state| {
            let content = state.shared.contents.get(&artifact.sha256);
            content
                .filter(|content| content.len() as u64 == artifact.size)
                .cloned()
                .ok_or_else(|| StoreError::Corrupt {
                    detail: format!("the content of artifact {} is missing or has another size", artifact.sha256),
                })
        })
    }
}

impl LineageReader for MemoryStore {
    fn lineage<'a>(&'a self, principal_ref: &'a str, links: &'a [Sha256]) -> StoreFuture<'a, Vec<LineageRow>> {
        self.read(move |state| {
            check_lookup(links)?;
            let rows = state.all_live().flat_map(|scope| &scope.lineage);
            Ok(newest_first(rows.filter(|entry| {
                entry.row.principal_ref == principal_ref && links.contains(&entry.row.link)
            })))
        })
    }

    fn issued_ids<'a>(&'a self, principal_ref: &'a str, id_hashes: &'a [Sha256]) -> StoreFuture<'a, Vec<IssuedId>> {
        self.read(move |state| {
            check_lookup(id_hashes)?;
            let rows = state.all_live().flat_map(|scope| &scope.issued_ids);
            Ok(newest_first(rows.filter(|entry| {
                entry.row.principal_ref == principal_ref && id_hashes.contains(&entry.row.id_hash)
            })))
        })
    }

    fn session_keys<'a>(&'a self, principal_ref: &'a str, key_hash: &'a Sha256) -> StoreFuture<'a, Vec<SessionKeyRow>> {
        self.read(move |state| {
            let rows = state.all_live().flat_map(|scope| &scope.session_keys);
            Ok(newest_first(rows.filter(|entry| {
                entry.row.principal_ref == principal_ref && entry.row.key_hash == *key_hash
            })))
        })
    }
}

/// A sequence and the item that has it.
type Placed<'s> = (u64, &'s UnifiedId);

/// The items on the path of a branch in order, and the conversation.
fn path<'s>(state: &'s State, branch_id: &UnifiedId) -> Result<(&'s Scope, Vec<Placed<'s>>), StoreError> {
    let not_found = || StoreError::not_found("branch", branch_id);
    let scope = state.home(Kind::Branch, branch_id).ok_or_else(not_found)?;
    let tip = scope.branches.get(branch_id).ok_or_else(not_found)?;
    let mut items = Vec::new();
    for segment in segments(&tip.row, |id| Ok(scope.branches.get(id).map(|entry| entry.row.clone())))? {
        let range = (segment.branch_id.clone(), segment.after + 1)..=(segment.branch_id.clone(), segment.through);
        items.extend(scope.places.range(range).map(|((_, sequence), id)| (*sequence, id)));
    }
    Ok((scope, items))
}

fn revisions<'s>(scope: &'s Scope, item_id: &UnifiedId) -> impl Iterator<Item = UnifiedItemRevision> + use<'s> {
    scope
        .revisions
        .get(item_id)
        .into_iter()
        .flatten()
        .map(|revision| revision.as_ref().clone())
}

fn in_order<T>(mut rows: Vec<Numbered<T>>) -> Vec<T> {
    rows.sort_by_key(|entry| entry.number);
    rows.into_iter().map(|entry| entry.row).collect()
}

fn newest_first<'s, T: Clone + 's>(rows: impl Iterator<Item = &'s Numbered<T>>) -> Vec<T> {
    let mut rows: Vec<&Numbered<T>> = rows.collect();
    rows.sort_by_key(|entry| std::cmp::Reverse(entry.number));
    rows.into_iter().take(MAX_PAGE).map(|entry| entry.row.clone()).collect()
}

/// Refuses a look-up of more hashes than the bound.
fn check_lookup<T>(hashes: &[T]) -> Result<(), StoreError> {
    if hashes.len() > MAX_LOOKUP {
        Err(StoreError::Limit {
            what: "batch",
            count: hashes.len() as u64,
            limit: MAX_LOOKUP as u64,
        })
    } else {
        Ok(())
    }
}
