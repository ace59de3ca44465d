//! Operations and checkpoints (open-types.md, section 9; spec, Provider-private checkpoints).

use crate::conversation::UnifiedPortabilityDecision;
use crate::error::UnifiedError;
use crate::loss::UnifiedLossReport;
use crate::macros::{record, words};
use crate::profile::{SchemaVersion, UnifiedProtocolProfile};
use crate::resource::{ResourceStatus, ResourceType, UnifiedProviderResourceRef, UnifiedResourceOwner};
use crate::{Count, Sha256, Timestamp, UnifiedId};

words! {
    /// State of an operation. `interrupted` is not one: that is `failed` with category `interrupted`.
    pub enum OperationState {
        Queued = "queued",
        Running = "running",
        RequiresAction = "requires-action",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        Expired = "expired",
    }
}

impl OperationState {
    /// The states that may follow this one.
    pub const fn next(self) -> &'static [Self] {
        use OperationState as S;
        match self {
            S::Queued => &[S::Running, S::Cancelled, S::Failed, S::Expired],
            S::Running => &[S::RequiresAction, S::Completed, S::Failed, S::Cancelled, S::Expired],
            S::RequiresAction => &[S::Running, S::Completed, S::Failed, S::Cancelled, S::Expired],
            S::Completed | S::Failed | S::Cancelled | S::Expired => &[],
        }
    }

    /// Whether nothing may follow.
    pub const fn is_terminal(self) -> bool {
        self.next().is_empty()
    }

    /// Whether an operation may go from this state to `to`.
    pub fn may_become(self, to: Self) -> bool {
        self.next().contains(&to)
    }
}

words! {
    /// Whether an operation can be cancelled.
    pub enum Cancellation { Supported = "supported", BestEffort = "best-effort", Unsupported = "unsupported", }
}
words! {
    /// State of a webhook.
    pub enum WebhookState { Registered = "registered", Received = "received", Failed = "failed", }
}
record! {
    /// When a provider job is asked next.
    pub struct PollingState {
        /// When.
        next_at: Timestamp,
        /// How often.
        interval_ms: Count,
        /// How often so far.
        attempts: Count,
    }
}
record! {
    /// A webhook that reports a provider job.
    pub struct WebhookStatus {
        /// Resolved by the execution context only.
        webhook_ref: UnifiedId,
        /// State.
        state: WebhookState,
    }
}
record! {
    /// The lease that keeps the conversation while the operation runs.
    pub struct CleanupLease {
        /// The lease.
        lease_id: UnifiedId,
        /// Until when.
        expires_at: Timestamp,
    }
}
record! {
    /// One operation: a turn, in the foreground or not.
    pub struct UnifiedOperation {
        /// Always 2.0.
        schema_version: SchemaVersion,
        /// Its ID.
        operation_id: UnifiedId,
        /// Conversation.
        conversation_id: UnifiedId,
        /// State.
        state: OperationState,
        /// Whose private state it makes; absent until a target is chosen.
        owner?: UnifiedResourceOwner,
        /// Who may see and cancel; a hash, not a key.
        principal_ref: String,
        /// Branch that it appends to.
        source_branch_id: UnifiedId,
        /// Head before this turn's own input.
        source_head_item_id?: UnifiedId,
        /// This turn's own input.
        input_item_ids: Vec<UnifiedId>,
        /// The provider's job.
        provider_job?: UnifiedProviderResourceRef,
        /// When the job is asked next.
        polling?: PollingState,
        /// Webhook of the job.
        webhook?: WebhookStatus,
        /// Whether it can be cancelled.
        cancellation: Cancellation,
        /// When somebody asked to cancel.
        cancel_requested_at?: Timestamp,
        /// Digest of the idempotency key.
        idempotency_key_hash?: Sha256,
        /// Fingerprint of the request.
        request_fingerprint: Sha256,
        /// The result.
        result_id?: UnifiedId,
        /// The error.
        error?: UnifiedError,
        /// Portability decision.
        portability?: UnifiedPortabilityDecision,
        /// Wire form of the client that asked.
        source_profile?: UnifiedProtocolProfile,
        /// What reading the request lost or kept aside; paths point into the client's body.
        decode_loss?: UnifiedLossReport,
        /// What the projection lost.
        loss?: UnifiedLossReport,
        /// When it was made.
        created_at: Timestamp,
        /// When it began to run.
        started_at?: Timestamp,
        /// When it last changed.
        updated_at: Timestamp,
        /// When it ended.
        ended_at?: Timestamp,
        /// Until when it may run.
        deadline?: Timestamp,
        /// Lease against cleanup.
        cleanup_lease?: CleanupLease,
        /// Last committed event.
        last_sequence: Count,
    }
}
record! {
    /// Provider-private state at one head: exactly the specification's members.
    pub struct UnifiedProviderCheckpoint {
        /// Its ID.
        checkpoint_id: UnifiedId,
        /// Conversation.
        conversation_id: UnifiedId,
        /// Branch.
        branch_id: UnifiedId,
        /// Head that it continues.
        journal_head_item_id: UnifiedId,
        /// Whose it is.
        owner: UnifiedResourceOwner,
        /// Kind.
        resource_type: ResourceType,
        /// Sealed; standard base64 in JSON.
        encrypted_payload: SealedBytes,
        /// Usability.
        status: ResourceStatus,
        /// When it was made.
        created_at: Timestamp,
        /// End of life, when known.
        expires_at?: Timestamp,
    }
}

/// Sealed bytes; standard base64 in JSON.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedBytes(pub Vec<u8>);

impl std::fmt::Debug for SealedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SealedBytes({} bytes)", self.0.len())
    }
}

impl serde::Serialize for SealedBytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&crate::media::encode_base64(&self.0))
    }
}

impl<'de> serde::Deserialize<'de> for SealedBytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <String as serde::Deserialize>::deserialize(deserializer)?;
        crate::media::decode_base64(&text)
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom("expected standard base64"))
    }
}
