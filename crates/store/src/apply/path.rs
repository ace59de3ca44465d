//! The path of a branch: its own items, and those of its ancestors up to each fork.

use throughline_format::{UnifiedId, UnifiedItem};

use super::{BranchRow, Run};
use crate::StoreError;

/// A stretch of a path: the items of one branch with `after < sequence <= through`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The branch that the items were appended to.
    pub branch_id: UnifiedId,
    /// Exclusive lower bound.
    pub after: u64,
    /// Inclusive upper bound.
    pub through: u64,
}

/// The path of a branch as stretches, from the root to the head. `branch` looks one up; a missing parent is an internal error.
///
/// Ancestors are shared by reference: nothing is copied by a fork, and an ancestor may have gone on beyond the fork.
pub fn segments(
    tip: &BranchRow,
    mut branch: impl FnMut(&UnifiedId) -> Result<Option<BranchRow>, StoreError>,
) -> Result<Vec<Segment>, StoreError> {
    let mut path = Vec::new();
    let mut through = tip.branch.head_sequence;
    let mut row = tip.clone();
    loop {
        // A fork of a fork may leave its parent before that parent's own fork: then the parent adds nothing.
        if row.fork_sequence < through {
            path.push(Segment {
                branch_id: row.branch.branch_id.clone(),
                after: row.fork_sequence,
                through,
            });
            through = row.fork_sequence;
        }
        let Some(parent) = &row.branch.parent_branch_id else { break };
        if through == 0 {
            break;
        }
        row = branch(parent)?.ok_or_else(|| StoreError::internal("a branch has lost its parent"))?;
    }
    path.reverse();
    Ok(path)
}

impl Run<'_> {
    /// Whether an item stands on the path of a branch.
    pub(super) fn is_on_path(&mut self, tip: &BranchRow, item: &UnifiedItem) -> Result<bool, StoreError> {
        let path = segments(tip, |id| self.tables.branch(id))?;
        Ok(path
            .iter()
            .any(|segment| segment.branch_id == item.branch_id && segment.after < item.sequence && item.sequence <= segment.through))
    }
}
