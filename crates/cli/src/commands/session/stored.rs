//! Sessions in a store: how one is kept, and how it becomes a transcript again.

use crate::error::CliError;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use throughline_agents::archive::{self, RECORDS, SESSION};
use throughline_agents::{Transcript, ids, place_after};
use throughline_engine::Principal;
use throughline_format::item::UnifiedItem;
use throughline_format::resource::{Issuer, ProviderDataScope, ResourceStatus, ResourceType};
use throughline_format::{
    Json, Sha256, Timestamp, UnifiedBranch, UnifiedConversation, UnifiedId, UnifiedItemBody, UnifiedPortableAnnotation,
    UnifiedProtocolProfile, UnifiedResourceOwner, content_fingerprint,
};
use throughline_gateway::auth::LOCAL;
use throughline_protocols::SideResource;
use throughline_store::export::bring_up_to_date;
use throughline_store::{
    HashPurpose, ItemPage, MAX_PAGE, SealContext, SealedResource, StateReader, UnifiedStateStore, Vault, WriteBatch, WriteOp,
    owner_fingerprint,
};

/// Most items and bytes of one batch.
const BATCH_ITEMS: usize = 1_000;
const BATCH_BYTES: usize = 16 * 1024 * 1024;

/// What became of a session.
pub(super) struct Kept {
    pub(super) conversation_id: UnifiedId,
    pub(super) branch_id: UnifiedId,
    pub(super) added: usize,
    pub(super) skipped: usize,
}

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
async fn branch_items(store: &(impl StateReader + ?Sized), branch: &UnifiedId) -> Result<Vec<UnifiedItem>, CliError> {
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

/// Keeps a session. What is stored already is left alone: items are only ever appended, to the branch that they go on from, or to a
/// fork where the session took another way.
pub(super) async fn keep(
    store: &dyn UnifiedStateStore,
    vault: &Arc<Vault>,
    transcript: &Transcript,
    now: Timestamp,
) -> Result<Kept, CliError> {
    let conversation = conversation_id(&transcript.runtime, &transcript.session.id);
    let mut first = Vec::new();
    let (branch, stored) = match store.conversation(&conversation).await? {
        None => {
            let branch = ids::branch(&conversation);
            first.extend(beginning(vault, transcript, &conversation, &branch, now)?);
            (branch, Vec::new())
        }
        Some(known) => longest(store, &known, &transcript.items).await?,
    };
    let common = common(&stored, &transcript.items);
    let fork = common < stored.len();
    let mut items: Vec<UnifiedItem> = transcript.items.get(common..).unwrap_or_default().to_vec();
    let mut target = branch.clone();
    // IDs of this transcript by those of the journal: on a fork they are others.
    let mut names: HashMap<UnifiedId, UnifiedId> = HashMap::new();
    for (stored, item) in stored.iter().zip(&transcript.items).take(common) {
        names.insert(item.id.clone(), stored.id.clone());
    }
    if fork && !items.is_empty() {
        let at = common.checked_sub(1).and_then(|at| stored.get(at));
        target = fork_of(&conversation, at, &items);
        if store.branch(&target).await?.is_none() {
            first.push(WriteOp::CreateBranch(UnifiedBranch {
                branch_id: target.clone(),
                conversation_id: conversation.clone(),
                parent_branch_id: at.map(|_| branch.clone()),
                fork_item_id: at.map(|item| item.id.clone()),
                head_item_id: None,
                head_sequence: 0,
                created_at: now,
            }));
        }
        names.extend(rename(&mut items, &target));
    }
    let before = stored.get(..common).unwrap_or_default();
    place_after(before, &mut items, &conversation, &target);
    let added = items.len();
    let mut ops = first;
    ops.extend(resources(store, vault, transcript, &items, &conversation, now).await?);
    append(
        store,
        &conversation,
        &target,
        before.last().map(|item| item.id.clone()),
        items,
        ops,
        now,
    )
    .await?;
    records(store, vault, &renamed(transcript, &names), &conversation, now).await?;
    Ok(Kept {
        conversation_id: conversation,
        branch_id: target,
        added,
        skipped: common,
    })
}

/// The conversation and its branch.
fn beginning(
    vault: &Vault,
    transcript: &Transcript,
    conversation: &UnifiedId,
    branch: &UnifiedId,
    now: Timestamp,
) -> Result<[WriteOp; 2], CliError> {
    Ok([
        WriteOp::CreateConversation(UnifiedConversation {
            conversation_id: conversation.clone(),
            default_branch_id: branch.clone(),
            created_at: now,
            last_updated_at: now,
            principal_ref: Principal::new(LOCAL).reference(vault)?,
            title: transcript.session.title.as_ref().map(|title| title.chars().take(200).collect()),
            metadata: None,
        }),
        WriteOp::CreateBranch(UnifiedBranch {
            branch_id: branch.clone(),
            conversation_id: conversation.clone(),
            parent_branch_id: None,
            fork_item_id: None,
            head_item_id: None,
            head_sequence: 0,
            created_at: now,
        }),
    ])
}

/// The branch that shares most with some items, and what is on it.
async fn longest(
    store: &dyn UnifiedStateStore,
    conversation: &UnifiedConversation,
    items: &[UnifiedItem],
) -> Result<(UnifiedId, Vec<UnifiedItem>), CliError> {
    let mut best = (conversation.default_branch_id.clone(), Vec::new(), 0);
    for branch in store.branches(&conversation.conversation_id).await? {
        let stored = branch_items(store, &branch.branch_id).await?;
        let shared = common(&stored, items);
        if shared > best.2 || best.1.is_empty() {
            best = (branch.branch_id, stored, shared);
        }
    }
    Ok((best.0, best.1))
}

/// Number of items at the beginning that say the same. On a fork an item has another ID, so what counts is the content.
fn common(stored: &[UnifiedItem], items: &[UnifiedItem]) -> usize {
    let same = |(a, b): &(&UnifiedItem, &UnifiedItem)| match (&a.body, &b.body) {
        // The audit hash and the range hold the place.
        (UnifiedItemBody::CompactionSummary(a), UnifiedItemBody::CompactionSummary(b)) => a.covers.count == b.covers.count,
        _ => a.created_at == b.created_at && content_fingerprint(*a).ok() == content_fingerprint(*b).ok(),
    };
    stored.iter().zip(items).take_while(same).count()
}

fn fork_of(conversation: &UnifiedId, at: Option<&UnifiedItem>, items: &[UnifiedItem]) -> UnifiedId {
    let at = at.map_or("", |item| item.id.as_str());
    let next = items.first().map_or("", |item| item.id.as_str());
    let digest = Sha256::of(format!("{conversation}\n{at}\n{next}").as_bytes()).to_hex();
    let name = format!("br_{}", digest.get(..32).unwrap_or_default());
    UnifiedId::parse(&name).unwrap_or_else(|_| ids::branch(conversation))
}

/// Items of a fork have IDs of their own: those of the way that was left are taken.
fn rename(items: &mut [UnifiedItem], branch: &UnifiedId) -> HashMap<UnifiedId, UnifiedId> {
    let mark: String = branch.as_str().chars().skip(3).take(8).collect();
    let names: HashMap<UnifiedId, UnifiedId> = items
        .iter()
        .filter_map(|item| Some((item.id.clone(), UnifiedId::parse(&format!("{}-{mark}", item.id)).ok()?)))
        .collect();
    for item in items {
        if let Some(name) = names.get(&item.id) {
            item.base.id = name.clone();
        }
        if let UnifiedItemBody::CompactionSummary(summary) = &mut item.body {
            for id in [&mut summary.covers.from_item_id, &mut summary.covers.to_item_id] {
                if let Some(name) = names.get(id) {
                    *id = name.clone();
                }
            }
        }
    }
    names
}

/// The records of a transcript with the IDs that its items have in the journal.
fn renamed(transcript: &Transcript, names: &HashMap<UnifiedId, UnifiedId>) -> Transcript {
    let mut renamed = Transcript {
        items: Vec::new(),
        ..transcript.clone()
    };
    let of_records = renamed.records.iter_mut().flat_map(|record| &mut record.items);
    for id in of_records.chain(renamed.usage.iter_mut().map(|usage| &mut usage.item_id)) {
        if let Some(name) = names.get(id) {
            *id = name.clone();
        }
    }
    renamed
}

/// Writes items in batches; what stands in `ops` goes with the first.
async fn append(
    store: &dyn UnifiedStateStore,
    conversation: &UnifiedId,
    branch: &UnifiedId,
    mut head: Option<UnifiedId>,
    items: Vec<UnifiedItem>,
    mut ops: Vec<WriteOp>,
    now: Timestamp,
) -> Result<(), CliError> {
    // The branch must be there before its items, and items before what refers to them.
    let is_first = |op: &WriteOp| matches!(op, WriteOp::CreateConversation(_) | WriteOp::CreateBranch(_));
    let (mut batch, rest): (Vec<WriteOp>, Vec<WriteOp>) = ops.drain(..).partition(is_first);
    let mut rest = Some(rest);
    let mut items = items.into_iter().peekable();
    while items.peek().is_some() || !batch.is_empty() || rest.is_some() {
        let (mut part, mut bytes) = (Vec::new(), 0);
        while part.len() < BATCH_ITEMS && bytes < BATCH_BYTES {
            let Some(item) = items.next() else { break };
            bytes += serde_json::to_vec(&item).map_or(0, |text| text.len());
            part.push(item);
        }
        let expected_head = head.clone();
        if let Some(last) = part.last() {
            head = Some(last.id.clone());
            batch.push(WriteOp::AppendItems {
                branch_id: branch.clone(),
                expected_head,
                items: part,
            });
        }
        if items.peek().is_none() {
            batch.extend(rest.take().into_iter().flatten());
        }
        let ops = std::mem::take(&mut batch);
        if !ops.is_empty() {
            let write = WriteBatch {
                now,
                conversation_id: conversation.clone(),
                ops,
            };
            store.commit(write).await?;
        }
    }
    Ok(())
}

/// Whose private state of a session is: the runtime's, with an account that nobody told.
fn owner(runtime: &str, profile: UnifiedProtocolProfile) -> UnifiedResourceOwner {
    UnifiedResourceOwner {
        profile,
        provider: runtime.to_owned(),
        credential_fingerprint: "unknown".to_owned(),
        endpoint_fingerprint: "unknown".to_owned(),
        project: None,
        region: None,
        tenant: None,
        model: None,
        model_family: None,
        api_revision: None,
    }
}

struct Sealing<'a> {
    vault: &'a Vault,
    runtime: &'a str,
    conversation: &'a UnifiedId,
    now: Timestamp,
}

