//! Lists of operations, and what each of them lost on the way through the gateway.

use crate::engine::Engine;
use crate::principal::Principal;
use throughline_format::{OperationState, UnifiedError, UnifiedId, UnifiedLossReport, UnifiedOperation, UnifiedProtocolProfile};
use throughline_protocols::{Capabilities, EncodeContext, codec_of};
use throughline_store::{MAX_PAGE, OperationFilter};

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
}
