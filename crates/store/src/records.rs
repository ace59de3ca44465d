//! The rows of a store that are no records of the format, and what reads ask for and give.

use bytes::Bytes;
use throughline_format::resource::{Issuer, ResourceStatus, ResourceType};
use throughline_format::{OperationState, Sha256, Timestamp, UnifiedArtifact, UnifiedId, UnifiedPortableAnnotation, UnifiedResourceOwner};

use crate::limits::MAX_PAGE;
use crate::sealing::{RecordKind, SealContext, Sealed};

/// An owner-private payload as it is stored: everything about it is readable but the payload.
#[derive(Clone, Debug, PartialEq)]
pub struct SealedResource {
    /// Our ID of it, the one that items refer to.
    pub resource_id: UnifiedId,
    /// The conversation that it lives and dies with.
    pub conversation_id: UnifiedId,
    /// `response`, `reasoning`, `container`, ... as in [`throughline_format::UnifiedProviderCheckpoint`].
    pub resource_type: ResourceType,
    /// The schema of the payload.
    pub schema: String,
    /// Who made the payload.
    pub issuer: Issuer,
    /// Whose it is.
    pub owner: UnifiedResourceOwner,
    /// [`crate::owner_fingerprint`] of the owner.
    pub owner_fingerprint: Sha256,
    /// The item, part or operation that it belongs to.
    pub subject: Option<UnifiedId>,
    /// Keyed hash of the payload, to find it again by what a client presents.
    pub payload_hash: Sha256,
    /// Lineage hash at the point of issue, for state that is bound to its prefix.
    pub prefix_hash: Option<Sha256>,
    /// The payload.
    pub sealed: Sealed,
    /// Whether it may still be used.
    pub status: ResourceStatus,
    /// When it was stored.
    pub created_at: Timestamp,
    /// When the provider will forget it.
    pub expires_at: Option<Timestamp>,
}

impl SealedResource {
    /// The context that its payload is sealed in.
    pub fn seal_context(&self) -> SealContext {
        SealContext::resource(self.resource_id.clone(), self.conversation_id.clone(), self.owner_fingerprint)
    }
}

/// What a private resource is, without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceHead {
    /// Its place among the resources of its conversation, for the next page.
    pub number: u64,
    /// Our ID of it.
    pub resource_id: UnifiedId,
    /// What kind of state it is.
    pub resource_type: ResourceType,
    /// Who made the payload.
    pub issuer: Issuer,
    /// Whose it is.
    pub owner: UnifiedResourceOwner,
    /// The item, part or operation that it belongs to.
    pub subject: Option<UnifiedId>,
    /// Bytes of the sealed payload.
    pub size: u64,
}

/// One link of the chain of a history, and the item where it ends (lineage.md).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineageRow {
    /// Whose history.
    pub principal_ref: String,
    /// The link.
    pub link: Sha256,
    /// The version of the rule that made it.
    pub lineage_version: u32,
    /// Where it leads.
    pub conversation_id: UnifiedId,
    /// The branch.
    pub branch_id: UnifiedId,
    /// The item that holds the atom.
    pub item_id: UnifiedId,
    /// The number of the atom in the history, from 1.
    pub ordinal: u64,
    /// Whether the gateway itself delivered the atom.
    pub evidence: bool,
    /// When it was stored.
    pub created_at: Timestamp,
}

/// An ID or a signature that the gateway gave to a client, by keyed hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedId {
    /// To whom.
    pub principal_ref: String,
    /// Keyed hash of it.
    pub id_hash: Sha256,
    /// Where it leads.
    pub conversation_id: UnifiedId,
    /// The branch.
    pub branch_id: UnifiedId,
    /// The item.
    pub item_id: UnifiedId,
    /// When it was stored.
    pub created_at: Timestamp,
}

/// A session key that an agent sent with an operation, by keyed hash. It groups, it does not identify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionKeyRow {
    /// Whose.
    pub principal_ref: String,
    /// Keyed hash of (agent family, id, subagent id).
    pub key_hash: Sha256,
    /// The conversation that was used.
    pub conversation_id: UnifiedId,
    /// The branch.
    pub branch_id: UnifiedId,
    /// The operation.
    pub operation_id: UnifiedId,
    /// When.
    pub created_at: Timestamp,
}

