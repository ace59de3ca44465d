//! Conversations as their owner handles them: begun, listed, forked, deleted.

use crate::engine::{Engine, not_found};
use crate::ports::IdKind;
use crate::principal::Principal;
use throughline_format::metadata::UnifiedSemanticMetadata;
use throughline_format::validate::semantics;
use throughline_format::{Timestamp, UnifiedBranch, UnifiedConversation, UnifiedError, UnifiedId, UnifiedItem};
use throughline_store::export::{ConversationSummary, summary};
use throughline_store::{ConversationFilter, DeletionCondition, MAX_PAGE, WriteBatch, WriteOp};

/// A conversation to begin.
#[derive(Clone, Debug, Default)]
pub struct NewConversation {
    /// Title; not history.
    pub title: Option<String>,
    /// Labels.
    pub metadata: Option<UnifiedSemanticMetadata>,
    /// Its first items.
    pub items: Vec<UnifiedItem>,
}

/// Which conversations to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversationQuery {
    /// Updated at or after this time.
    pub updated_since: Option<Timestamp>,
    /// After this one in the list.
    pub after: Option<UnifiedId>,
    /// At most this many.
    pub limit: usize,
}

/// Conversations, the one updated last first.
#[derive(Clone, Debug)]
pub struct ConversationPage {
    /// The conversations with their IDs.
    pub conversations: Vec<(UnifiedId, ConversationSummary)>,
    /// Whether more follow.
    pub has_more: bool,
}

impl Engine {
    /// Begins a conversation.
    ///
    /// # Errors
    /// `invalid-request.*` when an item breaks a rule of the format; nothing is stored then.
    pub async fn create_conversation(
        &self,
        principal: &Principal,
        new: NewConversation,
    ) -> Result<(UnifiedId, ConversationSummary), UnifiedError> {
        let now = self.clock.now();
        let (conversation_id, branch_id) = (self.ids.next(IdKind::Conversation), self.ids.next(IdKind::Branch));
        let conversation = UnifiedConversation {
            conversation_id: conversation_id.clone(),
            default_branch_id: branch_id.clone(),
            created_at: now,
            last_updated_at: now,
            principal_ref: principal.reference(&self.vault)?,
            title: new.title,
            metadata: new.metadata,
        };
        if let Some(violation) = semantics::conversation(&conversation).into_iter().next() {
            return Err(violation.into());
        }
        let items = self.adopt_items(new.items, &[])?;
        let mut batch = WriteBatch::new(now, conversation_id.clone());
        batch.push(WriteOp::CreateConversation(conversation));
        batch.push(WriteOp::CreateBranch(UnifiedBranch {
            branch_id: branch_id.clone(),
            conversation_id: conversation_id.clone(),
            parent_branch_id: None,
            fork_item_id: None,
            head_item_id: None,
            head_sequence: 0,
            created_at: now,
        }));
        if !items.is_empty() {
            batch.push(WriteOp::AppendItems {
                branch_id,
                expected_head: None,
                items,
            });
        }
        self.commit(batch).await.map_err(|e| e.to_unified())?;
        let summary = self.conversation(principal, &conversation_id).await?;
        Ok((conversation_id, summary))
    }

    /// Conversations of the principal.
    ///
    /// # Errors
    /// `not-found.resource` when `after` is none of the principal's; `storage.*`.
    pub async fn conversations(&self, principal: &Principal, query: ConversationQuery) -> Result<ConversationPage, UnifiedError> {
        if let Some(after) = &query.after {
            self.own_conversation(principal, after).await?;
        }
        let limit = query.limit.clamp(1, MAX_PAGE - 1);
        let filter = ConversationFilter {
            principal_ref: Some(principal.reference(&self.vault)?),
            updated_since: query.updated_since,
            after: query.after,
            limit: limit + 1,
        };
        let mut found = self.store.conversations(filter).await.map_err(|e| e.to_unified())?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let mut conversations = Vec::with_capacity(found.len());
        for conversation in found {
            conversations.push((conversation.conversation_id.clone(), self.summary(conversation).await?));
        }
        Ok(ConversationPage { conversations, has_more })
    }

