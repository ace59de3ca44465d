//! Idempotency keys: the same key with the same request is the same operation, whatever became of the first connection.
//!
//! A key is kept as a keyed hash in its operation, within one principal, and goes when retention removes the conversation.

use crate::engine::Engine;
use crate::framed::framed;
use crate::turn::{Prepared, Turn, TurnError, TurnRequest};
use throughline_format::{ErrorCategory, Sha256, UnifiedError, UnifiedId, UnifiedOperation};
use throughline_protocols::EncodeContext;
use throughline_store::{HashPurpose, Vault};

/// Longest key, in bytes.
const MAX_KEY_BYTES: usize = 255;

/// A client's key for one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdempotencyKey {
    pub(crate) hash: Sha256,
}

impl IdempotencyKey {
    pub(crate) fn read(vault: &Vault, key: &str) -> Result<Self, UnifiedError> {
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(UnifiedError::new(
                ErrorCategory::InvalidRequest,
                "invalid-value",
                format!("an idempotency key has 1 to {MAX_KEY_BYTES} bytes"),
            ));
        }
        let hash = vault
            .keyed_hash(HashPurpose::IdempotencyKey, key.as_bytes())
            .map_err(|e| e.to_unified())?;
        Ok(Self { hash })
    }
}

/// Digest of what a client asked and where: its protocol, the model and place that it named beside the body, and the body.
pub(crate) fn fingerprint(turn: &TurnRequest) -> Sha256 {
    let family = turn.codec.profile().family;
    let named = [
        family.as_str(),
        turn.model.as_deref().unwrap_or_default(),
        turn.conversation.as_ref().map_or("", UnifiedId::as_str),
        turn.branch.as_ref().map_or("", UnifiedId::as_str),
    ];
    Sha256::of_all([framed(&named.map(str::as_bytes)).as_slice(), &turn.body])
}

impl Engine {
    /// The operation that holds the request's key, joined from its beginning.
    ///
    /// # Errors
    /// `conflict.idempotency` when the key was used for another request.
    pub(crate) async fn known(&self, prepared: &Prepared) -> Result<Option<Turn>, TurnError> {
        let Some(key) = &prepared.key else { return Ok(None) };
        let held = self
            .store
            .operation_by_idempotency_key(&prepared.principal_ref, &key.hash)
            .await
            .map_err(|e| e.to_unified())?;
        match held {
            Some(operation) if operation.request_fingerprint == prepared.fingerprint => {
                self.join_existing(prepared, operation).await.map(Some).map_err(TurnError::from)
            }
            Some(_) => Err(UnifiedError::new(
                ErrorCategory::Conflict,
                "idempotency",
                "this idempotency key was used for another request; use a new key, or send the same request",
            )
            .into()),
            None => Ok(None),
        }
    }

    /// The operation that another request with the same key began in the meantime.
    pub(crate) async fn rejoin(&self, prepared: &Prepared, operation_id: &UnifiedId) -> Result<Turn, TurnError> {
        let operation = self.operation(&prepared.turn.principal, operation_id).await?;
        Ok(self.join_existing(prepared, operation).await?)
    }

    async fn join_existing(&self, prepared: &Prepared, operation: UnifiedOperation) -> Result<Turn, UnifiedError> {
        let live = self.publishers.get(&operation.operation_id);
        let family = prepared.turn.codec.profile().family;
        let private = self.state_of_answer(live.clone(), &operation, &family).await?;
        let mut loss = operation.decode_loss.unwrap_or_default();
        loss.extend(operation.loss.unwrap_or_default());
        Ok(Turn {
            cursor: self.cursor(&prepared.turn.principal, &operation.conversation_id, &operation.operation_id, 0)?,
            encode: EncodeContext {
                answer_id: Some(operation.operation_id.clone()),
                ..self.client_context(prepared, private)
            },
            subscription: self.attach(operation.operation_id.clone(), live, 0),
            operation_id: operation.operation_id,
            conversation_id: operation.conversation_id,
            branch_id: operation.source_branch_id,
            request_id: prepared.request_id.clone(),
            stream: prepared.decoded.stream,
            loss,
        })
    }
}
