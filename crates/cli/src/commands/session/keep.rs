//! Keeping a session: what is stored already is left alone, what is new is appended.

use super::stored::{branch_items, conversation_id, word};
use crate::error::CliError;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use throughline_agents::archive::{self, Archive, Entry, RECORDS, SESSION};
use throughline_agents::{Transcript, ids, place_after};
use throughline_engine::Principal;
use throughline_format::item::UnifiedItem;
use throughline_format::resource::{Issuer, ProviderDataScope, ResourceStatus, ResourceType};
use throughline_format::{
    Json, PartBody, Sha256, Timestamp, UnifiedBranch, UnifiedConversation, UnifiedId, UnifiedItemBody, UnifiedPortableAnnotation,
    UnifiedProtocolProfile, UnifiedResourceOwner, content_fingerprint,
};
use throughline_gateway::auth::LOCAL;
use throughline_store::{HashPurpose, SealContext, SealedResource, UnifiedStateStore, Vault, WriteBatch, WriteOp, owner_fingerprint};

/// Most items, operations and bytes of one batch.
const BATCH_ITEMS: usize = 4_000;
const BATCH_OPS: usize = 1_000;
const BATCH_BYTES: usize = 16 * 1024 * 1024;

/// What became of a session.
pub(super) struct Kept {
    pub(super) conversation_id: UnifiedId,
    pub(super) branch_id: UnifiedId,
    pub(super) added: usize,
    pub(super) skipped: usize,
}

/// A session with everything that can be done for it without the store.
pub(super) struct Prepared {
    pub(super) transcript: Transcript,
    archive: Archive,
}

impl Prepared {
    pub(super) fn of(transcript: Transcript) -> Result<Self, CliError> {
        let archive = archive::archive(&transcript)?;
        Ok(Self { transcript, archive })
    }

    /// The conversation that it is kept as.
    pub(super) fn conversation_id(&self) -> UnifiedId {
        conversation_id(&self.transcript.runtime, &self.transcript.session.id)
    }
}

/// Keeps a session. What is stored already is left alone: items are only ever appended, to the branch that they go on from, or to a
/// fork where the session took another way.
pub(super) async fn keep(store: &dyn UnifiedStateStore, vault: &Arc<Vault>, prepared: Prepared, now: Timestamp) -> Result<Kept, CliError> {
    let conversation = prepared.conversation_id();
    let Prepared { mut transcript, archive } = prepared;
    let mut batches = Batches::new(store, &conversation, now);
    let known = store.conversation(&conversation).await?;
    let (branch, stored) = match &known {
        None => {
            let branch = ids::branch(&conversation);
            batches.push(beginning(vault, &transcript, &conversation, &branch, now)?, 0).await?;
            (branch, Vec::new())
        }
        Some(known) => longest(store, known, &transcript.items).await?,
    };
    let common = common(&stored, &transcript.items);
    let fork = common < stored.len();
    let mut items = std::mem::take(&mut transcript.items);
    let mut target = branch.clone();
    // IDs of this transcript by those of the journal, where they are others: on a fork.
    let mut names: HashMap<UnifiedId, UnifiedId> = HashMap::new();
    for (stored, item) in stored
        .iter()
        .zip(items.drain(..common))
        .filter(|(stored, item)| stored.id != item.id)
    {
        names.insert(item.base.id, stored.id.clone());
    }
    if fork && !items.is_empty() {
        let at = common.checked_sub(1).and_then(|at| stored.get(at));
        target = fork_of(&conversation, at, &items);
        if store.branch(&target).await?.is_none() {
            let create = WriteOp::CreateBranch(UnifiedBranch {
                branch_id: target.clone(),
                conversation_id: conversation.clone(),
                parent_branch_id: at.map(|_| branch.clone()),
                fork_item_id: at.map(|item| item.id.clone()),
                head_item_id: None,
                head_sequence: 0,
                created_at: now,
            });
            batches.push([create], 0).await?;
        }
        names.extend(rename(&mut items, &target));
    }
    let before = stored.get(..common).unwrap_or_default();
    place_after(before, &mut items, &conversation, &target);
    let added = items.len();
    let new: HashSet<UnifiedId> = items.iter().map(|item| item.id.clone()).collect();
    // The branch must be there before its items, and items before what refers to them.
    batches.append(&target, before.last().map(|item| item.id.clone()), items).await?;
    let archive = if names.is_empty() {
        archive
    } else {
        give_names(&mut transcript, &names);
        archive::archive(&transcript)?
    };
    let sealing = Sealing {
        vault,
        runtime: &transcript.runtime,
        conversation: &conversation,
        now,
    };
    let look = known.as_ref().map(|_| store);
    resources(&sealing, look, &transcript, &new, &mut batches).await?;
    records(&sealing, look, &archive, &mut batches).await?;
    batches.flush().await?;
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

/// Gives the records and counters of a transcript the IDs that its items have in the journal.
fn give_names(transcript: &mut Transcript, names: &HashMap<UnifiedId, UnifiedId>) {
    let of_records = transcript.records.iter_mut().flat_map(|record| &mut record.items);
    for id in of_records.chain(transcript.usage.iter_mut().map(|usage| &mut usage.item_id)) {
        if let Some(name) = names.get(id) {
            *id = name.clone();
        }
    }
}

/// Operations on their way to the store, in order, in batches of a bounded size.
struct Batches<'a> {
    store: &'a dyn UnifiedStateStore,
    batch: WriteBatch,
    bytes: usize,
}