/// A committed event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its number in the operation, from 1.
    pub sequence: u64,
    /// The bytes that were appended.
    pub bytes: Bytes,
}

/// An annotation and what it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredAnnotation {
    /// The item, part or operation.
    pub subject: Option<UnifiedId>,
    /// The annotation.
    pub annotation: UnifiedPortableAnnotation,
}

/// The metadata of an artifact and its reference count.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredArtifact {
    /// Whose it is: artifacts are shared within one principal only.
    pub principal_ref: String,
    /// The metadata.
    pub artifact: UnifiedArtifact,
    /// How many references to it there are.
    pub references: u64,
}

/// A sealed record together with what it is sealed to, for moving it to another key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedRecord {
    /// What it is bound to.
    pub context: SealContext,
    /// The record.
    pub sealed: Sealed,
    /// Where it stands in the list of them.
    pub place: SealedPlace,
}

/// A place in the list of all sealed records: resources first, then checkpoints, each in the order in which they were stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SealedPlace {
    /// Whether it is one of the checkpoints.
    pub is_checkpoint: bool,
    /// The store's own number of the row.
    pub number: u64,
}

/// A record sealed again under another key, the content unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResealedRecord {
    /// Which table.
    pub kind: RecordKind,
    /// Its ID.
    pub record_id: UnifiedId,
    /// [`Sealed::digest`] of the record that it replaces.
    pub replaces: Sha256,
    /// The new record.
    pub sealed: Sealed,
}

/// Which way a page goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Oldest first.
    #[default]
    Ascending,
    /// Newest first.
    Descending,
}

/// A page of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemPage {
    /// Items after this sequence; 0 is the beginning.
    pub after_sequence: u64,
    /// Items up to this sequence.
    pub through_sequence: Option<u64>,
    /// Which way. The bounds stay lower and upper bounds in both.
    pub order: Order,
    /// At most this many; cut down to [`MAX_PAGE`].
    pub limit: usize,
}

impl Default for ItemPage {
    fn default() -> Self {
        Self {
            after_sequence: 0,
            through_sequence: None,
            order: Order::Ascending,
            limit: MAX_PAGE,
        }
    }
}

/// A range of events, bounded in number and bytes. One event is given even if it alone is over the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRange {
    /// Events after this sequence; 0 is the beginning.
    pub after: u64,
    /// Events up to this sequence, the head that the reader knows to be published.
    pub through: u64,
    /// At most this many; cut down to [`MAX_PAGE`].
    pub max_events: usize,
    /// At most this many bytes.
    pub max_bytes: usize,
}

/// Which conversations to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationFilter {
    /// Of this principal only.
    pub principal_ref: Option<String>,
    /// Updated at or after this time.
    pub updated_since: Option<Timestamp>,
    /// After this one in the order of the list.
    pub after: Option<UnifiedId>,
    /// At most this many; cut down to [`MAX_PAGE`].
    pub limit: usize,
}

impl Default for ConversationFilter {
    fn default() -> Self {
        Self {
            principal_ref: None,
            updated_since: None,
            after: None,
            limit: MAX_PAGE,
        }
    }
}

/// Which operations to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationFilter {
    /// Of this conversation only.
    pub conversation_id: Option<UnifiedId>,
    /// Of this principal only.
    pub principal_ref: Option<String>,
    /// Deleted ones instead: they only tell what of a conversation is left.
    pub deleted: bool,
    /// Whose answer goes to this branch only.
    pub branch_id: Option<UnifiedId>,
    /// In one of these states; empty is any.
    pub states: Vec<OperationState>,
    /// After this one in the order of the list.
    pub after: Option<UnifiedId>,
    /// At most this many; cut down to [`MAX_PAGE`].
    pub limit: usize,
}

impl Default for OperationFilter {
    fn default() -> Self {
        Self {
            conversation_id: None,
            principal_ref: None,
            deleted: false,
            branch_id: None,
            states: Vec::new(),
            after: None,
            limit: MAX_PAGE,
        }
    }
}