impl Sealing<'_> {
    fn seal(
        &self,
        id: &UnifiedId,
        schema: &str,
        resource_type: ResourceType,
        profile: UnifiedProtocolProfile,
        subject: Option<UnifiedId>,
        payload: &[u8],
    ) -> Result<WriteOp, CliError> {
        let owner = owner(self.runtime, profile);
        let fingerprint = owner_fingerprint(&owner)?;
        let context = SealContext::resource(id.clone(), self.conversation.clone(), fingerprint);
        Ok(WriteOp::PutResource(Box::new(SealedResource {
            resource_id: id.clone(),
            conversation_id: self.conversation.clone(),
            resource_type,
            schema: schema.to_owned(),
            issuer: Issuer::ClientAsserted,
            owner,
            owner_fingerprint: fingerprint,
            subject,
            payload_hash: self.vault.keyed_hash(HashPurpose::PrivatePayload, payload)?,
            prefix_hash: None,
            sealed: self.vault.seal(&context, payload)?,
            status: ResourceStatus::Active,
            created_at: self.now,
            expires_at: None,
        })))
    }
}

/// The item that an item or part ID is of.
fn item_of(subject: &UnifiedId) -> &str {
    let text = subject.as_str();
    match text.rsplit_once(".p") {
        Some((item, number)) if number.bytes().all(|b| b.is_ascii_digit()) => item,
        _ => text,
    }
}

