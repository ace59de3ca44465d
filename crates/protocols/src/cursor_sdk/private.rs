//! What the record has no word for, and handles of the runtime; all of it goes back only to its owner.

use super::profile;
use crate::context::DecodeContext;
use crate::feature::Feature;
use crate::projection::LossCollector;
use crate::side::{self, SideResource};
use throughline_format::resource::{Issuer, ProviderDataScope, ResourceType};
use throughline_format::{Json, UnifiedId, UnifiedProviderDataRef, UnifiedProviderResourceRef};

/// Schema of raw members.
pub(super) const UNMAPPED: &str = "cursor-sdk/unmapped@1";
/// Schema of spellings of a body.
pub(super) const FORM: &str = "cursor-sdk/form@1";
/// Schema of an agent's ID: it leads to the runtime's memory of a conversation.
pub(super) const AGENT: &str = "cursor-sdk/agent-id@1";
/// Schema of a run's ID.
pub(super) const RUN: &str = "cursor-sdk/run-id@1";
/// Schema of a reference to a local checkpoint, never looked into.
pub(super) const CHECKPOINT: &str = "cursor-sdk/checkpoint@1";
/// Schema of a call ID as the runtime wrote it, where the record has another form.
pub(super) const CALL_ID: &str = "cursor-sdk/call-id@1";
/// Schema of where a stored run can be read on.
pub(super) const OFFSET: &str = "cursor-sdk/offset@1";

/// Collects side resources and what a decode could not say.
pub(super) struct Keeper {
    pub context: DecodeContext,
    issuer: Issuer,
    pub resources: Vec<SideResource>,
    pub loss: LossCollector,
}

impl Keeper {
    pub(super) fn new(context: DecodeContext, issuer: Issuer) -> Self {
        Self {
            context,
            issuer,
            resources: Vec::new(),
            loss: LossCollector::new(),
        }
    }

    /// Keeps a payload of its own schema.
    pub(super) fn keep(
        &mut self,
        schema: &str,
        kind: ResourceType,
        subject: Option<&UnifiedId>,
        resource_id: UnifiedId,
        payload: &[u8],
        wire_paths: Vec<String>,
    ) -> UnifiedProviderDataRef {
        let resource = SideResource {
            resource_id,
            profile: profile(),
            schema: schema.to_owned(),
            scope: ProviderDataScope::OwnerPrivate,
            issuer: self.issuer,
            resource_type: kind,
            payload: payload.to_vec(),
            wire_paths,
            subject: subject.cloned(),
        };
        let reference = resource.reference();
        self.resources.push(resource);
        reference
    }

    /// Seals a handle of the runtime and gives what a record may hold of it.
    pub(super) fn handle(
        &mut self,
        schema: &str,
        kind: ResourceType,
        resource_id: UnifiedId,
        handle: &str,
        path: &str,
    ) -> UnifiedProviderResourceRef {
        let owner_fingerprint = self.context.owner_fingerprint;
        let reference = self.keep(schema, kind.clone(), None, resource_id, handle.as_bytes(), vec![path.to_owned()]);
        UnifiedProviderResourceRef {
            resource_id: reference.resource_id,
            resource_type: kind,
            owner_fingerprint,
            status: None,
            expires_at: None,
        }
    }

    /// Keeps members without a word.
    pub(super) fn leftovers(
        &mut self,
        subject: Option<&UnifiedId>,
        resource_id: UnifiedId,
        path: &str,
        fields: impl IntoIterator<Item = (String, Json)>,
    ) -> Option<UnifiedProviderDataRef> {
        let fields: Vec<_> = fields.into_iter().filter(|(_, value)| value.as_str() != "null").collect();
        for (pointer, _) in &fields {
            self.loss.info(
                Feature::WireUnmapped,
                format!("{path}{pointer}"),
                "no word for it; kept for the same protocol",
            );
        }
        let (resource, refused) = side::unmapped(&profile(), subject, resource_id, path, fields);
        for pointer in refused {
            self.loss.warning(
                Feature::WireUnmapped,
                format!("{path}{pointer}"),
                "no word for it, and too large to be kept",
            );
        }
        let resource = resource?;
        let reference = resource.reference();
        self.resources.push(resource);
        Some(reference)
    }
}

/// Kind of resources that are no state of a provider.
pub(super) fn other() -> ResourceType {
    ResourceType::Other("unmapped".into())
}
