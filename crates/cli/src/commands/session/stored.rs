//! Sessions in a store: where one is, and how it becomes a transcript again.

use crate::error::CliError;
use std::collections::{HashMap, HashSet};
use throughline_agents::archive::{self, SESSION};
use throughline_agents::{Transcript, ids};
use throughline_format::item::UnifiedItem;
use throughline_format::resource::{ProviderDataScope, ResourceStatus, ResourceType};
use throughline_format::{UnifiedConversation, UnifiedId};
use throughline_gateway::auth::LOCAL;
use throughline_protocols::SideResource;
use throughline_store::export::bring_up_to_date;
use throughline_store::{ItemPage, MAX_PAGE, SealedResource, StateReader, Vault};

/// The conversation of a session on this machine.
pub(super) fn conversation_id(runtime: &str, session: &str) -> UnifiedId {
    ids::conversation(LOCAL, runtime, session)
}

/// All items of a branch in order, as they are now.
pub(super) async fn current_items(store: &(impl StateReader + ?Sized), branch: &UnifiedId) -> Result<Vec<UnifiedItem>, CliError> {
    let mut items = branch_items(store, branch).await?;
    bring_up_to_date(store, branch, &mut items).await?;
    Ok(items)
}

/// All items of a branch in order, as they were appended.
pub(super) async fn branch_items(store: &(impl StateReader + ?Sized), branch: &UnifiedId) -> Result<Vec<UnifiedItem>, CliError> {
    let mut all: Vec<UnifiedItem> = Vec::new();
    loop {
        let page = ItemPage {
            after_sequence: all.last().map_or(0, |item| item.sequence),
            ..ItemPage::default()
        };
        let items = store.branch_items(branch, page).await?;
        let is_last = items.len() < MAX_PAGE;
        all.extend(items);
        if is_last {
            return Ok(all);
        }
    }
}

/// The branch that a session was written to last: the one whose head is the youngest.
pub(super) async fn branch_of(store: &(impl StateReader + ?Sized), conversation: &UnifiedConversation) -> Result<UnifiedId, CliError> {
    let branches = store.branches(&conversation.conversation_id).await?;
    let last = branches.into_iter().max_by_key(|branch| (branch.created_at, branch.head_sequence));
    Ok(last.map_or_else(|| conversation.default_branch_id.clone(), |branch| branch.branch_id))
}

/// The type of a resource that only this command line makes.
pub(super) fn word(word: &str) -> ResourceType {
    ResourceType::Other(word.into())
}

/// A stored session as a transcript, with its records when there is a key for them. `None` when it was no import.
pub(super) async fn load(
    store: &(impl StateReader + ?Sized),
    vault: Option<&Vault>,
    conversation: &UnifiedConversation,
    items: Vec<UnifiedItem>,
) -> Result<Option<Transcript>, CliError> {
    let Some(vault) = vault else { return Ok(None) };
    let sealed = store.resources(&conversation.conversation_id, None).await?;
    let open = |resource: &SealedResource| {
        vault
            .open(&resource.seal_context(), &resource.sealed)
            .map(|payload| payload.to_vec())
    };
    let is = |resource: &&SealedResource, kind: &str| resource.resource_type == word(kind) && resource.status == ResourceStatus::Active;
    let Some(manifest) = sealed.iter().find(|resource| is(resource, SESSION)) else {
        return Ok(None);
    };
    let manifest = open(manifest)?;
    let by_id: HashMap<&UnifiedId, &SealedResource> = sealed.iter().map(|resource| (&resource.resource_id, resource)).collect();
    let mut private = Vec::new();
    let of_item = sealed.iter().filter(|r| r.subject.is_some() && r.status == ResourceStatus::Active);
    for resource in of_item {
        private.push(SideResource {
            resource_id: resource.resource_id.clone(),
            profile: resource.owner.profile.clone(),
            schema: resource.schema.clone(),
            scope: ProviderDataScope::OwnerPrivate,
            issuer: resource.issuer,
            resource_type: resource.resource_type.clone(),
            payload: open(resource)?,
            wire_paths: Vec::new(),
            subject: resource.subject.clone(),
        });
    }
    let segment = |id: &UnifiedId| by_id.get(id).and_then(|resource| open(resource).ok());
    let restored = archive::restore(&manifest, segment, items, private);
    // State of another owner is none of the runtime's.
    Ok(restored.map(|mut transcript| {
        let own: HashSet<UnifiedId> = sealed
            .iter()
            .filter(|resource| resource.owner.provider == transcript.runtime)
            .map(|resource| resource.resource_id.clone())
            .collect();
        transcript.resources.retain(|resource| own.contains(&resource.resource_id));
        transcript
    }))
}