/// What new items refer to.
async fn resources(
    store: &dyn UnifiedStateStore,
    vault: &Vault,
    transcript: &Transcript,
    items: &[UnifiedItem],
    conversation: &UnifiedId,
    now: Timestamp,
) -> Result<Vec<WriteOp>, CliError> {
    let sealing = Sealing {
        vault,
        runtime: &transcript.runtime,
        conversation,
        now,
    };
    let new: HashSet<&str> = items.iter().map(|item| item.id.as_str()).collect();
    let mut ops = Vec::new();
    for resource in &transcript.resources {
        let Some(subject) = resource.subject.as_ref().filter(|subject| new.contains(item_of(subject))) else {
            continue;
        };
        if resource.scope == ProviderDataScope::PortableAnnotation {
            let text = String::from_utf8_lossy(&resource.payload).into_owned();
            let Ok(payload) = Json::from_text(text) else { continue };
            ops.push(WriteOp::PutAnnotation {
                subject: Some(subject.clone()),
                annotation: UnifiedPortableAnnotation {
                    resource_id: resource.resource_id.clone(),
                    profile: resource.profile.clone(),
                    schema: resource.schema.clone(),
                    payload,
                },
            });
        } else if store.resource(&resource.resource_id).await?.is_none() {
            ops.push(sealing.seal(
                &resource.resource_id,
                &resource.schema,
                resource.resource_type.clone(),
                resource.profile.clone(),
                Some(subject.clone()),
                &resource.payload,
            )?);
        }
    }
    Ok(ops)
}

