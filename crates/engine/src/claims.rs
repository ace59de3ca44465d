//! Claims: what becomes of private payloads that a request presents (architecture.md, Private state).
//!
//! A payload is looked up by a keyed hash. Known: its stored owner decides. Unknown: its owner is not established, so it
//! goes to nobody, unless the route declares that the client's state is the target's own; even then it is never stored.

use crate::engine::Engine;
use crate::ports::Target;
use crate::private;
use crate::turn::Prepared;
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::resource::Issuer;
use throughline_format::{Sha256, UnifiedError, UnifiedId, UnifiedResourceOwner};
use throughline_protocols::SideResource;
use throughline_store::{MAX_LOOKUP, SealedResource};

/// What becomes of private payloads that a request presents.
#[derive(Default)]
pub(crate) struct Claims {
    /// Payloads that this request's own projection may use.
    pub(crate) lent: Vec<SideResource>,
    /// Payloads to seal with the new items, and whose they are.
    pub(crate) stored: Vec<(SideResource, UnifiedResourceOwner)>,
    /// Presented payloads that the store knows, by the ID under which it does.
    pub(crate) renamed: BTreeMap<UnifiedId, UnifiedId>,
    /// Presented payloads whose owner is not established: no stored record refers to them.
    pub(crate) unknown: BTreeSet<UnifiedId>,
    /// Something presented may not go to the target, so the client's bytes may not pass through.
    pub(crate) foreign: bool,
}

/// IDs of the items, parts and tools that a request adds.
fn new_subjects(prepared: &Prepared, new_items: &[usize]) -> BTreeSet<UnifiedId> {
    let items = &prepared.decoded.unified.conversation.items;
    let mut subjects = BTreeSet::new();
    for item in new_items.iter().filter_map(|i| items.get(*i)) {
        subjects.insert(item.id.clone());
        subjects.extend(item.parts().iter().map(|part| part.part_id.clone()));
    }
    subjects
}

impl Engine {
    /// Decides what becomes of private payloads that the request presents; `home` is its conversation, when it has one already.
    pub(crate) async fn claims(
        &self,
        prepared: &Prepared,
        new_items: &[usize],
        home: Option<&UnifiedId>,
        target: &Target,
    ) -> Result<Claims, UnifiedError> {
        let mut claims = Claims::default();
        let same_family = prepared.turn.codec.profile().family == target.codec.profile().family;
        let known = self.known_payloads(prepared, target).await?;
        let new_subjects = new_subjects(prepared, new_items);
        for side in &prepared.decoded.resources {
            let is_new = side.subject.as_ref().is_some_and(|s| new_subjects.contains(s));
            if !private::is_provider_state(side) {
                if same_family {
                    claims.lent.push(side.clone());
                }
                if is_new {
                    let owner = if same_family {
                        target.owner.clone()
                    } else {
                        private::client_owner(prepared.turn.codec.profile().family)
                    };
                    claims.stored.push((side.clone(), owner));
                }
                continue;
            }
            let Some(stored) = known.get(&side.resource_id) else {
                claims.unknown.insert(side.resource_id.clone());
                if side.issuer == Issuer::ClientAsserted && target.client_state_is_ours {
                    claims.lent.push(side.clone());
                } else {
                    claims.foreign = true;
                }
                continue;
            };
            let released = private::is_released(stored, &target.owner);
            claims.foreign |= !released;
            if home == Some(&stored.conversation_id) {
                claims.renamed.insert(side.resource_id.clone(), stored.resource_id.clone());
                continue;
            }
            // Another conversation of this principal holds it; this one keeps a copy of its own, under the same owner.
            let copy = SideResource {
                issuer: stored.issuer,
                ..side.clone()
            };
            if released {
                claims.lent.push(copy.clone());
            }
            if is_new {
                claims.stored.push((copy, stored.owner.clone()));
            }
        }
        Ok(claims)
    }

    /// The stored resources whose payloads the request presents, by the ID that the request gives them. Of several that hold
    /// one payload, one that the target may see comes first.
    async fn known_payloads(&self, prepared: &Prepared, target: &Target) -> Result<BTreeMap<UnifiedId, SealedResource>, UnifiedError> {
        let mut wanted: BTreeMap<Sha256, Vec<&UnifiedId>> = BTreeMap::new();
        for side in &prepared.decoded.resources {
            if private::is_provider_state(side) && side.issuer == Issuer::ClientAsserted {
                wanted
                    .entry(private::payload_hash(&self.vault, &side.payload)?)
                    .or_default()
                    .push(&side.resource_id);
            }
        }
        let hashes: Vec<Sha256> = wanted.keys().copied().collect();
        let mut known: BTreeMap<UnifiedId, SealedResource> = BTreeMap::new();
        for chunk in hashes.chunks(MAX_LOOKUP) {
            for resource in self
                .store
                .resources_by_payload_hash(&prepared.principal_ref, chunk)
                .await
                .map_err(|e| e.to_unified())?
            {
                let released = private::is_released(&resource, &target.owner);
                for id in wanted.get(&resource.payload_hash).into_iter().flatten() {
                    if released || !known.contains_key(*id) {
                        known.insert((*id).clone(), resource.clone());
                    }
                }
            }
        }
        Ok(known)
    }
}
