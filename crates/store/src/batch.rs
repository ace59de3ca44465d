//! [`WriteBatch`]: the only way to change a store, all or nothing.

use bytes::Bytes;
use throughline_format::resource::ResourceStatus;
use throughline_format::{
    Sha256, Timestamp, UnifiedArtifact, UnifiedBranch, UnifiedConversation, UnifiedId, UnifiedItem, UnifiedItemRevision, UnifiedLease,
    UnifiedOperation, UnifiedPortableAnnotation, UnifiedProviderCheckpoint, UnifiedResultV2,
};

use crate::records::{IssuedId, LineageRow, ResealedRecord, SealedResource, SessionKeyRow};

/// Changes to one conversation that are stored together or not at all.
///
/// The operations are applied in order. Each may be sent again: the same operation with the same content changes nothing
/// and is a success, so a whole batch whose acknowledgement was lost can simply be repeated.
#[derive(Clone, Debug)]
pub struct WriteBatch {
    /// The time of the commit. A store has no clock.
    pub now: Timestamp,
    /// The conversation that every operation belongs to.
    pub conversation_id: UnifiedId,
    /// The operations.
    pub ops: Vec<WriteOp>,
}

/// One change.
#[derive(Clone, Debug)]
pub enum WriteOp {
    /// A new conversation. Its default branch is to be created in the same batch.
    CreateConversation(UnifiedConversation),
    /// A new branch: a root, or a fork at an item on the path of its parent. The store sets the head.
    CreateBranch(UnifiedBranch),
    /// New items at the head of a branch.
    ///
    /// An item whose conversation is `pending` is placed by the store: conversation, branch, sequence and, when absent,
    /// the parent. Any other item must already stand where it would be placed.
    AppendItems {
        /// The branch.
        branch_id: UnifiedId,
        /// Where the caller believes the branch to stand; anything else is `conflict.head-moved`.
        expected_head: Option<UnifiedId>,
        /// The items in order.
        items: Vec<UnifiedItem>,
    },
    /// A revision of an item, the next number of that item.
    AddRevision(UnifiedItemRevision),
    /// A new operation.
    PutOperation(UnifiedOperation),
    /// The whole record of a known operation; only steps of the state table.
    UpdateOperation(UnifiedOperation),
    /// Events of an operation, dense from `first_sequence`.
    AppendEvents {
        /// The operation.
        operation_id: UnifiedId,
        /// The number of the first one.
        first_sequence: u64,
        /// The events as they will be replayed.
        events: Vec<Bytes>,
    },
    /// The folded result of an operation.
    PutResult {
        /// The operation.
        operation_id: UnifiedId,
        /// The result.
        result: Box<UnifiedResultV2>,
    },
    /// Hides an operation that has ended from every read, with its events and its result; [`crate::StateWriter::sweep`] removes
    /// the events. What it appended to the journal stays: later turns stand on it.
    DeleteOperation {
        /// The operation.
        operation_id: UnifiedId,
    },
    /// An owner-private payload.
    PutResource(Box<SealedResource>),
    /// A private resource became stale, expired, revoked or invalid; [`ResourceStatus::next`] says what may follow what.
    SetResourceStatus {
        /// The resource.
        resource_id: UnifiedId,
        /// Its new status.
        status: ResourceStatus,
    },
    /// A checkpoint; its payload must be sealed.
    PutCheckpoint(Box<UnifiedProviderCheckpoint>),
    /// A checkpoint became stale, expired, revoked or invalid; [`ResourceStatus::next`] says what may follow what.
    SetCheckpointStatus {
        /// The checkpoint.
        checkpoint_id: UnifiedId,
        /// Its new status.
        status: ResourceStatus,
    },
    /// A sealed record under another key (rotation).
    Reseal(ResealedRecord),
    /// A portable annotation.
    PutAnnotation {
        /// The item, part or operation that it belongs to.
        subject: Option<UnifiedId>,
        /// The annotation.
        annotation: UnifiedPortableAnnotation,
    },
    /// Links of the chain.
    PutLineage(Vec<LineageRow>),
    /// IDs given to a client.
    PutIssuedIds(Vec<IssuedId>),
    /// Session keys sent by a client.
    PutSessionKeys(Vec<SessionKeyRow>),
    /// Metadata of an artifact whose file is durable already.
    PutArtifact {
        /// Whose it is.
        principal_ref: String,
        /// The metadata.
        artifact: UnifiedArtifact,
    },
    /// A reference from this conversation to an artifact of its principal.
    AddArtifactRef {
        /// The artifact.
        artifact_id: UnifiedId,
        /// The item or part that refers to it.
        subject: UnifiedId,
    },
    /// Keeps a digest from being collected while its file is written and not yet referred to.
    PinArtifact {
        /// The digest.
        sha256: Sha256,
        /// Who holds the pin; any ID that the holder can name again.
        owner: UnifiedId,
        /// When the pin lapses by itself.
        expires_at: Timestamp,
    },
    /// Drops a pin.
    UnpinArtifact {
        /// The digest.
        sha256: Sha256,
        /// Who holds it.
        owner: UnifiedId,
    },
    /// A lease that keeps the conversation from retention; a known ID renews it.
    AcquireLease(UnifiedLease),
    /// Ends a lease; one that is not there is a success.
    ReleaseLease {
        /// The lease.
        lease_id: UnifiedId,
    },
    /// Marks the conversation as deleted and hides it at once; [`crate::StateWriter::sweep`] removes it. Alone in its batch.
    DeleteConversation {
        /// When it may be done.
        only_if: DeletionCondition,
    },
}

