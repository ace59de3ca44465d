//! Conversation input, conversations, branches, leases, artifacts (open-types.md, sections 1 and 9).

use crate::item::UnifiedItem;
use crate::macros::{open_words, record, words};
use crate::metadata::UnifiedSemanticMetadata;
use crate::profile::UnifiedProtocolProfile;
use crate::resource::UnifiedProviderResourceRef;
use crate::{Count, Sha256, Timestamp, UnifiedId};

words! {
    /// How much of the history is there.
    pub enum Completeness {
        /// Everything that a provider switch needs.
        Complete = "complete",
        /// A declared range is missing.
        Partial = "partial",
        /// Execution depends on provider-private state.
        ReferenceOnly = "reference-only",
    }
}
open_words! {
    /// Why a range is missing.
    pub enum MissingReason {
        NotSent = "not-sent", TruncatedBySource = "truncated-by-source", Expired = "expired", ProviderHeld = "provider-held",
    }
}
record! {
    /// A range of history that is not there.
    pub struct UnifiedMissingRange {
        /// It begins after this item.
        after_item_id?: UnifiedId,
        /// It ends before this item.
        before_item_id?: UnifiedId,
        /// Number of items, when known.
        count?: Count,
        /// Why.
        reason: MissingReason,
        /// What holds it.
        resource?: UnifiedProviderResourceRef,
    }
}
record! {
    /// The history of a request.
    pub struct UnifiedConversationInput {
        /// Conversation.
        conversation_id?: UnifiedId,
        /// Branch.
        branch_id?: UnifiedId,
        /// Head that the items end at.
        head_item_id?: UnifiedId,
        /// How much of it is there.
        completeness: Completeness,
        /// The items in order.
        items: Vec<UnifiedItem>,
        /// Previous response, conversation, interaction or session; nowhere else.
        continuations?: Vec<UnifiedProviderResourceRef>,
        /// Missing ranges: not empty when partial, absent when complete.
        missing?: Vec<UnifiedMissingRange>,
    }
}

impl UnifiedConversationInput {
    /// A complete history.
    pub const fn complete(items: Vec<UnifiedItem>) -> Self {
        Self {
            conversation_id: None,
            branch_id: None,
            head_item_id: None,
            completeness: Completeness::Complete,
            items,
            continuations: None,
            missing: None,
        }
    }
}

words! {
    /// Whether a history can go to a target.
    pub enum PortabilityVerdict { Portable = "portable", PortableWithLoss = "portable-with-loss", OwnerOnly = "owner-only", }
}
record! {
    /// One reason of a decision.
    pub struct PortabilityReason {
        /// Stable code.
        code: String,
        /// In words.
        message: String,
        /// Item that it is about.
        item_id?: UnifiedId,
    }
}
record! {
    /// The explicit decision for one target.
    pub struct UnifiedPortabilityDecision {
        /// The verdict.
        decision: PortabilityVerdict,
        /// The target.
        target: UnifiedProtocolProfile,
        /// Why.
        reasons: Vec<PortabilityReason>,
    }
}
record! {
    /// A stored conversation.
    pub struct UnifiedConversation {
        /// Its ID.
        conversation_id: UnifiedId,
        /// Branch that clients land on.
        default_branch_id: UnifiedId,
        /// When it began.
        created_at: Timestamp,
        /// The only retention clock.
        last_updated_at: Timestamp,
        /// Whose it is; a hash, not a key.
        principal_ref: String,
        /// Title; not history.
        title?: String,
        /// Labels.
        metadata?: UnifiedSemanticMetadata,
    }
}
record! {
    /// A branch of a conversation; a fork shares its ancestors by reference.
    pub struct UnifiedBranch {
        /// Its ID.
        branch_id: UnifiedId,
        /// Conversation.
        conversation_id: UnifiedId,
        /// Branch that it forked from.
        parent_branch_id?: UnifiedId,
        /// Last shared item.
        fork_item_id?: UnifiedId,
        /// Last item.
        head_item_id?: UnifiedId,
        /// Sequence of the last item, 0 when empty.
        head_sequence: Count,
        /// When it began.
        created_at: Timestamp,
    }
}
record! {
    /// A stored artifact.
    pub struct UnifiedArtifact {
        /// Its ID.
        artifact_id: UnifiedId,
        /// Digest of its bytes.
        sha256: Sha256,
        /// Bytes.
        size: Count,
        /// Media type.
        media_type: String,
        /// File name.
        name?: String,
        /// Whether it is sealed.
        sealed: bool,
        /// When it was stored.
        created_at: Timestamp,
    }
}
words! {
    /// What a lease is for.
    pub enum LeasePurpose { Operation = "operation", Cleanup = "cleanup", Export = "export", }
}
record! {
    /// Keeps a conversation from cleanup for a while; does not touch its clock.
    pub struct UnifiedLease {
        /// Its ID.
        lease_id: UnifiedId,
        /// Who holds it.
        holder: String,
        /// What for.
        purpose: LeasePurpose,
        /// Conversation.
        conversation_id: UnifiedId,
        /// Until when.
        expires_at: Timestamp,
    }
}
