//! Conversations as bundles: written for their owner, and read into a conversation of its own.

use crate::engine::Engine;
use crate::ports::IdKind;
use crate::principal::Principal;
use crate::private;
use std::collections::BTreeMap;
use throughline_format::compaction;
use throughline_format::json::decode_slice;
use throughline_format::validate::semantics;
use throughline_format::{
    ErrorCategory, Timestamp, UnifiedArtifact, UnifiedConversation, UnifiedError, UnifiedExportV2, UnifiedId, UnifiedItem, UnifiedItemBody,
    rename,
};
use throughline_store::export::ConversationSummary;
use throughline_store::{DeletionCondition, WriteBatch, WriteOp, export};

/// Items of one commit of an import; a large conversation is taken in several.
const COMMIT_ITEMS: usize = 1_000;

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
    pub async fn artifact_content(&self, artifact: &UnifiedArtifact) -> Result<bytes::Bytes, UnifiedError> {
        self.store.artifact_content(artifact).await.map_err(|e| e.to_unified())
    }

    /// Takes a bundle as a new conversation of the principal. Everything in it gets new IDs; references to private state,
    /// which is not in a bundle, are left out.
    ///
    /// # Errors
    /// `invalid-request.*` when the bundle is none or breaks a rule; `unsupported.artifacts` when it has artifacts. Nothing
    /// is stored then.
    pub async fn import(&self, principal: &Principal, bundle: &[u8]) -> Result<ConversationSummary, UnifiedError> {
        let line = bundle.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let bundle: UnifiedExportV2 = decode_slice(line)?;
        if let Some(violation) = semantics::export(&bundle).into_iter().next() {
            return Err(violation.into());
        }
        if !bundle.artifacts.is_empty() {
            let message = "this bundle has artifacts, and their content cannot be taken in yet";
            return Err(UnifiedError::new(ErrorCategory::Unsupported, "artifacts", message).at("/artifacts"));
        }
        let mut import = Import::new(self, bundle, principal.reference(&self.vault)?);
        import.rename()?;
        let id = import.bundle.conversation.conversation_id.clone();
        if let Err(error) = self.take(import).await {
            // Half a conversation is none.
            let only_if = DeletionCondition::Always;
            let undo = WriteBatch::new(self.clock.now(), id).with(WriteOp::DeleteConversation { only_if });
            if let Err(left) = self.commit(undo).await {
                tracing::debug!(code = left.code(), "nothing of a failed import was there to remove");
            }
            return Err(error);
        }
        self.conversation(principal, &id).await
    }

    /// Commits the branches with their own items, parents before what forks from them.
    async fn take(&self, import: Import) -> Result<(), UnifiedError> {
        let (now, bundle) = (import.now, import.bundle);
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
                self.commit(std::mem::replace(&mut batch, WriteBatch::new(now, id.clone())))
                    .await
                    .map_err(|e| e.to_unified())?;
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
        self.commit(batch).await.map(|_| ()).map_err(|e| e.to_unified())
    }
}

/// The default branch goes with its conversation, so it or what it forks from comes first; then parents before children.
fn parents_first(mut branches: Vec<throughline_format::UnifiedBranch>, default: &UnifiedId) -> Vec<throughline_format::UnifiedBranch> {
    let mut ordered: Vec<throughline_format::UnifiedBranch> = Vec::with_capacity(branches.len());
    branches.sort_by_key(|branch| branch.branch_id != *default);
    while !branches.is_empty() {
        let known = |branch: &throughline_format::UnifiedBranch| {
            branch
                .parent_branch_id
                .as_ref()
                .is_none_or(|parent| ordered.iter().any(|done| done.branch_id == *parent))
        };
        // The rules of a bundle say that branches are a tree; whatever were none would be refused by the store.
        let at = branches.iter().position(known).unwrap_or_default();
        ordered.push(branches.remove(at));
    }
    ordered
}

/// A bundle on its way to IDs of this store.
struct Import {
    bundle: UnifiedExportV2,
    now: Timestamp,
    /// What IDs of items and parts are derived from.
    base: UnifiedId,
    conversation_id: UnifiedId,
    branches: BTreeMap<UnifiedId, UnifiedId>,
}

impl Import {
    fn new(engine: &Engine, mut bundle: UnifiedExportV2, principal_ref: String) -> Self {
        let now = engine.clock.now();
        let branches = bundle
            .branches
            .iter()
            .map(|branch| (branch.branch_id.clone(), engine.ids.next(IdKind::Branch)))
            .collect();
        let conversation_id = engine.ids.next(IdKind::Conversation);
        bundle.conversation = UnifiedConversation {
            conversation_id: conversation_id.clone(),
            last_updated_at: now,
            principal_ref,
            ..bundle.conversation
        };
        Self {
            bundle,
            now,
            base: engine.ids.next(IdKind::Request),
            conversation_id,
            branches,
        }
    }