/// Random identity of one unbroken history of the store, part of every resume cursor.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct StoreEpoch([u8; 16]);

impl StoreEpoch {
    /// Takes 16 random bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl std::fmt::Display for StoreEpoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for StoreEpoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// What a store is, fixed when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreMeta {
    /// The epoch.
    pub epoch: StoreEpoch,
    /// The version of the tables, independent of the format's.
    pub schema_version: u32,
    /// `conversationRetentionDays`.
    pub retention_days: u32,
    /// Whether the store had been closed properly before it was opened, or was new.
    pub clean_start: bool,
}

impl StoreMeta {
    /// Conversations that were last updated before this time may go.
    pub fn retention_cutoff(&self, now: Timestamp) -> Timestamp {
        now.plus_millis(-i64::from(self.retention_days) * 24 * 60 * 60 * 1_000)
    }
}

/// How the data of a store is, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreHealth {
    /// It was checked, and nothing was found.
    Sound,
    /// It is being checked beside the work.
    Checking,
    /// Damage was found: nothing more is written.
    Damaged,
    /// The check could not be made, or the store was closed before its end.
    Unchecked,
}

/// What an integrity check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrityReport {
    /// `ok`, or the first complaint about the file itself.
    pub integrity: String,
    /// Rows that refer to a row which is not there.
    pub foreign_keys: u64,
    /// `ok`, or which counts differ from the references.
    pub refcounts: String,
    /// Every problem in words, without content.
    pub problems: Vec<String>,
}

impl IntegrityReport {
    /// Whether nothing was found.
    pub fn is_ok(&self) -> bool {
        self.integrity == "ok" && self.foreign_keys == 0 && self.refcounts == "ok" && self.problems.is_empty()
    }
}

/// How much one step of physical removal may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepRequest {
    /// The time.
    pub now: Timestamp,
    /// At most this many rows in the transaction.
    pub max_rows: usize,
}

impl SweepRequest {
    /// A step of the default size, 500 rows.
    pub const fn new(now: Timestamp) -> Self {
        Self { now, max_rows: 500 }
    }
}

/// What one step of physical removal did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Rows removed.
    pub rows: u64,
    /// Conversations that are gone completely.
    pub conversations: u64,
    /// Artifacts that lost their last reference and wait for collection.
    pub artifacts_pending: u64,
    /// Whether there is more to do.
    pub more: bool,
}

/// How much one step of collecting artifacts may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectRequest {
    /// The time.
    pub now: Timestamp,
    /// How long an artifact must have been without a reference, in milliseconds; longer than any upload or read takes.
    pub grace_millis: u64,
    /// At most this many digests in the step.
    pub max_digests: usize,
    /// Whether the step looks through all files for those that a crash has left, instead of through a part of them that its time
    /// chooses.
    pub whole: bool,
}

/// One hour.
pub const ARTIFACT_GRACE_MILLIS: u64 = 60 * 60 * 1_000;

impl CollectRequest {
    /// A step of the default size: 50 digests that nothing has referred to for an hour.
    pub const fn new(now: Timestamp) -> Self {
        Self {
            now,
            grace_millis: ARTIFACT_GRACE_MILLIS,
            max_digests: 50,
            whole: false,
        }
    }

    /// Such a step that looks through all files.
    pub const fn whole(now: Timestamp) -> Self {
        Self {
            whole: true,
            ..Self::new(now)
        }
    }

    /// What was without a reference before this time may go.
    pub fn cutoff(&self) -> Timestamp {
        self.now.plus_millis(-i64::try_from(self.grace_millis).unwrap_or(i64::MAX))
    }
}

/// What one step of collecting artifacts did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectReport {
    /// Digests that are gone with their metadata and content.
    pub artifacts: u64,
    /// Bytes of content that are gone.
    pub bytes: u64,
    /// Whether another step would find more.
    pub more: bool,
}

/// A finished backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupReport {
    /// Where it is.
    pub path: std::path::PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its digest.
    pub sha256: Sha256,
}
