//! Conversations, branches, leases and deletion.

use throughline_format::{UnifiedBranch, UnifiedConversation, UnifiedId, UnifiedLease};

use super::{BranchRow, Run};
use crate::StoreError;
use crate::batch::{BranchHead, DeletionCondition};

impl Run<'_> {
    pub(super) fn create_conversation(&mut self, conversation: &UnifiedConversation) -> Result<bool, StoreError> {
        if conversation.conversation_id != self.batch.conversation_id {
            return Err(StoreError::invalid(
                "/conversationId",
                "the conversation must be the one of the batch",
            ));
        }
        let duplicate = || StoreError::duplicate("conversation", &conversation.conversation_id);
        if self.deleted {
            return Err(duplicate());
        }
        if let Some(stored) = &self.conversation {
            // The clock has moved on since; everything else must be as it was sent.
            let same = UnifiedConversation {
                last_updated_at: stored.last_updated_at,
                ..conversation.clone()
            } == *stored;
            return if same { Ok(false) } else { Err(duplicate()) };
        }
        self.tables.insert_conversation(conversation)?;
        self.conversation = Some(conversation.clone());
        self.created = true;
        Ok(true)
    }

    /// A conversation without its default branch would be unreachable.
    pub(super) fn check_default_branch(&mut self) -> Result<(), StoreError> {
        let id = self.existing()?.default_branch_id.clone();
        match self.own_branch(&id) {
            Ok(_) => Ok(()),
            Err(StoreError::NotFound { .. }) => Err(StoreError::invalid(
                "/defaultBranchId",
                "create the default branch in the batch of its conversation",
            )),
            Err(error) => Err(error),
        }
    }

    pub(super) fn create_branch(&mut self, branch: &UnifiedBranch) -> Result<bool, StoreError> {
        self.check_scope(&branch.conversation_id)?;
        if let Some(stored) = self.tables.branch(&branch.branch_id)? {
            let same = UnifiedBranch {
                head_item_id: stored.branch.head_item_id.clone(),
                head_sequence: stored.branch.head_sequence,
                ..branch.clone()
            };
            if same != stored.branch {
                return Err(StoreError::duplicate("branch", &branch.branch_id));
            }
            self.report_head(&stored.branch);
            return Ok(false);
        }
        let branches = self.tables.branch_count()?;
        if branches >= self.limits.branches {
            return Err(StoreError::Limit {
                what: "branches",
                count: branches as u64 + 1,
                limit: self.limits.branches as u64,
            });
        }
        let fork_sequence = self.fork_sequence(branch)?;
        let placed = UnifiedBranch {
            head_item_id: branch.fork_item_id.clone(),
            head_sequence: fork_sequence,
            ..branch.clone()
        };
        self.report_head(&placed);
        self.tables.insert_branch(&BranchRow {
            branch: placed,
            fork_sequence,
        })?;
        Ok(true)
    }

    /// Where a new branch leaves its parent; 0 for a root and for a fork before the first item.
    fn fork_sequence(&mut self, branch: &UnifiedBranch) -> Result<u64, StoreError> {
        let parent = match &branch.parent_branch_id {
            Some(parent) => Some(self.own_branch(parent)?),
            None => None,
        };
        match (parent, &branch.fork_item_id) {
            (_, None) => Ok(0),
            (None, Some(_)) => Err(StoreError::invalid(
                "/forkItemId",
                "a fork names the branch that it leaves in parentBranchId",
            )),
            (Some(parent), Some(fork_item)) => {
                let item = self.own_item(fork_item)?;
                if self.is_on_path(&parent, &item)? {
                    Ok(item.sequence)
                } else {
                    Err(StoreError::invalid(
                        "/forkItemId",
                        "the fork item does not stand on the path of the parent branch",
                    ))
                }
            }
        }
    }

    /// Puts a head into the receipt, replacing an older one of the same branch.
    pub(super) fn report_head(&mut self, branch: &UnifiedBranch) {
        self.receipt.heads.retain(|head| head.branch_id != branch.branch_id);
        self.receipt.heads.push(BranchHead {
            branch_id: branch.branch_id.clone(),
            head_item_id: branch.head_item_id.clone(),
            head_sequence: branch.head_sequence,
        });
    }

    pub(super) fn acquire_lease(&mut self, lease: &UnifiedLease) -> Result<bool, StoreError> {
        self.check_scope(&lease.conversation_id)?;
        if let Some(stored) = self.tables.lease(&lease.lease_id)? {
            let renewed = UnifiedLease {
                expires_at: lease.expires_at,
                ..stored.clone()
            };
            if renewed != *lease {
                return Err(StoreError::duplicate("lease", &lease.lease_id));
            }
            if stored == *lease {
                return Ok(false);
            }
        }
        self.tables.put_lease(lease)?;
        Ok(true)
    }

    pub(super) fn release_lease(&mut self, lease_id: &UnifiedId) -> Result<bool, StoreError> {
        self.existing()?;
        self.tables.delete_lease(lease_id)?;
        Ok(true)
    }

    pub(super) fn delete_conversation(&mut self, only_if: DeletionCondition) -> Result<bool, StoreError> {
        if self.deleted {
            return Ok(false);
        }
        let conversation = self.existing()?;
        let conversation_id = conversation.conversation_id.clone();
        match only_if {
            DeletionCondition::NotUpdatedSince(cutoff) if conversation.last_updated_at > cutoff => {
                return Err(StoreError::Retained { conversation_id });
            }
            DeletionCondition::NotUpdatedSince(_) | DeletionCondition::Always => {}
        }
        if self.tables.has_active_operation()? || self.tables.has_live_lease(self.batch.now)? {
            return Err(StoreError::OperationActive { conversation_id });
        }
        self.tables.mark_deleted()?;
        self.conversation = None;
        self.deleted = true;
        Ok(true)
    }
}
