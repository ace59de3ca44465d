//! [`UnifiedExportV2`]: a conversation as a bundle (open-types.md, section 10).

use crate::conversation::{UnifiedArtifact, UnifiedBranch, UnifiedConversation};
use crate::item::{UnifiedItem, UnifiedItemRevision};
use crate::macros::record;
use crate::profile::SchemaVersion;
use crate::resource::{ResourceType, UnifiedPortableAnnotation};
use crate::{Count, Sha256, Timestamp, UnifiedId};

record! {
    /// A private payload that is not in the bundle.
    pub struct PrivateResourceEntry {
        /// Its ID.
        resource_id: UnifiedId,
        /// Kind.
        resource_type: ResourceType,
        /// Digest of the payload.
        sha256: Sha256,
        /// Bytes.
        size: Count,
    }
}
record! {
    /// A conversation with everything but owner-private payloads.
    pub struct UnifiedExportV2 {
        /// Always 2.0.
        schema_version: SchemaVersion,
        /// When.
        exported_at: Timestamp,
        /// The conversation.
        conversation: UnifiedConversation,
        /// Its branches.
        branches: Vec<UnifiedBranch>,
        /// Its items.
        items: Vec<UnifiedItem>,
        /// Their revisions.
        revisions: Vec<UnifiedItemRevision>,
        /// Registered annotations.
        annotations: Vec<UnifiedPortableAnnotation>,
        /// Artifacts.
        artifacts: Vec<UnifiedArtifact>,
        /// Private payloads by digest.
        private_resources: Vec<PrivateResourceEntry>,
        /// Fingerprint of the bundle without this member.
        fingerprint: Sha256,
    }
}
