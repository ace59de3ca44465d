//! Items and their revisions: append-only.

use std::borrow::Cow;

use throughline_format::{UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedItemRevision};

use super::{BranchRow, Run};
use crate::StoreError;
use crate::batch::AppendedItem;

impl Run<'_> {
    pub(super) fn append_items(
        &mut self,
        branch_id: &UnifiedId,
        expected_head: Option<&UnifiedId>,
        items: &[UnifiedItem],
    ) -> Result<bool, StoreError> {
        let first = self.texts_taken;
        self.texts_taken += items.len();
        let mut row = self.own_branch(branch_id)?;
        if row.branch.head_item_id.as_ref() != expected_head {
            return self.repeat_append(&row, expected_head, items).map(|()| false);
        }
        for (item, at) in items.iter().zip(first..) {
            let placed = place(
                item,
                &row.branch.conversation_id,
                branch_id,
                row.branch.head_item_id.as_ref(),
                row.branch.head_sequence + 1,
            )?;
            self.check_covered_range(&row, &placed)?;
            let is_new = if let (Cow::Borrowed(_), Some(text)) = (&placed, self.texts.get(at)) {
                self.tables.insert_item(&placed, text)?
            } else {
                let text = serde_json::to_string(placed.as_ref()).map_err(|_| StoreError::internal("a record has no JSON form"))?;
                self.tables.insert_item(&placed, &text)?
            };
            if !is_new {
                return Err(StoreError::duplicate("item", &item.id));
            }
            row.branch.head_item_id = Some(placed.id.clone());
            row.branch.head_sequence = placed.sequence;
            self.receipt.appended.push(AppendedItem {
                item_id: placed.id.clone(),
                branch_id: branch_id.clone(),
                sequence: placed.sequence,
            });
        }
        if let (Some(head), false) = (&row.branch.head_item_id, items.is_empty()) {
            self.tables.set_branch_head(branch_id, head, row.branch.head_sequence)?;
        }
        self.report_head(&row.branch);
        Ok(!items.is_empty())
    }

    /// The head is another one than expected: fine only if exactly these items were appended there before.
    fn repeat_append(&mut self, row: &BranchRow, expected_head: Option<&UnifiedId>, items: &[UnifiedItem]) -> Result<(), StoreError> {
        let moved = || StoreError::HeadMoved {
            branch_id: row.branch.branch_id.clone(),
            actual: row.branch.head_item_id.clone(),
        };
        let mut sequence = match expected_head {
            Some(head) => self.tables.item(head)?.ok_or_else(moved)?.sequence,
            None => 0,
        };
        let mut parent = expected_head.cloned();
        let mut appended = Vec::with_capacity(items.len());
        if items.is_empty() {
            return Err(moved());
        }
        for item in items {
            sequence += 1;
            let stored = self.tables.item(&item.id)?.ok_or_else(moved)?;
            let placed = place(item, &row.branch.conversation_id, &row.branch.branch_id, parent.as_ref(), sequence)?;
            if stored != *placed {
                return Err(moved());
            }
            parent = Some(placed.id.clone());
            appended.push(AppendedItem {
                item_id: placed.id.clone(),
                branch_id: row.branch.branch_id.clone(),
                sequence,
            });
        }
        self.receipt.appended.extend(appended);
        self.report_head(&row.branch);
        Ok(())
    }

    /// A summary covers a contiguous prefix of its own path. Its audit hash is the engine's to verify: that takes all the items.
    fn check_covered_range(&mut self, row: &BranchRow, item: &UnifiedItem) -> Result<(), StoreError> {
        let UnifiedItemBody::CompactionSummary(summary) = &item.body else {
            return Ok(());
        };
        let covers = &summary.covers;
        if covers.count == 0 && covers.from_item_id == item.id && covers.to_item_id == item.id {
            // It stands for what was never here, and covers nothing of the journal.
            return Ok(());
        }
        let wrong = |message: &str| StoreError::invalid("/covers", message);
        let first = self.own_item(&covers.from_item_id)?;
        let last = self.own_item(&covers.to_item_id)?;
        if !self.is_on_path(row, &first)? || !self.is_on_path(row, &last)? {
            return Err(wrong("the covered items must stand on the path of the branch"));
        }
        if first.sequence != 1 || last.sequence != covers.count {
            return Err(wrong(
                "a summary covers a prefix: from the first item on, and count is the sequence of the last one",
            ));
        }
        Ok(())
    }

    pub(super) fn add_revision(&mut self, revision: &UnifiedItemRevision) -> Result<bool, StoreError> {
        let item = self.own_item(&revision.item_id)?;
        if let Some(stored) = self.tables.revision(&revision.revision_id)? {
            return if stored == *revision {
                Ok(false)
            } else {
                Err(StoreError::duplicate("revision", &revision.revision_id))
            };
        }
        let earlier = self.tables.revisions(&revision.item_id)?;
        let expected = earlier.len() as u64 + 1;
        if revision.number != expected {
            return Err(StoreError::RevisionConflict {
                item_id: item.id.clone(),
                expected,
            });
        }
        check_status(&item, &earlier, revision)?;
        check_lifecycle(&item, &earlier, revision)?;
        self.tables.insert_revision(revision)?;
        Ok(true)
    }
}

