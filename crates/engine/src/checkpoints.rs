//! Checkpoints: provider state that goes on at one head of a branch (spec, Provider-private checkpoints).
//!
//! An answer that brought a handle of its owner makes one at the head that it leaves, in the commit of its end. A turn may go
//! on by it only when the branch still stands at that head before the turn's own input and the owner is compatible; whatever
//! else happens, the history is rebuilt from the journal, and the next answer makes a checkpoint of its own.

use crate::engine::Engine;
use crate::ports::Target;
use bytes::Bytes;
use std::collections::BTreeMap;
use throughline_format::event::{CheckpointInvalidated, CheckpointReady};
use throughline_format::media::{decode_base64, encode_base64};
use throughline_format::operation::SealedBytes;
use throughline_format::resource::{Issuer, ResourceStatus, ResourceType, UnifiedProviderResourceRef};
use throughline_format::result::UnifiedStateOutput;
use throughline_format::{
    ErrorCategory, EventBody, EventDraft, Timestamp, UnifiedError, UnifiedId, UnifiedOperation, UnifiedProviderCheckpoint,
    UnifiedResourceOwner,
};
use throughline_protocols::{Codec, Continuation, Held, SideResource};
use throughline_store::{SealContext, Sealed, Vault, WriteOp, owner_fingerprint};

/// What a checkpoint seals: the handle, and under which schema its answer gave it.
const SCHEMA: &str = "schema";
const HANDLE: &str = "handle";

/// A handle of an answer that may go on.
struct Handle {
    holds: Held,
    resource_id: UnifiedId,
    resource_type: ResourceType,
    schema: String,
    payload: Vec<u8>,
}

