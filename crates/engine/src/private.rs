//! Private state: sealed for its owner, released to nobody else.

use crate::engine::Engine;
use crate::live::Live;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use throughline_format::item::UnifiedItemBody;
use throughline_format::resource::{Issuer, ResourceStatus, ResourceType};
use throughline_format::{
    PartBody, ProtocolFamily, Timestamp, UnifiedError, UnifiedId, UnifiedItem, UnifiedOperation, UnifiedProtocolProfile,
    UnifiedProviderDataRef, UnifiedResourceOwner,
};
use throughline_protocols::{NoPrivateState, PrivateState, SideResource};
use throughline_store::{HashPurpose, SealContext, SealedResource, UnifiedStateStore, Vault, owner_fingerprint};

/// What one owner may see of a conversation, opened for one projection.
#[derive(Default)]
pub(crate) struct OwnedState {
    payloads: HashMap<UnifiedId, Bytes>,
    root: BTreeMap<String, Bytes>,
}

impl OwnedState {
    /// Opens every resource of the conversation whose owner is compatible with `owner` and that a provider issued.
    pub(crate) async fn load(
        store: &dyn UnifiedStateStore,
        vault: &Vault,
        conversation_id: &UnifiedId,
        owner: &UnifiedResourceOwner,
    ) -> Result<Self, UnifiedError> {
        let mut state = Self::default();
        for resource in store.resources(conversation_id, None).await.map_err(|e| e.to_unified())? {
            if is_released(&resource, owner) {
                let payload = vault.open(&resource.seal_context(), &resource.sealed).map_err(|e| e.to_unified())?;
                state.payloads.insert(resource.resource_id, Bytes::copy_from_slice(&payload));
            }
        }
        Ok(state)
    }

    /// Opens what came with an answer, for the client that asked for it.
    async fn of_answer(
        store: &dyn UnifiedStateStore,
        vault: &Vault,
        operation: &UnifiedOperation,
        owner: &UnifiedResourceOwner,
    ) -> Result<Self, UnifiedError> {
        let mut state = Self::default();
        // The ID of a resource of an answer begins with its operation.
        let of_answer = |id: &UnifiedId| id.as_str().split('.').next() == Some(operation.operation_id.as_str());
        for resource in store
            .resources(&operation.conversation_id, None)
            .await
            .map_err(|e| e.to_unified())?
        {
            if of_answer(&resource.resource_id) && is_released(&resource, owner) {
                let payload = vault.open(&resource.seal_context(), &resource.sealed).map_err(|e| e.to_unified())?;
                let payload = Bytes::copy_from_slice(&payload);
                if resource.subject.is_none() {
                    state.root.insert(resource.schema, payload.clone());
                }
                state.payloads.insert(resource.resource_id, payload);
            }
        }
        Ok(state)
    }

    /// Adds the handle of a checkpoint that this request goes on by.
    pub(crate) fn present(&mut self, id: &UnifiedId, schema: &str, payload: &Bytes) {
        self.root.insert(schema.to_owned(), payload.clone());
        self.payloads.insert(id.clone(), payload.clone());
    }

    /// Adds a payload that this request itself carries.
    pub(crate) fn lend(&mut self, resource: &SideResource) {
        let payload = Bytes::copy_from_slice(&resource.payload);
        if resource.subject.is_none() {
            self.root.insert(resource.schema.clone(), payload.clone());
        }
        self.payloads.insert(resource.resource_id.clone(), payload);
    }
}

impl PrivateState for OwnedState {
    fn payload(&self, resource_id: &UnifiedId) -> Option<Bytes> {
        self.payloads.get(resource_id).cloned()
    }

    fn root_payload(&self, schema: &str) -> Option<Bytes> {
        self.root.get(schema).cloned()
    }
}

/// Whether a stored resource may be shown to an owner: exact scope, issued by the provider, still usable.
pub(crate) fn is_released(resource: &SealedResource, owner: &UnifiedResourceOwner) -> bool {
    resource.issuer == Issuer::Provider
        && resource.status == ResourceStatus::Active
        && resource.owner.is_compatible(owner, &resource.resource_type)
}

/// What the requesting client may see of its own answer: state of its own protocol, which it must be able to send back.
pub(crate) struct ClientState(pub(crate) Arc<Live>);

