//! A conversation as a bundle, its verification, its line in a list, and the current view of its items, over the read traits.
//!
//! Reads go in pages, so no read transaction lasts longer than one of them. The branches are read first: what is appended
//! meanwhile lies beyond their heads and is not in the bundle. Owner-private payloads never are; the bundle names them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use throughline_format::export::PrivateResourceEntry;
use throughline_format::item::UnifiedItemBody;
use throughline_format::media::UnifiedDataSource;
use throughline_format::validate::semantics;
use throughline_format::{
    PartBody, SchemaVersion, Sha256, Timestamp, UnifiedArtifact, UnifiedBranch, UnifiedContentPart, UnifiedConversation, UnifiedExportV2,
    UnifiedId, UnifiedItem, UnifiedItemRevision, revision,
};

use crate::records::ItemPage;
use crate::traits::StateReader;
use crate::{MAX_PAGE, StoreError};

/// The bundle of a conversation (contract.md, section 3), `not-found.resource` when there is none.
///
/// Entries of private resources have digest and size of the sealed record: those of the payload would tell something about it.
pub async fn export(store: &dyn StateReader, conversation_id: &UnifiedId, now: Timestamp) -> Result<UnifiedExportV2, StoreError> {
    let conversation = require(store, conversation_id).await?;
    let branches = store.branches(conversation_id).await?;
    let mut items = Vec::new();
    let mut sequences = BTreeMap::new();
    for branch in &branches {
        let fork = branch
            .fork_item_id
            .as_ref()
            .and_then(|item| sequences.get(item))
            .copied()
            .unwrap_or(0);
        for item in own_items(store, branch, fork).await? {
            sequences.insert(item.id.clone(), item.sequence);
            items.push(item);
        }
    }
    let mut revisions = BTreeMap::new();
    for branch in &branches {
        for revision in store.branch_revisions(&branch.branch_id).await? {
            if sequences.contains_key(&revision.item_id) {
                revisions.insert((revision.item_id.clone(), revision.number), revision);
            }
        }
    }
    let revisions: Vec<UnifiedItemRevision> = revisions.into_values().collect();
    let annotations = store.annotations(conversation_id).await?;
    let mut export = UnifiedExportV2 {
        schema_version: SchemaVersion,
        exported_at: now,
        artifacts: artifacts(store, &conversation.principal_ref, &items, &revisions).await?,
        conversation,
        branches,
        items,
        revisions,
        annotations: annotations.into_iter().map(|stored| stored.annotation).collect(),
        private_resources: private_resources(store, conversation_id).await?,
        fingerprint: Sha256::of(b""),
    };
    export.fingerprint = semantics::export_fingerprint(&export).map_err(|error| StoreError::Corrupt {
        detail: format!("the conversation has no canonical form: {error}"),
    })?;
    Ok(export)
}

/// What the bundle says of private resources. One payload at a time is read for its digest.
async fn private_resources(store: &dyn StateReader, conversation_id: &UnifiedId) -> Result<Vec<PrivateResourceEntry>, StoreError> {
    let (mut entries, mut after) = (Vec::new(), 0);
    loop {
        let heads = store.resource_heads(conversation_id, after, MAX_PAGE).await?;
        let Some(last) = heads.last() else { return Ok(entries) };
        after = last.number;
        for head in heads {
            // One that retention took meanwhile is not in the bundle.
            let Some(resource) = store.resource(&head.resource_id).await? else {
                continue;
            };
            entries.push(PrivateResourceEntry {
                resource_id: head.resource_id,
                resource_type: head.resource_type,
                sha256: resource.sealed.digest(),
                size: head.size,
            });
        }
    }
}

async fn require(store: &dyn StateReader, conversation_id: &UnifiedId) -> Result<UnifiedConversation, StoreError> {
    let found = store.conversation(conversation_id).await?;
    found.ok_or_else(|| StoreError::not_found("conversation", conversation_id))
}

/// The items that were appended to the branch itself, up to its head as it was read.
async fn own_items(store: &dyn StateReader, branch: &UnifiedBranch, fork_sequence: u64) -> Result<Vec<UnifiedItem>, StoreError> {
    let mut items: Vec<UnifiedItem> = Vec::new();
    loop {
        let page = ItemPage {
            after_sequence: items.last().map_or(fork_sequence, |item| item.sequence),
            through_sequence: Some(branch.head_sequence),
            ..ItemPage::default()
        };
        let found = store.branch_items(&branch.branch_id, page).await?;
        let full = found.len() == MAX_PAGE;
        items.extend(found);
        if !full {
            items.retain(|item| item.branch_id == branch.branch_id);
            return Ok(items);
        }
    }
}