/// The handles that the answers of one operation brought, the newest of each kind.
#[derive(Default)]
pub(crate) struct Handles(BTreeMap<&'static str, Handle>);

/// A checkpoint that is about to be committed: its ID is told by an event before the head that it stands at is known.
pub(crate) struct Pending {
    id: UnifiedId,
    handle: Handle,
}

impl Handles {
    /// Notes what of these resources goes on a history, or is a place that an answer worked in.
    pub(crate) fn note(&mut self, codec: &dyn Codec, resources: &[SideResource]) {
        for side in resources
            .iter()
            .filter(|side| side.subject.is_none() && side.issuer == Issuer::Provider)
        {
            let Some(continuation) = codec.continuation(&side.schema) else {
                continue;
            };
            let handle = Handle {
                holds: continuation.holds,
                resource_id: side.resource_id.clone(),
                resource_type: side.resource_type.clone(),
                schema: side.schema.clone(),
                payload: side.payload.clone(),
            };
            self.0.insert(continuation.presented_as, handle);
        }
    }

    /// Another answer follows: what goes on the history up to the last one does not know it, and a place stays.
    pub(crate) fn go_on(&mut self) {
        self.0.retain(|_, handle| handle.holds == Held::Place);
    }

    /// Gives each handle the ID of its checkpoint, and the events that tell of them.
    pub(crate) fn settle(self, engine: &Engine) -> (Vec<Pending>, Vec<EventDraft>) {
        let pending: Vec<Pending> = self
            .0
            .into_values()
            .map(|handle| Pending {
                id: engine.ids.next(crate::ports::IdKind::Checkpoint),
                handle,
            })
            .collect();
        let ready = pending.iter().map(|made| {
            EventDraft::new(EventBody::CheckpointReady(CheckpointReady {
                checkpoint_id: made.id.clone(),
                resource_type: made.handle.resource_type.clone(),
            }))
        });
        let events = ready.collect();
        (pending, events)
    }
}

impl Pending {
    /// The checkpoint at a head, sealed for the owner of the operation.
    pub(crate) fn at(
        self,
        vault: &Vault,
        operation: &UnifiedOperation,
        branch_id: &UnifiedId,
        head: &UnifiedId,
        state: Option<&UnifiedStateOutput>,
        now: Timestamp,
    ) -> Result<Option<WriteOp>, UnifiedError> {
        let Some(owner) = operation.owner.clone() else { return Ok(None) };
        let told = state.and_then(|state| state.resources.iter().find(|r| r.resource_id == self.handle.resource_id));
        let payload = serde_json::json!({SCHEMA: self.handle.schema, HANDLE: encode_base64(&self.handle.payload)});
        let mut checkpoint = UnifiedProviderCheckpoint {
            checkpoint_id: self.id,
            conversation_id: operation.conversation_id.clone(),
            branch_id: branch_id.clone(),
            journal_head_item_id: head.clone(),
            owner,
            resource_type: self.handle.resource_type,
            encrypted_payload: SealedBytes(Vec::new()),
            status: ResourceStatus::Active,
            created_at: now,
            expires_at: told.and_then(|resource| resource.expires_at).filter(|end| *end >= now),
        };
        let sealed = vault
            .seal(&context(&checkpoint)?, payload.to_string().as_bytes())
            .map_err(|e| e.to_unified())?;
        checkpoint.encrypted_payload = SealedBytes(sealed.as_bytes().to_vec());
        Ok(Some(WriteOp::PutCheckpoint(Box::new(checkpoint))))
    }
}

/// Puts a checkpoint onto another branch: its payload is sealed to its place.
pub(crate) fn move_to(vault: &Vault, checkpoint: &mut UnifiedProviderCheckpoint, branch_id: &UnifiedId) -> Result<(), UnifiedError> {
    let sealed = Sealed::from_bytes(checkpoint.encrypted_payload.0.clone()).map_err(|e| e.to_unified())?;
    let plain = vault.open(&context(checkpoint)?, &sealed).map_err(|e| e.to_unified())?;
    checkpoint.branch_id = branch_id.clone();
    let sealed = vault.seal(&context(checkpoint)?, &plain).map_err(|e| e.to_unified())?;
    checkpoint.encrypted_payload = SealedBytes(sealed.as_bytes().to_vec());
    Ok(())
}

fn context(checkpoint: &UnifiedProviderCheckpoint) -> Result<SealContext, UnifiedError> {
    Ok(SealContext::checkpoint(
        checkpoint.checkpoint_id.clone(),
        checkpoint.conversation_id.clone(),
        checkpoint.branch_id.clone(),
        checkpoint.journal_head_item_id.clone(),
        owner_fingerprint(&checkpoint.owner).map_err(|e| e.to_unified())?,
    ))
}

/// A checkpoint that its owner refused.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) checkpoint_id: UnifiedId,
    pub(crate) resource_type: ResourceType,
}

impl Refused {
    /// The event that tells of it.
    pub(crate) fn event(&self) -> EventDraft {
        EventDraft::new(EventBody::CheckpointInvalidated(CheckpointInvalidated {
            checkpoint_id: self.checkpoint_id.clone(),
            resource_type: self.resource_type.clone(),
            reason: "the provider does not know it any more".to_owned(),
        }))
    }

    /// Whether an error may mean that the provider does not know a handle. If it means something else, the request with the
    /// whole history meets it again, and the handle keeps its status.
    pub(crate) const fn may_be_why(error: &UnifiedError) -> bool {
        matches!(
            error.category,
            ErrorCategory::NotFound | ErrorCategory::InvalidRequest | ErrorCategory::Checkpoint | ErrorCategory::Conflict
        )
    }
}

/// The changes of status that come with a new head of a branch: what goes on at another head is stale, what its owner refused
/// is invalid.
pub(crate) async fn outdated(
    engine: &Engine,
    conversation_id: &UnifiedId,
    branch_id: &UnifiedId,
    head: Option<&UnifiedId>,
    refused: &[Refused],
) -> Result<Vec<WriteOp>, UnifiedError> {
    let known = engine
        .store
        .checkpoints(conversation_id, Some(branch_id))
        .await
        .map_err(|e| e.to_unified())?;
    let mut changes = Vec::new();
    for checkpoint in known.into_iter().filter(|c| c.status == ResourceStatus::Active) {
        let is_refused = refused.iter().any(|r| r.checkpoint_id == checkpoint.checkpoint_id);
        let status = match (is_refused, Some(&checkpoint.journal_head_item_id) == head) {
            (true, _) => ResourceStatus::Invalid,
            (false, false) => ResourceStatus::Stale,
            (false, true) => continue,
        };
        changes.push(WriteOp::SetCheckpointStatus {
            checkpoint_id: checkpoint.checkpoint_id,
            status,
        });
    }
    Ok(changes)
}

