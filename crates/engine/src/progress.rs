//! The journal of an operation that goes on: what of its answer stands in the branch already.
//!
//! Each transition of an operation appends the items completed since the last one, in the same transaction; its end appends
//! the rest. What changes of an item that stands there is a revision, since items are never changed.

use crate::checkpoints;
use crate::engine::Engine;
use crate::ports::IdKind;
use crate::scribe::Written;
use crate::terminal;
use std::collections::BTreeMap;
use throughline_format::item::RevisionChange;
use throughline_format::{
    UnifiedBranch, UnifiedError, UnifiedId, UnifiedItem, UnifiedItemRevision, UnifiedOperation, UnifiedToolLifecycle,
};
use throughline_store::{StoreError, WriteBatch, WriteOp};

/// A call that goes to another state.
pub(crate) type Lifecycle = (UnifiedId, UnifiedToolLifecycle);

/// How far the answer stands in its branch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Number of the answer's items that stand there.
    pub(crate) appended: usize,
    /// The last of them.
    pub(crate) head: Option<UnifiedId>,
    /// The branch, when another request moved the head and the answer got one of its own.
    pub(crate) branch: Option<UnifiedId>,
    /// Revisions of each item.
    revisions: BTreeMap<UnifiedId, u64>,
}

impl Progress {
    /// What an operation that was stopped had appended.
    pub(crate) async fn find(engine: &Engine, items: &[UnifiedItem]) -> Result<Self, UnifiedError> {
        let mut found = Self::default();
        for item in items {
            let Some(stored) = engine.store.item(&item.id).await.map_err(|e| e.to_unified())? else {
                break;
            };
            if stored.lifecycle().is_some() {
                let revisions = engine.store.revisions(&stored.id).await.map_err(|e| e.to_unified())?;
                found.revisions.insert(stored.id.clone(), revisions.len() as u64);
            }
            found.appended += 1;
            found.head = Some(stored.id.clone());
            found.branch = Some(stored.base.branch_id);
        }
        Ok(found)
    }

    /// The branch that the answer goes to.
    pub(crate) fn branch<'a>(&'a self, operation: &'a UnifiedOperation) -> &'a UnifiedId {
        self.branch.as_ref().unwrap_or(&operation.source_branch_id)
    }

    /// What the branch ends with, when nobody else appended to it.
    pub(crate) fn expected_head<'a>(&'a self, operation: &'a UnifiedOperation) -> Option<&'a UnifiedId> {
        let before = operation.input_item_ids.last().or(operation.source_head_item_id.as_ref());
        self.head.as_ref().or(before)
    }

    /// The items that do not stand there yet, as they are appended.
    pub(crate) fn rest(&self, operation: &UnifiedOperation, items: &[UnifiedItem]) -> Option<WriteOp> {
        let branch_id = self.branch(operation).clone();
        let mut items: Vec<UnifiedItem> = items.get(self.appended..).unwrap_or_default().to_vec();
        for item in &mut items {
            item.base.branch_id = branch_id.clone();
        }
        (!items.is_empty()).then(|| WriteOp::AppendItems {
            branch_id,
            expected_head: self.expected_head(operation).cloned(),
            items,
        })
    }

    /// Commits a step of the operation: record, events, new items, revisions of those that changed.
    pub(crate) async fn step(
        &mut self,
        engine: &Engine,
        operation: &UnifiedOperation,
        items: &[UnifiedItem],
        lifecycles: &[Lifecycle],
        mut batch: WriteBatch,
        events: &[Written],
    ) -> Result<(), UnifiedError> {
        let mut next = self.clone();
        let known: Vec<&UnifiedId> = items.iter().take(self.appended).map(|item| &item.id).collect();
        for (item_id, lifecycle) in lifecycles.iter().filter(|(id, _)| known.contains(&id)) {
            let number = next.revisions.entry(item_id.clone()).or_default();
            *number += 1;
            let revision_id = UnifiedId::parse(&format!("{item_id}.r{number}")).unwrap_or_else(|_| item_id.clone());
            batch.push(WriteOp::AddRevision(UnifiedItemRevision {
                revision_id,
                item_id: item_id.clone(),
                number: *number,
                created_at: batch.now,
                change: RevisionChange {
                    lifecycle: Some(*lifecycle),
                    ..RevisionChange::default()
                },
                reason: "tool.lifecycle".into(),
                operation_id: Some(operation.operation_id.clone()),
            }));
        }
        batch.push(WriteOp::UpdateOperation(operation.clone()));
        batch.push(terminal::append(&operation.operation_id, events));
        batch.ops.extend(self.rest(operation, items));
        next.appended = items.len();
        next.head = items.last().map(|item| item.id.clone()).or(next.head);
        match terminal::persist(engine, batch.clone()).await {
            Ok(()) => {}
            Err(StoreError::HeadMoved { .. }) => {
                let fork = self.fork(engine, operation, &mut batch)?;
                terminal::persist(engine, batch).await.map_err(|e| e.to_unified())?;
                next.branch = Some(fork);
            }
            Err(error) => return Err(error.to_unified()),
        }
        *self = next;
        Ok(())
    }

    /// Moves what a batch appends to a branch of its own: an answer is never lost because others went on. Gives the branch.
    ///
    /// # Errors
    /// When a checkpoint cannot be sealed to its new place.
    pub(crate) fn fork(&self, engine: &Engine, operation: &UnifiedOperation, batch: &mut WriteBatch) -> Result<UnifiedId, UnifiedError> {
        let fork_item = self.expected_head(operation).cloned();
        let fork = UnifiedBranch {
            branch_id: engine.ids.next(IdKind::Branch),
            conversation_id: operation.conversation_id.clone(),
            parent_branch_id: fork_item.is_some().then(|| self.branch(operation).clone()),
            fork_item_id: fork_item.clone(),
            head_item_id: fork_item,
            head_sequence: 0,
            created_at: batch.now,
        };
        let id = fork.branch_id.clone();
        for op in &mut batch.ops {
            match op {
                WriteOp::AppendItems { branch_id, items, .. } => {
                    *branch_id = id.clone();
                    for item in items.iter_mut() {
                        item.base.branch_id = id.clone();
                    }
                }
                WriteOp::PutCheckpoint(checkpoint) => checkpoints::move_to(&engine.vault, checkpoint, &id)?,
                WriteOp::PutIssuedIds(rows) => rows.iter_mut().for_each(|row| row.branch_id = id.clone()),
                WriteOp::PutLineage(rows) => rows.iter_mut().for_each(|row| row.branch_id = id.clone()),
                _ => {}
            }
        }
        batch.ops.insert(0, WriteOp::CreateBranch(fork));
        Ok(id)
    }
}
