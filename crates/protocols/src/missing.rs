//! History that a request only points to: what its provider holds is declared missing (spec, completeness; open-types.md, section 1).

use throughline_format::UnifiedItem;
use throughline_format::conversation::{Completeness, MissingReason, UnifiedConversationInput, UnifiedMissingRange};
use throughline_format::item::{ReferenceTarget, UnifiedItemBody};

/// Declares what the items of a request name and do not hold: items of the provider, and the history before a summary that
/// nothing stands before.
pub(crate) fn declare(conversation: &mut UnifiedConversationInput) {
    let found: Vec<_> = conversation
        .items
        .iter()
        .enumerate()
        .filter_map(|(n, item)| range(&conversation.items, n, item))
        .collect();
    if found.is_empty() {
        return;
    }
    if conversation.completeness == Completeness::Complete {
        conversation.completeness = Completeness::Partial;
    }
    conversation.missing.get_or_insert_default().extend(found);
}

/// The range that an item stands for.
fn range(items: &[UnifiedItem], index: usize, item: &UnifiedItem) -> Option<UnifiedMissingRange> {
    let before = index.checked_sub(1).and_then(|before| items.get(before));
    let (count, resource) = match &item.body {
        UnifiedItemBody::Reference(reference) => match &reference.target {
            ReferenceTarget::Resource(target) => (Some(1), Some(target.resource.clone())),
            ReferenceTarget::Item(_) | ReferenceTarget::Url(_) => return None,
        },
        UnifiedItemBody::CompactionSummary(summary) if summary.covers.count == 0 => (None, None),
        _ => return None,
    };
    Some(UnifiedMissingRange {
        after_item_id: before.map(|item| item.id.clone()),
        before_item_id: Some(item.id.clone()),
        count,
        reason: MissingReason::ProviderHeld,
        resource,
    })
}