impl<'a> Batches<'a> {
    fn new(store: &'a dyn UnifiedStateStore, conversation: &UnifiedId, now: Timestamp) -> Self {
        Self {
            store,
            batch: WriteBatch::new(now, conversation.clone()),
            bytes: 0,
        }
    }

    /// Adds operations of about so many bytes, which go together.
    async fn push(&mut self, ops: impl IntoIterator<Item = WriteOp>, bytes: usize) -> Result<(), CliError> {
        if self.bytes + bytes > BATCH_BYTES || self.batch.ops.len() >= BATCH_OPS {
            self.flush().await?;
        }
        self.batch.ops.extend(ops);
        self.bytes += bytes;
        Ok(())
    }

    /// Appends items to a branch.
    async fn append(&mut self, branch: &UnifiedId, mut head: Option<UnifiedId>, items: Vec<UnifiedItem>) -> Result<(), CliError> {
        let (mut part, mut bytes) = (Vec::new(), 0);
        let mut items = items.into_iter().peekable();
        while let Some(item) = items.next() {
            bytes += weight(&item);
            part.push(item);
            let next = items.peek().map_or(0, weight);
            if items.peek().is_some() && part.len() < BATCH_ITEMS && bytes + next <= BATCH_BYTES {
                continue;
            }
            let items = std::mem::take(&mut part);
            let last = items.last().map(|item| item.id.clone());
            let append = WriteOp::AppendItems {
                branch_id: branch.clone(),
                expected_head: std::mem::replace(&mut head, last),
                items,
            };
            self.push([append], std::mem::take(&mut bytes)).await?;
        }
        Ok(())
    }

    /// Writes what waits.
    async fn flush(&mut self) -> Result<(), CliError> {
        let next = WriteBatch::new(self.batch.now, self.batch.conversation_id.clone());
        let batch = std::mem::replace(&mut self.batch, next);
        self.bytes = 0;
        if !batch.ops.is_empty() {
            self.store.commit(batch).await?;
        }
        Ok(())
    }
}

