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
use throughline_format::{UnifiedError, UnifiedId};
use throughline_protocols::SideResource;

/// What becomes of private payloads that a request presents.
#[derive(Default)]
pub(crate) struct Claims {
    /// Payloads that this request's own projection may use.
    pub(crate) lent: Vec<SideResource>,
    /// Payloads to seal with the new items; the flag tells whether the target owns them.
    pub(crate) stored: Vec<(SideResource, bool)>,
    /// Presented payloads that the store knows, by the ID under which it does.
    pub(crate) renamed: BTreeMap<UnifiedId, UnifiedId>,
    /// Presented payloads whose owner is not established: they stand in no record.
    pub(crate) dropped: BTreeSet<UnifiedId>,
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
    /// Decides what becomes of private payloads that the request presents.
    pub(crate) async fn claims(&self, prepared: &Prepared, new_items: &[usize], target: &Target) -> Result<Claims, UnifiedError> {
        let mut claims = Claims::default();
        let same_family = prepared.turn.codec.profile().family == target.codec.profile().family;
        let presented: Vec<&SideResource> = prepared.decoded.resources.iter().collect();
        let mut hashes = Vec::new();
        for side in &presented {
            if private::is_provider_state(side) && side.issuer == Issuer::ClientAsserted {
                hashes.push((private::payload_hash(&self.vault, &side.payload)?, side.resource_id.clone()));
            }
        }
        let wanted: Vec<_> = hashes.iter().map(|(hash, _)| *hash).collect();
        let known = if wanted.is_empty() {
            Vec::new()
        } else {
            self.store
                .resources_by_payload_hash(&prepared.principal_ref, &wanted)
                .await
                .map_err(|e| e.to_unified())?
        };
        let new_subjects = new_subjects(prepared, new_items);
        for side in presented {
            let is_new = side.subject.as_ref().is_some_and(|s| new_subjects.contains(s));
            if !private::is_provider_state(side) {
                if same_family {
                    claims.lent.push(side.clone());
                }
                if is_new {
                    claims.stored.push((side.clone(), same_family));
                }
                continue;
            }
            let hash = hashes.iter().find(|(_, id)| *id == side.resource_id).map(|(hash, _)| *hash);
            let stored = known.iter().find(|resource| Some(resource.payload_hash) == hash);
            let released = stored.is_some_and(|resource| private::is_released(resource, &target.owner));
            if let Some(stored) = stored {
                claims.renamed.insert(side.resource_id.clone(), stored.resource_id.clone());
            } else {
                claims.dropped.insert(side.resource_id.clone());
            }
            if side.issuer == Issuer::ClientAsserted && stored.is_none() && target.client_state_is_ours {
                claims.lent.push(side.clone());
            } else if !released {
                claims.foreign = true;
            }
        }
        Ok(claims)
    }
}