/// Keeps the runtime's records; a manifest that is not the newest any more becomes stale.
async fn records(
    store: &dyn UnifiedStateStore,
    vault: &Vault,
    transcript: &Transcript,
    conversation: &UnifiedId,
    now: Timestamp,
) -> Result<(), CliError> {
    let sealing = Sealing {
        vault,
        runtime: &transcript.runtime,
        conversation,
        now,
    };
    let kept = archive::archive(transcript)?;
    // It stands in one batch with the last segments: where it is, they are.
    if store.resource(&kept.manifest.resource_id).await?.is_some() {
        return Ok(());
    }
    let profile = || archive::profile(&transcript.runtime);
    let mut batch = WriteBatch::new(now, conversation.clone());
    let mut bytes = 0;
    for segment in &kept.segments {
        if store.resource(&segment.resource_id).await?.is_some() {
            continue;
        }
        if bytes > 0 && bytes + segment.payload.len() > BATCH_BYTES {
            let full = std::mem::replace(&mut batch, WriteBatch::new(now, conversation.clone()));
            store.commit(full).await?;
            bytes = 0;
        }
        bytes += segment.payload.len();
        batch.push(sealing.seal(
            &segment.resource_id,
            &segment.schema,
            word(RECORDS),
            profile(),
            None,
            &segment.payload,
        )?);
    }
    let own = owner_fingerprint(&owner(&transcript.runtime, profile()))?;
    for old in store.resources(conversation, Some(&own)).await? {
        if old.status == ResourceStatus::Active && old.resource_type == word(SESSION) {
            batch.push(WriteOp::SetResourceStatus {
                resource_id: old.resource_id,
                status: ResourceStatus::Stale,
            });
        }
    }
    let manifest = &kept.manifest;
    batch.push(sealing.seal(
        &manifest.resource_id,
        &manifest.schema,
        word(SESSION),
        profile(),
        None,
        &manifest.payload,
    )?);
    store.commit(batch).await?;
    Ok(())
}

fn word(word: &str) -> ResourceType {
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