impl PrivateState for ClientState {
    fn payload(&self, resource_id: &UnifiedId) -> Option<Bytes> {
        self.0.secret(resource_id)
    }

    fn root_payload(&self, schema: &str) -> Option<Bytes> {
        self.0.root_secret(schema)
    }
}

impl Engine {
    /// What a client that reads an answer again may see of it: what it got the first time, state of its own protocol.
    pub(crate) async fn state_of_answer(
        &self,
        live: Option<Arc<Live>>,
        operation: &UnifiedOperation,
        family: &ProtocolFamily,
    ) -> Result<Arc<dyn PrivateState>, UnifiedError> {
        Ok(match (live, &operation.owner) {
            // What is not committed yet is only there.
            (Some(live), _) => Arc::new(ClientState(live)),
            (None, Some(owner)) if owner.profile.family == *family => {
                Arc::new(OwnedState::of_answer(self.store.as_ref(), &self.vault, operation, owner).await?)
            }
            (None, _) => Arc::new(NoPrivateState),
        })
    }
}

/// Owner of fields that a client sent in a protocol other than the target's: nobody upstream is ever compatible with it.
pub(crate) fn client_owner(family: ProtocolFamily) -> UnifiedResourceOwner {
    UnifiedResourceOwner {
        profile: UnifiedProtocolProfile::of(family),
        provider: "client".into(),
        credential_fingerprint: "none".into(),
        endpoint_fingerprint: "none".into(),
        project: None,
        region: None,
        tenant: None,
        model: None,
        model_family: None,
        api_revision: None,
    }
}

/// Seals a payload for its owner.
pub(crate) fn seal(
    vault: &Vault,
    side: &SideResource,
    conversation_id: &UnifiedId,
    owner: &UnifiedResourceOwner,
    now: Timestamp,
) -> Result<SealedResource, UnifiedError> {
    let fingerprint = owner_fingerprint(owner).map_err(|e| e.to_unified())?;
    let context = SealContext::resource(side.resource_id.clone(), conversation_id.clone(), fingerprint);
    Ok(SealedResource {
        resource_id: side.resource_id.clone(),
        conversation_id: conversation_id.clone(),
        resource_type: side.resource_type.clone(),
        schema: side.schema.clone(),
        issuer: side.issuer,
        owner: owner.clone(),
        owner_fingerprint: fingerprint,
        subject: side.subject.clone(),
        payload_hash: payload_hash(vault, &side.payload)?,
        prefix_hash: None,
        sealed: vault.seal(&context, &side.payload).map_err(|e| e.to_unified())?,
        status: ResourceStatus::Active,
        created_at: now,
        expires_at: None,
    })
}

/// The keyed hash under which a presented payload is found.
pub(crate) fn payload_hash(vault: &Vault, payload: &[u8]) -> Result<throughline_format::Sha256, UnifiedError> {
    vault.keyed_hash(HashPurpose::PrivatePayload, payload).map_err(|e| e.to_unified())
}

/// Whether a side resource is state that a provider signs or encrypts, as opposed to fields without a Unified word.
pub(crate) fn is_provider_state(resource: &SideResource) -> bool {
    !matches!(&resource.resource_type, ResourceType::Other(word) if &**word == "unmapped")
}

/// Visits every reference of an item; those for which `keep` is false are removed.
pub(crate) fn retain_references(item: &mut UnifiedItem, keep: &mut dyn FnMut(&mut UnifiedProviderDataRef) -> bool) {
    retain(&mut item.base.provider_data, keep);
    if let UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) = &mut item.body
        && call.private_linkage.as_mut().is_some_and(|r| !keep(r))
    {
        call.private_linkage = None;
    }
    for part in item.parts_mut().into_iter().flatten() {
        retain(&mut part.base.provider_data, keep);
        if let PartBody::Reasoning(reasoning) = &mut part.body
            && reasoning.private_state.as_mut().is_some_and(|s| !keep(&mut s.r#ref))
        {
            reasoning.private_state = None;
        }
    }
}

fn retain(list: &mut Option<Vec<UnifiedProviderDataRef>>, keep: &mut dyn FnMut(&mut UnifiedProviderDataRef) -> bool) {
    if let Some(references) = list {
        references.retain_mut(|r| keep(r));
        if references.is_empty() {
            *list = None;
        }
    }
}
