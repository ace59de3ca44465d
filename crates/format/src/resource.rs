//! Provider-owned state: references in records, owners, annotations (spec, Provider data; open-types.md, section 6).

use crate::json::Json;
use crate::macros::{open_words, record, words};
use crate::profile::UnifiedProtocolProfile;
use crate::{Sha256, Timestamp, UnifiedId};

words! {
    /// Who may see provider data.
    pub enum ProviderDataScope {
        /// Registered, validated, free of credentials; may go anywhere.
        PortableAnnotation = "portable-annotation",
        /// Sealed; only its owner.
        OwnerPrivate = "owner-private",
    }
}
record! {
    /// Points from a record to a payload that is kept apart.
    pub struct UnifiedProviderDataRef {
        /// Protocol that the payload belongs to.
        profile: UnifiedProtocolProfile,
        /// Who may see it.
        scope: ProviderDataScope,
        /// Registered schema name, such as `anthropic-messages/unmapped@1`.
        schema: String,
        /// The payload's ID.
        resource_id: UnifiedId,
    }
}
open_words! {
    /// Kind of a provider-owned resource.
    pub enum ResourceType {
        Response = "response",
        Conversation = "conversation",
        Interaction = "interaction",
        Session = "session",
        Run = "run",
        Container = "container",
        CachedContent = "cached-content",
        File = "file",
        Reasoning = "reasoning",
    }
}
words! {
    /// Whether provider state can still be used.
    pub enum ResourceStatus {
        Active = "active", Stale = "stale", Expired = "expired", Revoked = "revoked", Invalid = "invalid",
    }
}
record! {
    /// Points to a sealed provider handle; the handle itself never stands in a record.
    pub struct UnifiedProviderResourceRef {
        /// Our ID.
        resource_id: UnifiedId,
        /// Kind.
        resource_type: ResourceType,
        /// Fingerprint of the canonical owner.
        owner_fingerprint: Sha256,
        /// Usability, when known.
        status?: ResourceStatus,
        /// End of life, when known.
        expires_at?: Timestamp,
    }
}
words! {
    /// Who made a private payload.
    pub enum Issuer {
        /// The provider that owns it.
        Provider = "provider",
        /// This gateway; never sent to a provider.
        Synthetic = "synthetic",
        /// A client presented it and its owner is not established.
        ClientAsserted = "client-asserted",
    }
}
record! {
    /// Whose private state something is: every member counts, absent equals only absent.
    #[derive(Eq, Hash)]
    pub struct UnifiedResourceOwner {
        /// Protocol; family, version and revision count.
        profile: UnifiedProtocolProfile,
        /// Identity of the upstream service, such as `openai`, `vertex`.
        provider: String,
        /// `v<key version>:` and 32 hex digits of an HMAC; never the credential.
        credential_fingerprint: String,
        /// 32 hex digits of SHA-256 over scheme, host, port and base path.
        endpoint_fingerprint: String,
        /// Project.
        project?: String,
        /// Region.
        region?: String,
        /// Tenant.
        tenant?: String,
        /// Exact model.
        model?: String,
        /// Family of models that share reasoning state.
        model_family?: String,
        /// API revision.
        api_revision?: String,
    }
}

impl UnifiedResourceOwner {
    /// An account at an endpoint, without anything that narrows it further.
    pub fn of_account(
        profile: UnifiedProtocolProfile,
        provider: impl Into<String>,
        credential_fingerprint: impl Into<String>,
        endpoint_fingerprint: impl Into<String>,
    ) -> Self {
        Self {
            profile,
            provider: provider.into(),
            credential_fingerprint: credential_fingerprint.into(),
            endpoint_fingerprint: endpoint_fingerprint.into(),
            project: None,
            region: None,
            tenant: None,
            model: None,
            model_family: None,
            api_revision: None,
        }
    }

    /// Whether state of `self` may be used by `other` for a resource of this type.
    ///
    /// Every member must be equal, but `model` counts only for resources bound to one exact model (cached content) and
    /// `model_family` only for reasoning (open-types.md, section 6).
    pub fn is_compatible(&self, other: &Self, resource_type: &ResourceType) -> bool {
        let same_scope = self.profile == other.profile
            && self.provider == other.provider
            && self.credential_fingerprint == other.credential_fingerprint
            && self.endpoint_fingerprint == other.endpoint_fingerprint
            && self.project == other.project
            && self.region == other.region
            && self.tenant == other.tenant
            && self.api_revision == other.api_revision;
        let same_model = !matches!(resource_type, ResourceType::CachedContent) || self.model == other.model;
        let same_family = !matches!(resource_type, ResourceType::Reasoning) || self.model_family == other.model_family;
        same_scope && same_model && same_family
    }
}

record! {
    /// A registered annotation: stored apart, validated, exported in clear.
    pub struct UnifiedPortableAnnotation {
        /// Its ID.
        resource_id: UnifiedId,
        /// Protocol that it belongs to.
        profile: UnifiedProtocolProfile,
        /// Registered schema.
        schema: String,
        /// The annotation.
        payload: Json,
    }
}
record! {
    /// A pointer into a wire object and the value that stood there, of a field without a Unified word.
    pub struct UnmappedEntry {
        /// JSON Pointer relative to the wire object of the item, part, tool or body.
        pointer: String,
        /// The value as written.
        value: Json,
    }
}
record! {
    /// Payload of `<family>/unmapped@1`.
    #[derive(Default)]
    pub struct UnmappedPayload {
        /// At most 64 entries of 16 KiB.
        entries: Vec<UnmappedEntry>,
    }
}
