//! A request that goes on from an answer by its ID: `previous_response_id`, `conversation`, `previous_interaction_id`
//! (architecture.md, Lineage: an explicit conversation takes precedence and must belong to the principal).
//!
//! The ID is the gateway's own, made of the operation's, or the provider's own, which the answer's private state holds. What it
//! names is looked up in the journal, so that any provider can go on from there; what is not found there is refused, because
//! an answer without the history that the client means would be worse than none.

use crate::engine::{Engine, not_found};
use crate::private;
use crate::turn::Prepared;
use throughline_format::conversation::Completeness;
use throughline_format::resource::UnifiedProviderResourceRef;
use throughline_format::{ErrorCategory, UnifiedError, UnifiedId};
use throughline_protocols::SideResource;

/// A place in the journal.
struct Named {
    conversation: UnifiedId,
    /// The operation whose answer is meant; absent = the head of the conversation.
    operation: Option<UnifiedId>,
}

impl Engine {
    /// Finds the conversation that a request goes on from by an ID, and makes the request one of that conversation.
    ///
    /// # Errors
    /// `not-found.resource` when the principal has no such answer; `conflict.operation-active` when it is still on its way.
    pub(crate) async fn find_named_answer(&self, prepared: &mut Prepared) -> Result<(), UnifiedError> {
        let conversation = &prepared.decoded.unified.conversation;
        if conversation.completeness != Completeness::ReferenceOnly {
            return Ok(());
        }
        if prepared.turn.conversation.is_some() {
            // The client names the conversation itself, and sends what is new.
            prepared.appends = true;
            return Ok(());
        }
        let held: Vec<&UnifiedProviderResourceRef> = conversation.continuations.iter().flatten().collect();
        let presented = held.iter().find_map(|reference| {
            prepared
                .decoded
                .resources
                .iter()
                .find(|side| side.resource_id == reference.resource_id)
        });
        let Some(side) = presented else { return Ok(()) };
        let at = side.wire_paths.first().cloned().unwrap_or_default();
        let named = self.named(&prepared.principal_ref, side).await?;
        let named = named.ok_or_else(|| not_found("answer or conversation of this name").at(at.clone()))?;
        let branch = match named.operation {
            Some(operation) => Some(self.branch_after(prepared, &named.conversation, &operation, &at).await?),
            None => None,
        };
        prepared.turn.conversation = Some(named.conversation);
        prepared.turn.branch = branch;
        prepared.appends = true;
        Ok(())
    }

    /// What a presented handle names, when it is the principal's.
    async fn named(&self, principal_ref: &str, side: &SideResource) -> Result<Option<Named>, UnifiedError> {
        let text = String::from_utf8_lossy(&side.payload).into_owned();
        let word = match serde_json::from_str::<serde_json::Value>(&text) {
            Ok(serde_json::Value::String(id)) => id,
            Ok(object) => object.get("id").and_then(|id| id.as_str()).map_or(text, str::to_owned),
            Err(_) => text,
        };
        // IDs of ours stand on a wire as they are, or behind a word of the wire: `resp_op_…`.
        let ids = [Some(word.as_str()), word.split_once('_').map(|(_, rest)| rest)];
        for id in ids.into_iter().flatten().filter_map(|id| UnifiedId::parse(id).ok()) {
            let operation = self.store.operation(&id).await.map_err(|e| e.to_unified())?;
            if let Some(operation) = operation.filter(|operation| operation.principal_ref == principal_ref) {
                return Ok(Some(Named {
                    conversation: operation.conversation_id,
                    operation: Some(id),
                }));
            }
            let conversation = self.store.conversation(&id).await.map_err(|e| e.to_unified())?;
            if conversation.is_some_and(|conversation| conversation.principal_ref == principal_ref) {
                return Ok(Some(Named {
                    conversation: id,
                    operation: None,
                }));
            }
        }
        let hash = private::payload_hash(&self.vault, &side.payload)?;
        let known = self.store.resources_by_payload_hash(principal_ref, &[hash]).await;
        // The ID of a resource of an answer begins with its operation.
        let issued = known.map_err(|e| e.to_unified())?.into_iter().find_map(|resource| {
            let operation = resource.resource_id.as_str().split('.').next().map(UnifiedId::parse)?.ok()?;
            Some((resource.conversation_id, operation))
        });
        let Some((conversation, operation)) = issued else { return Ok(None) };
        // The payload of an answer that was deleted is still there, with the items that stand on it.
        let is_there = self.store.operation(&operation).await.map_err(|e| e.to_unified())?.is_some();
        Ok(is_there.then_some(Named {
            conversation,
            operation: Some(operation),
        }))
    }

    /// The branch that ends with an answer: the one that it stands on, or a new one where that has gone on.
    async fn branch_after(
        &self,
        prepared: &Prepared,
        conversation: &UnifiedId,
        operation: &UnifiedId,
        at: &str,
    ) -> Result<UnifiedId, UnifiedError> {
        let missing = || not_found("answer of this name").at(at);
        let found = self
            .store
            .operation(operation)
            .await
            .map_err(|e| e.to_unified())?
            .ok_or_else(missing)?;
        if !found.state.is_terminal() {
            let message = "the answer that this request goes on from is still on its way; ask again when it has ended";
            return Err(UnifiedError::new(ErrorCategory::Conflict, "operation-active", message).at(at));
        }
        let path = self.branch_path(&found.source_branch_id).await?;
        let last = path
            .iter()
            .rposition(|item| item.provenance.operation_id.as_ref() == Some(operation))
            .ok_or_else(missing)?;
        match path.get(last) {
            Some(item) if last + 1 < path.len() => {
                let fork = self.fork(&prepared.turn.principal, conversation, &item.id).await?;
                Ok(fork.branch_id)
            }
            _ => Ok(found.source_branch_id),
        }
    }
}
