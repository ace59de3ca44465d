//! Conversations as bundles: written for their owner, and read into a conversation of its own.

use crate::engine::Engine;
use crate::import::{self, Contents, Import, Source};
use crate::principal::Principal;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use throughline_format::{ErrorCategory, Sha256, UnifiedArtifact, UnifiedBranch, UnifiedError, UnifiedExportV2, UnifiedId, UnifiedItem};
use throughline_store::export::ConversationSummary;
use throughline_store::{DeletionCondition, StoreError, WriteBatch, WriteOp, export};

/// Items of one commit of an import; a large conversation is taken in several.
const COMMIT_ITEMS: usize = 1_000;

/// How long the content of artifacts is kept for an import that is on its way.
const PIN_MILLIS: i64 = 3_600_000;

/// Which IDs an imported conversation gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportIds {
    /// New ones.
    #[default]
    New,
    /// Those of the bundle, when none of them is taken; else new ones.
    Keep,
}

impl Engine {
    /// The bundle of a conversation. Owner-private payloads are never in it, only named.
    ///
    /// # Errors
    /// As [`Engine::conversation`].
    pub async fn export(&self, principal: &Principal, id: &UnifiedId) -> Result<UnifiedExportV2, UnifiedError> {
        self.own_conversation(principal, id).await?;
        export::export(self.store.as_ref(), id, self.clock.now())
            .await
            .map_err(|e| e.to_unified())
    }

    /// The content of an artifact that a bundle of the principal names.
    ///
    /// # Errors
    /// `storage.*` when it cannot be read.
    pub async fn artifact_content(&self, artifact: &UnifiedArtifact) -> Result<Bytes, UnifiedError> {
        self.store.artifact_content(artifact).await.map_err(|e| e.to_unified())
    }

    /// Takes a bundle as a new conversation of the principal, with the content of its artifacts, which follows it line by line.
    /// Everything in it gets new IDs, unless they are to be kept and none of them is taken; references to private state, which is
    /// not in a bundle, are left out.
    ///
    /// # Errors
    /// `invalid-request.*` when the bundle is none, breaks a rule, or has artifacts without their content, `limit.branches` when it has
    /// more branches than a conversation may have. Nothing is stored then.
    pub async fn import(&self, principal: &Principal, bundle: Bytes, ids: ImportIds) -> Result<ConversationSummary, UnifiedError> {
        let most_branches = self.limits.branches;
        let (bundle, contents) = aside(move || import::read(&bundle, most_branches)).await??;
        let source = Source {
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
            principal_ref: principal.reference(&self.vault)?,
        };
        if ids == ImportIds::Keep
            && self
                .store
                .conversation(&bundle.conversation.conversation_id)
                .await
                .map_err(|e| e.to_unified())?
                .is_none()
        {
            let (source, bundle) = (source.clone(), bundle.clone());
            let import = aside(move || Import::keeping(source, bundle)).await?;
            match self.bring_in(import, &contents).await {
                Ok(id) => return self.conversation(principal, &id).await,
                Err(StoreError::Duplicate { .. } | StoreError::HeadMoved { .. } | StoreError::RevisionConflict { .. }) => {
                    tracing::debug!("an imported bundle gets new IDs: some of its own are taken");
                }
                Err(error) => return Err(error.to_unified()),
            }
        }
        let import = aside(move || Import::renaming(source, bundle)).await??;
        let id = self.bring_in(import, &contents).await.map_err(|e| e.to_unified())?;
        self.conversation(principal, &id).await
    }

    /// Stores a whole bundle or nothing, and gives the conversation.
    async fn bring_in(&self, import: Import, contents: &Contents) -> Result<UnifiedId, StoreError> {
        let (id, now) = (import.bundle.conversation.conversation_id.clone(), import.now);
        // Pinned before it is written, so that nothing collects it before the references are there.
        let digests: Vec<Sha256> = contents.keys().copied().collect();
        let owner = import.base.clone();
        if !digests.is_empty() {
            let pins = digests.iter().map(|sha256| WriteOp::PinArtifact {
                sha256: *sha256,
                owner: owner.clone(),
                expires_at: now.plus_millis(PIN_MILLIS),
            });
            self.commit(WriteBatch {
                now,
                conversation_id: id.clone(),
                ops: pins.collect(),
            })
            .await?;
            for content in contents.values() {
                self.store.put_content(content.clone()).await?;
            }
        }
        let mut begun = false;
        if let Err(error) = self.take(import, &mut begun).await {
            // Half a conversation is none; what was there before is not this import's.
            let only_if = DeletionCondition::Always;
            let undo = WriteBatch::new(self.clock.now(), id).with(WriteOp::DeleteConversation { only_if });
            if begun && let Err(left) = self.commit(undo).await {
                tracing::warn!(code = left.code(), "what a failed import had stored could not be removed");
            }
            return Err(error);
        }
        if !digests.is_empty() {
            let unpin = digests.into_iter().map(|sha256| WriteOp::UnpinArtifact {
                sha256,
                owner: owner.clone(),
            });
            let unpin = WriteBatch {
                now,
                conversation_id: id.clone(),
                ops: unpin.collect(),
            };
            if let Err(left) = self.commit(unpin).await {
                tracing::debug!(code = left.code(), "pins of an import lapse by themselves");
            }
        }
        Ok(id)
    }