/// Metadata of what the items and their revisions refer to, of this principal only.
async fn artifacts(
    store: &dyn StateReader,
    principal_ref: &str,
    items: &[UnifiedItem],
    revisions: &[UnifiedItemRevision],
) -> Result<Vec<UnifiedArtifact>, StoreError> {
    let mut named = BTreeSet::new();
    for item in items {
        if let UnifiedItemBody::Artifact(artifact) = &item.body {
            named.insert(artifact.artifact_id.clone());
        }
        item.parts().iter().for_each(|part| name_artifacts(part, &mut named));
    }
    let new_parts = revisions.iter().filter_map(|revision| revision.change.parts.as_ref());
    new_parts.flatten().for_each(|part| name_artifacts(part, &mut named));
    let mut found = Vec::new();
    for artifact_id in named {
        let stored = store.artifact(&artifact_id).await?;
        found.extend(
            stored
                .filter(|stored| stored.principal_ref == principal_ref)
                .map(|stored| stored.artifact),
        );
    }
    Ok(found)
}

fn name_artifacts(part: &UnifiedContentPart, named: &mut BTreeSet<UnifiedId>) {
    match &part.body {
        PartBody::ArtifactReference(reference) => drop(named.insert(reference.artifact_id.clone())),
        PartBody::Image(media)
        | PartBody::Audio(media)
        | PartBody::Video(media)
        | PartBody::Document(media)
        | PartBody::File(media)
        | PartBody::Binary(media) => {
            if let UnifiedDataSource::Artifact(source) = &media.source {
                named.insert(source.artifact_id.clone());
            }
        }
        PartBody::GroundingSource(source) => source.parts.iter().flatten().for_each(|part| name_artifacts(part, named)),
        PartBody::Text(_) | PartBody::Reasoning(_) | PartBody::Refusal(_) | PartBody::Json(_) | PartBody::Citation(_) => {}
    }
}

/// Brings items of a branch to their current view: as appended, with their revisions applied in order.
pub async fn bring_up_to_date(
    store: &(impl StateReader + ?Sized),
    branch_id: &UnifiedId,
    items: &mut [UnifiedItem],
) -> Result<(), StoreError> {
    if !items.is_empty() {
        revision::bring_up_to_date(items, &store.branch_revisions(branch_id).await?);
    }
    Ok(())
}

/// What a verification found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// The conversation.
    pub conversation_id: UnifiedId,
    /// Items on all branches.
    pub items: usize,
    /// Fingerprint of its bundle without the time of the export: it changes only when the conversation does.
    pub fingerprint: Sha256,
    /// Whether nothing was found.
    pub ok: bool,
    /// What was found, without content.
    pub problems: Vec<String>,
}

/// Recomputes everything that can be recomputed of a conversation: the rules of its bundle, audit hashes of its summaries, digests
/// of its artifacts.
pub async fn verify(store: &dyn StateReader, conversation_id: &UnifiedId) -> Result<Verification, StoreError> {
    let export = export(store, conversation_id, Timestamp::EPOCH).await?;
    let mut problems: Vec<String> = semantics::export(&export)
        .into_iter()
        .map(|violation| format!("{}: {}", violation.path, violation.message))
        .collect();
    for artifact in &export.artifacts {
        if let Err(error) = store.artifact_content(artifact).await {
            problems.push(format!("artifact {}: {error}", artifact.artifact_id));
        }
    }
    Ok(Verification {
        conversation_id: conversation_id.clone(),
        items: export.items.len(),
        fingerprint: export.fingerprint,
        ok: problems.is_empty(),
        problems,
    })
}

/// A conversation as lists show it (contract.md, section 2): without its principal, with what its branches tell.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationSummary {
    conversation_id: UnifiedId,
    default_branch_id: UnifiedId,
    created_at: Timestamp,
    last_updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<throughline_format::metadata::UnifiedSemanticMetadata>,
    active_branch_id: UnifiedId,
    item_count: u64,
    expires_at: Timestamp,
}

/// The summary of a conversation. The active branch is the one that was appended to last.
pub async fn summary(
    store: &dyn StateReader,
    conversation: UnifiedConversation,
    retention_days: u32,
) -> Result<ConversationSummary, StoreError> {
    let (mut item_count, mut active) = (0, None);
    for branch in store.branches(&conversation.conversation_id).await? {
        let fork = match &branch.fork_item_id {
            Some(item) => store.item(item).await?.map_or(0, |item| item.sequence),
            None => 0,
        };
        item_count += branch.head_sequence.saturating_sub(fork);
        if branch.head_sequence > fork
            && let Some(head) = &branch.head_item_id
            && let Some(head) = store.item(head).await?
        {
            active = active.max(Some((head.created_at, branch.branch_id)));
        }
    }
    Ok(ConversationSummary {
        active_branch_id: active.map_or_else(|| conversation.default_branch_id.clone(), |(_, branch_id)| branch_id),
        item_count,
        expires_at: conversation
            .last_updated_at
            .plus_millis(i64::from(retention_days) * 24 * 60 * 60 * 1_000),
        conversation_id: conversation.conversation_id,
        default_branch_id: conversation.default_branch_id,
        created_at: conversation.created_at,
        last_updated_at: conversation.last_updated_at,
        title: conversation.title,
        metadata: conversation.metadata,
    })
}