/// About the bytes of an item. Texts, which are nearly all of a session, are not written for it.
fn weight(item: &UnifiedItem) -> usize {
    /// What stands around a text.
    const AROUND: usize = 1_000;
    let parts = match &item.body {
        UnifiedItemBody::Message(message) => &message.parts,
        UnifiedItemBody::ToolResult(result) => &result.output,
        _ => return serde_json::to_vec(item).map_or(0, |text| text.len()),
    };
    let of_part = |part: &throughline_format::UnifiedContentPart| match &part.body {
        PartBody::Text(text) => text.text.len() + AROUND,
        _ => serde_json::to_vec(part).map_or(0, |text| text.len()),
    };
    AROUND + parts.iter().map(of_part).sum::<usize>()
}

/// Whose private state of a session is: the runtime's, with an account that nobody told.
fn owner(runtime: &str, profile: UnifiedProtocolProfile) -> UnifiedResourceOwner {
    UnifiedResourceOwner::of_account(profile, runtime.to_owned(), "unknown", "unknown")
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

/// What new items refer to. `look` is the store where something of the session may be in it.
async fn resources(
    sealing: &Sealing<'_>,
    look: Option<&dyn UnifiedStateStore>,
    transcript: &Transcript,
    new: &HashSet<UnifiedId>,
    batches: &mut Batches<'_>,
) -> Result<(), CliError> {
    let new: HashSet<&str> = new.iter().map(UnifiedId::as_str).collect();
    for resource in &transcript.resources {
        let Some(subject) = resource.subject.as_ref().filter(|subject| new.contains(item_of(subject))) else {
            continue;
        };
        let bytes = resource.payload.len();
        if resource.scope == ProviderDataScope::PortableAnnotation {
            let text = String::from_utf8_lossy(&resource.payload).into_owned();
            let Ok(payload) = Json::from_text(text) else { continue };
            let put = WriteOp::PutAnnotation {
                subject: Some(subject.clone()),
                annotation: UnifiedPortableAnnotation {
                    resource_id: resource.resource_id.clone(),
                    profile: resource.profile.clone(),
                    schema: resource.schema.clone(),
                    payload,
                },
            };
            batches.push([put], bytes).await?;
        } else if !is_there(look, &resource.resource_id).await? {
            let put = sealing.seal(
                &resource.resource_id,
                &resource.schema,
                resource.resource_type.clone(),
                resource.profile.clone(),
                Some(subject.clone()),
                &resource.payload,
            )?;
            batches.push([put], bytes).await?;
        }
    }
    Ok(())
}

/// Whether a resource is stored.
async fn is_there(look: Option<&dyn UnifiedStateStore>, id: &UnifiedId) -> Result<bool, CliError> {
    match look {
        Some(store) => Ok(store.resource(id).await?.is_some()),
        None => Ok(false),
    }
}

/// Keeps the runtime's records; a manifest that is not the newest any more becomes stale.
async fn records(
    sealing: &Sealing<'_>,
    look: Option<&dyn UnifiedStateStore>,
    kept: &Archive,
    batches: &mut Batches<'_>,
) -> Result<(), CliError> {
    // It comes after the segments: where it is, they are.
    if is_there(look, &kept.manifest.resource_id).await? {
        return Ok(());
    }
    let profile = || archive::profile(sealing.runtime);
    let seal = |entry: &Entry, kind| sealing.seal(&entry.resource_id, &entry.schema, word(kind), profile(), None, &entry.payload);
    for segment in &kept.segments {
        if !is_there(look, &segment.resource_id).await? {
            batches.push([seal(segment, RECORDS)?], segment.payload.len()).await?;
        }
    }
    let mut last = vec![seal(&kept.manifest, SESSION)?];
    if let Some(store) = look {
        let own = owner_fingerprint(&owner(sealing.runtime, profile()))?;
        for old in store.resources(sealing.conversation, Some(&own)).await? {
            if old.status == ResourceStatus::Active && old.resource_type == word(SESSION) {
                last.push(WriteOp::SetResourceStatus {
                    resource_id: old.resource_id,
                    status: ResourceStatus::Stale,
                });
            }
        }
    }
    batches.push(last, kept.manifest.payload.len()).await
}
