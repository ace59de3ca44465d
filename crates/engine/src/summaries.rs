//! Summaries of the history that a provider or client wrote: what they cover is known only where they stand.

use throughline_format::compaction;
use throughline_format::item::{MessageItem, Role, UnifiedItemBody};
use throughline_format::request::ContextEditKind;
use throughline_format::{UnifiedItem, UnifiedRequestV2};

/// Whether a request asks its provider for a summary.
pub(crate) fn may_come(request: &UnifiedRequestV2) -> bool {
    request
        .state
        .as_ref()
        .and_then(|state| state.context_management.as_ref())
        .is_some_and(|edits| edits.value.iter().any(|edit| edit.kind == ContextEditKind::Compact))
}

/// Says what a summary covers: everything before it, and nothing is replaced. Where that is not known, it is a message.
pub(crate) fn cover(item: &mut UnifiedItem, before: impl FnOnce() -> Vec<UnifiedItem>) {
    let UnifiedItemBody::CompactionSummary(summary) = &mut item.body else {
        return;
    };
    let (parts, author) = (summary.parts.clone(), summary.author);
    if let Ok(covering) = compaction::record_untold(&before(), parts, author) {
        *summary = covering;
        return;
    }
    let parts = std::mem::take(&mut summary.parts);
    item.base.role.get_or_insert(Role::Assistant);
    item.body = UnifiedItemBody::Message(MessageItem { parts, placement: None });
}
