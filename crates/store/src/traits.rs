//! The traits of a store. Nothing in them knows a database; every trait can be used as `dyn`.
//!
//! One read trait per concern, so that a signature tells what a function may look at; [`StateWriter`] is the only way to
//! change anything. Reads never touch the retention clock. Where a list is asked for an unknown branch or operation the
//! answer is `not-found.resource`, and a conversation that is being deleted is as if absent, with all that is in it.

use std::path::PathBuf;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use throughline_format::{
    Sha256, Timestamp, UnifiedArtifact, UnifiedBranch, UnifiedConversation, UnifiedId, UnifiedItem, UnifiedItemRevision, UnifiedLease,
    UnifiedOperation, UnifiedProviderCheckpoint, UnifiedResultV2,
};

use crate::StoreError;
use crate::batch::{CommitReceipt, WriteBatch};
use crate::records::{
    BackupReport, CollectReport, CollectRequest, ConversationFilter, EventRange, IntegrityReport, IssuedId, ItemPage, LineageRow,
    OperationFilter, ResourceHead, SealedPlace, SealedRecord, SealedResource, SessionKeyRow, StoreHealth, StoreMeta, StoredAnnotation,
    StoredArtifact, StoredEvent, SweepReport, SweepRequest,
};

/// What every call of a store gives. The future may be polled on any runtime, or on none.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Reads conversations, branches and leases.
pub trait ConversationReader: Send + Sync {
    /// A conversation.
    fn conversation<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedConversation>>;
    /// Conversations, the one updated last first.
    fn conversations(&self, filter: ConversationFilter) -> StoreFuture<'_, Vec<UnifiedConversation>>;
    /// A branch.
    fn branch<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedBranch>>;
    /// The branches of a conversation, oldest first.
    fn branches<'a>(&'a self, conversation_id: &'a UnifiedId) -> StoreFuture<'a, Vec<UnifiedBranch>>;
    /// The leases on a conversation, lapsed ones included, by ID.
    fn leases<'a>(&'a self, conversation_id: &'a UnifiedId) -> StoreFuture<'a, Vec<UnifiedLease>>;
    /// Conversations last updated at or before this time that nothing holds, oldest first: candidates for retention. Whether one
    /// really may go is decided when it is deleted.
    fn expired_conversations(&self, not_updated_since: Timestamp, now: Timestamp, limit: usize) -> StoreFuture<'_, Vec<UnifiedId>>;
}

/// Reads the journal.
pub trait JournalReader: Send + Sync {
    /// An item as it was appended, without its revisions.
    fn item<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedItem>>;
    /// The items on the path of a branch, those of its ancestors up to each fork included.
    fn branch_items<'a>(&'a self, branch_id: &'a UnifiedId, page: ItemPage) -> StoreFuture<'a, Vec<UnifiedItem>>;
    /// The revisions of an item in order.
    fn revisions<'a>(&'a self, item_id: &'a UnifiedId) -> StoreFuture<'a, Vec<UnifiedItemRevision>>;
    /// The revisions of every item on the path of a branch, by the item's place, then in order.
    fn branch_revisions<'a>(&'a self, branch_id: &'a UnifiedId) -> StoreFuture<'a, Vec<UnifiedItemRevision>>;
    /// The portable annotations of a conversation, by ID.
    fn annotations<'a>(&'a self, conversation_id: &'a UnifiedId) -> StoreFuture<'a, Vec<StoredAnnotation>>;
}

/// Reads operations and their results.
pub trait OperationReader: Send + Sync {
    /// An operation, `last_sequence` being the number of the last stored event.
    fn operation<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedOperation>>;
    /// Operations in the order in which they were stored.
    fn operations(&self, filter: OperationFilter) -> StoreFuture<'_, Vec<UnifiedOperation>>;
    /// The operation that holds an idempotency key of this principal.
    fn operation_by_idempotency_key<'a>(
        &'a self,
        principal_ref: &'a str,
        key_hash: &'a Sha256,
    ) -> StoreFuture<'a, Option<UnifiedOperation>>;
    /// The result of an operation, once it is stored.
    fn result<'a>(&'a self, operation_id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedResultV2>>;
}

/// Reads committed events.
pub trait EventReader: Send + Sync {
    /// Events of an operation in order.
    fn events_after<'a>(&'a self, operation_id: &'a UnifiedId, range: EventRange) -> StoreFuture<'a, Vec<StoredEvent>>;
    /// The number of the last event, 0 before the first.
    fn last_sequence<'a>(&'a self, operation_id: &'a UnifiedId) -> StoreFuture<'a, u64>;
}