    fn branch(&self, id: &mut UnifiedId) {
        if let Some(new) = self.branches.get(id) {
            *id = new.clone();
        }
    }

    fn rename(&mut self) -> Result<(), UnifiedError> {
        let mut ids: BTreeMap<UnifiedId, UnifiedId> = BTreeMap::new();
        for (ordinal, item) in (0..).zip(&self.bundle.items) {
            let id = self.base.item(ordinal);
            let mut own = Vec::new();
            item.parts().iter().for_each(|part| rename::part_ids(part, &mut own));
            ids.extend((0..).zip(own).map(|(part, old)| (old, id.part(part))));
            ids.insert(item.id.clone(), id);
        }
        let annotations: BTreeMap<UnifiedId, UnifiedId> = (0..)
            .zip(&self.bundle.annotations)
            .map(|(ordinal, annotation)| (annotation.resource_id.clone(), self.base.resource(ordinal)))
            .collect();
        let follow = |id: &mut UnifiedId| {
            if let Some(new) = ids.get(id) {
                *id = new.clone();
            }
        };
        let mut items = std::mem::take(&mut self.bundle.items);
        for item in &mut items {
            rename::item(item, &mut |id| follow(id));
            item.base.conversation_id = self.conversation_id.clone();
            self.branch(&mut item.base.branch_id);
            private::retain_references(item, &mut |reference| match annotations.get(&reference.resource_id) {
                Some(new) => {
                    reference.resource_id = new.clone();
                    true
                }
                None => false,
            });
        }
        audit(&mut items)?;
        self.bundle.items = items;
        let mut branches = std::mem::take(&mut self.bundle.branches);
        for branch in &mut branches {
            self.branch(&mut branch.branch_id);
            branch.conversation_id = self.conversation_id.clone();
            branch.parent_branch_id.iter_mut().for_each(|id| self.branch(id));
            branch.fork_item_id.iter_mut().for_each(follow);
            branch.head_item_id.iter_mut().for_each(follow);
        }
        self.bundle.branches = branches;
        let mut default = self.bundle.conversation.default_branch_id.clone();
        self.branch(&mut default);
        self.bundle.conversation.default_branch_id = default;
        for revision in &mut self.bundle.revisions {
            follow(&mut revision.item_id);
            revision.revision_id = UnifiedId::parse(&format!("{}.r{}", revision.item_id, revision.number))
                .map_err(|e| UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", e.to_string()).at("/revisions"))?;
            let new = revision.item_id.clone();
            for (ordinal, part) in (0..).zip(revision.change.parts.iter_mut().flatten()) {
                rename::part(part, &mut |id| follow(id));
                if !ids.values().any(|known| *known == part.base.part_id) {
                    part.base.part_id = new.part(ordinal);
                }
            }
        }
        for annotation in &mut self.bundle.annotations {
            if let Some(new) = annotations.get(&annotation.resource_id) {
                annotation.resource_id = new.clone();
            }
        }
        Ok(())
    }
}

/// Summaries name what they cover by hashes of items with their IDs, so those are made anew; the old ones were checked with
/// the bundle. A summary stands after what it covers, so each is final when a later one is made.
fn audit(items: &mut [UnifiedItem]) -> Result<(), UnifiedError> {
    let places: BTreeMap<UnifiedId, usize> = items.iter().enumerate().map(|(at, item)| (item.id.clone(), at)).collect();
    let mut summaries: Vec<usize> = (0..items.len())
        .filter(|at| {
            items
                .get(*at)
                .is_some_and(|item| matches!(item.body, UnifiedItemBody::CompactionSummary(_)))
        })
        .collect();
    summaries.sort_by_key(|at| items.get(*at).map(|item| item.sequence));
    for at in summaries {
        let Some(UnifiedItemBody::CompactionSummary(summary)) = items.get(at).map(|item| &item.body) else {
            continue;
        };
        let mut covered = Vec::new();
        let mut next = Some(summary.covers.to_item_id.clone());
        while let Some(item) = next.as_ref().and_then(|id| places.get(id)).and_then(|place| items.get(*place)) {
            covered.push(item);
            next = item.parent_id.clone();
        }
        if covered.len() as u64 != summary.covers.count {
            let message = "a summary covers items whose parents are not told";
            return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "validation", message).at("/items"));
        }
        let hash = compaction::audit_hash(covered.into_iter().rev())
            .map_err(|e| UnifiedError::new(ErrorCategory::InvalidRequest, "validation", e.to_string()))?;
        if let Some(UnifiedItemBody::CompactionSummary(summary)) = items.get_mut(at).map(|item| &mut item.body) {
            summary.audit_hash = hash;
        }
    }
    Ok(())
}
