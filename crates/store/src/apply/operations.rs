//! Operations, their events and their results.

use bytes::Bytes;
use throughline_format::{UnifiedId, UnifiedOperation, UnifiedResultV2};

use super::Run;
use crate::StoreError;
use crate::batch::OperationHead;

impl Run<'_> {
    pub(super) fn put_operation(&mut self, operation: &UnifiedOperation) -> Result<bool, StoreError> {
        self.check_scope(&operation.conversation_id)?;
        self.check_principal(&operation.principal_ref)?;
        if let Some(stored) = self.tables.operation(&operation.operation_id)? {
            // It may have moved on since it was put; what it is cannot have changed.
            return if is_same_work(&stored, operation) {
                Ok(false)
            } else {
                Err(StoreError::duplicate("operation", &operation.operation_id))
            };
        }
        if let Some(key_hash) = &operation.idempotency_key_hash
            && let Some(holder) = self.tables.operation_by_key(&operation.principal_ref, key_hash)?
        {
            let same_request = holder.request_fingerprint == operation.request_fingerprint;
            return Err(StoreError::Idempotency {
                operation_id: holder.operation_id,
                same_request,
            });
        }
        self.own_branch(&operation.source_branch_id)?;
        if operation.state.is_terminal() {
            self.ended.insert(operation.operation_id.clone());
        }
        self.tables.insert_operation(&UnifiedOperation {
            last_sequence: 0,
            ..operation.clone()
        })?;
        Ok(true)
    }

    pub(super) fn update_operation(&mut self, operation: &UnifiedOperation) -> Result<bool, StoreError> {
        self.check_scope(&operation.conversation_id)?;
        let stored = self.own_operation(&operation.operation_id)?;
        let next = UnifiedOperation {
            last_sequence: stored.last_sequence,
            ..operation.clone()
        };
        if next == stored {
            return Ok(false);
        }
        if !is_same_work(&stored, &next) {
            return Err(StoreError::invalid(
                "/operation",
                "an update must not change what the operation is: principal, source, key, request, creation",
            ));
        }
        if stored.state != next.state && !stored.state.may_become(next.state) {
            return Err(StoreError::OperationState {
                operation_id: stored.operation_id,
                from: stored.state,
                to: next.state,
            });
        }
        if stored.state.is_terminal() && !self.ended.contains(&stored.operation_id) {
            return Err(StoreError::OperationEnded {
                operation_id: stored.operation_id,
            });
        }
        if next.state.is_terminal() {
            self.ended.insert(stored.operation_id);
        }
        self.tables.update_operation(&next)?;
        Ok(true)
    }

    pub(super) fn append_events(&mut self, operation_id: &UnifiedId, first_sequence: u64, events: &[Bytes]) -> Result<bool, StoreError> {
        let operation = self.own_operation(operation_id)?;
        let last = self.tables.last_sequence(operation_id)?;
        if first_sequence > last + 1 {
            return Err(StoreError::EventGap {
                operation_id: operation_id.clone(),
                expected: last + 1,
                found: first_sequence,
            });
        }
        let overlap = usize::try_from((last + 1).saturating_sub(first_sequence))
            .unwrap_or(usize::MAX)
            .min(events.len());
        let (repeated, new) = events.split_at(overlap);
        self.check_repeated(operation_id, first_sequence, repeated)?;
        if !new.is_empty() && operation.state.is_terminal() && !self.ended.contains(operation_id) {
            return Err(StoreError::OperationEnded {
                operation_id: operation_id.clone(),
            });
        }
        let mut sequence = last;
        for event in new {
            sequence += 1;
            self.tables.insert_event(operation_id, sequence, event)?;
        }
        self.receipt.sequences.retain(|head| head.operation_id != *operation_id);
        self.receipt.sequences.push(OperationHead {
            operation_id: operation_id.clone(),
            last_sequence: sequence,
        });
        Ok(!new.is_empty())
    }

    /// Events that are there already must be the same bytes.
    fn check_repeated(&mut self, operation_id: &UnifiedId, first_sequence: u64, repeated: &[Bytes]) -> Result<(), StoreError> {
        if repeated.is_empty() {
            return Ok(());
        }
        let stored = self
            .tables
            .events(operation_id, first_sequence, first_sequence + repeated.len() as u64 - 1)?;
        if stored.len() != repeated.len() {
            return Err(StoreError::internal("the events of an operation are not dense"));
        }
        let differs = stored.iter().zip(repeated).position(|(stored, repeated)| stored != repeated);
        match differs {
            Some(index) => Err(StoreError::EventConflict {
                operation_id: operation_id.clone(),
                sequence: first_sequence + index as u64,
            }),
            None => Ok(()),
        }
    }

    pub(super) fn put_result(&mut self, operation_id: &UnifiedId, result: &UnifiedResultV2) -> Result<bool, StoreError> {
        let operation = self.own_operation(operation_id)?;
        if result.operation_id.as_ref().is_some_and(|named| named != operation_id) {
            return Err(StoreError::invalid("/operationId", "the result names another operation"));
        }
        if let Some(stored) = self.tables.result(operation_id)? {
            return if stored == *result {
                Ok(false)
            } else {
                Err(StoreError::duplicate("result of operation", operation_id))
            };
        }
        if operation.state.is_terminal() && !self.ended.contains(operation_id) {
            return Err(StoreError::OperationEnded {
                operation_id: operation_id.clone(),
            });
        }
        self.tables.insert_result(operation_id, result)?;
        Ok(true)
    }

    pub(super) fn delete_operation(&mut self, operation_id: &UnifiedId) -> Result<bool, StoreError> {
        let operation = self.own_operation(operation_id)?;
        if operation.state.is_terminal() {
            self.tables.delete_operation(operation_id)
        } else {
            Err(StoreError::OperationActive {
                conversation_id: operation.conversation_id,
            })
        }
    }

    /// What belongs to a conversation belongs to its principal.
    pub(super) fn check_principal(&self, principal_ref: &str) -> Result<(), StoreError> {
        if self.existing()?.principal_ref == principal_ref {
            Ok(())
        } else {
            Err(StoreError::invalid("/principalRef", "it is not the principal of the conversation"))
        }
    }
}

/// Whether two records are of the same piece of work: everything that no update may change.
fn is_same_work(one: &UnifiedOperation, other: &UnifiedOperation) -> bool {
    one.operation_id == other.operation_id
        && one.conversation_id == other.conversation_id
        && one.principal_ref == other.principal_ref
        && one.source_branch_id == other.source_branch_id
        && one.source_head_item_id == other.source_head_item_id
        && one.idempotency_key_hash == other.idempotency_key_hash
        && one.request_fingerprint == other.request_fingerprint
        && one.created_at == other.created_at
}