    /// Commits the branches with their own items, parents before what forks from them.
    async fn take(&self, import: Import, begun: &mut bool) -> Result<(), StoreError> {
        let references = import.artifact_references();
        let (now, bundle) = (import.now, import.bundle);
        let principal_ref = bundle.conversation.principal_ref.clone();
        let mut artifacts = Some((bundle.artifacts, references));
        let id = bundle.conversation.conversation_id.clone();
        let mut own: BTreeMap<UnifiedId, Vec<UnifiedItem>> = BTreeMap::new();
        for item in bundle.items {
            own.entry(item.branch_id.clone()).or_default().push(item);
        }
        let mut batch = WriteBatch::new(now, id.clone());
        let default = bundle.conversation.default_branch_id.clone();
        let mut conversation = Some(bundle.conversation);
        for branch in parents_first(bundle.branches, &default) {
            let mut head = branch.fork_item_id.clone();
            let mut items = own.remove(&branch.branch_id).unwrap_or_default();
            items.sort_by_key(|item| item.sequence);
            let branch_id = branch.branch_id.clone();
            batch.ops.extend(conversation.take().map(WriteOp::CreateConversation));
            if let Some((artifacts, references)) = artifacts.take() {
                let stored = artifacts.into_iter().map(|artifact| WriteOp::PutArtifact {
                    principal_ref: principal_ref.clone(),
                    artifact,
                });
                batch.ops.extend(stored);
                batch.ops.extend(references);
            }
            batch.push(WriteOp::CreateBranch(branch));
            let mut items = items.into_iter().peekable();
            while items.peek().is_some() {
                let chunk: Vec<UnifiedItem> = items.by_ref().take(COMMIT_ITEMS).collect();
                let last = chunk.last().map(|item| item.id.clone());
                batch.push(WriteOp::AppendItems {
                    branch_id: branch_id.clone(),
                    expected_head: std::mem::replace(&mut head, last),
                    items: chunk,
                });
                self.commit(std::mem::replace(&mut batch, WriteBatch::new(now, id.clone()))).await?;
                *begun = true;
            }
        }
        batch.ops.extend(bundle.revisions.into_iter().map(WriteOp::AddRevision));
        batch.ops.extend(
            bundle
                .annotations
                .into_iter()
                .map(|annotation| WriteOp::PutAnnotation { subject: None, annotation }),
        );
        if batch.ops.is_empty() {
            return Ok(());
        }
        self.commit(batch).await.map(|_| ())
    }
}

/// Does work that is long for a large bundle beside the threads that serve everybody.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, UnifiedError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| UnifiedError::new(ErrorCategory::Internal, "panic", "the bundle could not be read"))
}

/// The default branch goes with its conversation, so it or what it forks from comes first; then parents before children, else
/// in the order of the bundle.
fn parents_first(mut branches: Vec<UnifiedBranch>, default: &UnifiedId) -> Vec<UnifiedBranch> {
    let mut ordered = Vec::with_capacity(branches.len());
    branches.sort_by_key(|branch| branch.branch_id != *default);
    let mut waiting: BTreeMap<Option<UnifiedId>, Vec<(usize, UnifiedBranch)>> = BTreeMap::new();
    for (place, branch) in branches.into_iter().enumerate() {
        waiting.entry(branch.parent_branch_id.clone()).or_default().push((place, branch));
    }
    let mut ready: BTreeMap<usize, UnifiedBranch> = waiting.remove(&None).into_iter().flatten().collect();
    while let Some((_, branch)) = ready.pop_first() {
        ready.extend(waiting.remove(&Some(branch.branch_id.clone())).into_iter().flatten());
        ordered.push(branch);
    }
    // The rules of a bundle say that branches are a tree; whatever were none would be refused by the store.
    ordered.extend(waiting.into_values().flatten().map(|(_, branch)| branch));
    ordered
}