/// A checkpoint that a target may use, opened.
pub(crate) struct Usable {
    pub(crate) reference: UnifiedProviderResourceRef,
    pub(crate) continuation: Continuation,
    pub(crate) payload: Bytes,
}

/// Where a branch stood before a turn's own input.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) branch_id: UnifiedId,
    pub(crate) item_id: UnifiedId,
}

/// Whether a checkpoint may be used directly: it is active, stands exactly at the head before the turn's own input, on this
/// branch (what a session holds moves on with it), and its owner is compatible.
fn is_direct(checkpoint: &UnifiedProviderCheckpoint, head: &Head, owner: &UnifiedResourceOwner, now: Timestamp) -> bool {
    checkpoint.status == ResourceStatus::Active
        && checkpoint.branch_id == head.branch_id
        && checkpoint.journal_head_item_id == head.item_id
        && checkpoint.expires_at.is_none_or(|end| end > now)
        && checkpoint.owner.is_compatible(owner, &checkpoint.resource_type)
}

/// The checkpoints that a target may use at a head.
pub(crate) async fn usable(
    engine: &Engine,
    conversation_id: &UnifiedId,
    head: &Head,
    target: &Target,
    now: Timestamp,
) -> Result<Vec<Usable>, UnifiedError> {
    let known = engine
        .store
        .checkpoints(conversation_id, Some(&head.branch_id))
        .await
        .map_err(|e| e.to_unified())?;
    let mut found = Vec::new();
    for checkpoint in known.into_iter().filter(|c| is_direct(c, head, &target.owner, now)) {
        let sealed = Sealed::from_bytes(checkpoint.encrypted_payload.0.clone()).map_err(|e| e.to_unified())?;
        let plain = engine.vault.open(&context(&checkpoint)?, &sealed).map_err(|e| e.to_unified())?;
        let Some((continuation, payload)) = read(target.codec.as_ref(), &plain) else {
            continue;
        };
        found.push(Usable {
            reference: UnifiedProviderResourceRef {
                owner_fingerprint: owner_fingerprint(&checkpoint.owner).map_err(|e| e.to_unified())?,
                resource_id: checkpoint.checkpoint_id,
                resource_type: checkpoint.resource_type,
                status: Some(checkpoint.status),
                expires_at: checkpoint.expires_at,
            },
            continuation,
            payload,
        });
    }
    Ok(found)
}

/// The payload of a checkpoint, when this codec knows its handle.
fn read(codec: &dyn Codec, plain: &[u8]) -> Option<(Continuation, Bytes)> {
    let stored: serde_json::Value = serde_json::from_slice(plain).ok()?;
    let continuation = codec.continuation(stored.get(SCHEMA)?.as_str()?)?;
    let payload = decode_base64(stored.get(HANDLE)?.as_str()?)?;
    Some((continuation, payload.into()))
}

impl Usable {
    /// Whether it stands for the whole history before the new items, and these can go on from it.
    pub(crate) fn goes_on(&self, path: &[throughline_format::UnifiedItem], new: &[throughline_format::UnifiedItem]) -> bool {
        matches!(self.continuation.holds, Held::History(inherited) if inherited.allows(path, new))
    }

    /// Whether it is a place to work in.
    pub(crate) fn is_place(&self) -> bool {
        self.continuation.holds == Held::Place
    }

    /// What is to be told when its owner refuses it.
    pub(crate) fn refused(&self) -> Refused {
        Refused {
            checkpoint_id: self.reference.resource_id.clone(),
            resource_type: self.reference.resource_type.clone(),
        }
    }
}