    /// A conversation of the principal.
    ///
    /// # Errors
    /// `not-found.resource` when it is absent or somebody else's: the two look alike.
    pub async fn conversation(&self, principal: &Principal, id: &UnifiedId) -> Result<ConversationSummary, UnifiedError> {
        let conversation = self.own_conversation(principal, id).await?;
        self.summary(conversation).await
    }

    async fn summary(&self, conversation: UnifiedConversation) -> Result<ConversationSummary, UnifiedError> {
        let retention_days = self.store.meta().retention_days;
        summary(self.store.as_ref(), conversation, retention_days)
            .await
            .map_err(|e| e.to_unified())
    }

    /// Deletes a conversation with everything in it. It is gone at once for every reader; its rows are removed by the next cleanup.
    ///
    /// # Errors
    /// `conflict.operation-active` while an operation of it has not ended.
    pub async fn delete_conversation(&self, principal: &Principal, id: &UnifiedId) -> Result<(), UnifiedError> {
        self.own_conversation(principal, id).await?;
        let only_if = DeletionCondition::Always;
        let batch = WriteBatch::new(self.clock.now(), id.clone()).with(WriteOp::DeleteConversation { only_if });
        self.commit(batch).await.map(|_| ()).map_err(|e| e.to_unified())
    }

    /// The branches of a conversation, oldest first.
    ///
    /// # Errors
    /// As [`Self::conversation`].
    pub async fn branches(&self, principal: &Principal, id: &UnifiedId) -> Result<Vec<UnifiedBranch>, UnifiedError> {
        self.own_conversation(principal, id).await?;
        self.store.branches(id).await.map_err(|e| e.to_unified())
    }

    /// A new branch that leaves the history after an item.
    ///
    /// # Errors
    /// `not-found.resource` when the conversation or the item in it is absent; `limit.branches`.
    pub async fn fork(&self, principal: &Principal, id: &UnifiedId, from_item: &UnifiedId) -> Result<UnifiedBranch, UnifiedError> {
        self.own_conversation(principal, id).await?;
        let item = self.store.item(from_item).await.map_err(|e| e.to_unified())?;
        let item = item.filter(|item| item.conversation_id == *id).ok_or_else(|| not_found("item"))?;
        let now = self.clock.now();
        let branch = UnifiedBranch {
            branch_id: self.ids.next(IdKind::Branch),
            conversation_id: id.clone(),
            parent_branch_id: Some(item.branch_id.clone()),
            fork_item_id: Some(item.id.clone()),
            head_item_id: Some(item.id.clone()),
            head_sequence: item.sequence,
            created_at: now,
        };
        let batch = WriteBatch::new(now, id.clone()).with(WriteOp::CreateBranch(branch.clone()));
        self.commit(batch).await.map_err(|e| e.to_unified())?;
        Ok(branch)
    }

    /// The record of a conversation of this principal.
    pub(crate) async fn own_conversation(&self, principal: &Principal, id: &UnifiedId) -> Result<UnifiedConversation, UnifiedError> {
        let reference = principal.reference(&self.vault)?;
        let found = self.store.conversation(id).await.map_err(|e| e.to_unified())?;
        found
            .filter(|conversation| conversation.principal_ref == reference)
            .ok_or_else(|| not_found("conversation"))
    }

    /// A branch of a conversation of this principal; absent = the one that clients land on.
    pub(crate) async fn own_branch(
        &self,
        principal: &Principal,
        conversation: &UnifiedId,
        branch: Option<&UnifiedId>,
    ) -> Result<UnifiedBranch, UnifiedError> {
        let conversation = self.own_conversation(principal, conversation).await?;
        let id = branch.unwrap_or(&conversation.default_branch_id);
        let found = self.store.branch(id).await.map_err(|e| e.to_unified())?;
        found
            .filter(|branch| branch.conversation_id == conversation.conversation_id)
            .ok_or_else(|| not_found("branch"))
    }
}