/// When a conversation may be deleted. It never may while an operation runs or a lease is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionCondition {
    /// Somebody asked for it.
    Always,
    /// Retention: only when it was last updated at or before this time, checked in the same transaction.
    NotUpdatedSince(Timestamp),
}

/// What a commit did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitReceipt {
    /// The conversation's time after the batch; absent when the batch touched no conversation.
    pub last_updated_at: Option<Timestamp>,
    /// Where the items went, in order.
    pub appended: Vec<AppendedItem>,
    /// The heads of the branches that were appended to or created.
    pub heads: Vec<BranchHead>,
    /// The last sequences of the operations that events were appended to.
    pub sequences: Vec<OperationHead>,
}

/// Where an item went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendedItem {
    /// The item.
    pub item_id: UnifiedId,
    /// The branch.
    pub branch_id: UnifiedId,
    /// Its number on the path from the root.
    pub sequence: u64,
}

/// Where a branch stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchHead {
    /// The branch.
    pub branch_id: UnifiedId,
    /// Its last item.
    pub head_item_id: Option<UnifiedId>,
    /// The number of that item, 0 when there is none.
    pub head_sequence: u64,
}

/// Where the events of an operation stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationHead {
    /// The operation.
    pub operation_id: UnifiedId,
    /// The last sequence.
    pub last_sequence: u64,
}

impl WriteBatch {
    /// An empty batch.
    pub const fn new(now: Timestamp, conversation_id: UnifiedId) -> Self {
        Self {
            now,
            conversation_id,
            ops: Vec::new(),
        }
    }

    /// The batch with one more operation.
    #[must_use]
    pub fn with(mut self, op: WriteOp) -> Self {
        self.ops.push(op);
        self
    }

    /// Adds an operation.
    pub fn push(&mut self, op: WriteOp) {
        self.ops.push(op);
    }

    /// Whether one of the mutations that move the retention clock is in it.
    pub fn touches(&self) -> bool {
        self.ops.iter().any(WriteOp::touches)
    }

    /// Whether it ends or cancels an operation and so may use the reserved part of a full queue.
    pub fn is_urgent(&self) -> bool {
        self.ops.iter().any(|op| match op {
            WriteOp::UpdateOperation(operation) => operation.state.is_terminal() || operation.cancel_requested_at.is_some(),
            _ => false,
        })
    }
}

impl WriteOp {
    /// Whether this is one of the mutations that move the retention clock (spec, "Retention and cleanup").
    ///
    /// A branch alone, an annotation, a deletion, indexes, pins and leases are not in the list; what comes with them is.
    pub const fn touches(&self) -> bool {
        match self {
            Self::AppendItems { .. }
            | Self::AddRevision(_)
            | Self::PutOperation(_)
            | Self::UpdateOperation(_)
            | Self::AppendEvents { .. }
            | Self::PutResult { .. }
            | Self::PutResource(_)
            | Self::SetResourceStatus { .. }
            | Self::PutCheckpoint(_)
            | Self::SetCheckpointStatus { .. }
            | Self::AddArtifactRef { .. } => true,
            Self::CreateConversation(_)
            | Self::CreateBranch(_)
            | Self::Reseal(_)
            | Self::PutAnnotation { .. }
            | Self::PutLineage(_)
            | Self::PutIssuedIds(_)
            | Self::PutSessionKeys(_)
            | Self::PutArtifact { .. }
            | Self::PinArtifact { .. }
            | Self::UnpinArtifact { .. }
            | Self::AcquireLease(_)
            | Self::ReleaseLease { .. }
            | Self::DeleteOperation { .. }
            | Self::DeleteConversation { .. } => false,
        }
    }
}
