//! The current view of an item: as it was appended, with its revisions applied in order (open-types.md, section 4).
//!
//! The journal keeps both; fingerprints and audit hashes are those of the item as it was appended.

use crate::item::{RevisionChange, UnifiedItem, UnifiedItemBody, UnifiedItemRevision};
use std::collections::HashMap;

impl UnifiedItem {
    /// Applies what a revision changes. What the kind of the item does not have is left alone: such a revision is against the rules.
    pub fn revise(&mut self, change: &RevisionChange) {
        if let Some(status) = change.status {
            self.base.status = status;
        }
        if let (Some(new), Some(parts)) = (&change.parts, self.parts_mut()) {
            parts.clone_from(new);
        }
        if let Some(to) = change.lifecycle {
            match &mut self.body {
                UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) => call.lifecycle = to,
                UnifiedItemBody::ComputerAction(call) => call.lifecycle = to,
                UnifiedItemBody::CodeExecution(call) => call.lifecycle = to,
                _ => {}
            }
        }
        if let Some(error) = &change.error {
            match &mut self.body {
                UnifiedItemBody::ToolResult(result) => result.error = Some(error.clone()),
                UnifiedItemBody::ServerToolResult(result) => result.error = Some(error.clone()),
                UnifiedItemBody::ComputerActionResult(result) => result.error = Some(error.clone()),
                UnifiedItemBody::CodeExecutionResult(result) => result.error = Some(error.clone()),
                UnifiedItemBody::SearchResult(found) | UnifiedItemBody::RetrievalResult(found) => found.error = Some(error.clone()),
                UnifiedItemBody::Error(item) => item.error = error.clone(),
                _ => {}
            }
        }
    }
}

/// Brings items to their current view. Revisions may stand in any order, and those of other items are passed over.
pub fn bring_up_to_date(items: &mut [UnifiedItem], revisions: &[UnifiedItemRevision]) {
    let mut of_item: HashMap<_, Vec<&UnifiedItemRevision>> = HashMap::new();
    for revision in revisions {
        of_item.entry(&revision.item_id).or_default().push(revision);
    }
    for item in items {
        let Some(mut list) = of_item.remove(&item.id) else { continue };
        list.sort_by_key(|revision| revision.number);
        for revision in list {
            item.revise(&revision.change);
        }
    }
}