/// The item as it stands at its place. An item that is placed already must stand exactly there.
fn place<'a>(
    item: &'a UnifiedItem,
    conversation_id: &UnifiedId,
    branch_id: &UnifiedId,
    parent: Option<&UnifiedId>,
    sequence: u64,
) -> Result<Cow<'a, UnifiedItem>, StoreError> {
    let mut placed = Cow::Borrowed(item);
    if item.conversation_id.is_pending() {
        let placed = placed.to_mut();
        placed.conversation_id = conversation_id.clone();
        placed.branch_id = branch_id.clone();
        placed.sequence = sequence;
        placed.parent_id = item.parent_id.clone().or_else(|| parent.cloned());
    }
    let wrong = |path: &str| {
        StoreError::invalid(
            path,
            format!(
                "item {} would stand at {branch_id}, sequence {sequence}; or leave its place pending",
                item.id
            ),
        )
    };
    if placed.conversation_id != *conversation_id {
        return Err(wrong("/conversationId"));
    }
    if placed.branch_id != *branch_id {
        return Err(wrong("/branchId"));
    }
    if placed.sequence != sequence {
        return Err(wrong("/sequence"));
    }
    if placed.parent_id.is_some() && placed.parent_id.as_ref() != parent {
        return Err(wrong("/parentId"));
    }
    Ok(placed)
}

/// A status never leaves a terminal value.
fn check_status(item: &UnifiedItem, earlier: &[UnifiedItemRevision], revision: &UnifiedItemRevision) -> Result<(), StoreError> {
    let current = earlier
        .iter()
        .rev()
        .find_map(|revision| revision.change.status)
        .unwrap_or(item.status);
    match revision.change.status {
        Some(next) if next != current && !current.may_become(next) => Err(StoreError::invalid(
            "/change/status",
            format!("item {} is {current} and stays so", item.id),
        )),
        _ => Ok(()),
    }
}

/// The state of a call follows its table.
fn check_lifecycle(item: &UnifiedItem, earlier: &[UnifiedItemRevision], revision: &UnifiedItemRevision) -> Result<(), StoreError> {
    let Some(next) = revision.change.lifecycle else { return Ok(()) };
    let Some(first) = item.lifecycle() else {
        return Err(StoreError::invalid(
            "/change/lifecycle",
            format!("item {} is no call and has no lifecycle", item.id),
        ));
    };
    let current = earlier.iter().rev().find_map(|revision| revision.change.lifecycle).unwrap_or(first);
    if current == next || current.may_become(next) {
        Ok(())
    } else {
        Err(StoreError::invalid(
            "/change/lifecycle",
            format!("the call of item {} cannot go from {current} to {next}", item.id),
        ))
    }
}
