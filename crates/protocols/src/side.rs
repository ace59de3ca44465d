//! [`SideResource`]: a payload that a record refers to and that never stands in it.

use crate::synthetic::SyntheticSealer;
use throughline_format::json::Json;
use throughline_format::resource::{Issuer, ProviderDataScope, ResourceType, UnmappedEntry, UnmappedPayload};
use throughline_format::{Sha256, UnifiedId, UnifiedProtocolProfile, UnifiedProviderDataRef};

/// A private payload or registered annotation beside a record.
#[derive(Clone, PartialEq, Eq)]
pub struct SideResource {
    /// Its ID, derived from the item, part or operation that it belongs to.
    pub resource_id: UnifiedId,
    /// Protocol that it belongs to.
    pub profile: UnifiedProtocolProfile,
    /// Registered schema, such as `anthropic-messages/thinking-signature@1`.
    pub schema: String,
    /// Who may see it.
    pub scope: ProviderDataScope,
    /// Who made it.
    pub issuer: Issuer,
    /// Kind, which decides what it is bound to.
    pub resource_type: ResourceType,
    /// The payload; text payloads are the bytes of the wire's string.
    pub payload: Vec<u8>,
    /// JSON Pointers into the wire body.
    pub wire_paths: Vec<String>,
    /// Item, part or tool that refers to it; absent = the request or response as a whole.
    pub subject: Option<UnifiedId>,
}

impl std::fmt::Debug for SideResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SideResource")
            .field("resource_id", &self.resource_id)
            .field("schema", &self.schema)
            .field("bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

impl SideResource {
    /// A private reasoning payload (signature, redacted data, encrypted content) of a part or item.
    pub fn reasoning(
        profile: UnifiedProtocolProfile,
        schema: &str,
        subject: &UnifiedId,
        payload: Vec<u8>,
        issuer: Issuer,
        wire_path: String,
    ) -> Self {
        let issuer = SyntheticSealer::issuer(&payload, issuer);
        Self {
            resource_id: subject.resource(0),
            profile,
            schema: schema.to_owned(),
            scope: ProviderDataScope::OwnerPrivate,
            issuer,
            resource_type: ResourceType::Reasoning,
            payload,
            wire_paths: vec![wire_path],
            subject: Some(subject.clone()),
        }
    }

    /// Digest of the payload.
    pub fn sha256(&self) -> Sha256 {
        Sha256::of(&self.payload)
    }

    /// The reference that a record carries.
    pub fn reference(&self) -> UnifiedProviderDataRef {
        UnifiedProviderDataRef {
            profile: self.profile.clone(),
            scope: self.scope,
            schema: self.schema.clone(),
            resource_id: self.resource_id.clone(),
        }
    }
}

/// Bounds of `<family>/unmapped@1`.
pub const MAX_UNMAPPED_ENTRIES: usize = 64;
/// Largest value of one entry, in bytes of JSON text.
pub const MAX_UNMAPPED_BYTES: usize = 16 * 1024;

/// Schema name of the fields of a family that have no Unified word.
pub fn unmapped_schema(profile: &UnifiedProtocolProfile) -> String {
    format!("{}/unmapped@1", profile.family)
}

/// Collects fields without a Unified word of one wire object. `number` tells resources of one subject apart.
///
/// Entries beyond the bounds are not kept; the second value names their pointers (relative to the object), to be reported.
pub fn unmapped(
    profile: &UnifiedProtocolProfile,
    subject: Option<&UnifiedId>,
    resource_id: UnifiedId,
    wire_path: &str,
    fields: impl IntoIterator<Item = (String, Json)>,
) -> (Option<SideResource>, Vec<String>) {
    let (mut payload, mut paths, mut refused) = (UnmappedPayload::default(), Vec::new(), Vec::new());
    for (pointer, value) in fields {
        if payload.entries.len() >= MAX_UNMAPPED_ENTRIES || value.as_str().len() > MAX_UNMAPPED_BYTES {
            refused.push(pointer);
            continue;
        }
        paths.push(format!("{wire_path}{pointer}"));
        payload.entries.push(UnmappedEntry { pointer, value });
    }
    if payload.entries.is_empty() {
        return (None, refused);
    }
    let resource = SideResource {
        resource_id,
        profile: profile.clone(),
        schema: unmapped_schema(profile),
        scope: ProviderDataScope::OwnerPrivate,
        issuer: Issuer::Provider,
        resource_type: ResourceType::Other("unmapped".into()),
        payload: serde_json::to_vec(&payload).unwrap_or_default(),
        wire_paths: paths,
        subject: subject.cloned(),
    };
    (Some(resource), refused)
}
