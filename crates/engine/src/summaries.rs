//! Summaries of the history that a provider or client wrote: what they cover is known only where they stand.

use throughline_format::compaction;
use throughline_format::item::{MessageItem, Role, SummaryAuthor, UnifiedItemBody};
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
    if summary.replaces {
        // It was made for its place and says itself what it covers.
        return;
    }
    let (parts, author) = (summary.parts.clone(), summary.author);
    if let Ok(covering) = compaction::record_untold(&before(), parts, author) {
        *summary = covering;
        return;
    }
    if summary.parts.is_empty() {
        // Only its provider can read it, and nothing of what it covers is here.
        return;
    }
    let parts = std::mem::take(&mut summary.parts);
    item.base.role.get_or_insert(Role::Assistant);
    item.body = UnifiedItemBody::Message(MessageItem { parts, placement: None });
}

/// Makes a client's message the summary that stands for a path; it stays a message where it cannot be one.
pub(crate) fn stand_in(item: &mut UnifiedItem, path: &[UnifiedItem]) {
    let Some(last) = path.last() else { return };
    if let Ok(summary) = compaction::compact(path, &last.id, item.parts().to_vec(), SummaryAuthor::Client) {
        item.body = UnifiedItemBody::CompactionSummary(summary);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use throughline_format::UnifiedId;
    use throughline_protocols::{Codec as _, DecodeContext, anthropic_messages::AnthropicMessages};

    /// The items of a request whose last one is a summary, in a journal.
    fn history() -> Vec<UnifiedItem> {
        let body = br#"{"model": "m", "max_tokens": 9, "context_management": {"edits": [{"type": "compact_20260112"}]}, "messages": [
            {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"},
            {"role": "assistant", "content": [{"type": "compaction", "content": "so far"}]}]}"#;
        let decoded = AnthropicMessages.decode_request(body, &DecodeContext::offline()).unwrap();
        assert!(may_come(&decoded.unified));
        let mut items = decoded.unified.conversation.items;
        for item in &mut items {
            item.base.conversation_id = UnifiedId::parse("cnv_1").unwrap();
            item.base.branch_id = UnifiedId::parse("brn_1").unwrap();
        }
        items
    }

    #[test]
    fn a_summary_covers_what_stands_before_it() {
        let mut items = history();
        let mut summary = items.pop().unwrap();
        cover(&mut summary, || items.clone());
        let UnifiedItemBody::CompactionSummary(told) = &summary.body else {
            panic!("{:?}", summary.body)
        };
        assert_eq!(compaction::verify(told, &items), Ok(()));
        assert!(!told.replaces && told.covers.count == 3);
    }

    #[test]
    fn a_summary_of_nothing_is_a_message() {
        let mut summary = history().pop().unwrap();
        cover(&mut summary, Vec::new);
        assert!(
            matches!(&summary.body, UnifiedItemBody::Message(message) if message.parts.len() == 1),
            "{:?}",
            summary.body
        );
        assert_eq!(summary.role, Some(Role::Assistant));
    }
}
