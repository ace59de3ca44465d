//! Lists of operations, what each of them lost on the way through the gateway, and their deletion.

use crate::engine::Engine;
use crate::principal::Principal;
use std::collections::HashSet;
use throughline_format::{
    ErrorCategory, OperationState, UnifiedError, UnifiedId, UnifiedLossReport, UnifiedOperation, UnifiedProtocolProfile,
};
use throughline_protocols::{Capabilities, Codec, EncodeContext, codec_of};
use throughline_store::{DeletionCondition, MAX_PAGE, OperationFilter, StoreError, WriteBatch, WriteOp};

/// Which operations to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationQuery {
    /// Of this conversation only.
    pub conversation: Option<UnifiedId>,
    /// In one of these states; empty is any.
    pub states: Vec<OperationState>,
    /// After this one, in the order in which they began.
    pub after: Option<UnifiedId>,
    /// At most this many.
    pub limit: usize,
}

/// Operations in the order in which they began.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationPage {
    /// The operations.
    pub operations: Vec<UnifiedOperation>,
    /// Whether more follow.
    pub has_more: bool,
}

/// What one translation lost.
#[derive(Clone, Debug, PartialEq)]
pub struct TranslationLoss {
    /// The form that was read; absent = the Unified record.
    pub from: Option<UnifiedProtocolProfile>,
    /// The form that was written; absent = the Unified record.
    pub to: Option<UnifiedProtocolProfile>,
    /// What was lost.
    pub report: UnifiedLossReport,
}

/// What an operation lost: client to record, record to target, and the answer on its way back to the client.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationLosses {
    /// The operation.
    pub operation_id: UnifiedId,
    /// Reading the request.
    pub decode: TranslationLoss,
    /// Writing it for the target.
    pub projection: TranslationLoss,
    /// Reading the answer and writing it for the client; empty until the operation has ended.
    pub result: TranslationLoss,
}

impl Engine {
    /// Operations of the principal.
    ///
    /// # Errors
    /// `not-found.resource` when `after` is no operation of the principal; `storage.*`.
    pub async fn operations(&self, principal: &Principal, query: OperationQuery) -> Result<OperationPage, UnifiedError> {
        if let Some(after) = &query.after {
            self.operation(principal, after).await?;
        }
        let limit = query.limit.clamp(1, MAX_PAGE - 1);
        let filter = OperationFilter {
            conversation_id: query.conversation,
            principal_ref: Some(principal.reference(&self.vault)?),
            states: query.states,
            after: query.after,
            limit: limit + 1,
            ..OperationFilter::default()
        };
        let mut operations = self.store.operations(filter).await.map_err(|e| e.to_unified())?;
        let has_more = operations.len() > limit;
        operations.truncate(limit);
        Ok(OperationPage { operations, has_more })
    }

    /// What an operation lost.
    ///
    /// # Errors
    /// As [`Engine::operation`].
    pub async fn losses(&self, principal: &Principal, id: &UnifiedId) -> Result<OperationLosses, UnifiedError> {
        let operation = self.operation(principal, id).await?;
        let target = operation.owner.as_ref().map(|owner| owner.profile.clone());
        let client = operation.source_profile.clone();
        let mut answer = UnifiedLossReport::default();
        if let Some(result) = self.store.result(id).await.map_err(|e| e.to_unified())? {
            answer.extend(result.loss.clone().unwrap_or_default());
            if let Some(codec) = client.as_ref().and_then(|profile| codec_of(&profile.family)) {
                // The same record in the same form loses the same, so this is computed and not kept.
                let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
                answer.extend(codec.encode_response(&result, &context)?.loss);
            }
        }
        let translation = |from, to, report| TranslationLoss { from, to, report };
        Ok(OperationLosses {
            operation_id: operation.operation_id,
            decode: translation(client.clone(), None, operation.decode_loss.unwrap_or_default()),
            projection: translation(None, target.clone(), operation.loss.unwrap_or_default()),
            result: translation(target, client, answer),
        })
    }