/// Reads sealed resources, checkpoints and artifacts. Nothing here opens a seal.
pub trait ResourceReader: Send + Sync {
    /// A private resource.
    fn resource<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<SealedResource>>;
    /// The private resources of a conversation, of one owner scope or all, oldest first.
    fn resources<'a>(
        &'a self,
        conversation_id: &'a UnifiedId,
        owner_fingerprint: Option<&'a Sha256>,
    ) -> StoreFuture<'a, Vec<SealedResource>>;
    /// A page of what the private resources of a conversation are, without their payloads, oldest first, behind a place. Cut down to
    /// [`MAX_PAGE`](crate::MAX_PAGE).
    fn resource_heads<'a>(&'a self, conversation_id: &'a UnifiedId, after: u64, limit: usize) -> StoreFuture<'a, Vec<ResourceHead>>;
    /// The private resources with these IDs, those that are there, in the order of the IDs.
    fn resources_by_id<'a>(&'a self, ids: &'a [UnifiedId]) -> StoreFuture<'a, Vec<SealedResource>>;
    /// Private resources with one of these payload hashes, in conversations of this principal only, newest first.
    fn resources_by_payload_hash<'a>(&'a self, principal_ref: &'a str, hashes: &'a [Sha256]) -> StoreFuture<'a, Vec<SealedResource>>;
    /// A checkpoint.
    fn checkpoint<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<UnifiedProviderCheckpoint>>;
    /// The checkpoints of a conversation, of one branch or all, newest first.
    fn checkpoints<'a>(
        &'a self,
        conversation_id: &'a UnifiedId,
        branch_id: Option<&'a UnifiedId>,
    ) -> StoreFuture<'a, Vec<UnifiedProviderCheckpoint>>;
    /// Records sealed with another key than this one, for rotation, behind a place in their list.
    fn sealed_under_other_keys(
        &self,
        current_key_version: u32,
        after: Option<SealedPlace>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<SealedRecord>>;
    /// The metadata of an artifact.
    fn artifact<'a>(&'a self, id: &'a UnifiedId) -> StoreFuture<'a, Option<StoredArtifact>>;
    /// An artifact of this principal with this digest.
    fn artifact_by_digest<'a>(&'a self, principal_ref: &'a str, sha256: &'a Sha256) -> StoreFuture<'a, Option<StoredArtifact>>;
    /// The content of an artifact, checked against size and digest. Whether a principal may have it is told by the metadata.
    fn artifact_content<'a>(&'a self, artifact: &'a UnifiedArtifact) -> StoreFuture<'a, Bytes>;
}

/// Finds the conversation of a history. Every look-up is scoped to a principal.
pub trait LineageReader: Send + Sync {
    /// The rows of these links, newest first.
    fn lineage<'a>(&'a self, principal_ref: &'a str, links: &'a [Sha256]) -> StoreFuture<'a, Vec<LineageRow>>;
    /// The rows of these issued ids, newest first.
    fn issued_ids<'a>(&'a self, principal_ref: &'a str, id_hashes: &'a [Sha256]) -> StoreFuture<'a, Vec<IssuedId>>;
    /// Where this session key was used, newest first.
    fn session_keys<'a>(&'a self, principal_ref: &'a str, key_hash: &'a Sha256) -> StoreFuture<'a, Vec<SessionKeyRow>>;
}

/// Changes a store.
pub trait StateWriter: Send + Sync {
    /// Stores a batch, all or nothing. When the future gives a receipt the batch is durable.
    ///
    /// Dropping the future after it was polled may still store the batch. Send the next batch of an operation after the
    /// acknowledgement of the one before; batches of different operations go side by side.
    fn commit(&self, batch: WriteBatch) -> StoreFuture<'_, CommitReceipt>;
    /// Stores the content of an artifact durably, and gives its digest. The same content again is a success.
    ///
    /// Pin the digest first ([`WriteOp::PinArtifact`](crate::WriteOp::PinArtifact)), then store the content, then commit metadata
    /// and reference and drop the pin: so it cannot be collected in between.
    fn put_content(&self, content: Bytes) -> StoreFuture<'_, Sha256>;
    /// One bounded step of removing deleted conversations and lapsed leases and pins; repeat while it says `more`.
    fn sweep(&self, request: SweepRequest) -> StoreFuture<'_, SweepReport>;
    /// One bounded step of removing artifacts that nothing refers to and nobody has pinned; repeat while it says `more`.
    ///
    /// Metadata goes first and content after it, never the other way round: a reference that is committed at any moment has
    /// its content.
    fn collect(&self, request: CollectRequest) -> StoreFuture<'_, CollectReport>;
}

/// Knows and looks after the store as a whole.
pub trait StoreAdmin: Send + Sync {
    /// What the store is; fixed when it was opened.
    fn meta(&self) -> StoreMeta;
    /// How the data is, as far as the check at the start and the work since then tell.
    fn health(&self) -> StoreHealth;
    /// Checks the whole store and changes nothing.
    fn check(&self) -> StoreFuture<'_, IntegrityReport>;
    /// Stores what is queued, acknowledges it and closes. Later calls give `storage.closed`.
    fn close(&self) -> StoreFuture<'_, ()>;
}

/// Makes a consistent copy while the store is in use.
pub trait BackupHook: Send + Sync {
    /// Copies the store to a file that must not exist yet.
    fn backup(&self, destination: PathBuf) -> StoreFuture<'_, BackupReport>;
}

/// Every read.
pub trait StateReader: ConversationReader + JournalReader + OperationReader + EventReader + ResourceReader + LineageReader {}

impl<T> StateReader for T where
    T: ConversationReader + JournalReader + OperationReader + EventReader + ResourceReader + LineageReader + ?Sized
{
}

/// A store. Use it as `Arc<dyn UnifiedStateStore>`.
///
/// It does not assume to be the only writer: whatever was read may have changed by the time of the commit, and the commit says so.
pub trait UnifiedStateStore: StateReader + StateWriter + StoreAdmin {}

impl<T> UnifiedStateStore for T where T: StateReader + StateWriter + StoreAdmin + ?Sized {}
