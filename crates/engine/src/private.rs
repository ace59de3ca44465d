//! Private state: sealed for its owner, released to nobody else.

use crate::engine::Engine;
use crate::live::Live;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use throughline_format::item::UnifiedItemBody;
use throughline_format::resource::{Issuer, ResourceStatus, ResourceType};
use throughline_format::{
    ErrorCategory, PartBody, ProtocolFamily, Timestamp, UnifiedError, UnifiedId, UnifiedItem, UnifiedOperation, UnifiedProtocolProfile,
    UnifiedProviderDataRef, UnifiedRequestV2, UnifiedResourceOwner,
};
use throughline_protocols::{NoPrivateState, PrivateState, SideResource};
use throughline_store::{HashPurpose, MAX_PAGE, ResourceHead, SealContext, SealedResource, UnifiedStateStore, Vault, owner_fingerprint};

/// Resources that are opened at one time.
const OPENED: usize = 100;

/// Longest ID that is looked for.
const MAX_ID_BYTES: usize = 256;

/// The resources of a conversation that one owner may see, by what they are, until it is known which of them are needed.
struct Released {
    heads: Vec<ResourceHead>,
    /// Which of them belong to an ID: their own, that of their subject, and every ID that their own is derived from.
    places: HashMap<String, Vec<usize>>,
    told: BTreeSet<usize>,
}

impl Released {
    async fn find(store: &dyn UnifiedStateStore, conversation_id: &UnifiedId, owner: &UnifiedResourceOwner) -> Result<Self, UnifiedError> {
        let (mut heads, mut after) = (Vec::new(), 0);
        loop {
            let page = store.resource_heads(conversation_id, after, MAX_PAGE).await;
            let page = page.map_err(|e| e.to_unified())?;
            let full = page.len() == MAX_PAGE;
            after = page.last().map_or(after, |head| head.number);
            heads.extend(
                page.into_iter()
                    .filter(|head| may_see(head.issuer, &head.owner, &head.resource_type, owner)),
            );
            if !full {
                break;
            }
        }
        let mut places: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, head) in heads.iter().enumerate() {
            let own = head.resource_id.as_str();
            let derived_from = own.match_indices('.').filter_map(|(end, _)| own.get(..end));
            for id in derived_from.chain([own]).chain(head.subject.as_ref().map(UnifiedId::as_str)) {
                places.entry(id.to_owned()).or_default().push(place);
            }
        }
        Ok(Self {
            heads,
            places,
            told: BTreeSet::new(),
        })
    }

    fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Notes what a record names, or has the subject of; codecs ask for nothing else. Whatever stands between quotes may be an ID:
    /// so no list of places that hold one has to be complete.
    fn note(&mut self, json: &[u8]) {
        let words = json.split(|byte| *byte == b'"').filter(|word| word.len() <= MAX_ID_BYTES);
        for places in words.filter_map(|word| self.places.get(std::str::from_utf8(word).ok()?)) {
            self.told.extend(places);
        }
    }

    fn note_derived_from(&mut self, id: &UnifiedId) {
        let heads = self.heads.iter().enumerate();
        let derived = heads.filter(|(_, head)| head.resource_id.as_str().split('.').next() == Some(id.as_str()));
        self.told.extend(derived.map(|(place, _)| place));
    }

    /// Opens what was noted.
    async fn open(self, store: &dyn UnifiedStateStore, vault: &Vault) -> Result<Vec<(SealedResource, Bytes)>, UnifiedError> {
        let told = self.told.into_iter().filter_map(|place| self.heads.get(place));
        let ids: Vec<UnifiedId> = told.map(|head| head.resource_id.clone()).collect();
        let mut opened = Vec::with_capacity(ids.len());
        for ids in ids.chunks(OPENED) {
            for resource in store.resources_by_id(ids).await.map_err(|e| e.to_unified())? {
                if resource.status == ResourceStatus::Active {
                    let payload = vault.open(&resource.seal_context(), &resource.sealed).map_err(|e| e.to_unified())?;
                    opened.push((resource, Bytes::copy_from_slice(&payload)));
                }
            }
        }
        Ok(opened)
    }
}

/// What one owner may see of a conversation, opened for one projection.
#[derive(Default)]
pub(crate) struct OwnedState {
    payloads: HashMap<UnifiedId, Bytes>,
    root: BTreeMap<String, Bytes>,
}

impl OwnedState {
    /// Opens what a request names.
    pub(crate) async fn of_request(
        engine: &Engine,
        conversation_id: &UnifiedId,
        owner: &UnifiedResourceOwner,
        request: &UnifiedRequestV2,
    ) -> Result<Self, UnifiedError> {
        let mut released = Released::find(engine.store.as_ref(), conversation_id, owner).await?;
        if !released.is_empty() {
            let json = serde_json::to_vec(request).map_err(|e| UnifiedError::new(ErrorCategory::Internal, "json", e.to_string()))?;
            released.note(&json);
        }
        let opened = released.open(engine.store.as_ref(), &engine.vault).await?;
        Ok(Self {
            payloads: opened
                .into_iter()
                .map(|(resource, payload)| (resource.resource_id, payload))
                .collect(),
            root: BTreeMap::new(),
        })
    }

    /// Opens what came with an answer, for the client that asked for it.
    async fn of_answer(engine: &Engine, operation: &UnifiedOperation, owner: &UnifiedResourceOwner) -> Result<Self, UnifiedError> {
        let mut released = Released::find(engine.store.as_ref(), &operation.conversation_id, owner).await?;
        // The ID of a resource of an answer begins with its operation.
        released.note_derived_from(&operation.operation_id);
        let mut state = Self::default();
        for (resource, payload) in released.open(engine.store.as_ref(), &engine.vault).await? {
            if resource.subject.is_none() {
                state.root.insert(resource.schema, payload.clone());
            }
            state.payloads.insert(resource.resource_id, payload);
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
    resource.status == ResourceStatus::Active && may_see(resource.issuer, &resource.owner, &resource.resource_type, owner)
}

fn may_see(issuer: Issuer, of: &UnifiedResourceOwner, resource_type: &ResourceType, owner: &UnifiedResourceOwner) -> bool {
    issuer == Issuer::Provider && of.is_compatible(owner, resource_type)
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
    /// What was sealed of an operation so that it outlives the process; `None` when it is not there, or not usable any more.
    pub(crate) async fn open_own(
        &self,
        operation: &UnifiedOperation,
        id: &UnifiedId,
        schema: &str,
    ) -> Result<Option<(SealedResource, zeroize::Zeroizing<Vec<u8>>)>, UnifiedError> {
        let stored = self.store.resource(id).await.map_err(|e| e.to_unified())?;
        let is_own = |stored: &SealedResource| {
            stored.schema == schema && stored.status == ResourceStatus::Active && stored.conversation_id == operation.conversation_id
        };
        let Some(stored) = stored.filter(is_own) else { return Ok(None) };
        let plain = self
            .vault
            .open(&stored.seal_context(), &stored.sealed)
            .map_err(|e| e.to_unified())?;
        Ok(Some((stored, plain)))
    }

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
            (None, Some(owner)) if owner.profile.family == *family => Arc::new(OwnedState::of_answer(self, operation, owner).await?),
            (None, _) => Arc::new(NoPrivateState),
        })
    }
}

/// Owner of fields that a client sent in a protocol other than the target's: nobody upstream is ever compatible with it.
pub(crate) fn client_owner(family: ProtocolFamily) -> UnifiedResourceOwner {
    UnifiedResourceOwner::of_account(UnifiedProtocolProfile::of(family), "client", "none", "none")
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