    /// How an answer is written when its client reads it again: with the private state that came to it the first time, so that both
    /// readings are the same, frame by frame.
    ///
    /// # Errors
    /// As [`Engine::operation`].
    pub async fn reading(
        &self,
        principal: &Principal,
        id: &UnifiedId,
        codec: &dyn Codec,
        stream: bool,
    ) -> Result<EncodeContext, UnifiedError> {
        // The publisher is looked up first: what it has not committed yet is only there.
        let live = self.publishers.get(id);
        let operation = self.operation(principal, id).await?;
        Ok(EncodeContext {
            private: self.state_of_answer(live, &operation, &codec.profile().family).await?,
            synthetic: self.synthetic.clone(),
            stream,
            answer_id: Some(operation.operation_id),
            created_at: operation.created_at,
            ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
        })
    }

    /// Deletes an operation that has ended: nobody finds it, its events and its result any more, and no request goes on from it by
    /// its name. What it appended stays in the journal when other work stands on it; a conversation that only it, or only it and
    /// others that are deleted by now, made goes with it.
    ///
    /// # Errors
    /// `not-found.resource` when it is absent, somebody else's or deleted already; `conflict.operation-active` before it has ended.
    pub async fn delete_operation(&self, principal: &Principal, id: &UnifiedId) -> Result<(), UnifiedError> {
        let operation = self.operation(principal, id).await?;
        if !operation.state.is_terminal() {
            let message = "it has not ended; cancel it first, or delete it when it has";
            return Err(UnifiedError::new(ErrorCategory::Conflict, "operation-active", message));
        }
        let conversation = self.own_conversation(principal, &operation.conversation_id).await?;
        let batch = |op| WriteBatch::new(self.clock.now(), operation.conversation_id.clone()).with(op);
        if self.is_last_of_its_conversation(&operation).await? {
            // Whoever goes on with the conversation meanwhile moves its time, and it stays.
            let only_if = DeletionCondition::NotUpdatedSince(conversation.last_updated_at);
            match self.commit(batch(WriteOp::DeleteConversation { only_if })).await {
                Err(StoreError::Retained { .. } | StoreError::OperationActive { .. }) => {}
                outcome => return outcome.map(|_| ()).map_err(|e| e.to_unified()),
            }
        }
        let operation_id = id.clone();
        let outcome = self.commit(batch(WriteOp::DeleteOperation { operation_id })).await;
        outcome.map(|_| ()).map_err(|e| e.to_unified())
    }

    /// Whether everything in the conversation of an operation is of it or of operations that are deleted.
    async fn is_last_of_its_conversation(&self, operation: &UnifiedOperation) -> Result<bool, UnifiedError> {
        let of_conversation = |deleted, limit| OperationFilter {
            conversation_id: Some(operation.conversation_id.clone()),
            deleted,
            limit,
            ..OperationFilter::default()
        };
        let live = self.store.operations(of_conversation(false, 2)).await.map_err(|e| e.to_unified())?;
        if live.len() > 1 {
            return Ok(false);
        }
        // Of more deleted ones than a page the rest counts as unknown: such a conversation goes when its retention time is over.
        let deleted = self.store.operations(of_conversation(true, MAX_PAGE)).await;
        let deleted = deleted.map_err(|e| e.to_unified())?;
        let gone: HashSet<&UnifiedId> = deleted.iter().chain([operation]).map(|one| &one.operation_id).collect();
        let branches = self.store.branches(&operation.conversation_id).await.map_err(|e| e.to_unified())?;
        for branch in branches {
            let path = self.branch_path(&branch.branch_id).await?;
            let is_gone = |id: Option<&UnifiedId>| id.is_some_and(|id| gone.contains(id));
            if !path.iter().all(|item| is_gone(item.provenance.operation_id.as_ref())) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
